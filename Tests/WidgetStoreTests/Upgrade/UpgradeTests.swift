// SPDX-License-Identifier: Apache-2.0

import Foundation
import PostgresClient
import TestSupport
import Testing
import WidgetStore

/// Old and new binaries run side by side during an upgrade: first the database is migrated, then the processes are
/// replaced one by one.
@Suite("Upgrades without downtime", .timeLimit(.patience))
struct UpgradeTests {
    /// Lowest level that a binary must know to use this build's schema.
    private static var leastKnown: Int {
        PostgresMigration.all.map { PostgresMigration.leastKnown(by: $0.name, version: $0.version) }.max() ?? 0
    }

    @Test("Statements of earlier releases work at the newest migration")
    func statementsOfBefore() async throws {
        if ProcessInfo.processInfo.environment["FRESHET_TEST_RECORD_STATEMENTS"] != nil {
            try StatementRecord.current.write()
        }
        // Without an earlier release this build's own statements are checked.
        let records = try StatementRecord.all().filter { $0.level >= Self.leastKnown } + [.current]
        try await withStore { store in
            for record in records {
                #expect(record.level <= PostgresMigration.all.count)
                #expect(record.statements.count > 50)
                for statement in record.statements {
                    do {
                        try await store.sql("PREPARE of_before AS \(statement.sql);\nDEALLOCATE of_before")
                    } catch {
                        Issue.record("\(statement.name) of the release at migration \(record.level): \(error)")
                    }
                }
            }
        }
    }

    @Test("The check notices a removed column that an earlier release needs")
    func statementsOfBeforeCanFail() async throws {
        try await withStore { store in
            try await store.sql("ALTER TABLE widget RENAME COLUMN changed_at TO modified_at")
            let record = try StatementRecord.all().last ?? .current
            var failures = 0
            for statement in record.statements {
                do {
                    try await store.sql("PREPARE of_before AS \(statement.sql);\nDEALLOCATE of_before")
                } catch {
                    failures += 1
                }
            }
            #expect(failures > 0)
        }
    }

    @Test("Each migration only adds, or names the release that does without the removed parts")
    func migrationsOnlyAdd() throws {
        let released = try StatementRecord.all().first?.level ?? PostgresMigration.all.count
        for migration in PostgresMigration.all where migration.version > released {
            let least = PostgresMigration.leastKnown(by: migration.name, version: migration.version)
            // The release before this migration does not know it and must continue to run.
            #expect(least < migration.version, "\(migration.name): no binary could run while it is applied")
            if least == 0 { #expect(Self.takesAway(migration.sql) == nil, "\(migration.version) \(migration.name)") }
        }
    }

    @Test(
        "Destructive statements are recognised",
        arguments: [
            ("ALTER TABLE a ADD COLUMN b int", true), ("ALTER TABLE a ADD COLUMN b int NOT NULL DEFAULT 0", true),
            ("ALTER TABLE a ADD COLUMN b int NOT NULL", false), ("ALTER TABLE a DROP COLUMN b", false),
            ("alter table a rename to b", false), ("ALTER TABLE a ALTER COLUMN b TYPE bigint", false),
            ("ALTER TABLE a ALTER COLUMN b SET NOT NULL", false), ("DROP FUNCTION f(int)", false),
            ("DROP INDEX a_b; CREATE INDEX a_c ON a (c)", true), ("-- DROP TABLE a\nSELECT 1", true),
            ("CREATE TABLE a (b int NOT NULL)", true), ("ALTER TABLE a\n    ADD b int\n    NOT NULL;", false),
        ])
    func recognition(sql: String, isAddition: Bool) {
        #expect((Self.takesAway(sql) == nil) == isAddition)
    }

    @Test("The newest binary reports missing migrations until they are applied")
    func levelBefore() async throws {
        let all = PostgresMigration.all
        try await withDatabase { database in
            _ = try await PostgresMigrator(migrations: Array(all.dropLast())).apply(on: database.pool)
            let newest = PostgresMigrator(migrations: all)
            try await #expect(newest.check(on: database.pool).pending == [all[all.count - 1]])
            try await #expect(newest.apply(on: database.pool) == [all[all.count - 1]])
            // A binary of the previous level can use the new level.
            let before = PostgresMigrator(migrations: Array(all.dropLast()))
            try await #expect(before.check(on: database.pool).newer.map(\.version) == [all.count])
        }
    }

    @Test("A database of the previous release, with rows, can be migrated")
    func rowsOfBefore() async throws {
        let all = PostgresMigration.all
        let released = try StatementRecord.all().first?.level ?? all.count - 1
        try await withDatabase { database in
            _ = try await PostgresMigrator(migrations: Array(all.prefix(released))).apply(on: database.pool)
            try await database.pool.withConnection {
                try await $0.simple("INSERT INTO app (name, signing_secret) VALUES ('com.example.bank', '\\x01')")
            }
            #expect(
                try await PostgresMigrator(migrations: all).apply(on: database.pool).count == all.count - released)
            let directory = try await DirectoryCache(pool: database.pool).refresh()
            #expect(directory.apps["com.example.bank"] != nil)
        }
    }

    /// Returns the part of a migration that removes something older binaries may need; nil if it only adds.
    static func takesAway(_ sql: String) -> String? {
        let text = sql.split(separator: "\n", omittingEmptySubsequences: false)
            .map { line in line.firstRange(of: "--").map { line[..<$0.lowerBound] } ?? line }
            .joined(separator: " ").uppercased()
        for statement in text.split(separator: ";") {
            let words = statement.split(whereSeparator: \.isWhitespace).joined(separator: " ")
            for hint in ["DROP TABLE", "DROP FUNCTION", "DROP SEQUENCE", "DROP VIEW", "DROP TYPE"]
            where words.contains(hint) {
                return hint
            }
            guard words.contains("ALTER TABLE") else { continue }
            for hint in ["DROP COLUMN", "RENAME", " TYPE ", "SET NOT NULL", "DROP DEFAULT"] where words.contains(hint) {
                return hint
            }
            if words.contains(" ADD "), words.contains("NOT NULL"), !words.contains("DEFAULT") { return "NOT NULL" }
        }
        return nil
    }
}
