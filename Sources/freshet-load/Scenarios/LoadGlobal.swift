// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetClient
import FreshetService
import JSON
import KafkaClient
import PostgresClient
import WidgetModel
import WidgetStore

/// A steady stream of single reloads alone, then the same while one reload of everything is being worked through.
struct LoadGlobal: Scenario {
    static let configuration = CommandConfiguration(
        commandName: "global",
        abstract: "The latency of single reloads alone, and beside one reload of everything.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). All roles run in this process; broker and \
            provider are processes of their own. Imports and renders one widget for each timeline, publishes single \
            reloads at a fixed rate, then, while they go on, one reload of everyone and all kinds, until all timelines are \
            regenerated. Latencies count from the time at which an event was to be sent until the timeline's content is committed; \
            they are for the ratio within one run, not for absolute speed. The exit code is 1 if anything is lost, \
            whatever the ratio.

            Examples:
              deploy/local/postgres run -- freshet-load global
              freshet-load global --timelines 1000000 --rate 500 --json
            """)

    @Option(help: "Time for which single reloads are measured alone: seconds, or a duration such as 2m.")
    var duration = LoadDuration(.seconds(30))

    @Option(help: "Single reloads a second, of people chosen at random.", transform: OptionText.number(1...20_000))
    var rate = 200

    @Option(help: "Number of timelines, all of which are reloaded.", transform: OptionText.number(1...10_000_000))
    var timelines = 200_000

    @Option(help: "Number of kinds.", transform: OptionText.number(1...1_000))
    var kinds = 20

    @OptionGroup var options: ScenarioOptions

    func validate() throws {
        try duration.check(as: "--duration", in: .seconds(1)...(.seconds(86_400)))
    }

    var plan: LoadTestEnvironment.Plan { .measurement(seed: options.seed) }

    private var world: LoadWorld { LoadWorld(users: timelines, kinds: kinds) }

    /// Results of the reload of everything: the time from sending it until every timeline was stored anew, nil if that
    /// did not happen within the limit; and the number of timelines that the provider served meanwhile, by its own
    /// count.
    private typealias Sweep = (regenerated: Duration?, fetched: Int?)

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult {
        try await ReloadMeasurement.with(environment, worlds: [world]) { measurement in
            let alone = MeasuredWindow(length: duration.length)
            let stream = StreamPlan(world: world, rate: Double(rate), seed: options.seed)
            measurement.monitor.show("\(rate) single reloads/s alone", lasting: alone.total)
            let sweep = try await withThrowingTaskGroup(of: Sweep?.self) { group in
                group.addTask {
                    try await measurement.publish(stream, from: alone.start) { time in
                        // The stream is beside the reload of everything, and ends with it.
                        let span = measurement.monitor.span
                        if let end = span?.to, time >= end { return nil }
                        if let begin = span?.from, time >= begin { return .beside }
                        return alone.series(at: time, measured: .alone) ?? .alone
                    }
                    return nil
                }
                group.addTask { try await reloadEverything(measurement, after: alone) }
                var sweep: Sweep = (nil, nil)
                while let finished = try await group.next() { sweep = finished ?? sweep }
                return sweep
            }
            try await measurement.drain()
            return try await result(measurement, from: alone.start, sweep)
        }
    }

    private func result(
        _ measurement: ReloadMeasurement, from start: ContinuousClock.Instant, _ sweep: Sweep
    ) async throws -> LoadResult {
        var result = try await measurement.result(
            "global", from: start, latencies: .beside, others: 1)
        let (alone, beside) = (measurement.latency.summary(of: .alone), measurement.latency.summary(of: .beside))
        let seconds = sweep.regenerated.map { $0 / .seconds(1) }
        result.distinctTimelines = timelines
        if sweep.regenerated == nil { result.lost += 1 }
        result.extras += [
            ("ratePerSecond", .integer(rate)),
            ("durationSeconds", .rounded(duration.length / .seconds(1))),
            ("timelines", .integer(timelines)),
            ("singles", ["alone": alone.json, "beside": beside.json]), ("ratio", .rounded(beside.ratio(to: alone))),
            ("regeneratedSeconds", .rounded(seconds)),
            ("regeneratedPerSecond", .rounded(seconds.map { Double(timelines) / max($0, 0.001) })),
            ("besideTimelines", .integer(sweep.fetched)),
        ]
        return result
    }

    // MARK: The reload of everything

    private func reloadEverything(_ measurement: ReloadMeasurement, after alone: MeasuredWindow) async throws -> Sweep {
        try await Task.sleep(until: alone.start + alone.total, tolerance: .zero, clock: .continuous)
        measurement.monitor.show("the same beside a reload of all \(timelines) timelines")
        measurement.latency.startCountingStored()
        let before = await measurement.environment.providerCounts()
        let event = world.reloadOfEverything
        var sweep = try await measurement.monitor.withSpan("reload of everything") {
            let start = ContinuousClock.now
            let delivery = try await measurement.publisher.publish(OutgoingEvent(event, time: Timestamp.now()))
            guard let position = EventPosition(delivery, of: event) else {
                throw CommandFailure(.failure, "Kafka does not say where the event is")
            }
            measurement.latency.notePublished(at: position)
            return (regenerated: try await regenerated(measurement, since: start), fetched: Int?.none)
        }
        if let before, let after = await measurement.environment.providerCounts() {
            sweep.fetched = after.timelines - before.timelines
        }
        return sweep
    }

    /// Waits until every timeline has been stored since, and nothing is left to sweep or due in the bulk lane.
    private func regenerated(
        _ measurement: ReloadMeasurement, since start: ContinuousClock.Instant
    ) async throws -> Duration? {
        var stall = Stall<Int>()
        while true {
            let stored = measurement.latency.distinctStored
            let elapsed = start.duration(to: .now)
            if stored == timelines {
                let isDue = try await measurement.environment.pool.query(.workIsDue(app: nil, lane: .bulk)) == [true]
                let isSwept = try await measurement.environment.pool.query(Statements.countSweeps(app: nil)).first == 0
                if isSwept, !isDue { return elapsed }
            }
            if stall.update(stored) { return nil }
            try await Task.sleep(for: .milliseconds(20))
        }
    }
}
