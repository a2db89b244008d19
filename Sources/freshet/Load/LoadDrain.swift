import KafkaClient
import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Reloads of single widgets that wait in Kafka when the service starts, until all of them are applied, stored and
/// published.
struct LoadDrain: Sendable {
    struct Plan: Sendable {
        var world: LoadWorld
        var events: Int
        var seed: UInt64
        /// Of Zipf's law, by which widgets are chosen; nil for everyone alike.
        var exponent: Double?
        /// Passes over the same events; the last is what is measured, the first is the cold one.
        var passes = 2
        /// The service runs already and goes on: it begins while the events are published, and that time counts.
        var usesRunningService = false

        /// The embedded broker keeps the last 5 MiB of a partition, and an event takes about 450 bytes there, a published
        /// timeline, compressed, about 350.
        var farm: Farm.Plan {
            func partitions(_ count: Int, _ bytes: Int) -> Int { min(512, max(8, count * bytes / (3 << 20) + 1)) }
            return Farm.Plan(
                inputPartitions: partitions(events * passes, 450), outputPartitions: partitions(events, 350),
                seed: seed,
                usesRunningService: usesRunningService)
        }
    }

    /// What one pass came to.
    struct Pass: Sendable {
        var result = LoadResult(scenario: "drain")
        var cpu: UsageSampler.Sample?
        var hasCheckpoint = false
        var losses = Losses()
    }

    struct Losses: Sendable, Equatable {
        /// Events that are before no consumer position.
        var unapplied = 0
        /// Events that no timeline has counted.
        var uncounted = 0
        /// Targeted timelines that are not rendered for the last event, or were not published since.
        var unserved = 0
        /// Targeted timelines whose last message is not what is stored.
        var different = 0
        /// Targeted timelines more than the provider says that it was asked for.
        var unfetched = 0
        var deadLetters = 0

        var total: Int { unapplied + uncounted + unserved + different + unfetched + deadLetters }

        var json: JSONValue {
            func number(_ value: Int) -> JSONValue { .number(JSONNumber(value)) }
            return [
                "unapplied": number(unapplied), "uncounted": number(uncounted), "unserved": number(unserved),
                "different": number(different), "unfetched": number(unfetched), "deadLetters": number(deadLetters),
            ]
        }
    }

    /// How long nothing may move before it is given up; what is missing then is in the result.
    private static let patience = Duration.seconds(60)

    let plan: Plan
    let farm: Farm

    func run() async throws -> any LoadReport {
        try await plan.world.place(in: farm.store, provider: farm.providerURL)
        Terminal.progress("rendering \(plan.world.widgets) widgets")
        let began = try await farm.vitals()
        let renderer = try await farm.service()
        try await settle(published: 0)
        let rendered = try await farm.vitals()
        if let renderer { await farm.stop(renderer) }
        guard let before = try await farm.pool.query(Overview()).first, before.stale == 0 else {
            throw CommandFailure(.failure, "the widgets could not be rendered before the events")
        }

        let widgets = chosen()
        let targets = Set(Set(widgets).map { plan.world.timeline($0) })
        var passes: [Pass] = []
        for number in 1...plan.passes {
            let pass = try await pass(number, widgets, targets)
            passes.append(pass)
        }
        var result = passes[passes.count - 1].result
        result.extras += [
            ("cold", plan.passes > 1 ? passes[0].result.json : .null),
            (
                "firstRender",
                [
                    "timelines": .number(JSONNumber(plan.world.widgets)),
                    "wallSeconds": .rounded(Double(rendered.now.microseconds - began.now.microseconds) / 1e6),
                ]
            ),
        ]
        result.lost = passes.reduce(0) { $0 + $1.result.lost }
        return result
    }

    /// The widgets that the events are for, in their order.
    private func chosen() -> [Int] {
        var widgets = PopularWidgets(of: plan.world, exponent: plan.exponent, seed: plan.seed)
        return widgets.next(plan.events)
    }

    /// The events into Kafka, and no more.
    func publishEvents() async throws {
        try await publish(chosen(), pass: 0)
    }

