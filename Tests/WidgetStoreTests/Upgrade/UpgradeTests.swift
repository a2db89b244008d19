// SPDX-License-Identifier: Apache-2.0

import Foundation
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Old and new binaries run side by side during an upgrade: first the database is migrated, then the processes are
/// replaced one by one.
@Suite("Upgrades without downtime", .timeLimit(.patience))
struct UpgradeTests {
    /// SHA-256 of the migrations that databases may have: they refuse one that has changed.
    private static let checksums = [
        "7efc75e4408bec9f3b63ffde0bf894eefe1d943b3e831ba7481f6916b0ee0e74",
        "ef8cf078d383200723e52f8a22ad6361119ee764a235ccc5dc812b0403ae70b1",
        "173fbd50e6e6f8b2c50b0cdd643b28babb20878cd7125a5dd5f0ef66a6ea9927",
        "13bfab69acc212a0e908c8a55e3b989ab3c6f23556d77229adb56f688f4aca5b",
        "29b8b40ce6af234de01b9d89a8772bce1732ac839c68ea1ca171ebaa8811e48b",
        "578187092aea4355140f2f06aef3611eb6bcae2713f8ee422b382b7df6853ce5",
        "69f7bd43db50389aa4359e9429714a7692ac595c0bc615d54e7fc58ead2b5e64",
        "550f3990f063cc5314ce3438ffdf67ba2a6166d79d70ff93b5bda4a3732bfdf4",
        "6099b09d047f33bba1c4ed7e7d7f44e2dc1c40da8dc6a52ec3306552f9bb2061",
        "6e519a98ed82827ddba5a0a7664f8785eef929c2e9258e2f5de5afb4c9e27920",
        "8778a128fb7e6c1450e8808d57e5fc8db6c734446852a853f8d9266586783740",
        "20192aae45b5fff4ead29207730a568e9325da870b6cf237e56caa554f20adda",
        "dc993478b1748b9f7dafb7cb9ae41b05f357cce771dac7fe77dfa6842630b972",
        "a6d58d441f6d43c3c7819700597f39f825b65acf01b2f738eb71243e39e4013f",
        "bdf15205d5c0ebc133ece437e947c1321d17eebef41f6baf440d63bb04d67014",
        "c2d7addb7c62da9a8b908e91bd79249ba3d2584542b68978a9780d4976cc1504",
        "298be9b4cf104c8229f011f2270da18a94c2d4ac59918975d46b4d8e1bf3eaad",
        "b5257b9cc850429ad17aa806d2cb14064d881afbb7114666081d6919fa5009d8",
        "a8a3a450be776c096b2a6de4a8f41a52d8d7e6c3fbc68ca7fe6a3667b20bf4b3",
        "86a85e0f5ffa424ee743b993d1ac30239dc567080530f7bcf5283eca4a14d898",
        "b93ea98cdbc683a6c25e34df7510b41520fb2837e3d2e5ec0fb94859c29dfb7a",
        "07d52c52a3bbd7d43d60d142ebbdfbf1f85ff253d82b5fb9bc7f891b39fd5e76",
        "ee427854d302fa215eeddc0c7fc1028f01d7e6377cce4a7784e26e476c6abab3",
    ]

    @Test("A migration never changes, not even in a comment")
    func unchanged() {
        let checksums = PostgresMigration.all.map { String(hexadecimal: $0.checksum) }
        #expect(Array(checksums.prefix(Self.checksums.count)) == Self.checksums)
        #expect(checksums.count == Self.checksums.count, "add the new one's")
    }

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
