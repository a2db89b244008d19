import FreshetService
import KafkaClient
import SampleProvider
import Synchronization
import WidgetModel
import WidgetStore

/// Result of the demo, read back from PostgreSQL, Kafka and the provider.
struct DemoVerdict: Sendable {
    var eventsPublished = 0
    /// Sum of the consumer positions: every event before them is applied.
    var eventsApplied = 0
    var overview: Overview
    var provider: SampleStatistics.Counts
    var output: DemoOutput.Snapshot
    var lost: [String] = []
    var latency: DemoLatency.Summary
    var devices = 0
    var pushes = APNsStandIn.Statistics()
    var seconds: Double

    /// Compares what was requested with what has been rendered, stored and published.
    static func lost(
        overview: Overview, output: DemoOutput.Snapshot, events: (published: Int, applied: Int), failures: Int,
        expectedTimelines: Int, devicesWaiting: Int64 = 0
    ) -> [String] {
        var lost: [String] = []
        if devicesWaiting > 0 { lost.append("\(devicesWaiting) devices wait to be notified of changes") }
        if failures > 0 { lost.append("\(failures) events were not acknowledged by Kafka") }
        if events.applied != events.published {
            lost.append("\(events.published) events were published, \(events.applied) are applied")
        }
        if overview.stored != Int64(expectedTimelines) {
            lost.append("\(expectedTimelines) distinct timelines expected, \(overview.stored) are stored")
        }
        if overview.stale > 0 { lost.append("\(overview.stale) timelines are still stale") }
        if overview.sweeps > 0 { lost.append("\(overview.sweeps) sweeps are not done") }
        // A list ends once all that was stored is published.
        if overview.leased > 0 { lost.append("\(overview.leased) timelines are in lists that have not ended") }
        if overview.deadLetters > 0 { lost.append("\(overview.deadLetters) events became dead letters") }
        let published = output.revisions.values.count { $0 > 0 }
        if published != Int(overview.stored) {
            lost.append("\(overview.stored) timelines are stored, \(published) were seen on the output topic")
        }
        return lost
    }

    /// The summary, with where each number was read.
    func lines(counts: DemoTraffic.Counts) -> [String] {
        let placed = "\(counts.registered) devices, \(counts.placed) placed, \(counts.arranged) of a stack"
        let notified = "\(pushes.byToken.count) of \(devices), \(pushes.accepted) pushes"
        var lines = [
            "",
            "Summary (read back from PostgreSQL, Kafka and the provider)",
            "  events published            \(eventsPublished)   (\(placed), \(counts.targeted) targeted"
                + " pushes, \(counts.appChanges) app changes, \(counts.views) views,"
                + " \(counts.perKind) per-kind and \(counts.global) global reloads)",
            "  events applied              \(eventsApplied)   (consumer positions in PostgreSQL)",
            "  widgets / timelines         \(overview.widgets) / \(overview.timelines)   (PostgreSQL)",
            "  timelines stored            \(overview.stored), stale \(overview.stale), due \(overview.due)   (PostgreSQL)",
            "  timelines published         \(output.messages) messages for \(output.revisions.count) timelines"
                + "   (freshet.timelines)",
            "  devices notified            \(notified)   (stand-in for APNs)",
            "  provider                    \(provider.requests) requests for \(provider.timelines) timelines,"
                + " \(Figure.digits(provider.meanBatch)) a request, at most \(provider.largestBatch)",
            "  event → stored              p50 \(Figure.digits(latency.p50)) ms,"
                + " p99 \(Figure.digits(latency.p99)) ms   (\(latency.samples) samples)",
            "  wall time                   \(Figure.digits(seconds)) s",
            "  lost: \(lost.count)",
        ]
        for problem in lost.prefix(20) { lines.append("    - \(problem)") }
        if lost.count > 20 { lines.append("    - … and \(lost.count - 20) more") }
        return lines
    }
}

/// Sampled latency from the publication of an event to the storage of a timeline. The event that a stored timeline
/// names as its cause is looked up among the published ones.
final class DemoLatency: Sendable {
    /// Percentiles in milliseconds; zero without samples.
    typealias Summary = (samples: Int, p50: Double, p99: Double)

    private static func summary(_ latencies: [Duration]) -> Summary {
        let sorted = latencies.sorted()
        func percentile(_ share: Double) -> Double {
            sorted.isEmpty ? 0 : sorted[Int(Double(sorted.count - 1) * share)] / .milliseconds(1)
        }
        return (sorted.count, percentile(0.5), percentile(0.99))
    }

    private struct State {
        var sent: [EventPosition: ContinuousClock.Instant] = [:]
        /// The event that each timeline was last stored for: a timeline that is stored again for another reason (a
        /// reload of everyone, its policy) still names it.
        var served: [TimelineID: EventPosition] = [:]
        var all: [Duration] = []
        var recent: [Duration] = []
    }

    /// Most events that are remembered.
    private static let maximumRemembered = 200_000

    private let state = Mutex(State())

    func noteSent(_ position: EventPosition, at time: ContinuousClock.Instant) {
        state.withLock { state in
            if state.sent.count >= Self.maximumRemembered { state.sent.removeAll(keepingCapacity: true) }
            state.sent[position] = time
        }
    }

    func noteStored(_ timeline: TimelineID, _ cause: EventPosition?) {
        guard let cause else { return }
        let now = ContinuousClock.now
        state.withLock { state in
            guard state.served.updateValue(cause, forKey: timeline) != cause else { return }
            // Kept: one event may cause many timelines.
            guard let sent = state.sent[cause] else { return }
            state.all.append(sent.duration(to: now))
            state.recent.append(sent.duration(to: now))
        }
    }

    func overall() -> Summary { Self.summary(state.withLock { $0.all }) }

    /// Latencies since the last call.
    func takeRecent() -> Summary {
        Self.summary(
            state.withLock { state in
                defer { state.recent = [] }
                return state.recent
            })
    }
}

/// Messages of `freshet.timelines` as any consumer reads them: the highest revision of each timeline counts.
final class DemoOutput: Sendable {
    /// Number of messages, and the highest revision by timeline id; negative for a tombstone.
    typealias Snapshot = (messages: Int, revisions: [String: Int64])

    private let state = Mutex<Snapshot>((0, [:]))

    var snapshot: Snapshot { state.withLock { $0 } }

    func read(_ batch: KafkaBatch) {
        state.withLock { state in
            for index in 0..<batch.count {
                guard let key = batch.key(index),
                    let header = batch.header(index, named: "freshet-revision"),
                    let revision = Int64(String(decoding: batch.bytes[header], as: UTF8.self))
                else { continue }
                let id = String(decoding: batch.bytes[key], as: UTF8.self)
                state.messages += 1
                guard abs(state.revisions[id] ?? 0) <= revision else { continue }
                state.revisions[id] = batch.value(index) == nil ? -revision : revision
            }
        }
    }
}
