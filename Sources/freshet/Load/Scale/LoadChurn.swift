import ArgumentParser
import PostgresClient
import WidgetModel
import WidgetStore

struct LoadChurnCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "churn",
        abstract: "What passes over the same timelines leave in the tables, and what that costs.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url) that nothing else uses. Fills it, then marks, claims, saves \
            and completes all timelines, pass after pass, and tells after each how large the tables and their indexes have \
            become, the share of updates that touched no index (HOT), and what the statements took. With --storage the same \
            under other storage parameters; with --hold a transaction stays open meanwhile, so that nothing can be vacuumed.

            Examples:
              deploy/local/postgres run -- freshet load churn
              freshet load churn --storage 'timeline_state: fillfactor=60' --passes 20 --json
              freshet load churn --passes 5 --timelines 100000 --hold
            """)

    @Option(help: "How many timelines.")
    var timelines = 100_000

    @Option(help: "How often each of them is reloaded.")
    var passes = 10

    @Option(help: "Timelines of a batch.")
    var batch = 1_000

    @Option(parsing: .singleValue, help: "Storage parameters: TABLE: name=value, …; can be given several times.")
    var storage: [String] = []

    @Flag(help: "Hold a transaction open meanwhile.")
    var hold = false

    @Flag(help: "Look and claim from shortly before the latest claim on, as workers do while looking for all is slow.")
    var watermark = false

    @OptionGroup var options: ScaleOptions

    func validate() throws {
        try LoadOptions.check("--timelines", timelines, in: 1...10_000_000)
        try LoadOptions.check("--passes", passes, in: 1...10_000)
        try LoadOptions.check("--batch", batch, in: 1...10_000)
        for text in storage where TableStorage(text) == nil {
            throw ValidationError("--storage \(text): expected such as 'timeline_state: fillfactor=70'")
        }
    }

    func run() async throws {
        let world = LoadWorld(users: timelines, widgetsPerUser: 1, kinds: 2)
        let report = try await options.withPopulation(of: world) { [self] population, store in
            for storage in storage.compactMap(TableStorage.init) {
                try await store.pool.withConnection { connection in try await connection.simple(storage.sql) }
            }
            _ = try await options.fill(population, 0..<timelines, store: store)
            let churn = LoadChurn(
                timelines: timelines, passes: passes, batch: batch, population: population, store: store)
            guard hold else { return try await churn.run() }
            return try await store.pool.withTransaction(.readOnlySnapshot) { connection in
                _ = try await connection.query(HoldSnapshot())
                return try await churn.run()
            }
        }
        options.emit(report.json, report.lines)
    }
}

struct LoadChurn: Sendable {
    let timelines: Int
    let passes: Int
    let batch: Int
    var usesWatermark = false
    let population: LoadPopulation
    let store: WidgetStore

    private static let slack = Duration.milliseconds(500)

    func run() async throws -> ChurnReport {
        let statements = StatementRounds(
            population: population, pool: store.pool, batch: batch, contentBytes: population.contentBytes)
        let order = ScatteredOrder(timelines)
        let before = try await store.pool.query(FillSizes())
        var points: [ChurnReport.Point] = []
        var since: Timestamp?
        for pass in 1...passes {
            Terminal.progress("pass \(pass) of \(passes)")
            var times = StatementTimes()
            let wal = try await store.pool.query(WalPosition()).first ?? 0
            for start in stride(from: 0, to: timelines, by: batch) {
                let indices = (start..<min(start + batch, timelines)).map { order[$0 &+ pass &* 7] }
                let latest = try await statements.reload(indices, version: pass, since: since, &times)
                if usesWatermark { since = latest.map { $0 - Self.slack } }
            }
            points.append(
                ChurnReport.Point(
                    times: times, walBytes: (try await store.pool.query(WalPosition()).first ?? 0) - wal,
                    tables: try await store.pool.query(FillSizes())))
        }
        Terminal.endProgress()
        return ChurnReport(before: before, points: points)
    }
}

/// What each pass left.
struct ChurnReport: Sendable {
    struct Point: Sendable {
        var times: StatementTimes
        var walBytes: Int64
        var tables: [FillSizes.Row]
    }

    var before: [FillSizes.Row]
    var points: [Point]

    private func growth(_ table: FillSizes.Row, _ size: (FillSizes.Row) -> Int64) -> Double {
        guard let first = before.first(where: { $0.table == table.table }), size(first) > 0 else { return 1 }
        return Double(size(table)) / Double(size(first))
    }

    private func hotShare(_ table: FillSizes.Row) -> Double? {
        guard let first = before.first(where: { $0.table == table.table }), table.updates > first.updates else {
            return nil
        }
        return Double(table.hotUpdates - first.hotUpdates) / Double(table.updates - first.updates)
    }

    var lines: [String] {
        var table = TextTable(
            "pass", "table", "MiB", "by first", "index MiB", "by first", "HOT %", "dead", "vacuums", "timelines/s",
            "claim p50", "p99", "WAL B/timeline")
        for (pass, point) in points.enumerated() {
            for row in point.tables {
                let claim = point.times.summary("claim")
                table.add(
                    "\(pass + 1)", row.table, "\(row.tableBytes >> 20)",
                    DemoScreen.decimal(growth(row) { $0.tableBytes }), "\(row.indexBytes >> 20)",
                    DemoScreen.decimal(growth(row) { $0.indexBytes }),
                    hotShare(row).map { DemoScreen.decimal($0 * 100) } ?? "", "\(row.deadRows)", "\(row.autovacuums)",
                    "\(Int(point.times.timelinesPerSecond))", ScaleText.number(claim.p50),
                    ScaleText.number(claim.p99), "\(point.walBytes / Int64(max(1, point.times.timelines)))")
            }
        }
        return table.lines
    }

    var json: JSONValue {
        let passes: [JSONValue] = points.map { point in
            let tables = point.tables.map { row in
                JSONObject.Member(
                    key: row.table,
                    value: [
                        "tableBytes": .number(JSONNumber(Int(row.tableBytes))),
                        "indexBytes": .number(JSONNumber(Int(row.indexBytes))),
                        "tableGrowth": .rounded(growth(row) { $0.tableBytes }),
                        "indexGrowth": .rounded(growth(row) { $0.indexBytes }),
                        "hotShare": .rounded(hotShare(row)), "deadRows": .number(JSONNumber(Int(row.deadRows))),
                        "autovacuums": .number(JSONNumber(Int(row.autovacuums))),
                    ])
            }
            return [
                "timelinesPerSecond": .rounded(point.times.timelinesPerSecond),
                "walBytes": .number(JSONNumber(Int(point.walBytes))), "claim": point.times.summary("claim").json,
                "due": point.times.summary("due").json, "apply": point.times.summary("apply").json,
                "save": point.times.summary("save").json, "complete": point.times.summary("complete").json,
                "tables": .object(JSONObject(tables)),
            ]
        }
        var result = LoadResult(scenario: "churn")
        result.distinctTimelines = points.first?.times.timelines ?? 0
        result.wallSeconds = points.reduce(0) { $0 + $1.times.busy / .seconds(1) }
        result.walBytes = points.reduce(0) { $0 + Int($1.walBytes) }
        result.extras = [
            ("timelines", .number(JSONNumber(result.distinctTimelines))), ("passes", .array(passes)),
        ]
        return result.json
    }
}
