// What makes a timeline due: requests, the sweeper, widgets that come and go, people who look.

extension TimelineStateMachine {
    /// A request to a person, a device or a widget; several that are folded into one count each.
    ///
    /// - Parameters:
    ///   - isBulk: the sweeper brings it, in its own lane.
    ///   - isAddressed: it is for somebody. A reload of everyone that names configurations is not.
    package mutating func request(
        events: Int64 = 1, urgency: RequestUrgency, lane: ReloadLane, isBulk: Bool = false, isAddressed: Bool = true,
        at now: Timestamp
    ) -> RequestOutcome {
        requested += events
        if urgency >= .free { freeRequested = requested }
        if isAddressed { requestedAt = now }
        return mark(urgency, lane: isBulk ? nil : lane, at: now)
    }

    /// The sweeper comes to it: nil when there is nothing to sweep, or it is leased and has to be found again.
    package mutating func sweep(to scope: ScopeGenerations, at now: Timestamp) -> RequestOutcome? {
        guard scope.sum > scope.cancelled, sweptGeneration < scope.sum, !isLeased else { return nil }
        sweptGeneration = scope.sum
        return mark(pendingUrgency(of: scope), lane: nil, at: now)
    }

    /// An operator has cancelled what the sweeper did: whether it waited for nothing else, and waits for its policy's time
    /// again. It stays stale: its next reload, whatever causes it, serves what was cancelled too.
    ///
    /// - Parameters:
    ///   - sum: of the generations up to which it is cancelled.
    ///   - isPublished: what is stored is what was published last.
    package mutating func cancel(upTo sum: Int64, isPublished: Bool = true) -> Bool {
        guard isPublished, lane == .bulk, !isLeased, !isOrphaned, renderedAt != nil, publishedHash != nil,
            requested == rendered,
            sweptGeneration <= sum
        else { return false }
        phase = .waiting(until: isDormant ? .distantFuture : max(policyAt, retryAt))
        lane = .scheduled
        decision = .cancelled
        return true
    }

    /// A widget shows it from now on. A timeline that was about to be collected, or that sleeps, is wanted at once; any
    /// other serves the new widget as it is: nil.
    package mutating func place(lane: ReloadLane, in scope: ScopeGenerations, at now: Timestamp) -> RequestOutcome? {
        guard isOrphaned || isDormant else { return nil }
        let urgency: RequestUrgency = isOrphaned ? .forced : .free
        // Its tombstone may have been published.
        if isOrphaned { publishedHash = nil }
        isOrphaned = false
        // What a retired kind's timelines have is greater than any.
        sweptGeneration = min(sweptGeneration, scope.sum)
        return request(urgency: urgency, lane: lane, at: now)
    }

    /// The last widget that showed it has gone: it is to be collected.
    package mutating func orphan(at now: Timestamp) {
        guard !isOrphaned else { return }
        isOrphaned = true
        guard !isLeased else { return }
        phase = .waiting(until: now)
        lane = .bulk
    }

    /// Somebody looked at it: whether it slept. Its policy's time has passed since.
    package mutating func view(at now: Timestamp) -> Bool {
        guard isDormant, !isLeased, !isOrphaned else { return false }
        phase = .waiting(until: min(dueAt, dueTime(.budgeted, at: now)))
        lane = min(lane, .scheduled)
        viewClass = .seldom
        return true
    }

    /// A message went out under a claim that was gone by then: what was published last may not be what is stored.
    /// Whoever has it leased loses his claim.
    package mutating func republish(claim number: Int64, at now: Timestamp) {
        publishedHash = nil
        claim = number
        phase = .waiting(until: min(dueAt, dueTime(.forced, at: now)))
    }

    // MARK: The formula of a mark

    /// When a request makes it due: at once what nothing holds back, what is free too unless its timeline is shared,
    /// the rest when spacing and budget allow; never before a retry.
    private func dueTime(_ urgency: RequestUrgency, at now: Timestamp) -> Timestamp {
        let allowed =
            switch urgency {
            case .forced: now
            case .free: freeAt
            case .budgeted: eligibleAt
            }
        return max(now, retryAt, allowed)
    }

    /// - Parameter lane: nil for the bulk lane, which takes only what is not due by then for a better reason.
    private mutating func mark(_ urgency: RequestUrgency, lane: ReloadLane?, at now: Timestamp) -> RequestOutcome {
        let due = dueTime(urgency, at: now)
        if let lane {
            self.lane = min(self.lane, lane)
        } else if !isLeased, dueAt > due {
            self.lane = .bulk
        }
        if urgency >= .forced { freeAt = .distantPast }
        guard case .waiting(let until) = phase else { return .inFlight }
        phase = .waiting(until: min(until, due))
        return dueAt <= now ? .due : .deferred(until: dueAt)
    }

    /// How urgent the reloads of everyone are that are not rendered yet.
    private func pendingUrgency(of scope: ScopeGenerations) -> RequestUrgency {
        if scope.app.forced > renderedAppGeneration || scope.kind.forced > renderedKindGeneration { return .forced }
        return scope.app.free > renderedAppGeneration || scope.kind.free > renderedKindGeneration ? .free : .budgeted
    }
}
