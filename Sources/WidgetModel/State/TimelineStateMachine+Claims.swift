// A claim of a timeline, from its beginning to its end.

extension TimelineStateMachine {
    /// Leases it; nil when it is not due. The lease of a worker that does not come back is due like anything else.
    ///
    /// - Parameters:
    ///   - number: of the claim, greater than that of every earlier one.
    ///   - lease: how long the worker has.
    ///   - scope: the generations, not newer than the fetch.
    package mutating func claim(
        number: Int64, lease: Duration, in scope: ScopeGenerations, views: ViewStatistics = ViewStatistics(),
        at now: Timestamp
    ) -> TimelineClaim? {
        guard isDue(at: now) else { return nil }
        claim = number
        phase = .leased(until: now + lease)
        // An operator's request from now on is told from one that this claim is for.
        freeAt = max(freeAt, now)
        return TimelineClaim(
            number: number, lane: lane, claimedAt: now, requested: requested, kindGeneration: scope.kind.current,
            appGeneration: scope.app.current, attempts: attempts, isOrphaned: isOrphaned,
            state: ReloadState(
                need: need(in: scope), renderedAt: renderedAt, requestedAt: requestedAt, ledger: ledger, views: views))
    }

    /// What it is wanted for.
    package func need(in scope: ScopeGenerations) -> ReloadNeed {
        if renderedAt == nil { return .first }
        if publishedHash == nil || freeRequested > rendered || scope.kind.free > renderedKindGeneration
            || scope.app.free > renderedAppGeneration
        {
            return .free
        }
        let isAsked =
            requested > rendered || scope.kind.current > renderedKindGeneration
            || scope.app.current > renderedAppGeneration
        return isAsked ? .budgeted : .policy
    }

    /// What was fetched is stored, where it differs from what is. If it comes back to what was published last, over
    /// something that a claim stored and did not complete, that something may have overtaken it on Kafka: nothing is known
    /// to be published then.
    ///
    /// - Parameter isChanged: whether something else was stored.
    /// - Returns: whether the claim held.
    package mutating func save(claim number: Int64, hash: ContentHash, isChanged: Bool) -> Bool {
        guard claim == number else { return false }
        if isChanged, publishedHash == hash { publishedHash = nil }
        return true
    }

    /// It was fetched and stored. What was asked for during the fetch stays asked for, and becomes due as if it had
    /// been asked for now.
    package mutating func complete(_ completion: TimelineCompletion, at now: Timestamp) -> ClaimEnding {
        let claim = completion.claim
        guard holds(claim) else { return .fenced }
        let isAsked = requested > claim.requested
        let isFree = freeRequested > claim.requested
        let isForced = freeAt == .distantPast && isFree
        let isSwept = isSwept(since: claim)
        rendered = claim.requested
        // The claim's may be older than the row that it found: what an earlier claim rendered stays rendered.
        renderedKindGeneration = max(renderedKindGeneration, claim.kindGeneration)
        renderedAppGeneration = max(renderedAppGeneration, claim.appGeneration)
        sweptGeneration = max(sweptGeneration, claim.kindGeneration + claim.appGeneration)
        publishedHash = completion.publishedHash ?? publishedHash
        attempts = 0
        renderedAt = now
        retryAt = .distantPast
        let spacedAt = now + completion.spacing
        eligibleAt = max(spacedAt, completion.eligibleAt)
        freeAt = completion.isShared ? spacedAt : .distantPast
        let floor = now + ReloadSchedule.developerSpacing
        policyAt = completion.policyAt.map { max($0, eligibleAt, floor) + completion.jitter } ?? .distantFuture
        ledger = completion.ledger
        viewClass = completion.viewClass
        decision = completion.decision

        if isOrphaned { return collectNow(at: now) }
        if publishedHash == nil || isForced { return end(until: now, for: .request) }
        if isFree || isSwept { return end(until: max(now, freeAt), for: .request) }
        if isAsked { return end(until: eligibleAt, for: .request) }
        lane = .scheduled
        return end(until: policyAt, for: policyAt == .distantFuture ? .nothing : .policy)
    }

    /// The provider failed: nothing makes it due before the back-off has passed. What is stored and what was asked for
    /// stay as they are.
    package mutating func fail(_ claim: TimelineClaim, delay: Duration, at now: Timestamp) -> ClaimEnding {
        guard holds(claim) else { return .fenced }
        attempts = min(attempts + 1, Int(Int16.max))
        retryAt = now + delay
        decision = .failed
        return end(until: retryAt, for: .retry)
    }

    /// The worker gives it back; not the provider's fault.
    package mutating func release(_ claim: TimelineClaim, delay: Duration = .zero, at now: Timestamp) -> ClaimEnding {
        guard holds(claim) else { return .fenced }
        decision = .released
        return end(until: now + delay, for: .retry)
    }

    /// The rules defer it: it was not fetched.
    package mutating func wait(_ claim: TimelineClaim, until time: Timestamp, at now: Timestamp) -> ClaimEnding {
        guard holds(claim) else { return .fenced }
        eligibleAt = time
        decision = .deferred
        return deferred(claim, at: now) ?? end(until: time, for: .rules)
    }

