// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import KafkaClient
import PostgresClient
import Randomness
import WidgetModel
import WidgetStore

/// Reloads of single widgets that wait in Kafka when the service starts, until all of them are applied, stored and
/// published.
struct LoadDrain: Scenario {
    static let configuration = CommandConfiguration(
        commandName: "drain",
        abstract: "Reloads that wait in Kafka when the service starts, until all are stored and published.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Imports and renders the widgets, publishes reloads of \
            single widgets chosen at random, writes a checkpoint, starts the service in a process of its own, and \
            measures until every event is applied and every targeted timeline is stored and published; then the same \
            again, which is the result (the first pass is reported as "cold"). Broker, provider, service and PostgreSQL \
            are separate processes, and each one's CPU time is reported. What is stored is compared with what stands on \
            the output topic. The exit code is 1 if anything is lost.

            Examples:
              deploy/local/postgres run -- freshet-load drain
              freshet-load drain --set postgres.url=postgresql:///freshet --bootstrap-servers kafka:9092 --json
            """)

    @OptionGroup var size: LoadWorldOptions

    @Option(
        help: "Events, each for one widget chosen by the distribution.", transform: OptionText.number(1...10_000_000))
    var events = 200_000

    @OptionGroup var backlog: BacklogOptions

    @Option(
        help: "Most timelines in one request to the provider (maxBatch of the kinds).",
        transform: OptionText.number(1...1_000))
    var maxBatch = 500

    @Flag(
        help: """
            Use the service that runs already on the database, the topics and the group that the settings name, and do \
            not start one; needs brokers and --provider. It works while the events are published, and that time counts.
            """)
    var runningService = false

    @OptionGroup var options: ScenarioOptions

    func validate() throws {
        if runningService, options.provider == nil {
            throw ValidationError("--running-service: expected with --provider, where the service can reach it")
        }
    }

    var plan: LoadTestEnvironment.Plan {
        // The embedded broker keeps the last 5 MiB of a partition, and an event takes about 450 bytes there, a
        // published timeline, compressed, about 350.
        func partitions(_ count: Int, bytes: Int) -> Int { min(512, max(8, count * bytes / (3 << 20) + 1)) }
        return LoadTestEnvironment.Plan(
            inputPartitions: partitions(events * backlog.passes, bytes: 450),
            outputPartitions: partitions(events, bytes: 350), seed: options.seed, usesRunningService: runningService)
    }

    private var world: LoadWorld {
        var world = size.world
        world.maxBatch = maxBatch
        return world
    }

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult {
        let world = world
        try await world.place(in: environment.store, provider: environment.providerURL)
        Terminal.progress("rendering \(world.widgets) widgets")
        let began = try await environment.vitals()
        try await withService(environment) { _ in _ = try await drain(published: 0, environment) }
        let rendered = try await environment.vitals()
        guard try await environment.overview().stale == 0 else {
            throw CommandFailure(.failure, "the widgets could not be rendered before the events")
        }

        let choice = PopularWidgets(of: world, exponent: try backlog.exponent())
        var random = SeededGenerator(seed: options.seed)
        let widgets = (0..<events).map { _ in choice.next(using: &random) }
        let targets = Set(Set(widgets).map { world.timeline(of: $0).id })
        var results: [LoadResult] = []
        for number in 1...backlog.passes {
            results.append(try await pass(number, widgets, targets, in: world, environment))
        }
        var result = results[results.count - 1]
        result.extras += [
            ("cold", results.count > 1 ? results[0].json : .null),
            (
                "firstRender",
                [
                    "timelines": .integer(world.widgets),
                    "wallSeconds": .rounded(rendered.now.seconds(since: began.now)),
                ]
            ),
        ]
        result.lost = results.reduce(0) { $0 + $1.lost }
        return result
    }

    /// Runs a closure while the service runs, which is started and stopped unless it runs already.
    private func withService<Value>(
        _ environment: LoadTestEnvironment, _ body: (ChildProcess?) async throws -> Value
    ) async throws -> Value {
        guard !runningService else { return try await body(nil) }
        let service = try await environment.startService()
        let value = try await body(service)
        await environment.stop(service)
        return value
    }

    /// Publishes the events, then starts a service that finds them in Kafka.
    private func pass(
        _ number: Int, _ widgets: [Int], _ targets: Set<TimelineID>, in world: LoadWorld,
        _ environment: LoadTestEnvironment
    ) async throws -> LoadResult {
        var result = LoadResult(scenario: "drain")
        Terminal.progress("publishing \(events) events, pass \(number) of \(backlog.passes)")
        let before = try await environment.overview()
        let applied = try await environment.store.appliedEvents()
        let output = environment.settings.topics.timelines
        let starts = try await environment.ends(of: output)
        let providerBefore = await environment.providerCounts()
        let (first, hasCheckpoint) = try await publish(widgets, in: world, pass: number, environment)

        Terminal.progress("draining, pass \(number) of \(backlog.passes)")
        let (ready, readyAt, last) = try await withService(environment) { service in
            // The service may have begun before it said so: the earlier of the two counts.
            let (ready, readyAt) = (try await environment.vitals().now, ContinuousClock.now)
            let samples = try await drain(published: applied + events, environment)
            result.charts.samples = LoadCharts(samples: samples).thinned(to: 600)
            let last = try await environment.vitals()
            environment.processes.sample()
            result.peakResidentBytes = service?.peakResidentBytes
            return (ready, readyAt, last)
        }

        Terminal.progress("checking, pass \(number) of \(backlog.passes)")
        let served = try await served(targets, since: first.now, environment)
        let begin = min(ready, served.first ?? ready)
        let end = served.last ?? begin
        let usage = environment.processes.usage(
            from: readyAt + .seconds(begin.seconds(since: ready)), to: readyAt + .seconds(end.seconds(since: ready)))
        let providerAfter = await environment.providerCounts()
        let watch = try await environment.readOutput(
            from: starts, to: try await environment.ends(of: output))

        let after = try await environment.overview()
        var losses = [LoadLoss: Int](published: events, before: before, after: after)
        compare(served.rows, with: watch.latest, of: targets, &result, &losses)
        losses[.unapplied] = applied + events - (try await environment.store.appliedEvents())
        if let providerBefore, let providerAfter {
            result.providerRequests = providerAfter.requests - providerBefore.requests
            result.providerTimelines = providerAfter.timelines - providerBefore.timelines
            losses[.unfetched] = targets.count - (providerAfter.timelines - providerBefore.timelines)
        }
        result.events = events
        result.distinctTimelines = targets.count
        result.timelines = watch.messages
        result.wallSeconds = end.seconds(since: begin)
        result.walBytes = Int(last.walBytes - first.walBytes)
        result.serviceCPUSeconds = usage?.service
        result.databaseCPUSeconds = usage?.database
        result.stale = Int(after.stale)
        result.lost = losses.total
        result.extras = [
            ("brokerCPUSeconds", .rounded(usage?.broker)), ("providerCPUSeconds", .rounded(usage?.provider)),
            ("toolCPUSeconds", .rounded(usage?.tool)), ("checkpoint", .bool(hasCheckpoint)), ("losses", losses.json),
        ]
        return result
    }

    /// Publishes the events of a pass.
    ///
    /// - Returns: state of the database from which the pass is measured, and whether a checkpoint was written.
    private func publish(
        _ widgets: [Int], in world: LoadWorld, pass number: Int, _ environment: LoadTestEnvironment
    ) async throws -> (first: DatabaseVitals, hasCheckpoint: Bool) {
        let first = try await environment.vitals()
        try await environment.publishReloads(of: widgets, in: world) { "load-\(number)-\($0)" }
        // A running service begins while they are published.
        guard !runningService else { return (first, false) }
        // Before the first pass only: later ones are not to pay for full pages again.
        var hasCheckpoint = false
        if number == 1 { hasCheckpoint = await environment.checkpoint() }
        return (try await environment.vitals(), hasCheckpoint)
    }

    /// Waits until so many events are applied, and no list is due or leased; gives up when nothing has moved for a
    /// while.
    ///
    /// - Returns: events applied and timelines fetched over time, for the chart.
    private func drain(published: Int, _ environment: LoadTestEnvironment) async throws -> [LoadSample] {
        var stall = Stall<[Int]>()
        var recorder = DrainRecorder(goal: published)
        while true {
            try environment.requireServices()
            let applied = try await environment.store.appliedEvents()
            let fetched = await environment.providerCounts()?.timelines ?? 0
            recorder.record(applied: applied, fetched: fetched)
            if applied >= published, try await environment.pool.query(Statements.timelinesUnderWay()).first == 0 {
                break
            }
            if stall.update([applied, fetched]) { break }
            try await Task.sleep(for: .milliseconds(100))
        }
        return recorder.samples
    }

    /// The targeted timelines, with the times of the first recorded request for one since a time, and of the last
    /// render.
    private func served(
        _ targets: Set<TimelineID>, since start: Timestamp, _ environment: LoadTestEnvironment
    ) async throws -> (rows: [TimelineID: TimelineSummary], first: Timestamp?, last: Timestamp?) {
        var served: (rows: [TimelineID: TimelineSummary], first: Timestamp?, last: Timestamp?) = ([:], nil, nil)
        try await environment.forEachTimeline { row in
            guard targets.contains(row.id) else { return }
            served.rows[row.id] = row
            guard let requested = row.requestedAt, requested >= start else { return }
            served.first = min(served.first ?? requested, requested)
            if let rendered = row.renderedAt { served.last = max(served.last ?? rendered, rendered) }
        }
        return served
    }

    /// Compares what is stored with the last messages on the output topic.
    private func compare(
        _ rows: [TimelineID: TimelineSummary], with latest: [TimelineID: OutputWatch.Latest],
        of targets: Set<TimelineID>, _ result: inout LoadResult, _ losses: inout [LoadLoss: Int]
    ) {
        for id in targets {
            if let row = rows[id], !row.isStale, let message = latest[id] {
                let isSame = row.revision == message.revision && row.hash == message.hash
                if isSame { result.verified += 1 } else { losses[.unpublished, default: 0] += 1 }
            } else {
                losses[.unserved, default: 0] += 1
            }
        }
    }
}

extension Timestamp {
    func seconds(since start: Timestamp) -> Double { Double(microseconds - start.microseconds) / 1e6 }
}
