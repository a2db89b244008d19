// SPDX-License-Identifier: Apache-2.0

/// The part of a timeline's row that the rules read and write, with the changes that the store's statements make to it.
///
/// The statements that mark, store and reschedule timelines do the same in SQL; tests run both over the same events and
/// compare the decisions.
package struct ReloadRecord: Hashable, Sendable {
    package var state = TimelineState()
    /// Time of the list that looks at it; `distantFuture`: none does.
    package var listedAt = Timestamp.distantFuture
    package var listedLane = ReloadLane.bulk
    package var renderedAt: Timestamp?
    /// Time of the last request to a person, a device or a widget.
    package var requestedAt: Timestamp?
    package var viewedAt: Timestamp?
    /// Time at which a widget that shows it was last placed, to the hour.
    package var placedAt: Timestamp
    /// Hours a day with a view, as of `viewedAt`; of the precision that is stored.
    package var viewRate: Float = 0
    /// Failures since the last render.
    package var attempts = 0
    /// Reason of the latest targeted request.
    package var reason = ReloadReason.placed
    package var ledger = BudgetLedger()
    /// Generation of the kind at the last look through a reload of everyone that stored nothing.
    package var lookedGeneration: Int64 = 0

    /// The record of a timeline that a widget is the first to show: requested once, and free of budget and spacing.
    package init(placedAt now: Timestamp, _ kind: KindGenerations, reason: ReloadReason) {
        placedAt = now
        state.requested = 1
        state.freeRequested = 1
        state.generation = kind.current
        listedAt = now
        listedLane = .interactive
        requestedAt = now
        self.reason = reason
    }

    /// Facts for the budget and the dormancy rule.
    package func facts(at now: Timestamp) -> ReloadState {
        ReloadState(
            need: .policy, renderedAt: renderedAt, requestedAt: requestedAt, ledger: ledger,
            views: ViewStatistics(rate: Double(viewRate), viewedAt: viewedAt, placedAt: placedAt, at: now))
    }

    /// Whether a further placement on it has an effect: it is orphaned or asleep, or was placed last over an hour ago.
    package func isStale(at now: Timestamp) -> Bool {
        state.isOrphaned || state.isAsleep || placedAt < now - .seconds(3_600)
            || renderedAt == nil && listedAt > now && placedAt < now
    }

    /// Whether a view has an effect: it counts, or wakes the timeline.
    package func isChanged(byViewAt time: Timestamp) -> Bool {
        state.isAsleep || ViewStatistics.isCounted(time, after: viewedAt)
    }
}

// MARK: - Appointments

extension ReloadRecord {
    private func look(_ kind: KindGenerations, at now: Timestamp) -> Timestamp? {
        TimelineState.appointment(for: state.nextLook(kind, at: now), at: now)
    }

    /// Time of the look after one that has ended. If the kind is older than the last look through a reload of everyone,
    /// it is now.
    private func newLook(_ kind: KindGenerations, at now: Timestamp) -> Timestamp? {
        lookedGeneration > kind.current ? now : look(kind, at: now)
    }

    /// Rule 2 of work lists (DESIGN.md): the appointment is only improved. Returns whether it was.
    package mutating func improve(_ kind: KindGenerations, lane: ReloadLane, at now: Timestamp) -> Bool {
        guard let next = look(kind, at: now), next < listedAt || next <= now && lane < listedLane else { return false }
        listedAt = next
        listedLane = lane
        return true
    }

    /// Rule 2 without a lane of its own.
    package mutating func hasten(_ kind: KindGenerations, at now: Timestamp) -> Bool {
        guard let next = newLook(kind, at: now), next < listedAt else { return false }
        listedAt = next
        listedLane = state.nextLane(kind, reason: reason)
        return true
    }

    /// Ends a look through the list of a reload of everyone, which is no appointment. Returns whether there is a new
    /// one.
    package mutating func lookThroughSweep(_ kind: KindGenerations, at now: Timestamp) -> Bool {
        defer { lookedGeneration = max(lookedGeneration, kind.current) }
        return hasten(kind, at: now)
    }

    /// Rule 3: the appointment is made anew. Returns whether there is one now.
    ///
    /// - Parameter kind: as the statement's snapshot has it.
    package mutating func appoint(_ kind: KindGenerations, at now: Timestamp) -> Bool {
        listedAt = newLook(kind, at: now) ?? .distantFuture
        listedLane = state.nextLane(kind, reason: reason)
        return listedAt != .distantFuture
    }
}

// MARK: - Changes

