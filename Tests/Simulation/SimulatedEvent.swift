import WidgetModel

/// An event in the log, with what the store has to know of it.
enum SimulatedEvent: Hashable, Sendable {
    /// Placed, or configured to show another timeline.
    case place(widget: Int, timeline: Int, changedAt: Int)
    case remove(widget: Int, changedAt: Int)
    case view(widget: Int)
    case reloadUser(Int, kind: Int?, urgency: RequestUrgency)
    case reloadWidget(Int, urgency: RequestUrgency)
    /// Everyone, one kind: O(1).
    case reloadKind(Int, urgency: RequestUrgency)
    /// Everyone, all kinds: O(1).
    case reloadApp(urgency: RequestUrgency)
    /// Everyone whose configuration matches: a recorded sweep.
    case reloadMatching(parity: Int, urgency: RequestUrgency)
}

/// An event as a process has read it.
struct ReadEvent: Hashable, Sendable {
    let partition: Int
    let offset: Int
    let event: SimulatedEvent
    /// The epoch under which it was read.
    let epoch: Int64
}

/// What there is: an app with a kind whose timelines belong to users, and one whose timelines are shared.
struct SimulatedWorld: Hashable, Sendable {
    static let timelines = 8
    static let kinds = 2
    static let widgets = 6
    static let users = 2
    static let partitions = 2
    static let ingests = 2
    static let workers = 3
    static let lease = Duration.seconds(60)
    /// The longest that a message is tried to be delivered.
    static let longestPublish = Duration.seconds(20)
    static let start = Timestamp(microseconds: 1_592_820_000_000_000)

    let rules: [ReloadRules]

    init(_ random: inout SeededGenerator) {
        rules = (0..<Self.kinds).map { kind in
            let daily = 1 + random.below(40)
            return ReloadRules(
                schedule: ReloadSchedule(
                    minimumSpacing: .seconds([0, 5, 300][random.below(3)]), developerMode: random.chance(1, of: 8)),
                budget: DailyBudget(minimum: daily, maximum: daily), dormantAfter: .seconds(14 * 86_400),
                isShared: kind == 1)
        }
    }

    static func kind(of timeline: Int) -> Int { timeline / 4 }
    static func user(of widget: Int) -> Int { widget % users }
    /// Timelines of the first kind belong to a user, those of the second to everybody.
    static func timeline(of widget: Int, choice: Int) -> Int {
        let choice = choice % 6
        return choice < 2 ? user(of: widget) * 2 + choice : 2 + choice
    }
    static func parity(of timeline: Int) -> Int { timeline % 2 }
    static func hash(of value: UInt8) -> ContentHash { ContentHash(high: 1, low: UInt64(value)) }
    static func id(of timeline: Int) -> TimelineID {
        TimelineID(high: UInt64(timeline), low: UInt64(timeline) &* 0x9E37_79B9_7F4A_7C15)
    }
}
