// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Charts
import FreshetClient
import FreshetService
import JSON
import PostgresClient
import WidgetModel
import WidgetStore

/// A steady load for a long time, with a transaction held open for a part of it: what grows, and what comes back.
struct LoadSoak: Scenario {
    static let configuration = CommandConfiguration(
        commandName: "soak",
        abstract: "A steady load for a long time: what grows, and what comes back.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url). Publishes reloads of single widgets in an \
            open loop, while every few seconds throughput, latency, the size of the hot table and of its indexes, dead \
            row versions, WAL and the service's memory are sampled ("samples" in the JSON, and the charts of --report). \
            In the middle a transaction is held open for a while (--hold-xmin), as a forgotten session or a long report \
            would, so that nothing can be cleaned up. At the end the hot table is rewritten by VACUUM FULL, for \
            its compact size.

            The service is one process with all roles; an event waits up to 25 ms for others that share its way to Kafka, \
            and latencies end when this process reads a timeline's message from the output topic, for which it asks every \
            50 ms. The stream waits where more events wait than an embedded broker keeps; their latencies count from when \
            they were to be sent. The exit code is 1 if anything is lost.

            Examples:
              deploy/local/postgres run --memory 8 -- freshet-load soak --rate 1000 --duration 30m --hold-xmin 10m --report soak.html
              freshet-load soak --rate 2000 --duration 2h --set postgres.url=postgresql:///freshet --json
            """)

    @Option(help: "Duration: seconds, or a duration such as 30m.")
    var duration = LoadDuration(.seconds(1_800))

    @Option(help: "Time for which a transaction is held open in the middle; 0 for none.")
    var holdXmin = LoadDuration(.zero)

    @OptionGroup var stream: SteadyStreamOptions
    @OptionGroup var options: ScenarioOptions

    func validate() throws {
        try duration.check(as: "--duration", in: .seconds(2)...(.seconds(30 * 86_400)))
        try holdXmin.check(as: "--hold-xmin", in: .zero...duration.length)
    }

    /// For thousands of events a second over hours: the embedded broker, which walks through all that it keeps of a
    /// partition for every fetch, keeps up if events come to it in sets of a dozen or more.
    var plan: LoadTestEnvironment.Plan {
        LoadTestEnvironment.Plan(
            inputPartitions: 16, outputPartitions: 4, seed: options.seed, publisherLinger: .milliseconds(25),
            readerWait: .milliseconds(50))
    }

    private var warmUp: Duration { min(.seconds(30), duration.length / 10) }
    private var interval: Duration { min(.seconds(10), max(.seconds(1), duration.length / 360)) }

    func run(_ environment: LoadTestEnvironment) async throws -> LoadResult {
        let stream = try stream.plan(seed: options.seed)
        return try await ReloadMeasurement.with(
            environment, worlds: [stream.world], roles: [.all], sampling: (interval: interval, includesTables: true)
        ) { measurement in
            let sizes = try await environment.pool.query(.tableSizes())
            measurement.monitor.show("\(Figure.short(stream.rate)) events/s", lasting: duration.length)
            let start = ContinuousClock.now + .milliseconds(20)
            let window = window(from: start)
            // Each task returns whether the scenario waits for its end.
            try await withThrowingTaskGroup(of: Bool.self) { group in
                let (measured, end) = (start + warmUp, start + duration.length)
                group.addTask {
                    // Events wait for each other in the producer anyway.
                    try await measurement.publish(stream, from: start, spacing: .milliseconds(10)) { time in
                        guard time < end else { return nil }
                        if time < measured { return .warmUp }
                        return window.map { $0.contains(time) } == true ? .beside : .alone
                    }
                    return true
                }
                if let window {
                    group.addTask {
                        try await holdSnapshot(measurement, window)
                        return true
                    }
                }
                // Whatever else happens, nothing is dropped before it is read.
                if environment.isBrokerEmbedded {
                    group.addTask {
                        try await limitLag(measurement)
                        return false
                    }
                }
                var left = window == nil ? 1 : 2
                while left > 0, let isAwaited = try await group.next() { left -= isAwaited ? 1 : 0 }
                group.cancelAll()
            }
            try await measurement.drain()
            var result = try await measurement.result("soak", from: start, latencies: .alone)
            let ended = try await environment.pool.query(.tableSizes())
            result.extras +=
                stream.members + [
                    ("durationSeconds", .rounded(duration.length / .seconds(1))),
                    ("holdSeconds", .rounded(holdXmin.length / .seconds(1))),
                    ("held", window == nil ? .null : measurement.latency.summary(of: .beside).json),
                ]
            result.extras += result.charts.trends
            let compact = try await compactSizes(environment)
            result.extras.append(("sizes", Self.sizes(begin: sizes, end: ended, compact: compact)))
            return result
        }
    }

    private func window(from start: ContinuousClock.Instant) -> Range<ContinuousClock.Instant>? {
        guard holdXmin.length > .zero else { return nil }
        let begin = start + (duration.length - holdXmin.length) / 2
        return begin..<(begin + holdXmin.length)
    }

    /// Holds the stream up while more events wait in Kafka than the embedded broker keeps, until it is cancelled.
    ///
    /// - Throws: ``CommandFailure`` when the service has ended, or stands still while events wait; `CancellationError`.
    private func limitLag(_ measurement: ReloadMeasurement) async throws {
        // The broker keeps the last 5 MiB of each partition, some 15,000 events; half of them may wait.
        let limit = plan.inputPartitions * 7_500
        var (stall, applied) = (Stall<Int>(), 0)
        while true {
            try measurement.environment.requireServices()
            if let positions = try? await measurement.positions() {
                measurement.latency.holdUp(measurement.latency.unapplied(at: positions) > limit)
                applied = positions.values.reduce(0) { $0 + Int($1) }
                if !measurement.latency.isHeldUp { stall = Stall() }
            }
            guard !stall.update(applied) else {
                throw CommandFailure(.failure, "events wait in Kafka, and none of them is applied any more")
            }
            try await Task.sleep(for: .milliseconds(200))
        }
    }

    /// Holds the oldest visible transaction back, as a forgotten session or a long report does.
    private func holdSnapshot(_ measurement: ReloadMeasurement, _ window: Range<ContinuousClock.Instant>) async throws {
        try await Task.sleep(until: window.lowerBound, clock: .continuous)
        var configuration = measurement.environment.pool.configuration
        configuration.maximumConnections = 1
        // Otherwise the server would end what is held open here on purpose.
        configuration.idleInTransactionTimeout = holdXmin.length + .seconds(120)
        try await PostgresPool.with(configuration, logger: measurement.environment.logger) { pool in
            try await pool.withTransaction { connection in
                try await connection.simple("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
                _ = try await connection.query(.takeSnapshot())
                try await measurement.monitor.withSpan("a transaction held open") {
                    try await Task.sleep(until: window.upperBound, clock: .continuous)
                }
            }
        }
    }

    /// Sizes of the tables after VACUUM FULL, which locks them: the run is over.
    private func compactSizes(_ environment: LoadTestEnvironment) async throws -> [TableSize] {
        try await environment.pool.withConnection { connection in
            _ = try await connection.execute(.compactTimelines())
            return try await connection.query(.tableSizes())
        }
    }

    private static func sizes(
        begin: [TableSize], end: [TableSize], compact: [TableSize]
    ) -> JSONValue {
        func members(_ row: TableSize) -> JSONValue {
            func number(_ value: Int64) -> JSONValue { .number(JSONNumber(Int(value))) }
            return [
                "tableBytes": number(row.tableBytes), "indexBytes": number(row.indexBytes), "live": number(row.live),
                "dead": number(row.dead), "autovacuums": number(row.autovacuums),
            ]
        }
        func tables(_ rows: [TableSize]) -> JSONValue {
            .object(JSONObject(rows.map { (key: $0.table, value: members($0)) }))
        }
        return ["begin": tables(begin), "end": tables(end), "compact": tables(compact.filter(\.isTimeline))]
    }
}

extension LoadCharts {
    /// Longest part of the run, in seconds, that is compared at the beginning and at the end.
    private static let longestPart = 600.0

    /// The mean of a value over a time span; nil without samples. A sample belongs to the span that contains the
    /// sample's time.
    private func mean(_ key: LoadSample.Key, from: Double, to: Double) -> Double? {
        let values = samples.filter { $0.seconds > from && $0.seconds <= to }.compactMap { $0.values[key] }
        return values.isEmpty ? nil : values.reduce(0, +) / Double(values.count)
    }

    private func largest(_ key: LoadSample.Key) -> Double? {
        samples.compactMap { $0.values[key] }.max()
    }

    /// Trends of a soak, which show whether its figures stay stable: the first and last part of the run with their
    /// ratio, and the differences while a transaction is held open.
    var trends: [(key: String, value: JSONValue)] {
        guard let end = samples.last?.seconds else { return [] }
        let part = min(Self.longestPart, end / 3)
        // The beginning of the run is a warm-up.
        let skipped = min(30, end / 10)
        func trend(_ key: LoadSample.Key) -> JSONValue {
            let first = mean(key, from: skipped, to: skipped + part)
            let last = mean(key, from: end - part, to: end)
            let ratio: Double? =
                if let first, let last, first > 0 { last / first } else { nil }
            return ["first": .rounded(first), "last": .rounded(last), "ratio": .rounded(ratio)]
        }
        var members: [(key: String, value: JSONValue)] = [
            (
                "trends",
                [
                    "partSeconds": .rounded(part), "timelinesPerSecond": trend(.timelinesPerSecond),
                    "p99": trend(.p99), "residentBytes": trend(.residentBytes),
                    "stateTableBytes": trend(.stateTableBytes), "stateIndexBytes": trend(.stateIndexBytes),
                ]
            ),
            (
                "largest",
                [
                    "stateTableBytes": .rounded(largest(.stateTableBytes)),
                    "stateIndexBytes": .rounded(largest(.stateIndexBytes)),
                    "deadTuples": .rounded(largest(.deadTuples)),
                    "residentBytes": .rounded(largest(.residentBytes)),
                ]
            ),
        ]
        if let span = spans.first {
            let before = mean(.timelinesPerSecond, from: skipped, to: span.from)
            let held = mean(.timelinesPerSecond, from: span.from, to: span.to)
            let ratio: Double? =
                if let before, let held, before > 0 { held / before } else { nil }
            members.append(
                (
                    "whileHeld",
                    [
                        "timelinesPerSecond": .rounded(held), "before": .rounded(before), "ratio": .rounded(ratio),
                        "secondsUntilDeadTuplesAreBack": .rounded(secondsUntilBack([.deadTuples], after: span)),
                        "secondsUntilSizesAreBack": .rounded(
                            secondsUntilBack([.stateTableBytes, .stateIndexBytes], after: span)),
                    ]
                ))
        }
        return members
    }

    /// Seconds from the end of the span until all of these values are at most 1.5 times their largest value before it.
    /// Nil if they do not get there within the run.
    private func secondsUntilBack(_ keys: [LoadSample.Key], after span: Chart.Span) -> Double? {
        var limits: [LoadSample.Key: Double] = [:]
        for key in keys {
            let before = samples.filter { $0.seconds < span.from }.compactMap { $0.values[key] }
            guard let most = before.max() else { return nil }
            limits[key] = most * 1.5
        }
        return samples.first { sample in
            sample.seconds >= span.to && limits.allSatisfy { sample.values[$0.key] ?? .infinity <= $0.value }
        }.map { $0.seconds - span.to }
    }
}
