/// How often a kind, or an app, was asked to be reloaded for everyone (design, section 3).
package struct ReloadGeneration: Hashable, Sendable {
    /// Only grows, by the number of requests.
    package private(set) var current: Int64
    /// Value of `current` at the latest request that takes no budget.
    package private(set) var free: Int64
    /// Value of `current` at the latest request that nothing holds back.
    package private(set) var forced: Int64

    package init(current: Int64 = 0, free: Int64 = 0, forced: Int64 = 0) {
        self.current = current
        self.free = free
        self.forced = forced
    }

    /// A reload of everyone: O(1), whatever the number of timelines.
    package mutating func bump(by events: Int64 = 1, urgency: RequestUrgency) {
        current += events
        if urgency >= .free { free = current }
        if urgency >= .forced { forced = current }
    }
}

/// The generations that a timeline is compared with, besides its own: its kind's and its app's.
package struct ScopeGenerations: Hashable, Sendable {
    package var kind: ReloadGeneration
    package var app: ReloadGeneration
    /// The sum up to which an operator has cancelled what the sweeper has still to do.
    package var cancelled: Int64

    package init(
        kind: ReloadGeneration = ReloadGeneration(), app: ReloadGeneration = ReloadGeneration(), cancelled: Int64 = 0
    ) {
        self.kind = kind
        self.app = app
        self.cancelled = cancelled
    }

    /// How far the sweeper has to make timelines due. Both counters only grow, so their sum tells which is the later.
    package var sum: Int64 { kind.current + app.current }
}