    /// Nobody looks at it: no reload by policy before somebody does, or asks for it.
    ///
    /// - Parameters:
    ///   - isSeen: somebody has looked at it, or placed it, since the claim. The rules have to decide anew.
    ///   - isPublished: what is stored is what was published last. Else a claim has stored it and come no further, and
    ///     nobody would announce it for as long as it sleeps.
    package mutating func sleep(
        _ claim: TimelineClaim, isSeen: Bool = false, isPublished: Bool = true, at now: Timestamp
    ) -> ClaimEnding {
        guard holds(claim) else { return .fenced }
        if isSeen || !isPublished {
            if !isPublished { publishedHash = nil }
            decision = .deferred
            if let ending = deferred(claim, at: now) { return ending }
            let isAsked = requested > claim.requested
            return end(until: isAsked ? eligibleAt : max(now, retryAt), for: isAsked ? .request : .rules)
        }
        viewClass = .dormant
        decision = .slept
        if let ending = deferred(claim, at: now) { return ending }
        let isAsked = requested > claim.requested
        return isAsked ? end(until: eligibleAt, for: .request) : end(until: .distantFuture, for: .nothing)
    }

    /// Its tombstone was published. A timeline that a widget shows by now is published anew.
    package mutating func collect(_ claim: TimelineClaim, isShown: Bool, at now: Timestamp) -> CollectionEnding {
        guard self.claim == claim.number else { return .fenced }
        guard !isOrphaned || isShown else { return .collected }
        isOrphaned = false
        publishedHash = nil
        lane = min(lane, .push)
        phase = .waiting(until: now)
        return .revived
    }

    // MARK: What the ends have in common

    private func holds(_ claim: TimelineClaim) -> Bool { isLeased && self.claim == claim.number }

    /// Whether the sweeper has made it due for a reload of everyone that the claim did not know of: nobody would look
    /// for it again.
    private func isSwept(since claim: TimelineClaim) -> Bool {
        sweptGeneration > claim.kindGeneration + claim.appGeneration
    }

    private mutating func end(until time: Timestamp, for want: ClaimEnding.Want) -> ClaimEnding {
        phase = .waiting(until: time)
        return .waiting(until: time, for: want)
    }

    private mutating func collectNow(at now: Timestamp) -> ClaimEnding {
        lane = .bulk
        return end(until: now, for: .collection)
    }

    /// What goes before a deferral.
    private mutating func deferred(_ claim: TimelineClaim, at now: Timestamp) -> ClaimEnding? {
        if isOrphaned { return collectNow(at: now) }
        guard freeRequested > claim.requested || isSwept(since: claim) else { return nil }
        return end(until: max(now, freeAt), for: .request)
    }
}

/// A fetch that succeeded.
package struct TimelineCompletion: Hashable, Sendable {
    package var claim: TimelineClaim
    /// Set when the content was published under this claim.
    package var publishedHash: ContentHash?
    /// When the budget allows the next budgeted reload.
    package var eligibleAt: Timestamp
    /// The policy's earliest time; nil for `never`.
    package var policyAt: Timestamp?
    package var jitter: Duration
    /// Zero where it is lifted.
    package var spacing: Duration
    /// Whether free requests keep the spacing.
    package var isShared: Bool
    /// With what this reload has spent.
    package var ledger: BudgetLedger
    package var viewClass: ViewClass
    package var decision: Decision

    package init(
        claim: TimelineClaim, publishedHash: ContentHash?, eligibleAt: Timestamp = .distantPast,
        policyAt: Timestamp? = nil, jitter: Duration = .zero, spacing: Duration, isShared: Bool = false,
        ledger: BudgetLedger = BudgetLedger(), viewClass: ViewClass = .often, decision: Decision = .reloaded
    ) {
        self.claim = claim
        self.publishedHash = publishedHash
        self.eligibleAt = eligibleAt
        self.policyAt = policyAt
        self.jitter = jitter
        self.spacing = spacing
        self.isShared = isShared
        self.ledger = ledger
        self.viewClass = viewClass
        self.decision = decision
    }
}

extension ReloadRules {
    /// What a fetched timeline waits for.
    ///
    /// - Parameters:
    ///   - ledger: as the plan gave it.
    ///   - publishedHash: set when the content was published.
    package func completion(
        of claim: TimelineClaim, timeline: TimelineID, policy: ReloadPolicy, lastEntry: Timestamp, ledger: BudgetLedger,
        publishedHash: ContentHash?, at now: Timestamp
    ) -> TimelineCompletion {
        let next = next(
            policy: policy, lastEntry: lastEntry, renderedAt: now, timeline: timeline, ledger: ledger,
            views: claim.state.views)
        let isLifted = schedule.developerMode
        return TimelineCompletion(
            claim: claim, publishedHash: publishedHash, eligibleAt: isLifted ? .distantPast : next.eligibleAt,
            policyAt: next.policyAt, jitter: next.jitter, spacing: isLifted ? .zero : schedule.spacing,
            isShared: isShared && !isLifted, ledger: ledger, viewClass: ViewClass(claim.state.views, at: now),
            decision: publishedHash == nil ? .unchanged : .reloaded)
    }
}
