import FreshetClient
import PostgresClient
import WidgetModel
import WidgetStore

/// A steady load for a long time, with a transaction held open for a part of it: what grows, and what comes back.
struct LoadSoak: Sendable {
    enum Rate: Sendable, Equatable {
        /// Events a second.
        case absolute(Double)
        /// Of what the service drains, measured first; 0.6 is 60 %.
        case share(Double)
    }

    struct Plan: Sendable {
        var world: LoadWorld
        /// Its rate is set when it is known.
        var stream: StreamPlan
        var rate: Rate
        var length: Duration
        /// How long a transaction is held open, in the middle; nothing is when it is zero.
        var hold: Duration

        var warmUp: Duration { min(.seconds(30), length / 10) }
        var interval: Duration { min(.seconds(10), max(.seconds(1), length / 360)) }
        /// Thousands of events a second for as long as it takes: the embedded broker, which walks through all that it keeps of a
        /// partition for every fetch, keeps up if events come to it in sets of a dozen or more.
        var farm: Farm.Plan {
            Farm.Plan(
                inputPartitions: 16, outputPartitions: 4, seed: stream.seed, publisherLinger: .milliseconds(25),
                readerWait: .milliseconds(50))
        }
    }

    let plan: Plan

    func run(_ farm: Farm) async throws -> LoadResult {
        let sampling = LoadStage.Sampling(interval: plan.interval, includesTables: true)
        return try await LoadStage.with(farm, worlds: [plan.world], placement: .apart, sampling: sampling) { stage in
            var stream = plan.stream
            var drain: Double?
            switch plan.rate {
            case .absolute(let rate): stream.rate = rate
            case .share(let share):
                let measured = try await DrainRate(world: plan.world, stage: stage).measure()
                (drain, stream.rate) = (measured, max(0.1, measured * share))
            }
            let sizes = try await farm.pool.query(TableSizes())
            let beginning = try await stage.begin()
            stage.monitor.progress.phase("\(Figure.short(stream.rate)) events/s", .time(plan.length))
            let start = ContinuousClock.now + .milliseconds(20)
            let window = window(from: start)
            // Whatever else happens, nothing is dropped before it is read.
            let lag = farm.isBrokerEmbedded ? SoakLag(partitions: plan.farm.inputPartitions) : nil
            // Each task tells whether the others wait for it.
            try await withThrowingTaskGroup(of: Bool.self) { group in
                let (measured, end) = (start + plan.warmUp, start + plan.length)
                group.addTask { [stream] in
                    var stream = stage.stream(of: plan.world, stream)
                    // They wait for each other in the producer anyway.
                    stream.spacing = .milliseconds(10)
                    stream.isHeldUp = { lag?.isTooLong ?? false }
                    try await stream.run(from: start) { time in
                        guard time < end else { return nil }
                        if time < measured { return .warmUp }
                        return window.map { $0.contains(time) } == true ? .beside : .alone
                    }
                    return true
                }
                if let window {
                    group.addTask {
                        try await holdSnapshot(stage, window)
                        return true
                    }
                }
                if let lag {
                    group.addTask {
                        try await lag.watch(stage)
                        return false
                    }
                }
                var left = window == nil ? 1 : 2
                while left > 0, let isAwaited = try await group.next() { left -= isAwaited ? 1 : 0 }
                group.cancelAll()
            }
            try await stage.settle()
            var result = try await stage.result("soak", since: beginning, from: start, latencies: .alone)
            let ended = try await farm.pool.query(TableSizes())
            result.extras +=
                stream.members + [
                    ("durationSeconds", .rounded(plan.length / .seconds(1))),
                    ("holdSeconds", .rounded(plan.hold / .seconds(1))), ("drainPerSecond", .rounded(drain)),
                    ("held", window == nil ? .null : stage.latency.summary(of: .beside).json),
                ]
            result.extras += SoakTrends(samples: result.charts.samples, spans: result.charts.spans).members
            let compact = try await compactSizes(farm)
            result.extras.append(("sizes", Self.sizes(begin: sizes, end: ended, compact: compact)))
            return result
        }
    }

