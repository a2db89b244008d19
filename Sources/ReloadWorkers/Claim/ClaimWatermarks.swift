import WidgetModel
import WidgetStore

/// From when on to look for due work, while looking for all of it is slow.
///
/// Every claim leaves a dead version at the start of the claim's index. While a transaction is held open somewhere, nothing
/// can remove them, and each look and each claim reads all of them again. So once a look has taken long, the next ones start
/// shortly before the time from which on the latest claim of a kind and lane has left nothing behind; and now and then one
/// looks for all, for what was committed late or was locked when it was its turn.
///
/// Pure: no I/O, no clock.
struct ClaimWatermarks: Sendable {
    /// A look that takes longer than this is slow: without dead versions it takes a millisecond or two.
    static let slow = Duration.milliseconds(15)
    /// How far before the latest claimed timeline the next look starts. A mark is due from the start of its transaction,
    /// and seen from its end.
    static let slack = Duration.milliseconds(500)
    /// Least time between two looks for all, and how many times as long as such a look.
    private static let interval = Duration.seconds(1)
    private static let share = 10

    private var times: [LaneWork: Timestamp] = [:]
    /// How long the latest look for all took, and when it ended.
    private var full: (took: Duration, at: Duration)?

    /// Whether the next look may leave out what is due since before the watermarks.
    func isPartial(at now: Duration) -> Bool {
        guard let full, full.took > Self.slow, !times.isEmpty else { return false }
        return now - full.at < max(Self.interval, full.took * Self.share)
    }

    mutating func lookedForAll(took: Duration, at now: Duration) {
        full = (took, now)
        // When nothing piles up they would only be kept.
        if took <= Self.slow { times.removeAll() }
    }

    /// A claim of a queue has left nothing behind that was ready before the latest of these, but lists that others had locked
    /// or just written.
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
