import WidgetModel
import WidgetStore

/// Start times of looks for due work while complete looks are slow.
///
/// Every claim leaves a dead version at the start of the claims' index. An open transaction keeps vacuum from removing
/// them, and each look and claim reads them again. After a slow look, the next ones start shortly before the latest
/// claimed list of a kind and lane; complete looks at intervals find lists that were committed late or locked.
///
/// Pure: no I/O, no clock.
struct ClaimWatermarks: Sendable {
    /// Duration of a slow look; without dead versions it takes one or two milliseconds.
    static let slow = Duration.milliseconds(15)
    /// Distance of the next look's start before the latest claimed list: a mark is due from the start of its
    /// transaction, and visible from its end.
    static let slack = Duration.milliseconds(500)
    /// Least time between complete looks, and its least ratio to their duration.
    private static let interval = Duration.seconds(1)
    private static let share = 10

    private var times: [LaneWork: Timestamp] = [:]
    /// Duration and end of the latest complete look.
    private var full: (took: Duration, at: Duration)?

    /// Whether the next look may start at the watermarks.
    func isPartial(at now: Duration) -> Bool {
        guard let full, full.took > Self.slow, !times.isEmpty else { return false }
        return now - full.at < max(Self.interval, full.took * Self.share)
    }

    mutating func lookedForAll(took: Duration, at now: Duration) {
        full = (took, now)
        if took <= Self.slow { times.removeAll() }
    }

    /// Notes claimed lists: earlier lists of their queues are claimed too, unless they were locked or just written.
    mutating func claimed(_ rows: [ClaimRow]) {
        guard let full, full.took > Self.slow else { return }
        for row in rows {
            let queue = LaneWork(kindID: row.list.kindID, lane: row.list.lane)
            times[queue] = max(times[queue] ?? .distantPast, row.readySince - Self.slack)
        }
    }

    func since(kindID: Int32, lane: ReloadLane) -> Timestamp {
        times[LaneWork(kindID: kindID, lane: lane)] ?? .distantPast
    }
}
