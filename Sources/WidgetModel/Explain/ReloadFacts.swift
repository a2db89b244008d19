/// The facts of a timeline's row, its kind and its lists that an ``Explanation`` is derived from, read in one snapshot.
package struct ReloadFacts: Sendable {
    package var timeline = TimelineState()
    package var kind = KindGenerations()

    /// Lane of its appointment, and the time of the list; `distantFuture` without an appointment.
    package var lane = ReloadLane.scheduled
    package var listedAt = Timestamp.distantFuture
    /// Lease of a list that names the timeline, with the revision of the result.
    package var lease: (token: Int64, endsAt: Timestamp)?
    package var renderedAt: Timestamp?
    /// The latest request to a person, a device or a widget.
    package var requestedAt: Timestamp?

    package var decision = Decision.none
    package var rule = ReloadRule.none
    package var decidedAt: Timestamp?
    package var fetchTime: Duration?
    /// Failures since the last success.
    package var attempts = 0

    package var ledger = BudgetLedger()
    package var views = ViewStatistics()
    /// Whether there is content to show.
    package var isStored = false
    /// Times at which the snapshot, and without it the provider's placeholder, were stored. Without either, devices
    /// show the manifest's placeholder until there is content.
    package var snapshotAt: Timestamp?
    package var placeholderAt: Timestamp?

    package var kindPausedAt: Timestamp?
    package var appPausedAt: Timestamp?
    package var isRetired = false
    /// Requests of sweeps that match it and have not reached it, of the first thousand that wait; nil if none of these
    /// matches, and more wait.
    package var sweepsAhead: Int64? = 0

    /// Time of the reading by the database's clock.
    package var readAt: Timestamp

    package init(readAt: Timestamp) {
        self.readAt = readAt
    }
}

extension ReloadFacts {
    /// Pending requests to a person, a device or a widget.
    package var targetedPending: Int64 { max(0, timeline.requested - timeline.rendered) }

    /// Pending reloads of everyone, including cancelled ones.
    package var everyonePending: Int64 { max(0, kind.current - timeline.generation) }

    /// Whether all pending reloads of everyone are cancelled.
    package var isEveryoneCancelled: Bool { everyonePending > 0 && !kind.isAhead(of: timeline.generation) }

    /// Requests that the next fetch answers, without cancelled ones.
    package var pending: Int64 {
        targetedPending + max(0, kind.current - max(timeline.generation, kind.cancelled))
    }

    /// Whether all requests are rendered, those included that a sweep is still to bring.
    package var isAllRendered: Bool { !isStale && sweepsAhead == 0 }

    /// Whether a request is pending.
    package var isStale: Bool { timeline.pending(kind) != nil }

    /// Purpose of its next fetch.
    package var need: ReloadNeed { timeline.need(kind, renderedAt: renderedAt) }

    /// Time of its next look, or since when it has been due; nil if only a request makes it due.
    package var dueAt: Timestamp? {
        timeline.nextLook(kind, at: readAt).map { $0 > readAt ? $0 : min(listedAt, readAt) }
    }

    /// Whether it is not due, and a sweep that has not reached it will make it due.
    package var waitsForSweeper: Bool {
        waitsForWalk || lease == nil && sweepsAhead ?? 0 > 0 && (dueAt.map { $0 > readAt } ?? true)
    }

    /// Whether only a reload of everyone makes it due, and the sweeper has not reached it.
    package var waitsForWalk: Bool {
        guard targetedPending == 0, lease == nil, listedAt > readAt, timeline.pending(kind) != nil,
            timeline.isAsleep || timeline.policyAt > readAt, let dueAt
        else { return false }
        return dueAt <= readAt
    }

    /// Input of the rules.
    package var state: ReloadState {
        ReloadState(need: need, renderedAt: renderedAt, requestedAt: requestedAt, ledger: ledger, views: views)
    }

    /// Age of its content; nil before the first render.
    package var age: Duration? { renderedAt.map { max(.zero, readAt - $0) } }
}
