// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

/// Upgrades as operators perform them: migrate, then replace the processes one by one.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct UpgradeProcessTests {
    @Test(
        "On the previous release's migrations the newest binary refuses to start, or waits for the migration"
    )
    func newBinaryOldSchema() async throws {
        let all = PostgresMigration.all
        try await withDatabase { database in
            _ = try await PostgresMigrator(migrations: Array(all.dropLast())).apply(on: database.pool)
            let environment = ["FRESHET_POSTGRES_URL": database.connectionString]
            let missing = "the database lacks migrations (\(all.count) \(all[all.count - 1].name))"

            let run = try await FreshetProcess.run(["run", "--set", "kafka.embedded=true"], environment: environment)
            #expect(run.status == 78 && run.err.contains(missing), "\(run.err)")
            let look = try await FreshetProcess.run(["migrate", "--check", "--wait", "10ms"], environment: environment)
            #expect(look.status == 78 && look.err.contains(missing), "\(look.err)")

            let waiting = try FreshetProcess(
                ["migrate", "--check", "--wait", "\(Patience.limit.components.seconds)s"], environment: environment)
            let migrate = try await FreshetProcess.run(["migrate"], environment: environment)
            #expect(migrate.status == 0, "\(migrate.err)")
            #expect(try await waiting.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        }
    }

    @Test("On the next release's migrations a binary keeps running, starts, works and is ready beside the new one")
    func oldBinaryNewSchema() async throws {
        try await withInstallation { installation in
            let next = PostgresMigration.all.count + 1
            let (running, ready) = try await installation.run("--set", "health.port=0")
            let health = HealthProbe(port: Int(try #require(ready["healthPort"]?.numberValue?.int64)))
            try await health.becomesReady()

            // Stands for a migration of a later release.
            try await installation.store.sql(
                """
                ALTER TABLE widget ADD COLUMN tomorrow int NOT NULL DEFAULT 0;
                ALTER TABLE timeline ADD COLUMN tomorrow text;
                CREATE TABLE tomorrow (id int PRIMARY KEY);
                INSERT INTO freshet_migration (version, name, checksum) VALUES (\(next), 'tomorrow', '\\x00')
                """)
            try await installation.publish([Self.placement("w1")])
            try await eventually("a widget is rendered by the running process") {
                try await installation.store.integer("SELECT count(*) FROM timeline WHERE content IS NOT NULL") == 1
            }
            try await health.becomesReady()
            running.send(signal: SIGTERM)
            #expect(try await running.end() == FreshetProcess.Exit(status: 0, isSignal: false))

            let (again, readyAgain) = try await installation.run("--set", "health.port=0")
            #expect(again.standardError.contains("migrated for a newer binary"))
            let probe = HealthProbe(port: Int(try #require(readyAgain["healthPort"]?.numberValue?.int64)))
            try await probe.becomesReady()
            try await installation.publish([Self.placement("w2")])
            try await eventually("a widget is rendered by the newly started process") {
                try await installation.store.integer("SELECT count(*) FROM timeline WHERE content IS NOT NULL") == 2
            }
            let old = try await installation.freshet("migrate")
            #expect(old.status == 0 && old.out == "nothing to do\n")

            // A migration that removes something this binary needs makes it report that, and has no other effect.
            try await installation.store.sql(
                """
                INSERT INTO freshet_migration (version, name, checksum)
                VALUES (\(next + 1), 'contract_\(next)_yesterday', '\\x00')
                """)
            try await eventually("the process is not ready, and reports the reason", every: .milliseconds(300)) {
                let answer = try await probe.ask("ready")
                return answer.status == 503 && answer.reason("migrations")?.contains("run a newer one") == true
            }
            again.send(signal: SIGTERM)
            _ = try await again.end()
            let refused = try await installation.freshet("run")
            #expect(refused.status == 78 && refused.err.contains("contract_\(next)_yesterday"), "\(refused.err)")
        }
    }

    private static func placement(_ widget: String) -> OutgoingEvent {
        OutgoingEvent(
            .placed(
                WidgetPlacement(
                    app: Installation.app, widget: widget, user: widget, device: "d", kind: "DueDate",
                    family: .systemSmall, environment: WidgetPlacement.test("w").environment)),
            time: Timestamp.now())
    }
}
