/// The facts of a timeline's row, its kind and its lists that an ``Explanation`` is derived from, read in one snapshot.
package struct ReloadFacts: Hashable, Sendable {
    /// A lease of a list that names the timeline.
    package struct Lease: Hashable, Sendable {
        /// Revision of what will be stored.
        package var token: Int64
        package var endsAt: Timestamp

        package init(token: Int64, endsAt: Timestamp) {
            self.token = token
            self.endsAt = endsAt
        }
    }

    package var timeline = TimelineState()
    package var kind = KindGenerations()

    /// Lane of its appointment, and the time of the list; `distantFuture`: no list looks at it.
    package var lane = ReloadLane.scheduled
    package var listedAt = Timestamp.distantFuture
    package var lease: Lease?
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
    /// Without content: when the snapshot was stored, and, if there is none, when the provider's placeholder was. Without
    /// either, devices show the manifest's placeholder.
    package var snapshotAt: Timestamp?
    package var placeholderAt: Timestamp?

    package var kindPausedAt: Timestamp?
    package var appPausedAt: Timestamp?
    package var isRetired = false

    /// The database's time when it was read.
    package var readAt: Timestamp

    package init(readAt: Timestamp) {
        self.readAt = readAt
    }
}

extension ReloadFacts {
    /// Requests to a person, a device or a widget that no fetch has answered yet.
    package var targetedPending: Int64 { max(0, timeline.requested - timeline.rendered) }

    /// Reloads of everyone that are asked for and not rendered, cancelled ones included.
    package var everyonePending: Int64 { max(0, kind.current - timeline.generation) }

    /// Whether an operator has cancelled every reload of everyone that is pending.
    package var isEveryoneCancelled: Bool { everyonePending > 0 && !kind.isAhead(of: timeline.generation) }

    /// Requests that the next fetch answers; those that were cancelled are not among them.
    package var pending: Int64 {
        targetedPending + max(0, kind.current - max(timeline.generation, kind.cancelled))
    }

    /// Whether something newer was asked for than what is shown.
    package var isStale: Bool { timeline.pending(kind) != nil }

    /// Purpose of its next fetch, as a look takes it.
    package var need: ReloadNeed { timeline.need(kind, renderedAt: renderedAt) }

    /// Time at which it is looked at, and has been due since if that is past; nil: only on request.
    package var dueAt: Timestamp? {
        timeline.nextLook(kind, at: readAt).map { $0 > readAt ? $0 : min(listedAt, readAt) }
    }

    /// Whether only a reload of everyone makes it due, and the sweeper has not come to it.
    package var waitsForSweeper: Bool {
        guard targetedPending == 0, lease == nil, listedAt > readAt, timeline.pending(kind) != nil,
            timeline.isAsleep || timeline.policyAt > readAt, let dueAt
        else { return false }
        return dueAt <= readAt
    }

    /// The state as the rules take it.
    package var state: ReloadState {
        ReloadState(need: need, renderedAt: renderedAt, requestedAt: requestedAt, ledger: ledger, views: views)
    }

    /// Age of what it shows; nil before the first time.
    package var age: Duration? { renderedAt.map { max(.zero, readAt - $0) } }
}
