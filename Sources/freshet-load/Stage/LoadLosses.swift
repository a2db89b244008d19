import WidgetModel
import WidgetStore

/// Counts of requested reloads that were not done, read back from PostgreSQL and Kafka.
struct LoadLosses: Sendable, Equatable {
    enum Sort: String, Sendable, CaseIterable {
        /// Events that Kafka did not acknowledge.
        case unacknowledged
        /// Events that are before no consumer position.
        case unapplied
        /// Events that no timeline has counted.
        case uncounted
        /// Events, or targeted timelines, without a timeline that was stored for them.
        case unserved
        /// Timelines that are behind a generation.
        case stale
        /// Timelines whose last message is not of the stored content.
        case unpublished
        /// Targeted timelines beyond the number that the provider has counted.
        case unfetched
        case deadLetters
    }

    private var counts: [Sort: Int] = [:]

    subscript(sort: Sort) -> Int {
        get { counts[sort, default: 0] }
        set { counts[sort] = newValue > 0 ? newValue : nil }
    }

    init() {}

    /// - Parameters:
    ///   - published: number of acknowledged events, each for one timeline.
    ///   - before: the store before the first of them.
    ///   - after: the store when everything was quiet.
    init(published: Int, before: Overview, after: Overview) {
        self[.uncounted] = published - Int(after.requested - before.requested)
        self[.stale] = Int(after.stale)
        self[.deadLetters] = Int(after.deadLetters)
    }

    var total: Int { counts.values.reduce(0, +) }

    var json: JSONValue {
        .object(
            JSONObject(
                Sort.allCases.map { JSONObject.Member(key: $0.rawValue, value: .number(JSONNumber(self[$0]))) }))
    }
}

/// Events for which no store was seen, checked in PostgreSQL once everything is quiet.
///
/// Every event is counted by its timeline (`requested`), and a timeline is stale until a fetch that began after its
/// last request is stored. So an event whose timeline is not stale was served; only its latency is not known.
struct UnmeasuredEvents: Sendable {
    private var waiting: [TimelineID: Int]
    /// Number of events that were served.
    private(set) var served = 0

    /// - Parameter waiting: number of events by timeline.
    init(_ waiting: [TimelineID: Int]) {
        self.waiting = waiting
    }

    /// Number of events whose timeline is stale, stores nothing, or was not looked at.
    var unserved: Int { waiting.values.reduce(0, +) }

    mutating func look(at timeline: TimelineID, isServed: Bool) {
        guard isServed, let events = waiting.removeValue(forKey: timeline) else { return }
        served += events
    }
}
