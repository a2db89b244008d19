import ArgumentParser
import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// What the scenarios have in common that work on the database alone.
struct ScaleOptions: ParsableArguments {
    @Option(help: "Bytes of each stored timeline, about; 0 stores none.")
    var contentBytes = 650

    @Option(help: "Connections that copy at a time.")
    var connections = 4

    @Option(help: "Memory of each of the two sessions that make indexes, in MB.")
    var indexMemory = 512

    @Flag(help: "Print the result as JSON.")
    var json = false

    @OptionGroup var settings: SettingsOptions

    func validate() throws {
        try LoadOptions.check("--content-bytes", contentBytes, in: 0...100_000)
        try LoadOptions.check("--connections", connections, in: 1...64)
        try LoadOptions.check("--index-memory", indexMemory, in: 1...100_000)
    }

    /// Prints a report.
    func emit(_ report: JSONValue, _ lines: [String]) {
        if json { Terminal.print(report) } else { lines.forEach(Terminal.print) }
    }

    /// Lends a database at this binary's schema, with the app registered.
    func withPopulation<Value: Sendable>(
        of world: LoadWorld, _ body: @escaping @Sendable (LoadPopulation, WidgetStore) async throws -> Value
    ) async throws -> Value {
        let values = try settings.load(requiring: ["postgres.url"]).settings
        var configuration = try values.postgresConfiguration()
        configuration.maximumConnections = max(configuration.maximumConnections, connections + 2)
        configuration.statementTimeout = .seconds(3_600)
        let pool = PostgresPool(configuration: configuration, logger: LogSettings.ofCommands)
        do {
            _ = try await PostgresMigrator(migrations: StoreMigrations.all).apply(on: pool)
            let store = WidgetStore(pool: pool)
            // Nobody asks the provider.
            _ = try await store.apply([world.definition(provider: "http://127.0.0.1:9")], secrets: [:]) {
                Array(repeating: 0, count: 32)
            }
            let population = try LoadPopulation(
                world: world, contentBytes: contentBytes, directory: try await DirectoryCache(pool: pool).refresh())
            let value = try await body(population, store)
            await pool.shutdown()
            return value
        } catch {
            await pool.shutdown()
            Terminal.endProgress()
            throw error
        }
    }

    /// Fills in a part of a population, and says how far it is.
    func fill(
        _ population: LoadPopulation, _ indices: Range<Int>, store: WidgetStore
    ) async throws -> FillCounts {
        let start = ContinuousClock.now
        do {
            let counts = try await store.fill(
                population.rows(indices), connections: connections, isExtension: indices.lowerBound > 0,
                memory: indexMemory
            ) { rows in
                let seconds = start.duration(to: .now) / .seconds(1)
                Terminal.progress(
                    "copied \(rows / 2) of \(indices.count) timelines, \(Int(Double(rows) / 2 / seconds))/s")
            }
            Terminal.endProgress()
            return counts
        } catch FillRefusal.notEmpty {
            throw CommandFailure(.failure, "the database holds timelines already; expected an empty one")
        }
    }
}

struct LoadFillCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "fill",
        abstract: "Fills an empty database with widgets and their timelines, fast.",
        discussion: """
            Needs an empty PostgreSQL database (postgres.url) that nothing else uses: its indexes are dropped, the rows \
            copied over several connections, and the indexes made anew. When it is killed meanwhile, the database must be \
            made anew. Every timeline is rendered, stored, and wanted again by its policy within a day. For 10,000,000 \
            timelines of 650 bytes expect 20 GB.

            Examples:
              deploy/local/postgres run --memory 8GB -- freshet load fill --timelines 1000000
              freshet load fill --timelines 10000000 --content-bytes 0 --json
            """)

    @Option(help: "How many timelines, with a widget each.")
    var timelines = 1_000_000

    @Flag(
        name: .customLong("import"),
        help: "Import the widgets instead, as `freshet widgets import` does: slower, their timelines are due at once.")
    var imports = false

    @OptionGroup var options: ScaleOptions

    func validate() throws {
        try LoadOptions.check("--timelines", timelines, in: 1...100_000_000)
    }

    func run() async throws {
        let world = LoadWorld(users: timelines, widgetsPerUser: 1, kinds: 2)
        let (counts, sizes) = try await options.withPopulation(of: world) { [self] population, store in
            let counts =
                imports
                ? try await Self.importAll(population, timelines, store)
                : try await options.fill(population, 0..<timelines, store: store)
            return (counts, try await store.pool.query(FillSizes()))
        }
        let report = FillReport(counts: counts, sizes: sizes)
        options.emit(report.json, report.lines)
    }

    private static func importAll(
        _ population: LoadPopulation, _ timelines: Int, _ store: WidgetStore
    ) async throws -> FillCounts {
        let start = ContinuousClock.now
        var counts = FillCounts()
        let time = SampleProvider.systemTime()
        for first in stride(from: 0, to: timelines, by: 10_000) {
            Terminal.progress("imported \(first) of \(timelines)")
            let imported = try await store.importWidgets(
                (first..<min(first + 10_000, timelines)).map { index in
                    ImportedWidget(
                        placement: population.world.placement(index), kind: population.kind(index), time: time)
                })
            counts.timelines += imported.timelines
            counts.widgets += imported.widgets
        }
        Terminal.endProgress()
        counts.copied = start.duration(to: .now)
        return counts
    }
}

struct FillReport: Sendable {
    var counts: FillCounts
    var sizes: [FillSizes.Row]

    var bytes: Int64 { sizes.reduce(0) { $0 + $1.tableBytes + $1.indexBytes } }
    var seconds: Double { (counts.copied + counts.indexed + counts.settled) / .seconds(1) }

    var lines: [String] {
        [
            "\(counts.timelines) timelines and \(counts.widgets) widgets in \(DemoScreen.decimal(seconds)) s, "
                + "\(Int(Double(counts.timelines) / max(seconds, 0.001)))/s: "
                + "copied in \(DemoScreen.decimal(counts.copied / .seconds(1))) s, "
                + "indexed in \(DemoScreen.decimal(counts.indexed / .seconds(1))) s, "
                + "vacuumed in \(DemoScreen.decimal(counts.settled / .seconds(1))) s",
            "\(bytes >> 20) MiB: "
                + sizes.map { "\($0.table) \($0.tableBytes >> 20) + \($0.indexBytes >> 20)" }.joined(separator: ", "),
        ]
    }

    /// As `freshet load fill` prints it.
    var json: JSONValue {
        var result = LoadResult(scenario: "fill")
        result.distinctTimelines = counts.timelines
        result.wallSeconds = seconds
        result.extras = members
        return result.json
    }

    /// As part of another report.
    var members: [(key: String, value: JSONValue)] {
        [
            ("timelines", .number(JSONNumber(counts.timelines))), ("widgets", .number(JSONNumber(counts.widgets))),
            ("copySeconds", .rounded(counts.copied / .seconds(1))),
            ("indexSeconds", .rounded(counts.indexed / .seconds(1))),
            ("vacuumSeconds", .rounded(counts.settled / .seconds(1))),
            ("databaseBytes", .number(JSONNumber(Int(bytes)))),
        ]
    }
}
