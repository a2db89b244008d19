import WidgetModel
import WidgetStore

/// What a scenario asked for and did not get: read back from PostgreSQL, where it can be.
struct LoadLosses: Sendable, Equatable {
    /// Events that Kafka did not acknowledge.
    var unacknowledged = 0
    /// Events that are before no consumer position.
    var unapplied = 0
    /// Events that no timeline has counted: the growth of the targeted generations is short of them.
    var uncounted = 0
    /// Events whose timeline was never stored for them.
    var unserved = 0
    /// Timelines that are behind a generation.
    var stale = 0
    /// Timelines whose stored content is not what was last published.
    var unpublished = 0
    var deadLetters = 0

    var total: Int { unacknowledged + unapplied + uncounted + unserved + stale + unpublished + deadLetters }

    init() {}

    /// - Parameters:
    ///   - counts: of the streams, each of whose events is for one timeline.
    ///   - unapplied: how many events are before no consumer position.
    ///   - before: the store when the streams began, and when everything was quiet.
    init(counts: ReloadLatency.Counts, unapplied: Int = 0, before: Overview.Row, after: Overview.Row) {
        unacknowledged = counts.failed
        let published = counts.sent - counts.failed
        self.unapplied = unapplied
        uncounted = max(0, published - Int(after.requested - before.requested))
        unserved = counts.waiting
        stale = Int(after.stale)
        unpublished = Int(after.unpublished)
        deadLetters = Int(after.deadLetters)
    }

    /// What is missing, for people; empty when nothing is.
    var lines: [String] {
        [
            (unacknowledged, "events were not acknowledged by Kafka"), (unapplied, "events are not applied"),
            (uncounted, "events are counted by no timeline"), (unserved, "events had no timeline stored for them"),
            (stale, "timelines are stale"), (unpublished, "timelines are stored but not published"),
            (deadLetters, "events became dead letters"),
        ].compactMap { $0.0 > 0 ? "  - \($0.0) \($0.1)" : nil }
    }
}
