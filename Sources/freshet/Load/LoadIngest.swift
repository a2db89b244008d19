import KafkaClient
import Logging
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Ingest alone: events that wait in Kafka, until all of them are applied by a service that does nothing else, in a
/// process of its own.
///
/// The embedded broker keeps its messages in memory, so the events come in rounds: each is published whole, then the
/// service is started, applies it, and is stopped. What is measured is the time from its taking the partitions to its
/// last commit, summed over the rounds of the last pass.
struct LoadIngest: Sendable {
    struct Plan: Sendable {
        var world: LoadWorld
        var events: Int
        /// Each event is for a timeline of its own, the timelines in random order; else they are for one at random.
        var isDistinct: Bool
        /// Most events of a round.
        var roundEvents: Int
        /// Passes of so many events each: the last is the result, the first the cold one.
        var passes = 2
        var seed: UInt64
        /// Of Zipf's law, by which timelines are chosen; nil for all alike.
        var exponent: Double?

        /// The embedded broker keeps the last 5 MiB of a partition, and an event takes about 450 bytes there.
        var farm: Farm.Plan {
            let partitions = min(512, max(16, min(events, roundEvents) * 450 / (3 << 20) + 1))
            return Farm.Plan(inputPartitions: partitions, outputPartitions: 1, seed: seed)
        }
    }

    /// What one round came to.
    private struct Round {
        var events = 0
        var seconds = 0.0
        var walBytes = 0
        var cpu: UsageSampler.Sample?
        /// Of the service, its start included.
        var serviceCPUSeconds: Double?
        var peakResidentBytes: Int?
        var unapplied = 0

        var rate: Double { Double(events) / max(seconds, 0.001) }
    }

    /// How long nothing may move before it is given up; what is missing then is in the result.
    private static let patience = Duration.seconds(60)
    private static let pollInterval = Duration.milliseconds(10)
    private static let samplingInterval = Duration.milliseconds(50)

    let plan: Plan
    let farm: Farm

    func run() async throws -> any LoadReport {
        // Nobody asks the provider.
        try await plan.world.place(in: farm.store, provider: farm.providerURL)
        var choice = PopularWidgets(of: plan.world, exponent: plan.exponent, seed: plan.seed)
        let targets = plan.isDistinct ? choice.shuffled() : []
        guard let before = try await farm.pool.query(Overview()).first else {
            throw CommandFailure(.failure, "PostgreSQL did not say what it holds")
        }
        let isTidy = await farm.checkpoint()

        var passes: [[Round]] = []
        // How often each widget's timeline is to be requested, its placement included.
        var requested: [Int: Int64] = [:]
        var recorder = DrainRecorder(goal: plan.events * plan.passes, phase: "applying")
        for pass in 0..<plan.passes {
            var rounds: [Round] = []
            for first in stride(from: 0, to: plan.events, by: plan.roundEvents) {
                let range = first..<min(first + plan.roundEvents, plan.events)
                let widgets = plan.isDistinct ? Array(targets[range]) : choice.next(range.count)
                for widget in widgets { requested[widget, default: 1] += 1 }
                rounds.append(try await round(widgets, first: pass * plan.events + first, &recorder))
            }
            passes.append(rounds)
        }
        let rounds = passes[passes.count - 1]

        guard let after = try await farm.pool.query(Overview()).first else {
            throw CommandFailure(.failure, "PostgreSQL did not say what it holds")
        }
        var result = LoadResult(scenario: "ingest")
        result.events = plan.events
        result.distinctTimelines = requested.count
        result.charts.samples = LoadCharts(samples: recorder.samples).thinned(to: 600)
        result.verified = try await counted(requested)
        result.wallSeconds = rounds.reduce(0) { $0 + $1.seconds }
        result.walBytes = rounds.reduce(0) { $0 + $1.walBytes }
        let service = rounds.compactMap(\.serviceCPUSeconds)
        result.serviceCPUSeconds = service.count == rounds.count ? service.reduce(0, +) : nil
        result.databaseCPUSeconds = sum(rounds, \.database)
        result.peakResidentBytes = rounds.compactMap(\.peakResidentBytes).max()
        let unapplied = passes.joined().reduce(0) { $0 + $1.unapplied }
        let uncounted = max(0, plan.events * plan.passes - Int(after.requested - before.requested))
        result.lost = max(unapplied, uncounted) + Int(after.deadLetters)
        result.stale = Int(after.stale)
        result.extras = [
            ("rounds", .array(rounds.map { .rounded($0.rate) })),
            ("cold", plan.passes > 1 ? .array(passes[0].map { .rounded($0.rate) }) : .null),
            ("brokerCPUSeconds", .rounded(sum(rounds, \.broker))), ("toolCPUSeconds", .rounded(sum(rounds, \.tool))),
            ("checkpoint", .bool(isTidy)),
        ]
        return result
    }

