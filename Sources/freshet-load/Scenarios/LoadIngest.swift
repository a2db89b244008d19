// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import KafkaClient
import Logging
import PostgresClient
import Randomness
import WidgetEvents
import WidgetModel
import WidgetStore

/// Ingest alone: events that wait in Kafka, until all of them are applied by a service that does nothing else, in a
/// process of its own. Time counts from its taking the partitions to its last commit.
struct LoadIngest: Scenario {
    static let configuration = CommandConfiguration(
        commandName: "ingest",
        abstract: "Events that wait in Kafka when ingest starts, until all are applied.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Imports one widget for each target, publishes \
            events and lets a service of the role ingest, in a process of its own, apply them. Time \
            counts from its taking the partitions to its last commit. The same once more is the result; the first pass, \
            which writes every page for the first time, is reported as "cold". Broker, service and PostgreSQL are separate \
            processes, and each one's CPU time is reported. That nothing is lost is read back from PostgreSQL: from the \
            positions and from the timelines' counters. The exit code is 1 if anything is.

            Events for one timeline are folded into one row a batch, so few targets cost the database little; with \
            "--targets all" each event is for a timeline of its own.

            Examples:
              deploy/local/postgres run -- freshet-load ingest --events 1000000
              freshet-load ingest --events 500000 --targets all --set postgres.url=postgresql:///freshet --json
            """)

    @Option(
        help: "Number of events; the embedded broker keeps them in memory.",
        transform: OptionText.number(1...3_000_000))
    var events = 1_000_000

    @Option(help: "Number of timelines that events are for, at random; or `all`: each event is for another one.")
    var targets = "10000"

    @OptionGroup var backlog: BacklogOptions

    @OptionGroup var options: ScenarioOptions

    private var targetCount: Int? { targets == "all" ? events : Int(targets) }

    func validate() throws {
        guard let count = targetCount, (1...10_000_000).contains(count) else {
            throw ValidationError("--targets \(targets): expected a number of timelines from 1 to 10000000, or all")
        }
        if targets == "all", try backlog.exponent() != nil {
            throw ValidationError(
                "--distribution: expected without --targets all, where each event is for another timeline")
        }
    }

    var plan: LoadTestEnvironment.Plan {
        // The embedded broker keeps the last 5 MiB of a partition, and an event takes about 450 bytes there.
        let partitions = min(512, max(16, events * backlog.passes * 450 / (3 << 20) + 1))
        return LoadTestEnvironment.Plan(inputPartitions: partitions, outputPartitions: 1, seed: options.seed)
    }

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult {
        let world = LoadWorld(users: targetCount ?? 1, kinds: 20)
        // The provider gets no requests.
        try await world.place(in: environment.store, provider: environment.providerURL)
        let choice = PopularWidgets(of: world, exponent: try backlog.exponent())
        var random = SeededGenerator(seed: options.seed)
        let isTidy = await environment.checkpoint()
        // Number of requests for each widget's timeline, its placement included.
        var requested: [Int: Int64] = [:]
        var results: [LoadResult] = []
        for pass in 0..<backlog.passes {
            // Either each event is for another timeline, in random order, or for a random one.
            let numbers = 0..<events
            let widgets =
                targets == "all"
                ? numbers.shuffled(using: &random) : numbers.map { _ in choice.next(using: &random) }
            for widget in widgets { requested[widget, default: 1] += 1 }
            results.append(try await self.pass(pass, widgets, in: world, environment))
        }
        var result = results[results.count - 1]
        result.distinctTimelines = requested.count
        result.verified = try await counted(requested, in: world, environment)
        result.lost = results.reduce(0) { $0 + $1.lost }
        result.extras += [("cold", results.count > 1 ? results[0].json : .null), ("checkpoint", .bool(isTidy))]
        return result
    }

    /// Number of timelines that have counted each event for them, and no other.
    private func counted(
        _ requested: [Int: Int64], in world: LoadWorld, _ environment: LoadTestEnvironment
    ) async throws -> Int {
        let expected = Dictionary(
            requested.map { (world.timeline(of: $0.key).id, $0.value) }, uniquingKeysWith: { $0 + $1 })
        var count = 0
        try await environment.forEachTimeline { row in
            if expected[row.id] == row.requested { count += 1 }
        }
        return count
    }

    /// Publishes the events, then starts a service that finds them in Kafka.
    private func pass(
        _ number: Int, _ widgets: [Int], in world: LoadWorld, _ environment: LoadTestEnvironment
    ) async throws -> LoadResult {
        Terminal.progress("publishing \(events) events, pass \(number + 1) of \(backlog.passes)")
        let before = try await environment.overview()
        try await environment.publishReloads(of: widgets, in: world) { "load-\(number)-\($0)" }

        let epochs = Dictionary(
            uniqueKeysWithValues: try await environment.pool.query(.listPositions()).map { ($0.place, $0.epoch) })
        let began = try await environment.vitals()
        let beganAt = ContinuousClock.now
        let service = try await environment.startService(.ingest)
        let target = events * (number + 1)
        var recorder = DrainRecorder(goal: target, phase: "applying")
        var start: Timestamp?
        var end = began.now
        var applied = 0
        // Gives up without progress; the result shows what is missing.
        var stall = Stall<Int>()
        while applied < target, !stall.update(applied) {
            try environment.requireServices()
            let rows = try await environment.pool.query(.listPositions())
            // Partitions taken anew: as long as none of their events is applied, the time at which they were taken.
            let taken = rows.filter { $0.epoch > epochs[$0.place] ?? 0 }
            start = ([start] + taken.map(\.updatedAt)).compactMap { $0 }.min()
            end = taken.map(\.updatedAt).max() ?? end
            applied = Int(rows.compactMap(\.nextOffset).reduce(0, +))
            if start != nil { recorder.record(applied: applied, fetched: nil) }
            try await Task.sleep(for: .milliseconds(10))
        }
        let last = try await environment.vitals()
        environment.processes.sample()
        var result = LoadResult(scenario: "ingest")
        result.peakResidentBytes = service.peakResidentBytes
        result.serviceCPUSeconds = service.cpuSeconds
        await environment.stop(service)

        let begin = start ?? began.now
        let usage = environment.processes.usage(
            from: beganAt + .seconds(begin.seconds(since: began.now)),
            to: beganAt + .seconds(end.seconds(since: began.now)))
        let after = try await environment.overview()
        var losses = [LoadLoss: Int](published: events, before: before, after: after)
        // Nothing renders the timelines.
        losses[.stale] = 0
        losses[.unapplied] = target - applied
        result.events = events
        result.wallSeconds = end.seconds(since: begin)
        result.walBytes = Int(last.walBytes - began.walBytes)
        result.databaseCPUSeconds = usage?.database
        result.charts.samples = LoadCharts(samples: recorder.samples).thinned(to: 600)
        result.stale = Int(after.stale)
        result.lost = losses.total
        result.extras = [
            ("brokerCPUSeconds", .rounded(usage?.broker)), ("toolCPUSeconds", .rounded(usage?.tool)),
            ("losses", losses.json),
        ]
        return result
    }
}

extension StoredPosition {
    fileprivate var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }
}
