import FreshetClient
import KafkaClient
import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// A steady stream of single reloads alone, then the same while one reload of everything is being worked through.
struct LoadGlobal: Sendable {
    struct Plan: Sendable {
        /// Single reloads a second.
        var rate: Int
        /// Of the single reloads alone, without their warm-up; beside the reload of everything they go on as long as
        /// that takes.
        var length: Duration
        var timelines: Int
        var kinds = 20
        var seed: UInt64

        var warmUp: Duration { min(.seconds(5), length / 5) }
        var world: LoadWorld { LoadWorld(users: timelines, widgetsPerUser: 1, kinds: kinds) }
        var farm: Farm.Plan { .stage(seed: seed) }
    }

    /// What the reload of everything took.
    struct Sweep: Sendable {
        /// From its being sent until its transaction was committed.
        var applied = Duration.zero
        /// From its being sent until each timeline had been stored anew; nil when it was given up.
        var regenerated: Duration?
        /// Timelines that the provider gave meanwhile, as it counts them.
        var fetched: Int?
    }

    let plan: Plan

    func run(_ farm: Farm) async throws -> LoadResult {
        try await LoadStage.with(farm, worlds: [plan.world], placement: .here) { stage in
            let beginning = try await stage.begin()
            let windows = Windows(start: .now + .milliseconds(20), warmUp: plan.warmUp)
            let stream = stage.stream(
                of: plan.world,
                StreamPlan(population: plan.world.population, rate: Double(plan.rate), seed: plan.seed))
            stage.monitor.progress.phase("\(plan.rate) single reloads/s alone", .time(plan.warmUp + plan.length))
            let sweep = try await withThrowingTaskGroup(of: Sweep?.self) { group in
                group.addTask {
                    try await stream.run(from: windows.start, series: windows.series)
                    return nil
                }
                group.addTask {
                    defer { windows.end() }
                    return try await reloadEverything(stage, windows)
                }
                var sweep = Sweep()
                while let finished = try await group.next() { sweep = finished ?? sweep }
                return sweep
            }
            try await stage.settle()
            return try await result(stage, beginning, windows, sweep)
        }
    }

    private func result(
        _ stage: LoadStage, _ beginning: LoadStage.Beginning, _ windows: Windows, _ sweep: Sweep
    ) async throws -> LoadResult {
        var result = try await stage.result(
            "global", since: beginning, from: windows.start, latencies: .beside, others: 1)
        let (alone, beside) = (stage.latency.summary(of: .alone), stage.latency.summary(of: .beside))
        let seconds = sweep.regenerated.map { $0 / .seconds(1) }
        result.distinctTimelines = plan.timelines
        if sweep.regenerated == nil { result.lost += 1 }
        result.extras += [
            ("ratePerSecond", .number(JSONNumber(plan.rate))),
            ("durationSeconds", .rounded(plan.length / .seconds(1))),
            ("timelines", .number(JSONNumber(plan.timelines))),
            ("singles", ["alone": alone.json, "beside": beside.json]), ("ratio", .rounded(beside.ratio(to: alone))),
            ("bumpAppliedMilliseconds", .rounded(sweep.applied / .milliseconds(1))),
            ("regeneratedSeconds", .rounded(seconds)),
            ("regeneratedPerSecond", .rounded(seconds.map { Double(plan.timelines) / max($0, 0.001) })),
            ("besideTimelines", sweep.fetched.map { .number(JSONNumber($0)) } ?? .null),
        ]
        return result
    }

    // MARK: The reload of everything

    private func reloadEverything(_ stage: LoadStage, _ windows: Windows) async throws -> Sweep {
        try await Task.sleep(
            until: windows.start + plan.warmUp + plan.length, tolerance: .zero, clock: .continuous)
        stage.monitor.progress.phase("the same beside a reload of all \(plan.timelines) timelines")
        stage.latency.startCountingStored()
        stage.monitor.beginSpan("reload of everything")
        let before = await stage.farm.providerCounts()
        let event = plan.world.reloadOfEverything
        let start = windows.besideBegins()
        let delivery = try await stage.publisher.publish(OutgoingEvent(event, time: SampleProvider.systemTime()))
        var sweep = Sweep()
        sweep.applied = try await applied(EventPosition(delivery, of: event), stage, since: start)
        sweep.regenerated = try await regenerated(stage, since: start)
        stage.monitor.endSpan()
        if let before, let after = await stage.farm.providerCounts() {
            sweep.fetched = after.timelines - before.timelines
        }
        return sweep
    }

    /// Waits until the position of the event's partition is past it: that moves in the transaction that applies it.
    private func applied(
        _ position: EventPosition?, _ stage: LoadStage, since start: ContinuousClock.Instant
    ) async throws -> Duration {
        guard let position else { throw CommandFailure(.failure, "Kafka does not say where the event is") }
        stage.latency.published(at: position)
        let place = EventPlace(topic: position.topic, partition: position.partition)
        while true {
            let isApplied = (try await stage.positions()[place] ?? 0) > position.offset
            let elapsed = start.duration(to: .now)
            if isApplied { return elapsed }
            guard elapsed < LoadStage.patience else {
                throw CommandFailure(
                    .failure, "the reload of everything was not applied within \(LoadStage.patience)")
            }
            try await Task.sleep(for: .milliseconds(1))
        }
    }

    /// Waits until every timeline has been stored since, and nothing is left to sweep or due in the bulk lane.
    private func regenerated(
        _ stage: LoadStage, since start: ContinuousClock.Instant
    ) async throws -> Duration? {
        var (stored, since) = (0, ContinuousClock.now)
        while true {
            let now = stage.latency.distinctStored
            if now > stored { (stored, since) = (now, .now) }
            let elapsed = start.duration(to: .now)
            if stored == plan.timelines {
                let lists = try await stage.farm.pool.query(ReadWorkLists(app: nil))
                let isSwept = try await stage.farm.pool.query(CountSweeps(app: nil)).first == 0
                if isSwept, !lists.contains(where: { $0.lane == .bulk && $0.isDue }) { return elapsed }
            }
            if since.duration(to: .now) > LoadStage.patience { return nil }
            try await Task.sleep(for: .milliseconds(20))
        }
    }

    /// Which part of the run a time belongs to.
    private final class Windows: Sendable {
        let start: ContinuousClock.Instant
        private let measured: ContinuousClock.Instant
        private let state = Mutex<(beside: ContinuousClock.Instant?, end: ContinuousClock.Instant?)>((nil, nil))

        init(start: ContinuousClock.Instant, warmUp: Duration) {
            self.start = start
            measured = start + warmUp
        }

        func besideBegins() -> ContinuousClock.Instant {
            let now = ContinuousClock.now
            state.withLock { $0.beside = now }
            return now
        }

        func end() {
            state.withLock { $0.end = .now }
        }

        func series(_ time: ContinuousClock.Instant) -> LoadSeries? {
            let (beside, end) = state.withLock { $0 }
            if let end, time >= end { return nil }
            if let beside, time >= beside { return .beside }
            return time < measured ? .warmUp : .alone
        }
    }
}
