// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import WidgetModel

/// Latency from an event to its committed timeline, in an open loop at a fixed rate.
struct LoadLatency: Scenario {
    static let configuration = CommandConfiguration(
        commandName: "latency",
        abstract: "Event produced → timeline committed, at a fixed rate.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Imports and renders the widgets, then \
            publishes reloads of single widgets in an open loop: each at its time, whatever becomes of those before. \
            A latency counts from the time at which the event was to be sent (so a sender that falls behind does not \
            hide the wait) until the timeline's content is committed. All roles run in this process; broker and \
            provider are processes of their own.

            With --separate, ingest and workers are a process each. When another process commits cannot be seen from \
            here, so the latency then ends when this process reads the timeline's message from the output topic: an upper \
            bound, about the broker's fetch time too long. A widget whose reload is waited for is passed over for its \
            neighbour then, since two reloads could not be told apart.

            The exit code is 1 if anything is lost.

            Examples:
              deploy/local/postgres run -- freshet-load latency --rate 1000 --duration 30 --report latency.html
              freshet-load latency --separate --distribution zipf+bursty --set postgres.url=postgresql:///freshet --json
            """)

    @Option(help: "Length of the measurement: seconds, or a duration such as 30m.")
    var duration = LoadDuration(.seconds(30))

    @Flag(help: "Ingest and workers in a process each, measured at the output topic.")
    var separate = false

    @OptionGroup var stream: SteadyStreamOptions
    @OptionGroup var options: ScenarioOptions

    func validate() throws {
        try duration.check(as: "--duration", in: .seconds(1)...(.seconds(7 * 86_400)))
    }

    var plan: LoadTestEnvironment.Plan { .measurement(seed: options.seed) }

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult {
        let stream = try stream.plan(seed: options.seed)
        let roles: [ProcessRole] = separate ? [.ingest, .workers] : []
        return try await ReloadMeasurement.with(environment, worlds: [stream.world], roles: roles) { measurement in
            let window = MeasuredWindow(length: duration.length)
            measurement.monitor.show("\(Figure.short(stream.rate)) events/s", lasting: window.total)
            try await measurement.publish(stream, from: window.start) { window.series(at: $0, measured: .alone) }
            try await measurement.drain()
            var result = try await measurement.result("latency", from: window.start, latencies: .alone)
            result.extras +=
                stream.members + [
                    ("durationSeconds", .rounded(duration.length / .seconds(1))),
                    ("warmUpSeconds", .rounded(window.warmUp / .seconds(1))),
                    ("measuredEvents", .integer(measurement.latency.summary(of: .alone).samples)),
                    // From outside a process it cannot be seen when another one commits.
                    ("measuredAt", .string(separate ? "output" : "commit")),
                ]
            return result
        }
    }
}
