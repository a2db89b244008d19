// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetModel

/// A small app's steady stream alone, then the same beside another app's stream at a hundred times its rate.
struct LoadFairness: Scenario {
    static let configuration = CommandConfiguration(
        commandName: "fairness",
        abstract: "A small app's reload latency alone, and beside an app with a hundred times its load.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). All roles run in this process; broker and provider are \
            processes of their own. Imports and renders the widgets of both apps, then publishes single reloads at fixed \
            rates. Latencies count from the time at which an event was to be sent until the timeline's content is \
            committed; they are for the ratio within one run, not for absolute speed. The exit code is 1 if anything is \
            lost, whatever the ratio.

            Examples:
              deploy/local/postgres run -- freshet-load fairness
              freshet-load fairness --duration 120 --rate 5 --json
            """)

    @Option(help: "Length of each of the two phases: seconds, or a duration such as 2m.")
    var duration = LoadDuration(.seconds(60))

    @Option(
        help: "Events a second of the small app; the big one's are a hundred times as many.",
        transform: OptionText.number(1...200))
    var rate = 10

    @Option(
        help: "Timelines of the big app; the small one has a hundredth of them.",
        transform: OptionText.number(1...10_000_000))
    var timelines = 20_000

    @OptionGroup var options: ScenarioOptions

    func validate() throws {
        try duration.check(as: "--duration", in: .seconds(1)...(.seconds(86_400)))
    }

    var plan: LoadTestEnvironment.Plan { .measurement(seed: options.seed) }

    /// Ratio of the big app's rate to the small one's.
    private static let factor = 100

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult {
        let seed = options.seed
        let worlds = (
            small: LoadWorld(app: "com.example.small", users: max(10, timelines / Self.factor), kinds: 2),
            big: LoadWorld(app: "com.example.big", users: timelines, kinds: 2)
        )
        return try await ReloadMeasurement.with(environment, worlds: [worlds.small, worlds.big]) { measurement in
            let small = StreamPlan(world: worlds.small, rate: Double(rate), seed: seed)
            let big = StreamPlan(world: worlds.big, rate: Double(rate * Self.factor), seed: seed &+ 1)
            let alone = MeasuredWindow(length: duration.length)
            measurement.monitor.show("the small app alone, \(rate) events/s", lasting: alone.total)
            try await publish([(small, .alone)], in: alone, measurement)
            try await measurement.drain()

            measurement.monitor.show("the small app beside the big one", lasting: alone.total)
            try await measurement.monitor.withSpan("beside the big app") {
                try await publish(
                    [(small, .beside), (big, .other)], in: MeasuredWindow(length: duration.length), measurement)
                try await measurement.drain()
            }

            var result = try await measurement.result("fairness", from: alone.start, latencies: .beside)
            let latency = measurement.latency
            let summaries = (alone: latency.summary(of: .alone), beside: latency.summary(of: .beside))
            result.extras += [
                ("ratePerSecond", .integer(rate)), ("factor", .integer(Self.factor)),
                ("durationSeconds", .rounded(duration.length / .seconds(1))),
                ("timelines", ["small": .integer(worlds.small.users), "big": .integer(worlds.big.users)]),
                ("small", ["alone": summaries.alone.json, "beside": summaries.beside.json]),
                ("big", latency.summary(of: .other).json),
                ("ratio", .rounded(summaries.beside.ratio(to: summaries.alone))),
            ]
            return result
        }
    }

    /// Publishes the streams side by side, each into its series once the warm-up is over.
    private func publish(
        _ streams: [(StreamPlan, LoadSeries)], in window: MeasuredWindow, _ measurement: ReloadMeasurement
    ) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (stream, series) in streams {
                group.addTask {
                    try await measurement.publish(stream, from: window.start) {
                        window.series(at: $0, measured: series)
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}
