import WidgetModel

/// A small app's steady stream alone, then the same beside another app's stream at a hundred times its rate.
struct LoadFairness: Sendable {
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

        var small: LoadWorld {
            LoadWorld(app: "com.example.small", users: max(10, timelines / Self.factor), widgetsPerUser: 1, kinds: 2)
        }
        var big: LoadWorld { LoadWorld(app: "com.example.big", users: timelines, widgetsPerUser: 1, kinds: 2) }
        var farm: Farm.Plan { .stage(seed: seed) }
    }

    let plan: Plan

    func run(_ farm: Farm) async throws -> LoadResult {
        try await LoadStage.with(farm, worlds: [plan.small, plan.big], placement: .here) { stage in
            let rates = (small: Double(plan.rate), big: Double(plan.rate * Plan.factor))
            let small = stage.stream(
                of: plan.small, StreamPlan(population: plan.small.population, rate: rates.small, seed: plan.seed))
            let big = stage.stream(
                of: plan.big, StreamPlan(population: plan.big.population, rate: rates.big, seed: plan.seed &+ 1))
            let beginning = try await stage.begin()

            let start = ContinuousClock.now
            stage.monitor.progress.phase(
                "the small app alone, \(plan.rate) events/s", .time(plan.warmUp + plan.length))
            try await publish([(small, .alone)])
            try await stage.settle()

            stage.monitor.progress.phase("the small app beside the big one", .time(plan.warmUp + plan.length))
            stage.monitor.beginSpan("beside the big app")
            try await publish([(small, .beside), (big, .other)])
            try await stage.settle()
            stage.monitor.endSpan()

            var result = try await stage.result("fairness", since: beginning, from: start, latencies: .beside)
            let latency = stage.latency
            let (alone, beside) = (latency.summary(of: .alone), latency.summary(of: .beside))
            result.extras += [
                ("ratePerSecond", .number(JSONNumber(plan.rate))), ("factor", .number(JSONNumber(Plan.factor))),
                ("durationSeconds", .rounded(plan.length / .seconds(1))),
                (
                    "timelines",
                    [
                        "small": .number(JSONNumber(plan.small.users)), "big": .number(JSONNumber(plan.big.users)),
                    ]
                ),
                ("small", ["alone": alone.json, "beside": beside.json]),
                ("big", latency.summary(of: .other).json), ("ratio", .rounded(beside.ratio(to: alone))),
            ]
            return result
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
