import WidgetModel

/// Event produced → timeline committed, at a fixed rate, whatever becomes of the events before.
struct LoadLatency: Sendable {
    struct Plan: Sendable {
        var world: LoadWorld
        var stream: StreamPlan
        /// Without the warm-up.
        var length: Duration
        var isSeparate = false

        /// The first part, whose events are applied but not measured.
        var warmUp: Duration { min(.seconds(5), length / 5) }
        var farm: Farm.Plan { .stage(seed: stream.seed) }
    }

    let plan: Plan

    func run(_ farm: Farm) async throws -> LoadResult {
        let placement: ServicePlacement = plan.isSeparate ? .separate : .here
        return try await LoadStage.with(farm, worlds: [plan.world], placement: placement) { stage in
            let beginning = try await stage.begin()
            stage.monitor.progress.phase(
                "\(Figure.short(plan.stream.rate)) events/s", .time(plan.warmUp + plan.length))
            let start = ContinuousClock.now + .milliseconds(20)
            let measured = start + plan.warmUp
            let end = measured + plan.length
            try await stage.stream(of: plan.world, plan.stream).run(from: start) { time in
                time < measured ? .warmUp : time < end ? .alone : nil
            }
            try await stage.settle()
            var result = try await stage.result("latency", since: beginning, from: start, latencies: .alone)
            result.extras +=
                plan.stream.members + [
                    ("durationSeconds", .rounded(plan.length / .seconds(1))),
                    ("warmUpSeconds", .rounded(plan.warmUp / .seconds(1))),
                    ("measuredEvents", .number(JSONNumber(stage.latency.summary(of: .alone).samples))),
                    // From outside a process it cannot be seen when another one commits.
                    ("measuredAt", .string(plan.isSeparate ? "output" : "commit")),
                ]
            return result
        }
    }
}

extension Farm.Plan {
    /// For scenarios whose output is read while they run.
    ///
    /// The embedded broker answers a fetch with one message set of each partition, and a stream of single events makes a set
    /// of each: with few partitions a consumer would read slower than the stream is. What it publishes, it appends, so that
    /// few partitions do for the output.
    static func stage(seed: UInt64) -> Farm.Plan {
        Farm.Plan(inputPartitions: 64, outputPartitions: 4, seed: seed)
    }
}

extension StreamPlan {
    /// The members of a report that say what the stream was.
    var members: [(key: String, value: JSONValue)] {
        [
            ("ratePerSecond", .rounded(rate)), ("distribution", .string(distribution.description)),
            ("seed", .number(JSONNumber("\(seed)") ?? JSONNumber(0))),
        ]
    }
}
