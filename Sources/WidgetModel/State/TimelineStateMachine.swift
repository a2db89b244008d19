/// What is wanted of a timeline and what is rendered, as the hot row keeps it (design, section 3).
///
/// This is the specification of the statements that change `timeline_state`: each transition is what one of them does
/// to one row, at the time that is the database's `now()`. Nothing that was asked for is ever cleared, only overtaken
/// by what is rendered, so whoever crashes loses nothing.
package struct TimelineStateMachine: Hashable, Sendable {
    /// Who has to do with it next.
    package enum Phase: Hashable, Sendable {
        /// Nobody: leased by a claim from the time on. `distantFuture`: not before a request.
        case waiting(until: Timestamp)
        /// A worker: waiting as soon as the claim ends. When the lease is over, it is leased by the next claim.
        case leased(until: Timestamp)
    }

    package var phase: Phase
    /// The latest claim: only who has it can end it.
    package var claim: Int64 = 0

    /// Its own generation: grows by each request to a person, a device or a widget.
    package var requested: Int64 = 0
    /// Value of `requested` when the fetch began whose result is stored.
    package var rendered: Int64 = 0
    /// Value of `requested` at the latest request that takes no budget.
    package var freeRequested: Int64 = 0
    package var renderedKindGeneration: Int64 = 0
    package var renderedAppGeneration: Int64 = 0
    /// Sum of the scope's generations up to which the sweeper has made it due.
    package var sweptGeneration: Int64 = 0

    /// Before this time nothing makes it due: the back-off after a failure.
    package var retryAt: Timestamp = .distantPast
    /// Before this time no budgeted request makes it due.
    package var eligibleAt: Timestamp = .distantPast
    /// Before this time no free request makes it due; the time of the claim while it is leased. `distantPast` where
    /// free requests have no spacing, and from a request that nothing holds back to the next claim.
    package var freeAt: Timestamp = .distantPast
    /// When its policy wants it.
    package var policyAt: Timestamp = .distantFuture
    package var renderedAt: Timestamp?
    /// When it was last asked for by a request to a person, a device or a widget.
    package var requestedAt: Timestamp?

    package var lane: ReloadLane = .bulk
    /// Failures since the last success.
    package var attempts: Int = 0
    package var viewClass: ViewClass = .often
    package var decision: Decision = .none
    package var ledger = BudgetLedger()
    /// Hash of what was published last; nil when that is not known to be what is stored.
    package var publishedHash: ContentHash?
    /// No widget shows it: its next claim collects it.
    package var isOrphaned = false

    package init(phase: Phase = .waiting(until: .distantFuture)) {
        self.phase = phase
    }

    /// A timeline that the first widget shows from now on.
    package init(placedAt now: Timestamp, lane: ReloadLane, in scope: ScopeGenerations) {
        phase = .waiting(until: now)
        requested = 1
        freeRequested = 1
        // Its first fetch starts later than every reload of everyone so far.
        sweptGeneration = scope.sum
        self.lane = lane
        requestedAt = now
    }

    /// When it is due, or its lease ends.
    package var dueAt: Timestamp {
        switch phase {
        case .waiting(let time), .leased(let time): time
        }
    }

    package var isLeased: Bool {
        if case .leased = phase { true } else { false }
    }

    /// Whether it sleeps because nobody looks at it.
    package var isDormant: Bool { viewClass == .dormant }

    package func isDue(at now: Timestamp) -> Bool { dueAt <= now }
}

/// What became of something that makes timelines due.
package enum RequestOutcome: Hashable, Sendable {
    /// A worker may take it now.
    case due
    /// It has to wait; nothing is dropped.
    case deferred(until: Timestamp)
    /// It is being fetched, perhaps with what was before the request: one more reload follows.
    case inFlight
}

/// How a claim ended.
package enum ClaimEnding: Hashable, Sendable {
    /// What the timeline waits for, the most urgent of all that it does.
    package enum Want: Hashable, Sendable {
        /// No widget shows it: to be collected.
        case collection
        /// It was asked for during the fetch, or what was published is not what is stored.
        case request
        /// Its policy's time.
        case policy
        /// The back-off, or the delay of a claim that was given back.
        case retry
        /// Spacing or budget.
        case rules
        /// A request, or that somebody looks at it.
        case nothing
    }

    /// The claim was not his any more; nothing changed.
    case fenced
    case waiting(until: Timestamp, for: Want)
}

/// How a claim to collect a timeline ended.
package enum CollectionEnding: Hashable, Sendable {
    /// The claim was not his any more; nothing changed.
    case fenced
    /// Its rows are to be deleted.
    case collected
    /// A widget shows it again.
    case revived
}

/// A lease of a timeline, with what its fetch will have rendered.
package struct TimelineClaim: Hashable, Sendable {
    package let number: Int64
    package let lane: ReloadLane
    package let claimedAt: Timestamp
    /// The generations before the fetch: what is asked for later is not rendered by it.
    package let requested: Int64
    package let kindGeneration: Int64
    package let appGeneration: Int64
    package let attempts: Int
    /// To be collected instead of fetched.
    package let isOrphaned: Bool
    /// What the rules have to know.
    package let state: ReloadState

    package init(
        number: Int64, lane: ReloadLane, claimedAt: Timestamp, requested: Int64, kindGeneration: Int64,
        appGeneration: Int64, attempts: Int, isOrphaned: Bool, state: ReloadState
    ) {
        self.number = number
        self.lane = lane
        self.claimedAt = claimedAt
        self.requested = requested
        self.kindGeneration = kindGeneration
        self.appGeneration = appGeneration
        self.attempts = attempts
        self.isOrphaned = isOrphaned
        self.state = state
    }
}
