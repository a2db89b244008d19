// SPDX-License-Identifier: Apache-2.0

/// The counters of a kind that its timelines are compared with.
package struct KindGenerations: Hashable, Sendable {
    /// Number of reloads of everyone.
    package var current: Int64
    /// Value of `current` at the latest reload that is free of budget, and at the latest that an operator asked for.
    package var free: Int64
    package var forced: Int64
    /// Value of `current` at the latest cancellation, which voids the reloads of everyone up to then.
    package var cancelled: Int64

    package init(current: Int64 = 0, free: Int64 = 0, forced: Int64 = 0, cancelled: Int64 = 0) {
        self.current = current
        self.free = free
        self.forced = forced
        self.cancelled = cancelled
    }

    /// Whether a timeline that was last rendered at `generation` is behind a counter's value.
    fileprivate func isBehind(_ generation: Int64, of value: Int64) -> Bool {
        value > generation && value > cancelled
    }

    /// Whether a timeline that was last rendered at `generation` is behind a reload of everyone.
    package func isAhead(of generation: Int64) -> Bool { isBehind(generation, of: current) }
}

/// The part of a timeline's row that decides whether and when it has work (DESIGN.md, “Timelines and work lists”).
package struct TimelineState: Hashable, Sendable {
    /// Targeted requests so far, and how many of them the last render served.
    package var requested: Int64
    package var rendered: Int64
    /// Value of `requested` at the latest free request, and at the latest by an operator.
    package var freeRequested: Int64
    package var forcedRequested: Int64
    /// The kind's generation at the last render.
    package var generation: Int64
    /// Times from which spacing and budget allow budgeted work, and free work.
    package var eligibleAt: Timestamp
    package var freeAt: Timestamp
    /// End of the back-off after a failure.
    package var retryAt: Timestamp
    /// Time of the next reload by policy; `distantFuture`: never.
    package var policyAt: Timestamp
    /// Not viewed for a long time: the policy does not apply.
    package var isAsleep: Bool
    /// No widget shows it.
    package var isOrphaned: Bool

    package init(
        requested: Int64 = 0, rendered: Int64 = 0, freeRequested: Int64 = 0, forcedRequested: Int64 = 0,
        generation: Int64 = 0, eligibleAt: Timestamp = .distantPast, freeAt: Timestamp = .distantPast,
        retryAt: Timestamp = .distantPast, policyAt: Timestamp = .distantFuture, isAsleep: Bool = false,
        isOrphaned: Bool = false
    ) {
        self.requested = requested
        self.rendered = rendered
        self.freeRequested = freeRequested
        self.forcedRequested = forcedRequested
        self.generation = generation
        self.eligibleAt = eligibleAt
        self.freeAt = freeAt
        self.retryAt = retryAt
        self.policyAt = policyAt
        self.isAsleep = isAsleep
        self.isOrphaned = isOrphaned
    }

    /// Urgency of the pending requests; nil when none is pending.
    package func pending(_ kind: KindGenerations) -> RequestUrgency? {
        if forcedRequested > rendered || kind.isBehind(generation, of: kind.forced) { return .forced }
        if freeRequested > rendered || kind.isBehind(generation, of: kind.free) { return .free }
        return requested > rendered || kind.isAhead(of: generation) ? .budgeted : nil
    }

    /// Purpose of the next fetch.
    ///
    /// - Parameter renderedAt: time of the last render; nil for none.
    package func need(_ kind: KindGenerations, renderedAt: Timestamp?) -> ReloadNeed {
        guard renderedAt != nil else { return .first }
        return switch pending(kind) {
        case .forced, .free: .free
        case .budgeted: .budgeted
        case nil: .policy
        }
    }

    /// Time of the timeline's next look (DESIGN.md, rule 1 of work lists), not before `now`; nil without work.
    ///
    /// The SQL function `next_look` is this function; a test compares the two on random rows.
    package func nextLook(_ kind: KindGenerations, at now: Timestamp) -> Timestamp? {
        if isOrphaned { return now }
        let policy = isAsleep ? Timestamp.distantFuture : policyAt
        let request: Timestamp =
            switch pending(kind) {
            case .forced: .distantPast
            case .free: freeAt
            case .budgeted: eligibleAt
            case nil: .distantFuture
            }
        let next = max(min(policy, request), retryAt)
        return next == .distantFuture ? nil : max(next, now)
    }

    /// Lane of the appointment that a timeline gets once an earlier one has ended.
    ///
    /// - Parameter reason: of its latest targeted request.
    package func nextLane(_ kind: KindGenerations, reason: ReloadReason?) -> ReloadLane {
        if isOrphaned { return .bulk }
        if requested > rendered { return (reason ?? .push).lane }
        return pending(kind) == nil ? .scheduled : .bulk
    }
}

extension TimelineState {
    /// Longest time until a list is due. A timeline that is due later is appointed again at that time, which bounds the
    /// number of superseded lists.
    package static let horizon: Duration = .seconds(86_400)

    /// Time of the list for a timeline with its next look at `next`.
    package static func appointment(for next: Timestamp?, at now: Timestamp) -> Timestamp? {
        next.map { min($0, (now + horizon).rounded(upTo: 1 << 28)) }
    }

    /// Decision at the time of requests that are not due at once: merged with a pending reload, or deferred; nil: due
    /// now, so that a worker decides.
    ///
    /// - Parameters:
    ///   - events: number of the requests, which the state includes.
    ///   - listedAt: time of the timeline's list after the requests.
    ///   - rules: of the timeline's kind; nil if the kind is unknown.
    package func decision(
        onRequests events: Int64, listedAt: Timestamp, renderedAt: Timestamp?, _ rules: ReloadRules?,
        at now: Timestamp
    ) -> (Decision, ReloadRule)? {
        if requested - events > rendered { return (.merged, .coalescing) }
        guard listedAt > now else { return nil }
        if retryAt > now { return (.deferred, .backoff) }
        guard let rules, let renderedAt else { return (.deferred, .spacing) }
        // Rounding to the grid makes a time later by less than a tenth of the spacing.
        let spaced = rules.spaced(after: renderedAt) + rules.spacing / 10
        return (.deferred, eligibleAt > spaced ? .budget : .spacing)
    }
}
