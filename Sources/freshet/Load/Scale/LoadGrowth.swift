import PostgresClient
import WidgetModel
import WidgetStore

/// The same statements at growing numbers of timelines.
struct LoadGrowth: Sendable {
    let sizes: [Int]
    let rounds: Int
    let batch: Int
    /// Bytes of what is stored anew.
    let saveBytes: Int
    let population: LoadPopulation
    let store: WidgetStore

    /// - Parameter fill: adds the timelines of these indices.
    func run(fill: (Range<Int>) async throws -> FillCounts) async throws -> GrowthReport {
        var points: [GrowthReport.Point] = []
        var filled = 0
        for size in sizes {
            var counts = try await fill(filled..<size)
            counts.timelines = size
            filled = size
            let tables = try await store.pool.query(FillSizes())
            try await store.pool.withConnection { connection in try await connection.simple("CHECKPOINT") }
            var cold = StatementTimes()
            var warm = StatementTimes()
            try await pass(size, version: 1, "cold", &cold)
            try await pass(size, version: 2, "warm", &warm)
            Terminal.endProgress()
            points.append(
                GrowthReport.Point(
                    timelines: size, fill: FillReport(counts: counts, sizes: tables), cold: cold, warm: warm))
        }
        return GrowthReport(batch: batch, rounds: rounds, points: points)
    }

    private func pass(_ size: Int, version: Int, _ name: String, _ times: inout StatementTimes) async throws {
        let statements = StatementRounds(
            population: population, pool: store.pool, batch: batch, contentBytes: saveBytes)
        let order = ScatteredOrder(size)
        for round in 0..<rounds {
            Terminal.progress("\(size) timelines, \(name): \(round) of \(rounds) batches")
            let indices = (0..<batch).map { order[round * batch + $0] }
            try await statements.reload(indices, version: version, &times)
            for index in indices.prefix(20) { try await statements.read(index, &times) }
        }
        for _ in 0..<(rounds / 2 + 1) {
            // Twice a chunk is due of the one bump before it.
            try await statements.bump(&times)
            try await statements.sweep(version: version, &times)
        }
    }
}

/// Growth curves, for people, programs, and the page with charts.
struct GrowthReport: Sendable {
    struct Point: Sendable {
        var timelines: Int
        var fill: FillReport
        var cold: StatementTimes
        var warm: StatementTimes
    }

    var batch: Int
    var rounds: Int
    var points: [Point]

    static let statements = [
        "apply", "due", "claim", "save", "complete", "global", "sweep", "claim swept", "read",
    ]

    /// p99 of a statement at the largest size by that at the smallest; nil when there is none.
    func ratio(_ name: String, _ value: (LatencySummary) -> Double = { $0.p99 }) -> Double? {
        guard let first = points.first, let last = points.last else { return nil }
        let (least, most) = (value(first.warm.summary(name)), value(last.warm.summary(name)))
        return least > 0 ? most / least : nil
    }

    /// Timelines a second through all statements, at the largest size by that at the smallest.
    var drainRatio: Double? {
        guard let first = points.first, let last = points.last, first.warm.timelines > 0 else { return nil }
        return last.warm.timelinesPerSecond / first.warm.timelinesPerSecond
    }

    var lines: [String] {
        var table = TextTable("timelines", "statement", "p50", "p90", "p99", "max (ms)", "cold p50", "cold p99")
        for point in points {
            for name in Self.statements where point.warm.summary(name).samples > 0 {
                let (warm, cold) = (point.warm.summary(name), point.cold.summary(name))
                let columns = [warm.p50, warm.p90, warm.p99, warm.max, cold.p50, cold.p99].map(ScaleText.number)
                table.add(
                    "\(point.timelines)", name, columns[0], columns[1], columns[2], columns[3], columns[4], columns[5])
            }
        }
        var lines = points.flatMap(\.fill.lines) + table.lines
        for point in points {
            lines.append(
                "\(point.timelines): \(Int(point.warm.timelinesPerSecond)) timelines/s marked, claimed, saved and completed "
                    + "on one connection; cold \(Int(point.cold.timelinesPerSecond))")
        }
        func text(_ ratio: Double?) -> String { ratio.map(ScaleText.number) ?? "none" }
        lines.append(
            "largest by smallest: claim p99 \(text(ratio("claim"))), apply p99 \(text(ratio("apply"))), "
                + "global p50 \(text(ratio("global") { $0.p50 })), global p99 \(text(ratio("global"))), "
                + "sweep p99 \(text(ratio("sweep"))), read p99 \(text(ratio("read"))), drain \(text(drainRatio))")
        return lines
    }

    var json: JSONValue {
        let curves = Self.statements.map { name in
            JSONObject.Member(key: name, value: .array(points.map { Self.point($0, name) }))
        }
        let drain = JSONValue.array(
            points.map { point in
                [
                    "timelines": .number(JSONNumber(point.timelines)),
                    "timelinesPerSecond": .rounded(point.warm.timelinesPerSecond),
                    "coldTimelinesPerSecond": .rounded(point.cold.timelinesPerSecond),
                ]
            })
        let fill = points.map { point in
            JSONValue.object(JSONObject(point.fill.members.map { JSONObject.Member(key: $0.key, value: $0.value) }))
        }
        var result = LoadResult(scenario: "growth")
        result.distinctTimelines = points.last?.timelines ?? 0
        result.wallSeconds = points.reduce(0) { $0 + $1.fill.seconds + ($1.warm.busy + $1.cold.busy) / .seconds(1) }
        result.extras = [
            ("batch", .number(JSONNumber(batch))), ("rounds", .number(JSONNumber(rounds))), ("fill", .array(fill)),
            ("drain", drain), ("curves", .object(JSONObject(curves))),
            (
                "ratios",
                [
                    "claimP99": .rounded(ratio("claim")), "applyP99": .rounded(ratio("apply")),
                    "globalP50": .rounded(ratio("global") { $0.p50 }), "globalP99": .rounded(ratio("global")),
                    "sweepP99": .rounded(ratio("sweep")), "readP99": .rounded(ratio("read")),
                    "drain": .rounded(drainRatio),
                ]
            ),
        ]
        return result.json
    }

    private static func point(_ point: Point, _ name: String) -> JSONValue {
        let (warm, cold) = (point.warm.summary(name), point.cold.summary(name))
        return [
            "timelines": .number(JSONNumber(point.timelines)), "samples": .number(JSONNumber(warm.samples)),
            "p50": .rounded(warm.p50), "p90": .rounded(warm.p90), "p99": .rounded(warm.p99), "max": .rounded(warm.max),
            "coldP50": .rounded(cold.p50), "coldP99": .rounded(cold.p99),
        ]
    }
}
