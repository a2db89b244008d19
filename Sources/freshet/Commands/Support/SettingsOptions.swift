import ArgumentParser
import Foundation
import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Sources of a command's settings.
struct SettingsOptions: ParsableArguments {
    @Option(name: .shortAndLong, help: "File of settings, YAML or JSON; the default is FRESHET_CONFIG_FILE.")
    var config: String?

    @Option(
        name: .customLong("set"), parsing: .singleValue,
        help: ArgumentHelp(
            "A setting, over the file and the environment; can be given several times.", valueName: "key=value"))
    var assignments: [String] = []

    func validate() throws {
        for text in assignments {
            guard let separator = text.firstIndex(of: "="), separator > text.startIndex else {
                throw ValidationError("--set \(text): expected key=value, such as --set api.port=8081")
            }
        }
    }

    /// Reads and checks the settings, and prints warnings on standard error.
    ///
    /// - Parameters:
    ///   - options: settings given by options of the command.
    ///   - required: settings that the command needs.
    func load(
        options: [String: String] = [:], requiring required: [String] = []
    ) throws(SettingsError) -> LoadedSettings {
        var flags: [String: String] = [:]
        for text in assignments {
            let parts = text.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            flags[String(parts[0])] = String(parts[1])
        }
        flags.merge(options) { $1 }
        let loaded = try Settings.load(flags: flags, configurationFile: config, requiring: required)
        for warning in loaded.warnings { Terminal.complain("warning: \(warning)") }
        return loaded
    }
}

/// Settings and output format of a command.
struct OutputOptions: ParsableArguments {
    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var settings: SettingsOptions

    /// Prints rows as a JSON array or as a table.
    func print<Row>(
        _ rows: [Row], _ document: (Row) -> JSONValue, columns: String..., cells: (Row) -> [String]
    ) {
        guard !json else { return Terminal.print(.array(rows.map(document))) }
        TextTable(header: columns, rows: rows.map(cells)).printed()
    }
}

extension SettingsOptions {
    /// Lends the store of the configured database, which must be at this binary's migrations.
    func withStore<Value: Sendable>(
        _ body: (WidgetStore, Settings) async throws -> Value
    ) async throws -> Value {
        try await withPool { pool, settings in
            try await SchemaCheck.require(on: pool)
            return try await body(WidgetStore(pool: pool), settings)
        }
    }

    /// Lends a small pool.
    func withPool<Value: Sendable>(
        _ body: (PostgresPool, Settings) async throws -> Value
    ) async throws -> Value {
        let settings = try load(requiring: ["postgres.url"]).settings
        var configuration = try settings.postgresConfiguration()
        configuration.maximumConnections = min(configuration.maximumConnections, 2)
        let pool = PostgresPool(configuration: configuration, logger: LogSettings.ofCommands)
        do {
            let value = try await body(pool, settings)
            await pool.shutdown()
            return value
        } catch {
            await pool.shutdown()
            throw error
        }
    }
}

/// Check that the database is at this binary's migrations.
enum SchemaCheck {
    static func require(on pool: PostgresPool) async throws {
        let pending = try await PostgresMigrator(migrations: StoreMigrations.all).check(on: pool).pending
        guard pending.isEmpty else { throw CommandFailure(.configuration, message(pending: pending)) }
    }

    static func message(pending: [PostgresMigration]) -> String {
        let names = pending.map { "\($0.version) \($0.name)" }.joined(separator: ", ")
        return "the database lacks migrations (\(names)): run `freshet migrate`"
    }
}
