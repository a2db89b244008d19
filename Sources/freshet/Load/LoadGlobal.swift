import FreshetClient
import KafkaClient
import Logging
import PostgresClient
import ServiceLifecycle
import Synchronization
import WidgetModel
import WidgetStore

/// A steady stream of single reloads alone, then the same while one reload of everything is being worked through.
struct LoadGlobal: LoadScenario {
    struct Plan: Sendable {
        /// Single reloads a second.
        var rate: Int
        /// Of the single reloads alone, without their warm-up; beside the reload of everything they go on as long as
        /// that takes.
        var length: Duration
        var timelines: Int
        var seed: UInt64

        var warmUp: Duration { min(.seconds(5), length / 5) }
        var app: LoadApp { LoadApp(name: DemoWorld.bank, people: timelines) }
    }

    /// How long no further timeline may be regenerated before it is given up.
    private static let patience = Duration.seconds(60)

    let plan: Plan
    let bench: LoadBench

    var services: [any Service] { bench.services }

    func prepare() async throws {
        try await bench.prepare()
    }

    func run() async throws -> any LoadReport {
        try await bench.run([plan.app]) { site in
            let windows = Windows(start: .now + .milliseconds(20), warmUp: plan.warmUp)
            let stream = site.stream(of: plan.app, rate: plan.rate, seed: plan.seed)
            Terminal.progress("\(plan.rate) single reloads/s alone, for \(plan.length)")
            let sweep = try await withThrowingTaskGroup(of: Sweep?.self) { group in
                group.addTask {
                    try await stream.run(from: windows.start, series: windows.series)
                    return nil
                }
                group.addTask {
                    defer { windows.end() }
                    return try await reloadEverything(site, windows)
                }
                var sweep = Sweep()
                while let finished = try await group.next() { sweep = finished ?? sweep }
                return sweep
            }
            let losses = try await site.settled(others: 1)
            return Report(
                plan: plan, losses: losses, alone: site.latency.summary(of: .alone),
                beside: site.latency.summary(of: .beside), sent: [.alone, .beside].map(site.latency.sent),
                events: site.latency.counts.sent + 1, sweep: sweep)
        }
    }

    // MARK: The reload of everything

    /// What the reload of everything took.
    struct Sweep: Sendable {
        /// From its being sent until its transaction was committed.
        var applied = Duration.zero
        /// From its being sent until each timeline had been stored anew; nil when it was given up.
        var regenerated: Duration?
        var workers = WorkerSpan()
    }

    private func reloadEverything(_ site: LoadBench.Site, _ windows: Windows) async throws -> Sweep {
        try await Task.sleep(
            until: windows.start + plan.warmUp + plan.length, tolerance: .zero, clock: .continuous)
        Terminal.progress("the same beside a reload of all \(plan.timelines) timelines")
        site.latency.startCountingStored()
        let before = site.node.statistics().workers
        let event = plan.app.reloadOfEverything
        let start = windows.besideBegins()
        let delivery = try await site.publisher.publish(OutgoingEvent(event, time: SampleProvider.systemTime()))
        var sweep = Sweep()
        sweep.applied = try await applied(EventPosition(delivery, of: event), site, since: start)
        sweep.regenerated = try await regenerated(site, since: start)
        sweep.workers = WorkerSpan(
            from: before, to: site.node.statistics().workers, seconds: start.duration(to: .now) / .seconds(1))
        return sweep
    }

    /// Waits until the position of the event's partition is past it: that moves in the transaction that applies it.
    private func applied(
        _ position: EventPosition?, _ site: LoadBench.Site, since start: ContinuousClock.Instant
    ) async throws -> Duration {
        guard let position else { throw CommandFailure(.failure, "Kafka does not say where the event is") }
        let topic = site.node.settings.topics.pushes
        while true {
            let isApplied = try await site.node.pool.query(ListPositions()).contains {
                Text.equal($0.topic, topic) && $0.partition == position.partition
                    && ($0.nextOffset ?? 0) > position.offset
            }
            let elapsed = start.duration(to: .now)
            if isApplied { return elapsed }
            guard elapsed < Self.patience else {
                throw CommandFailure(.failure, "the reload of everything was not applied within \(Self.patience)")
            }
            try await Task.sleep(for: .milliseconds(5))
        }
    }

    /// Waits until every timeline has been stored since, and nothing is left to sweep or due in the bulk lane.
    private func regenerated(
        _ site: LoadBench.Site, since start: ContinuousClock.Instant
    ) async throws -> Duration? {
        var (stored, since) = (0, ContinuousClock.now)
        while true {
            let now = site.latency.distinctStored
            if now > stored { (stored, since) = (now, .now) }
            let elapsed = start.duration(to: .now)
            if stored == plan.timelines {
                let toSweep = try await site.node.pool.query(KindsToSweep(highWater: 1))
                let due = try await site.node.pool.query(DueWork(limit: 1))
                if toSweep.isEmpty, !due.contains(where: { $0.lane == .bulk }) { return elapsed }
            }
            if since.duration(to: .now) > Self.patience { return nil }
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

extension LoadGlobal {
    struct Report: LoadReport {
        var plan: Plan
        var losses: LoadLosses
        var alone: LatencySummary
        var beside: LatencySummary
        /// Single reloads measured: alone, beside.
        var sent: [Int]
        /// All events that were published.
        var events: Int
        var sweep: Sweep

        var lost: Int { losses.total }
        /// How many times its p99 alone the single reloads' p99 beside the reload of everything is.
        var ratio: Double? { beside.ratio(to: alone) }

        private var regenerated: Double? { sweep.regenerated.map { $0 / .seconds(1) } }

        var lines: [String] {
            LatencySummary.table([
                ("singles, alone", plan.rate, sent[0], alone),
                ("singles, beside a reload of everything", plan.rate, sent[1], beside),
            ]) + [
                "ratio of the p99s: \(ratio.map(DemoScreen.decimal) ?? "not measured")",
                "reload of everything: applied after \(DemoScreen.decimal(sweep.applied / .milliseconds(1))) ms, "
                    + (regenerated.map { "\(plan.timelines) timelines regenerated after \(DemoScreen.decimal($0)) s" }
                        ?? "not all timelines regenerated"),
                "beside: \(sweep.workers.line)",
                "lost: \(lost)",
            ] + losses.lines
        }

        var json: JSONValue {
            [
                "scenario": "global", "ratePerSecond": .number(JSONNumber(plan.rate)),
                "durationSeconds": .rounded(plan.length / .seconds(1)),
                "timelines": .number(JSONNumber(plan.timelines)), "unit": "ms",
                "singles": ["alone": alone.json, "beside": beside.json], "ratio": .rounded(ratio),
                "bumpAppliedMilliseconds": .rounded(sweep.applied / .milliseconds(1)),
                "regeneratedSeconds": .rounded(regenerated), "events": .number(JSONNumber(events)),
                "beside": sweep.workers.json, "lost": .number(JSONNumber(lost)),
            ]
        }
    }
}
