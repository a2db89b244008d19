import Logging
import ServiceLifecycle
import WidgetModel

/// A small app's steady stream alone, then the same beside another app's stream at a hundred times its rate.
struct LoadFairness: LoadScenario {
    struct Plan: Sendable {
        /// Events a second of the small app.
        var rate: Int
        /// Of each phase, without its warm-up.
        var length: Duration
        /// Timelines of the big app; the small one has a hundredth of them, but at least ten.
        var timelines: Int
        var seed: UInt64

        /// How many times the small app's rate the big one's is.
        static let factor = 100

        /// The first part of a phase, which is not measured.
        var warmUp: Duration { min(.seconds(5), length / 5) }

        var small: LoadApp { LoadApp(name: "com.example.small", people: max(10, timelines / Self.factor)) }
        var big: LoadApp { LoadApp(name: "com.example.big", people: timelines) }
    }

    let plan: Plan
    let bench: LoadBench

    var services: [any Service] { bench.services }

    func prepare() async throws {
        try await bench.prepare()
    }

    func run() async throws -> any LoadReport {
        try await bench.run([plan.small, plan.big]) { site in
            let small = site.stream(of: plan.small, rate: plan.rate, seed: plan.seed)
            let big = site.stream(of: plan.big, rate: plan.rate * Plan.factor, seed: plan.seed &+ 1)

            Terminal.progress("the small app alone, \(plan.rate) events/s for \(plan.length)")
            try await publish([(small, .alone)])
            _ = try await site.settled()

            Terminal.progress("the small app beside the big one, for \(plan.length)")
            let before = bench.node.statistics().workers
            let start = ContinuousClock.now
            try await publish([(small, .beside), (big, .other)])
            let losses = try await site.settled()
            return Report(
                plan: plan, losses: losses, alone: site.latency.summary(of: .alone),
                beside: site.latency.summary(of: .beside), big: site.latency.summary(of: .other),
                sent: [.alone, .beside, .other].map(site.latency.sent),
                events: site.latency.counts.sent,
                workers: WorkerSpan(
                    from: before, to: bench.node.statistics().workers,
                    seconds: start.duration(to: .now) / .seconds(1)))
        }
    }

    /// One phase: the streams side by side, each into its series once the warm-up is over.
    private func publish(_ streams: [(LoadStream, LoadSeries)]) async throws {
        let start = ContinuousClock.now + .milliseconds(20)
        let measured = start + plan.warmUp
        let end = measured + plan.length
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (stream, series) in streams {
                group.addTask {
                    try await stream.run(from: start) { time in
                        time < measured ? .warmUp : time < end ? series : nil
                    }
                }
            }
            try await group.waitForAll()
        }
    }
}

extension LoadFairness {
    struct Report: LoadReport {
        var plan: Plan
        var losses: LoadLosses
        var alone: LatencySummary
        var beside: LatencySummary
        var big: LatencySummary
        /// Events measured: alone, beside, of the big app.
        var sent: [Int]
        /// All events that were published, with those of the warm-ups.
        var events: Int
        /// In the second phase, until everything was rendered.
        var workers: WorkerSpan

        var lost: Int { losses.total }

        /// How many times its p99 alone the small app's p99 beside the big one is.
        var ratio: Double? { beside.ratio(to: alone) }

        var lines: [String] {
            LatencySummary.table([
                ("small app, alone", plan.rate, sent[0], alone), ("small app, beside", plan.rate, sent[1], beside),
                ("big app", plan.rate * Plan.factor, sent[2], big),
            ]) + [
                "ratio of the small app's p99s: \(ratio.map(DemoScreen.decimal) ?? "not measured")",
                "beside: \(workers.line)",
                "lost: \(lost)",
            ] + losses.lines
        }

        var json: JSONValue {
            [
                "scenario": "fairness", "ratePerSecond": .number(JSONNumber(plan.rate)),
                "factor": .number(JSONNumber(Plan.factor)),
                "durationSeconds": .rounded(plan.length / .seconds(1)),
                "timelines": [
                    "small": .number(JSONNumber(plan.small.people)), "big": .number(JSONNumber(plan.big.people)),
                ],
                "unit": "ms", "small": ["alone": alone.json, "beside": beside.json], "big": big.json,
                "ratio": .rounded(ratio), "events": .number(JSONNumber(events)), "beside": workers.json,
                "lost": .number(JSONNumber(lost)),
            ]
        }
    }
}
