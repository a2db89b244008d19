import FreshetService
import KafkaClient
import PostgresClient
import WidgetModel
import WidgetStore

extension LoadStage {
    /// Values of the counters at the beginning of a scenario.
    struct Beginning: Sendable {
        var overview: Overview
        var walBytes: Int64
        /// Number of messages on the output topic.
        var messages: Int
        var provider: (requests: Int, timelines: Int)?
    }

    /// Reads the counters and starts sampling for the charts.
    func begin() async throws -> Beginning {
        let beginning = Beginning(
            overview: try await environment.overview(), walBytes: try await environment.vitals().walBytes,
            messages: watch.messages,
            provider: await environment.providerCounts())
        monitor.begin()
        return beginning
    }

    /// Result of the scenario after everything has settled, checked in PostgreSQL, against the provider's counts, and
    /// on the output topic.
    ///
    /// - Parameters:
    ///   - series: the latencies to report.
    ///   - others: number of events that were published besides the streams.
    ///   - start: start of the measurement; the wall time ends with the last stored timeline.
    func result(
        _ scenario: String, since beginning: Beginning, from start: ContinuousClock.Instant,
        latencies series: LoadSeries,
        others: Int = 0
    ) async throws -> LoadResult {
        monitor.progress.phase("checking")
        environment.sampler.sample()
        let end = latency.lastStore ?? start
        let vitals = try await environment.vitals()
        let provider = await environment.providerCounts()
        try await readOutput()
        let after = try await environment.overview()
        let check = try await checkOutput()
        let counts = latency.counts
        let summary = latency.summary(of: series)
        let usage = environment.sampler.usage(from: start, to: end)

        var losses = LoadLosses(published: counts.sent - counts.failed, before: beginning.overview, after: after)
        losses[.unacknowledged] = counts.failed
        losses[.unapplied] = latency.unapplied(at: try await positions())
        losses[.unserved] = check.events.unserved
        losses[.unpublished] = check.different
        var result = LoadResult(scenario: scenario)
        result.events = counts.sent - counts.failed + others
        result.distinctTimelines = latency.targets.count
        result.wallSeconds = max(0, start.duration(to: end) / .seconds(1))
        result.timelines = watch.messages - beginning.messages
        if let before = beginning.provider, let provider {
            result.providerRequests = provider.requests - before.requests
            result.providerTimelines = provider.timelines - before.timelines
        }
        result.walBytes = Int(vitals.walBytes - beginning.walBytes)
        result.serviceCPUSeconds = placement == .here ? usage?.tool : usage?.service
        result.databaseCPUSeconds = usage?.database
        result.peakResidentBytes =
            placement == .here
            ? ProcessUsage.bytes(of: .peak, process: ProcessUsage.own)
            : services.reduce(0) { $0 + ($1.peakResidentBytes ?? 0) }
        if summary.samples > 0 { result.latency = summary }
        result.lost = losses.total
        result.stale = Int(after.stale)
        result.verified = check.same
        result.charts = monitor.charts
        result.extras = [
            ("service", .string(placement.rawValue)), ("brokerCPUSeconds", .rounded(usage?.broker)),
            ("providerCPUSeconds", .rounded(usage?.provider)),
            ("toolCPUSeconds", placement == .here ? .null : .rounded(usage?.tool)), ("losses", losses.json),
            ("unmeasuredEvents", .number(JSONNumber(check.events.served + counts.unplaced))),
        ]
        return result
    }

    /// Counts the published timelines whose last message is, and is not, their stored content, and the events without
    /// an observed store.
    private func checkOutput() async throws -> (same: Int, different: Int, events: UnmeasuredEvents) {
        let latest = watch.latest
        var events = UnmeasuredEvents(latency.waiting)
        var same = 0
        try await environment.forEachTimeline { row in
            events.look(at: row.id, isServed: !row.isStale && row.hash != nil)
            guard let last = latest[row.id] else { return }
            if row.revision == last.revision { same += 1 }
        }
        return (same, latest.count - same, events)
    }
}