    /// Events into Kafka, then a service that finds them there.
    private func pass(_ number: Int, _ widgets: [Int], _ targets: Set<TimelineID>) async throws -> Pass {
        var pass = Pass()
        Terminal.progress("publishing \(plan.events) events, pass \(number) of \(plan.passes)")
        let before = try await farm.pool.query(Overview()).first
        let applied = try await farm.appliedEvents()
        let topics = farm.settings.topics
        let starts = try await LoadOutput.ends(of: topics.timelines, kafka: farm.kafka, logger: farm.logger)
        let providerBefore = await farm.providerCounts()
        var first = try await farm.vitals()
        try await publish(widgets, pass: number)
        if !plan.usesRunningService {
            // Before the first pass only: later ones are not to pay for full pages again.
            if number == 1 { pass.hasCheckpoint = await farm.checkpoint() }
            first = try await farm.vitals()
        }

        Terminal.progress("draining, pass \(number) of \(plan.passes)")
        let service = try await farm.service()
        // The service may have begun before it said so: what comes first counts.
        let (ready, readyAt) = (try await farm.vitals().now, ContinuousClock.now)
        let samples = try await settle(published: applied + plan.events)
        let last = try await farm.vitals()
        farm.sampler.sample()
        pass.result.peakResidentBytes = service?.peakResidentBytes
        if let service { await farm.stop(service) }

        Terminal.progress("checking, pass \(number) of \(plan.passes)")
        let served = try await served(targets, since: first.now)
        let begin = min(ready, served.first ?? ready)
        let end = served.last ?? begin
        func local(_ time: Timestamp) -> ContinuousClock.Instant {
            readyAt + .microseconds(time.microseconds - ready.microseconds)
        }
        pass.cpu = farm.sampler.usage(from: local(begin), to: local(end))
        let providerAfter = await farm.providerCounts()
        let ends = try await LoadOutput.ends(of: topics.timelines, kafka: farm.kafka, logger: farm.logger)
        let output = try await LoadOutput.read(
            from: starts, to: ends, kafka: farm.kafka, group: "\(farm.settings.kafka.group)-output-\(number)",
            logger: farm.logger)

        check(&pass, served, output, targets)
        let after = try await farm.pool.query(Overview()).first
        pass.losses.unapplied = max(0, applied + plan.events - (try await farm.appliedEvents()))
        pass.losses.uncounted = max(0, plan.events - Int((after?.requested ?? 0) - (before?.requested ?? 0)))
        pass.losses.deadLetters = Int(after?.deadLetters ?? 0)
        if let providerBefore, let providerAfter {
            pass.result.providerRequests = providerAfter.requests - providerBefore.requests
            pass.result.providerTimelines = providerAfter.timelines - providerBefore.timelines
            pass.losses.unfetched = max(0, targets.count - (providerAfter.timelines - providerBefore.timelines))
        }
        pass.result.events = plan.events
        pass.result.distinctTimelines = targets.count
        pass.result.timelines = output.messages
        pass.result.wallSeconds = Double(end.microseconds - begin.microseconds) / 1e6
        pass.result.walBytes = Int(last.walBytes - first.walBytes)
        pass.result.serviceCPUSeconds = pass.cpu?.service
        pass.result.databaseCPUSeconds = pass.cpu?.database
        pass.result.stale = Int(after?.stale ?? 0)
        pass.result.lost = pass.losses.total
        pass.result.charts.samples = LoadCharts(samples: samples).thinned(to: 600)
        pass.result.extras = [
            ("brokerCPUSeconds", .rounded(pass.cpu?.broker)), ("providerCPUSeconds", .rounded(pass.cpu?.provider)),
            ("toolCPUSeconds", .rounded(pass.cpu?.tool)), ("checkpoint", .bool(pass.hasCheckpoint)),
            ("losses", pass.losses.json),
        ]
        return pass
    }

    private func publish(_ widgets: [Int], pass: Int) async throws {
        try await farm.publishReloads(of: widgets, in: plan.world) { "load-\(pass)-\($0)" }
    }

    /// Waits until so many events are applied, and no list is due or leased.
    ///
    /// - Returns: events applied and timelines fetched over time, for the chart.
    @discardableResult
    private func settle(published: Int) async throws -> [LoadSample] {
        var progress = (-1, -1)
        var since = ContinuousClock.now
        var recorder = DrainRecorder(goal: published)
        while since.duration(to: .now) < Self.patience {
            try farm.requireServices()
            let applied = try await farm.appliedEvents()
            let fetched = await farm.providerCounts()?.timelines ?? 0
            if (applied, fetched) != progress { (progress, since) = ((applied, fetched), .now) }
            recorder.record(applied: applied, fetched: fetched)
            if applied >= published, try await farm.pool.query(TimelinesUnderWay()).first == 0 {
                return recorder.samples
            }
            try await Task.sleep(for: .milliseconds(100))
        }
        return recorder.samples
    }

    private struct Served {
        var rows: [TimelineID: StoredTimelines.Row] = [:]
        /// When the first of the targeted timelines was asked for in this pass, as far as it shows, and when the last was
        /// rendered.
        var first: Timestamp?
        var last: Timestamp?
    }

    private func served(_ targets: Set<TimelineID>, since start: Timestamp) async throws -> Served {
        var served = Served()
        try await farm.forEachTimeline { row in
            guard targets.contains(row.id) else { return }
            served.rows[row.id] = row
            guard let requested = row.requestedAt, requested >= start else { return }
            served.first = min(served.first ?? requested, requested)
            if let rendered = row.renderedAt { served.last = max(served.last ?? rendered, rendered) }
        }
        return served
    }

    private func check(_ pass: inout Pass, _ served: Served, _ output: LoadOutput, _ targets: Set<TimelineID>) {
        for id in targets {
            guard let row = served.rows[id], !row.isStale, let message = output.latest[id] else {
                pass.losses.unserved += 1
                continue
            }
            if row.revision == message.revision, row.hash == message.hash {
                pass.result.verified += 1
            } else {
                pass.losses.different += 1
            }
        }
    }
}
