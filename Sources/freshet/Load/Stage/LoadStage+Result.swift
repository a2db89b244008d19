import KafkaClient
import PostgresClient
import WidgetModel
import WidgetStore

extension LoadStage {
    /// Where the counters stood when a scenario began.
    struct Beginning: Sendable {
        var time: ContinuousClock.Instant
        var overview: Overview.Row
        var walBytes: Int64
        /// On the output topic.
        var messages: Int
        var provider: (requests: Int, timelines: Int)?
    }

    /// Reads the counters; from here on the charts are sampled.
    func begin() async throws -> Beginning {
        guard let overview = try await farm.pool.query(Overview()).first else {
            throw CommandFailure(.failure, "PostgreSQL did not say what it holds")
        }
        let beginning = Beginning(
            time: .now, overview: overview, walBytes: try await farm.vitals().walBytes, messages: watch.messages,
            provider: await farm.providerCounts())
        monitor.begin()
        return beginning
    }

    /// What the scenario came to, once everything has settled: checked in PostgreSQL, by the provider's counts, and on the
    /// output topic.
    ///
    /// - Parameters:
    ///   - series: whose latencies the result has.
    ///   - others: events that were published besides the streams.
    ///   - start: of what is measured; the wall time counts from it to the last timeline that was stored.
    func result(
        _ scenario: String, since beginning: Beginning, from start: ContinuousClock.Instant,
        latencies series: LoadSeries,
        others: Int = 0
    ) async throws -> LoadResult {
        monitor.progress.phase("checking")
        farm.sampler.sample()
        let end = latency.lastStore ?? start
        let vitals = try await farm.vitals()
        let provider = await farm.providerCounts()
        try await readOutput()
        guard let after = try await farm.pool.query(Overview()).first else {
            throw CommandFailure(.failure, "PostgreSQL did not say what it holds")
        }
        let check = try await checkOutput()
        let counts = latency.counts
        let summary = latency.summary(of: series)
        let usage = farm.sampler.usage(from: start, to: end)

        var losses = LoadLosses(
            counts: counts, unserved: check.events.unserved, before: beginning.overview, after: after)
        losses.unapplied = latency.unapplied(at: try await positions())
        losses.unpublished = check.different
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
            ? ProcessUsage.peakResidentBytes(of: ProcessUsage.own)
            : services.reduce(0) { $0 + ($1.peakResidentBytes ?? 0) }
        if summary.samples > 0 { result.latency = LoadResult.Latency(summary) }
        result.lost = losses.total
        result.stale = Int(after.stale)
        result.verified = check.same
        result.charts = monitor.charts
        result.charts.histogram = latency.buckets(of: series)
        result.extras = [
            ("service", .string(placement.rawValue)), ("brokerCPUSeconds", .rounded(usage?.broker)),
            ("providerCPUSeconds", .rounded(usage?.provider)),
            ("toolCPUSeconds", placement == .here ? .null : .rounded(usage?.tool)), ("losses", losses.json),
            ("unmeasuredEvents", .number(JSONNumber(check.events.served + counts.unplaced))),
        ]
        return result
    }

    /// Of the timelines that were published: whose last message is what is stored, and whose is not; and the events for which
    /// no store was seen.
    private func checkOutput() async throws -> (same: Int, different: Int, events: UnmeasuredEvents) {
        let latest = watch.latest
        var events = UnmeasuredEvents(latency.waiting)
        var same = 0
        try await farm.forEachTimeline { row in
            events.look(at: row.id, isServed: !row.isStale && row.hash != nil)
            guard let revision = latest[row.id] else { return }
            if row.revision == revision { same += 1 }
        }
        return (same, latest.count - same, events)
    }
}

extension LoadLosses {
    var json: JSONValue {
        func number(_ value: Int) -> JSONValue { .number(JSONNumber(value)) }
        return [
            "unacknowledged": number(unacknowledged), "unapplied": number(unapplied), "uncounted": number(uncounted),
            "unserved": number(unserved), "stale": number(stale), "unpublished": number(unpublished),
            "deadLetters": number(deadLetters),
        ]
    }
}

extension LoadResult.Latency {
    init(_ summary: LatencySummary) {
        self.init(p50: summary.p50, p90: summary.p90, p99: summary.p99, p999: summary.p999, max: summary.max)
    }
}
