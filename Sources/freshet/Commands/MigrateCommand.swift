import ArgumentParser
import PostgresClient
import WidgetModel
import WidgetStore

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Brings the database to this binary's schema.",
        discussion: """
            Applies the missing migrations, each in a transaction of its own, under a lock: several processes may do \
            it at once. They only go forward and are safe while Freshet runs.

            Examples:
              freshet migrate
              freshet migrate --check     # changes nothing; exit status 78 when migrations are missing
            """)

    @Flag(help: "Only tell which migrations are missing.")
    var check = false

    @Flag(help: "Print JSON.")
    var json = false

    @OptionGroup var settings: SettingsOptions

    func run() async throws {
        try await settings.withPool { pool, _ in
            let migrator = PostgresMigrator(migrations: StoreMigrations.all)
            let before = try await migrator.check(on: pool)
            if check {
                report(applied: before.applied, missing: before.pending, by: "applied")
                guard before.pending.isEmpty else {
                    throw CommandFailure(.configuration, SchemaCheck.message(pending: before.pending))
                }
            } else {
                report(applied: try await migrator.apply(on: pool), missing: [], by: "now applied")
            }
        }
    }

    private func report(applied: [PostgresMigration], missing: [PostgresMigration], by word: String) {
        if json {
            Terminal.print([
                "applied": .array(applied.map(Self.json)), "missing": .array(missing.map(Self.json)),
            ])
            return
        }
        if applied.isEmpty, missing.isEmpty { Terminal.print("nothing to do") }
        for migration in applied { Terminal.print("\(word)  \(migration.version) \(migration.name)") }
        for migration in missing { Terminal.print("missing  \(migration.version) \(migration.name)") }
    }

    private static func json(_ migration: PostgresMigration) -> JSONValue {
        ["version": .number(JSONNumber(migration.version)), "name": .string(migration.name)]
    }
}
