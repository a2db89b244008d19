// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import FreshetService
import JSON
import KafkaClient
import Logging
import PostgresClient
import ServiceLifecycle
import WidgetAPI
import WidgetModel
import WidgetStore

/// An environment on which reloads are measured one by one: apps whose widgets are all rendered, a running service, a
/// consumer of its output, and the samples for the charts.
struct ReloadMeasurement: Sendable {
    let environment: LoadTestEnvironment
    /// Roles of the service's processes; empty: all roles work in this process.
    let roles: [ProcessRole]
    let publisher: EventPublisher
    let latency: ReloadLatency
    let watch: OutputWatch
    let monitor: LoadMonitor
    let services: [ChildProcess]

    /// Counters before the events.
    private var before: LoadTestEnvironment.Counters

    /// Sampling of the charts, and whether it includes sizes and row versions.
    typealias Sampling = (interval: Duration, includesTables: Bool)

    /// Registers and renders the apps, and lends a measurement, whose tasks end with `body`.
    static func with<Value: Sendable>(
        _ environment: LoadTestEnvironment, worlds: [LoadWorld], roles: [ProcessRole] = [],
        sampling: Sampling = (.seconds(1), false), _ body: @escaping @Sendable (ReloadMeasurement) async throws -> Value
    ) async throws -> Value {
        let (latency, watch) = (ReloadLatency(), OutputWatch())
        for world in worlds {
            Terminal.phase("importing \(world.widgets) widgets of \(world.app)")
            try await world.place(in: environment.store, provider: environment.providerURL)
        }
        // Without latencies at the output, fewer fetches spare the broker.
        let consumer = try environment.outputConsumer(
            wait: environment.plan.readerWait ?? (roles.isEmpty ? .milliseconds(100) : nil))
        let node = roles.isEmpty ? try node(on: environment, latency) : nil
        let onPublished: (@Sendable (TimelineID) -> Void)?
        if node == nil { onPublished = { latency.notePublished($0) } } else { onPublished = nil }
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                try await watch.run(
                    consumer, topic: environment.settings.topics.timelines, onPublished: onPublished)
                return nil
            }
            if let node {
                group.addTask {
                    let services = node.services(migrate: false)
                    do {
                        try await ServiceGroup(configuration: .ofFreshet(services, logger: environment.logger)).run()
                    } catch is CancellationError {}
                    return nil
                }
            }
            group.addTask {
                _ = try await node?.ready()
                var services: [ChildProcess] = []
                for role in roles { services.append(try await environment.startService(role)) }
                let monitor = LoadMonitor(environment, services: services, latency: latency, sampling: sampling)
                return try await environment.withPublisher { [services] publisher in
                    let measurement = ReloadMeasurement(
                        environment: environment, roles: roles, publisher: publisher, latency: latency, watch: watch,
                        monitor: monitor, services: services, before: try await environment.counters())
                    return try await measurement.run(body)
                }
            }
            while let finished = try await group.next() {
                if let value = finished {
                    group.cancelAll()
                    do { while try await group.next() != nil {} } catch {}
                    return value
                }
                try Task.checkCancellation()
                throw CommandFailure(.failure, "a part of the scenario has ended by itself")
            }
            throw CancellationError()
        }
    }

    /// All roles in this process, on the parts of the environment.
    private static func node(on environment: LoadTestEnvironment, _ latency: ReloadLatency) throws -> FreshetNode {
        var settings = environment.settings
        settings.role = .all
        settings.api.port = 0
        settings.providers.allowPrivateNetworks.append("127.0.0.0/8")
        return try FreshetNode(settings: settings, logger: environment.logger) { timeline, cause in
            latency.noteStored(timeline, cause)
        }
    }

    private func run<Value: Sendable>(
        _ body: @escaping @Sendable (ReloadMeasurement) async throws -> Value
    ) async throws -> Value {
        monitor.show("rendering all widgets")
        try await drain()
        let overview = try await environment.overview()
        guard overview.stale == 0, overview.stored == overview.timelines else {
            throw CommandFailure(.failure, "the widgets could not be rendered before the events")
        }
        // Reads what was published so far, so that counting begins with the events.
        try await readOutput()
        await environment.checkpoint()
        var measurement = self
        measurement.before = try await environment.counters()
        watch.arm()
        monitor.begin()
        return try await withThrowingTaskGroup(of: Value?.self) { group in
            group.addTask {
                await monitor.run()
                return nil
            }
            group.addTask { [measurement] in try await body(measurement) }
            defer { group.cancelAll() }
            while let finished = try await group.next() {
                if let value = finished { return value }
            }
            throw CancellationError()
        }
    }

    // MARK: Waiting

    /// The consumer positions: the next offset of each partition.
    func positions() async throws -> [InputPartition: Int64] {
        let topics = environment.settings.topics
        let names = [topics.pushes, topics.appChanges, topics.widgets, topics.donations]
        var positions: [InputPartition: Int64] = [:]
        for row in try await environment.pool.query(.listPositions()) {
            guard let topic = names.firstIndex(where: { Text.equal($0, row.topic) }) else { continue }
            positions[InputPartition(topic: Int16(topic), partition: row.partition)] = row.nextOffset
        }
        return positions
    }

    /// Waits until everything that was published is applied, nothing is due, and nothing is being worked on; gives up
    /// when nothing has moved for a while, and the result shows what is missing.
    func drain() async throws {
        var stall = Stall<[Int]>()
        while true {
            try environment.requireServices()
            let unapplied = latency.unapplied(at: try await positions())
            if latency.unacknowledged == 0, unapplied == 0,
                try await environment.pool.query(Statements.timelinesUnderWay()).first == 0
            {
                return
            }
            let fetched = await environment.providerCounts()?.timelines ?? 0
            if stall.update([latency.unacknowledged, unapplied, watch.messages, fetched]) { return }
            try await Task.sleep(for: .milliseconds(100))
        }
    }

    /// Waits until the output topic is read to its end.
    func readOutput() async throws {
        _ = try await watch.reach(try await environment.ends(of: environment.settings.topics.timelines))
    }
}