    private func window(from start: ContinuousClock.Instant) -> Range<ContinuousClock.Instant>? {
        guard plan.hold > .zero else { return nil }
        let begin = start + (plan.length - plan.hold) / 2
        return begin..<(begin + plan.hold)
    }

    /// Holds the oldest visible transaction back, as a forgotten session or a long report does.
    private func holdSnapshot(_ stage: LoadStage, _ window: Range<ContinuousClock.Instant>) async throws {
        try await Task.sleep(until: window.lowerBound, clock: .continuous)
        var configuration = stage.farm.pool.configuration
        configuration.maximumConnections = 1
        // Otherwise the server would end what is held open here on purpose.
        configuration.idleInTransactionTimeout = plan.hold + .seconds(120)
        let pool = PostgresPool(configuration: configuration, logger: stage.farm.logger)
        do {
            try await pool.withTransaction(.readOnlySnapshot) { connection in
                _ = try await connection.query(TakeSnapshot())
                stage.monitor.beginSpan("a transaction held open")
                try await Task.sleep(until: window.upperBound, clock: .continuous)
                stage.monitor.endSpan()
            }
            await pool.shutdown()
        } catch {
            await pool.shutdown()
            throw error
        }
    }

    /// What the hot table takes when it holds nothing but its rows; the run is over, so nobody waits for it.
    private func compactSizes(_ farm: Farm) async throws -> [TableSizes.Row] {
        try await farm.pool.withConnection { connection in
            _ = try await connection.execute(CompactTimelines())
            return try await connection.query(TableSizes())
        }
    }

    private static func sizes(
        begin: [TableSizes.Row], end: [TableSizes.Row], compact: [TableSizes.Row]
    ) -> JSONValue {
        func members(_ row: TableSizes.Row) -> JSONValue {
            func number(_ value: Int64) -> JSONValue { .number(JSONNumber(Int(value))) }
            return [
                "tableBytes": number(row.tableBytes), "indexBytes": number(row.indexBytes), "live": number(row.live),
                "dead": number(row.dead), "autovacuums": number(row.autovacuums),
            ]
        }
        func tables(_ rows: [TableSizes.Row]) -> JSONValue {
            .object(JSONObject(rows.map { JSONObject.Member(key: $0.table, value: members($0)) }))
        }
        return ["begin": tables(begin), "end": tables(end), "compact": tables(compact.filter(\.isTimeline))]
    }
}

/// What a service gets done when it has all the work that it can take: events for one timeline each, all distinct,
/// published as fast as Kafka takes them.
struct DrainRate: Sendable {
    let world: LoadWorld
    let stage: LoadStage

    /// The embedded broker keeps only the last 5 MiB of a partition, so no more than this is published ahead.
    private static let ahead = 50_000
    private static let chunk = 5_000
    private static let limit = 100_000

    /// Timelines a second, of the second of two passes.
    func measure() async throws -> Double {
        stage.monitor.progress.phase("measuring the drain rate")
        var rate = 0.0
        for _ in 1...2 {
            let before = stage.watch.messages
            let start = ContinuousClock.now
            let count = min(world.widgets, Self.limit)
            for first in stride(from: 0, to: count, by: Self.chunk) {
                let time = SampleProvider.systemTime()
                let events = (first..<min(first + Self.chunk, count)).map { widget in
                    OutgoingEvent(world.reload(widget), time: time, key: world.user(of: widget))
                }
                for (event, result) in zip(events, await stage.publisher.publish(events)) {
                    if let position = EventPosition(try result.get(), of: event.event) {
                        stage.latency.published(at: position)
                    }
                }
                try await wait(until: before + first - Self.ahead)
            }
            try await wait(until: before + count)
            rate = Double(count) / max(0.001, start.duration(to: .now) / .seconds(1))
            try await stage.settle()
        }
        return rate
    }

    private func wait(until messages: Int) async throws {
        let start = ContinuousClock.now
        while stage.watch.messages < messages {
            guard start.duration(to: .now) < LoadStage.patience else {
                throw CommandFailure(.failure, "the drain rate could not be measured: timelines are missing")
            }
            try await Task.sleep(for: .milliseconds(2))
        }
    }
}
