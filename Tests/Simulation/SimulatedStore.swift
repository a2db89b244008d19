import WidgetModel

/// What PostgreSQL holds, with the same semantics: each function is a statement, or a transaction, that has committed.
///
/// What a row does is `TimelineStateMachine`'s, which the conformance tests compare with the SQL. What is here besides
/// names the statement that it mirrors. Times are given, for a transaction's `now()` is that of its beginning.
struct SimulatedStore {
    struct Timeline {
        var state: TimelineStateMachine
        /// The content row: nothing before the first fetch.
        var content: Content?
    }

    struct Content: Hashable {
        var value: UInt8
        /// The claim that stored it.
        var revision: Int64
    }

    struct Widget {
        /// nil: removed.
        var timeline: Int?
        var changedAt: Int
        var placedAt: Timestamp
        var viewedAt: Timestamp?
    }

    struct Kind {
        var generation = ReloadGeneration()
        var cancelled: Int64 = 0
        var isPaused = false
    }

    struct Position: Hashable {
        var epoch: Int64
        var next: Int?
    }

    /// A recorded sweep over everyone.
    struct Sweep {
        let id: Int
        var kinds: [Int]
        let parity: Int
        var events: Int64
        var urgency: RequestUrgency
        var isStarted = false
        var cursorKind = -1
        var cursorTimeline = -1
    }

    let mutation: Mutation?
    var timelines: [Timeline?] = Array(repeating: nil, count: SimulatedWorld.timelines)
    var widgets: [Widget?] = Array(repeating: nil, count: SimulatedWorld.widgets)
    var kinds = Array(repeating: Kind(), count: SimulatedWorld.kinds)
    var app = ReloadGeneration()
    var positions: [Position?] = Array(repeating: nil, count: SimulatedWorld.partitions)
    var sweeps: [Sweep] = []
    private var lastSweep = 0
    private var lastClaim: Int64 = 0
    var witness = Witness(timelines: SimulatedWorld.timelines, partitions: SimulatedWorld.partitions)

    init(mutation: Mutation?) {
        self.mutation = mutation
    }

    /// The sequence `timeline_claim`.
    mutating func nextClaim() -> Int64 {
        lastClaim += 1
        return lastClaim
    }

    mutating func nextSweep() -> Int {
        lastSweep += 1
        return lastSweep
    }

    func scope(of kind: Int) -> ScopeGenerations {
        ScopeGenerations(kind: kinds[kind].generation, app: app, cancelled: kinds[kind].cancelled)
    }

    func isShown(_ timeline: Int) -> Bool {
        for widget in widgets where widget?.timeline == timeline { return true }
        return false
    }

    /// `ClaimTimelines`, the part of it that reads the widgets.
    func views(of timeline: Int) -> ViewStatistics {
        var views = ViewStatistics(viewsADay: 10)
        for case let widget? in widgets where widget.timeline == timeline {
            let active = max(widget.placedAt, widget.viewedAt ?? widget.placedAt)
            views.lastActive = max(views.lastActive ?? active, active)
            views.lastPlaced = max(views.lastPlaced ?? widget.placedAt, widget.placedAt)
        }
        return views
    }

    /// Whether what is stored, if anything, is what completed claims have published last.
    func isPublished(_ timeline: Int) -> Bool {
        guard let row = timelines[timeline], let content = row.content else { return true }
        return row.state.publishedHash == SimulatedWorld.hash(of: content.value)
    }

    /// Changes the row of a timeline, if there is one.
    @discardableResult
    mutating func withTimeline<Result>(_ timeline: Int, _ body: (inout TimelineStateMachine) -> Result) -> Result? {
        guard timelines[timeline] != nil else { return nil }
        return body(&timelines[timeline]!.state)
    }

    /// A mark, with what a mutation makes of it.
    mutating func mark(
        _ timeline: Int, events: Int64, urgency: RequestUrgency, lane: ReloadLane, isBulk: Bool, at now: Timestamp
    ) {
        let moves = mutation == .markMovesLeased
        withTimeline(timeline) { state in
            let wasLeased = state.isLeased
            _ = state.request(
                events: events, urgency: urgency, lane: lane, isBulk: isBulk, isAddressed: !isBulk, at: now)
            if moves, wasLeased { state.phase = .leased(until: min(state.dueAt, max(now, state.retryAt))) }
        }
    }
}
