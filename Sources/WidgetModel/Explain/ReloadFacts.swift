/// What one read of the store tells of a timeline: what an ``Explanation`` is derived from.
package struct ReloadFacts: Hashable, Sendable {
    /// One of the three generations that a timeline is rendered at (design, section 3).
    package struct Generation: Hashable, Sendable {
        package var current: Int64
        package var rendered: Int64
        /// Value of `current` at the latest request that was free of budget.
        package var free: Int64

        package init(current: Int64 = 0, rendered: Int64 = 0, free: Int64 = 0) {
            self.current = current
            self.rendered = rendered
            self.free = free
        }

        /// Requests that no fetch has answered yet.
        package var pending: Int64 { max(0, current - rendered) }
        package var isFree: Bool { free > rendered }
    }

    /// Requests to a person, a device or a widget.
    package var targeted = Generation()
    /// Reloads of everyone, this kind and all kinds of the app.
    package var kind = Generation()
    package var app = Generation()
    /// Sum of the kind's and the app's generation up to which the sweeper has made it due.
    package var swept: Int64 = 0
    /// Sum of the two up to which an operator has cancelled the sweep.
    package var cancelled: Int64 = 0

    package var isLeased = false
    /// No widget shows it any more.
    package var isOrphaned = false
    package var lane = ReloadLane.scheduled
    /// When it is looked at next, or when its lease ends.
    package var dueAt = Timestamp.distantFuture
    /// Nothing makes it due before, after a failure.
    package var retryAt = Timestamp.distantPast
    /// When a budgeted reason may reload it.
    package var eligibleAt = Timestamp.distantPast
    /// When a free reason may reload it.
    package var freeAt = Timestamp.distantPast
    /// The policy's next time, jitter included.
    package var policyAt = Timestamp.distantFuture
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
    package var viewClass: ViewClass?
    /// Whether there is content to show.
    package var isStored = false
    /// Whether what was published last is known; else it is published anew, for which it waits for no budget.
    package var isPublished = true
    /// Without content: since when there is a snapshot to show, and, if there is none, since when a placeholder of the
    /// provider's. Without either, devices show the manifest's placeholder.
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
    /// Reloads of everyone that are asked for and not rendered.
    package var everyonePending: Int64 { kind.pending + app.pending }

    /// Reloads of everyone that the sweeper has not come to yet.
    package var unswept: Int64 { max(0, kind.current + app.current - swept) }

    /// Whether an operator has cancelled every reload of everyone that is pending.
    package var isEveryoneCancelled: Bool {
        everyonePending > 0 && cancelled > 0 && cancelled >= kind.current + app.current
    }

    /// Requests that the next fetch answers; those that were cancelled are not among them.
    package var pending: Int64 { targeted.pending + (isEveryoneCancelled ? 0 : everyonePending) }

    /// Whether any generation it was rendered at is behind the current one.
    package var isStale: Bool { targeted.pending > 0 || everyonePending > 0 }

    /// What it is wanted for, as a claim takes it: what was cancelled does not make it due, but once it is due for
    /// something else, it is rendered with it.
    package var need: ReloadNeed {
        if renderedAt == nil { return .first }
        if !isPublished || targeted.isFree || kind.isFree || app.isFree { return .free }
        return isStale ? .budgeted : .policy
    }

    /// What makes it due; nothing that was cancelled.
    package var wait: ReloadNeed {
        pending == 0 && renderedAt != nil && isPublished ? .policy : need
    }

    /// As the plan takes it.
    package var state: ReloadState {
        ReloadState(need: need, renderedAt: renderedAt, requestedAt: requestedAt, ledger: ledger, views: views)
    }

    /// How old what it shows is; nil before the first time.
    package var age: Duration? { renderedAt.map { max(.zero, readAt - $0) } }
}
