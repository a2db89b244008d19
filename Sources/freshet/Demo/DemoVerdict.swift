import FreshetService
import SampleProvider
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