extension LoadTestEnvironment.Plan {
    /// For scenarios whose output is read while they run.
    ///
    /// The embedded broker answers a fetch with one message set of each partition, and a stream of single events makes
    /// a set of each: with few partitions a consumer would read slower than the stream is. What it publishes, it
    /// appends, so that few partitions do for the output.
    static func measurement(seed: UInt64) -> LoadTestEnvironment.Plan {
        LoadTestEnvironment.Plan(inputPartitions: 64, outputPartitions: 4, seed: seed)
    }
}

extension ReloadMeasurement {
    /// Result of the scenario after everything has come to rest, checked in PostgreSQL, against the provider's counts,
    /// and on the output topic.
    ///
    /// - Parameters:
    ///   - series: the latencies to report.
    ///   - others: number of events that were published besides the streams.
    ///   - start: start of the measurement; the wall time ends with the last stored timeline.
    func result(
        _ scenario: String, from start: ContinuousClock.Instant, latencies series: LoadSeries, others: Int = 0
    ) async throws -> LoadResult {
        monitor.show("checking")
        environment.processes.sample()
        let end = latency.lastStore ?? start
        let vitals = try await environment.vitals()
        let provider = await environment.providerCounts()
        try await readOutput()
        let after = try await environment.overview()
        let check = try await checkOutput()
        let counts = latency.counts
        let summary = latency.summary(of: series)
        let usage = environment.processes.usage(from: start, to: end)

        var losses = [LoadLoss: Int](published: counts.sent - counts.failed, before: before.overview, after: after)
        losses[.unacknowledged] = counts.failed
        losses[.unapplied] = latency.unapplied(at: try await positions())
        losses[.unserved] = check.unserved
        losses[.unpublished] = check.different
        var result = LoadResult(scenario: scenario)
        result.events = counts.sent - counts.failed + others
        result.distinctTimelines = latency.targets.count
        result.wallSeconds = max(0, start.duration(to: end) / .seconds(1))
        result.timelines = watch.messages
        if let earlier = before.provider, let provider {
            result.providerRequests = provider.requests - earlier.requests
            result.providerTimelines = provider.timelines - earlier.timelines
        }
        result.walBytes = Int(vitals.walBytes - before.walBytes)
        result.serviceCPUSeconds = roles.isEmpty ? usage?.tool : usage?.service
        result.databaseCPUSeconds = usage?.database
        result.peakResidentBytes =
            roles.isEmpty
            ? ProcessUsage.peakResidentBytes(of: ProcessUsage.own)
            : services.reduce(0) { $0 + ($1.peakResidentBytes ?? 0) }
        if summary.samples > 0 { result.latency = summary }
        result.lost = losses.total
        result.stale = Int(after.stale)
        result.verified = check.same
        result.charts = monitor.charts
        result.extras = [
            ("service", roles.isEmpty ? "here" : roles == [.all] ? "apart" : "separate"),
            ("brokerCPUSeconds", .rounded(usage?.broker)),
            ("providerCPUSeconds", .rounded(usage?.provider)),
            ("toolCPUSeconds", roles.isEmpty ? .null : .rounded(usage?.tool)), ("losses", losses.json),
            ("unmeasuredEvents", .number(JSONNumber(check.served + counts.unplaced))),
        ]
        return result
    }

    /// Counts the published timelines whose last message is, and is not, their stored content, and the events for which
    /// no store was seen: those that were served nevertheless, and all others.
    ///
    /// Every event is counted by its timeline (`requested`), and a timeline is stale until a fetch that began after its
    /// last request is stored. So an event whose timeline is not stale was served; only its latency is not known.
    private func checkOutput() async throws -> (same: Int, different: Int, served: Int, unserved: Int) {
        let latest = watch.latest
        var waiting = latency.waiting
        var (same, served) = (0, 0)
        try await environment.forEachTimeline { row in
            if !row.isStale, row.hash != nil { served += waiting.removeValue(forKey: row.id) ?? 0 }
            guard let last = latest[row.id] else { return }
            if row.revision == last.revision { same += 1 }
        }
        return (same, latest.count - same, served, waiting.values.reduce(0, +))
    }
}

/// Parts of a stream that begins now: a warm-up, whose events are applied but not measured, then the measurement.
struct MeasuredWindow: Sendable {
    let start = ContinuousClock.now + .milliseconds(20)
    let length: Duration

    var warmUp: Duration { min(.seconds(5), length / 5) }
    var total: Duration { warmUp + length }

    /// Series of an event that is to be sent at a time; nil after the end.
    func series(at time: ContinuousClock.Instant, measured series: LoadSeries) -> LoadSeries? {
        time < start + warmUp ? .warmUp : time < start + total ? series : nil
    }
}