    /// Timelines that have counted each event for them, and no other.
    private func counted(_ requested: [Int: Int64]) async throws -> Int {
        let expected = Dictionary(
            requested.map { (plan.world.timeline($0.key), $0.value) }, uniquingKeysWith: { $0 + $1 })
        var count = 0
        try await farm.forEachTimeline { row in
            if expected[row.id] == row.requested { count += 1 }
        }
        return count
    }

    private func sum(_ rounds: [Round], _ part: KeyPath<UsageSampler.Sample, Double?>) -> Double? {
        let parts = rounds.compactMap { $0.cpu?[keyPath: part] }
        return parts.count == rounds.count ? parts.reduce(0, +) : nil
    }

    private func round(_ widgets: [Int], first: Int, _ recorder: inout DrainRecorder) async throws -> Round {
        var round = Round()
        round.events = widgets.count
        let target = first + widgets.count
        Terminal.progress("publishing events \(first) to \(target) of \(plan.events * plan.passes)")
        try await farm.publishReloads(of: widgets, in: plan.world) { "load-\(first + $0)" }

        recorder.pause()
        let epochs = Dictionary(
            uniqueKeysWithValues: try await farm.pool.query(ListPositions()).map { ($0.place, $0.epoch) })
        let began = try await farm.vitals()
        let beganAt = ContinuousClock.now
        let service = try await farm.startService(.ingest)
        var start: Timestamp?
        var end = began.now
        var applied = 0
        var since = ContinuousClock.now
        var looked = since
        while since.duration(to: .now) < Self.patience {
            try farm.requireServices()
            let rows = try await farm.pool.query(ListPositions())
            // Taken anew, and nothing of them applied since: so when that was.
            let taken = rows.filter { $0.epoch > epochs[$0.place] ?? 0 }
            start = ([start] + taken.map(\.updatedAt)).compactMap { $0 }.min()
            let now = Int(rows.compactMap(\.nextOffset).reduce(0, +))
            if now != applied { (applied, since) = (now, .now) }
            // The consumer begins anew: what is applied already is known when it has taken the partitions.
            if start != nil, looked.duration(to: .now) >= Self.samplingInterval {
                recorder.record(applied: applied, fetched: nil)
                looked = .now
            }
            end = taken.map(\.updatedAt).max() ?? end
            if applied >= target { break }
            try await Task.sleep(for: Self.pollInterval)
        }
        let last = try await farm.vitals()
        farm.sampler.sample()
        round.peakResidentBytes = service.peakResidentBytes
        round.serviceCPUSeconds = service.usage?.cpuSeconds
        await farm.stop(service)

        let begin = start ?? began.now
        func local(_ time: Timestamp) -> ContinuousClock.Instant {
            beganAt + .microseconds(time.microseconds - began.now.microseconds)
        }
        round.seconds = Double(end.microseconds - begin.microseconds) / 1e6
        round.cpu = farm.sampler.usage(from: local(begin), to: local(end))
        round.walBytes = Int(last.walBytes - began.walBytes)
        round.unapplied = max(0, target - applied)
        return round
    }
}

extension ListPositions.Row {
    fileprivate var place: TopicPartition { TopicPartition(topic: topic, partition: partition) }
}
