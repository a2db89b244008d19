// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import FreshetService
import JSON
import PostgresClient
import WidgetModel
import WidgetStore

struct MigrateCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "migrate",
        abstract: "Brings the database to this binary's schema.",
        discussion: """
            Applies the missing migrations, each in a transaction of its own, under a lock: several processes may do \
            it at once. They only go forward and are safe while Freshet runs, also while binaries of the release \
            before do.

            Examples:
              freshet migrate
              freshet migrate --check     # changes nothing; exit status 78 when migrations are missing
              freshet migrate --check --wait 10m     # waits for another migration, and for PostgreSQL
            """)

    @Flag(help: "Only show the missing migrations.")
    var check = false

    @Option(
        help: "Longest wait for the database and, with --check, for missing migrations, such as 30s.",
        transform: OptionText.duration)
    var wait: Duration?

    @OptionGroup var output: OutputOptions

    func run() async throws {
        let end = ContinuousClock.now + (wait ?? .zero)
        try await output.settings.withPool { pool, _ in
            let migrator = PostgresMigrator(migrations: PostgresMigration.all)
            let before = try await status(of: migrator, on: pool, until: end)
            if check {
                report(applied: before.applied, missing: before.pending, by: "applied")
                guard before.pending.isEmpty else {
                    throw CommandFailure(pending: before.pending)
                }
            } else {
                report(applied: try await migrator.apply(on: pool), missing: [], by: "now applied")
            }
        }
    }

    /// State of the migrations, polled until `end` if there is something to wait for.
    private func status(
        of migrator: PostgresMigrator, on pool: PostgresPool, until end: ContinuousClock.Instant
    ) async throws -> PostgresMigrator.Status {
        while true {
            do throws(PostgresError) {
                let status = try await migrator.check(on: pool)
                if !check || status.pending.isEmpty || ContinuousClock.now >= end { return status }
            } catch {
                let mayPass = error.kind == .connection || error.kind == .poolTimeout || error.isRetriable
                guard mayPass, ContinuousClock.now < end else { throw error }
            }
            try await Task.sleep(for: .seconds(1))
        }
    }

    private func report(applied: [PostgresMigration], missing: [PostgresMigration], by word: String) {
        if output.json {
            Terminal.print(["applied": .array(applied.map(Self.json)), "missing": .array(missing.map(Self.json))])
            return
        }
        if applied.isEmpty, missing.isEmpty { Terminal.print("nothing to do") }
        for migration in applied { Terminal.print("\(word)  \(migration.version) \(migration.name)") }
        for migration in missing { Terminal.print("missing  \(migration.version) \(migration.name)") }
    }

    private static func json(_ migration: PostgresMigration) -> JSONValue {
        ["version": .count(migration.version), "name": .string(migration.name)]
    }
}