/// Changes of one transaction of ingest to an existing timeline.
package struct ReloadMark: Hashable, Sendable {
    /// Number of requests.
    package var events: Int64 = 0
    /// The greatest of the requests.
    package var urgency = RequestUrgency.budgeted
    /// Reason of the last request.
    package var reason: ReloadReason?
    /// The best lane; nil for the scheduled one.
    package var lane: ReloadLane?
    /// Time of a view, not after the transaction's.
    package var view: Timestamp?
    /// Reason for which a widget shows it again; nil: none does.
    package var revival: ReloadReason?

    package init() {}

    package init(_ reason: ReloadReason) {
        add(reason)
    }

    /// Adds a request.
    package mutating func add(_ reason: ReloadReason) {
        events += 1
        urgency = max(urgency, reason.urgency)
        lane = min(lane ?? .bulk, reason.lane)
        self.reason = reason
    }

    /// Whether it changes more than the row's lock, as the departure of a widget does.
    fileprivate var isAwakening: Bool { events > 0 || view != nil || revival != nil }
}

extension ReloadRecord {
    /// Applies a mark.
    ///
    /// - Parameters:
    ///   - isSweepOfEveryone: whether it is a request to everyone, which is no request to the timeline's people.
    /// - Returns: whether the appointment was made anew.
    package mutating func apply(
        _ mark: ReloadMark, _ kind: KindGenerations, isSweepOfEveryone: Bool = false, at now: Timestamp
    ) -> Bool {
        let isBack = mark.revival != nil && state.isOrphaned
        let added = mark.events + (isBack ? 1 : 0)
        state.requested += added
        if mark.urgency > .budgeted || isBack { state.freeRequested = state.requested }
        if mark.urgency > .free { state.forcedRequested = state.requested }
        if added > 0, !isSweepOfEveryone { requestedAt = now }
        if mark.isAwakening { state.isAsleep = false }
        if let reason = mark.reason ?? (isBack ? mark.revival : nil) { self.reason = reason }
        if mark.revival != nil {
            state.isOrphaned = false
            placedAt = now
        }
        if let view = mark.view, ViewStatistics.isCounted(view, after: viewedAt) {
            viewRate = Float(ViewStatistics.rate(Double(viewRate), viewedAfter: viewedAt.map { view - $0 }))
            viewedAt = view
        }
        let lane = mark.revival == nil ? mark.lane ?? .scheduled : .interactive
        return improve(kind, lane: lane, at: now)
    }

    /// Marks it as shown by no widget. Returns whether the appointment was made anew.
    package mutating func orphan(_ kind: KindGenerations, at now: Timestamp) -> Bool {
        state.isOrphaned = true
        return improve(kind, lane: .bulk, at: now)
    }

    /// Stores a fetch. Returns whether there is an appointment now.
    ///
    /// - Parameters:
    ///   - requested: requests that it serves.
    ///   - generation: reloads of everyone that it serves.
    package mutating func store(
        requested: Int64, generation: Int64, next: ReloadRules.Next, ledger: BudgetLedger, _ kind: KindGenerations,
        at now: Timestamp
    ) -> Bool {
        state.rendered = max(state.rendered, requested)
        state.generation = max(state.generation, generation)
        (state.eligibleAt, state.freeAt, state.policyAt) = (next.eligibleAt, next.freeAt, next.policyAt)
        state.retryAt = .distantPast
        state.isAsleep = false
        renderedAt = now
        attempts = 0
        self.ledger = ledger
        return appoint(kind, at: now)
    }

    /// Ends a look that stored nothing. Returns whether the appointment was made anew.
    ///
    /// - Parameter isMine: whether the look was the timeline's appointment, not one through a sweep's list.
    package mutating func reschedule(
        _ outcome: LookOutcome, isMine: Bool, _ kind: KindGenerations, at now: Timestamp
    ) -> Bool {
        switch outcome {
        case .collect, .nothing, .fetch: break
        case .wait(let until, _):
            state.eligibleAt = until
            // The policy's reload takes budget too: unchanged, it would be due again at once.
            state.policyAt = max(state.policyAt, until)
        case .sleep: state.isAsleep = true
        }
        return isMine ? appoint(kind, at: now) : lookThroughSweep(kind, at: now)
    }

    /// Ends a look whose fetch failed. Returns whether the appointment was made anew.
    package mutating func fail(
        retryAt: Timestamp, isMine: Bool, _ kind: KindGenerations, at now: Timestamp
    ) -> Bool {
        state.retryAt = retryAt
        attempts += 1
        return reschedule(.nothing, isMine: isMine, kind, at: now)
    }
}
