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
    /// Events whose timeline does not stand for them: it is stale, or nothing is stored.
    var unserved = 0
    /// Timelines that are behind a generation.
    var stale = 0
    /// Timelines whose last message is not of the stored content.
    var unpublished = 0
    var deadLetters = 0

    var total: Int { unacknowledged + unapplied + uncounted + unserved + stale + unpublished + deadLetters }

    init() {}

    /// - Parameters:
    ///   - counts: of the streams, each of whose events is for one timeline.
    ///   - unapplied: how many events are before no consumer position.
    ///   - unserved: events that wait, and whose timeline PostgreSQL does not show as served.
    ///   - before: the store when the streams began, and when everything was quiet.
    init(
        counts: ReloadLatency.Counts, unapplied: Int = 0, unserved: Int, before: Overview.Row, after: Overview.Row
    ) {
        unacknowledged = counts.failed
        let published = counts.sent - counts.failed
        self.unapplied = unapplied
        uncounted = max(0, published - Int(after.requested - before.requested))
        self.unserved = unserved
        stale = Int(after.stale)
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

/// Events for which no store was seen, checked in PostgreSQL once everything is quiet.
///
/// Every event is counted by its timeline (`requested`), and a timeline is stale until a fetch that began after its last
/// request is stored. So an event whose timeline is not stale was served; only its latency is not known.
struct UnmeasuredEvents: Sendable {
    private var waiting: [TimelineID: Int]
    /// Events that were served.
    private(set) var served = 0

    /// - Parameter waiting: number of events by timeline.
    init(_ waiting: [TimelineID: Int]) {
        self.waiting = waiting
    }

    /// Events whose timeline is stale, stores nothing, or was not looked at.
    var unserved: Int { waiting.values.reduce(0, +) }

    mutating func look(at timeline: TimelineID, isServed: Bool) {
        guard isServed, let events = waiting.removeValue(forKey: timeline) else { return }
        served += events
    }
}
