// SPDX-License-Identifier: Apache-2.0

import Logging
import TestSupport
import Testing

@testable import PostgresClient

private let first = PostgresMigration(
    version: 1, name: "first", sql: "CREATE TABLE a (id int8); INSERT INTO a VALUES (1); SELECT pg_sleep(0.05)")
private let second = PostgresMigration(version: 2, name: "second", sql: "ALTER TABLE a ADD COLUMN name text")

private struct CountA: PostgresStatement {
    let sql = "SELECT count(*) AS count FROM a"
    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("count") }
}

private struct Exists: PostgresStatement {
    let sql = "SELECT to_regclass($1::text) IS NOT NULL AS exists"
    var table: String
    var parameters: PostgresParameters { PostgresParameters(table) }
    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("exists") }
}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct MigratorTests {
    @Test func missingMigrationsAreAppliedInOrder() async throws {
        try await withDatabase { database in
            let pool = database.pool
            let both = PostgresMigrator(migrations: [second, first])
            var status = try await both.check(on: pool)
            #expect(status.applied == [] && status.pending == [first, second] && status.newer.isEmpty)
            // Reading the state writes nothing.
            try await #expect(pool.query(Exists(table: "freshet_migration")) == [false])
            try await #expect(PostgresMigrator(migrations: [first]).apply(on: pool) == [first])
            status = try await both.check(on: pool)
            #expect(status.applied == [first] && status.pending == [second] && status.newer.isEmpty)
            try await #expect(both.apply(on: pool) == [second])
            try await #expect(both.apply(on: pool) == [])
            try await #expect(pool.query(CountA()) == [1])
        }
    }

    @Test func processesThatStartAtOnceApplyOnce() async throws {
        try await withDatabase { database in
            let applied = try await withThrowingTaskGroup(of: [PostgresMigration].self) { group in
                for _ in 0..<6 {
                    // Each with its own pool, like separate processes.
                    group.addTask {
                        let pool = PostgresPool(
                            configuration: database.configuration,
                            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
                        let applied = try await PostgresMigrator(migrations: [first, second]).apply(on: pool)
                        await pool.shutdown()
                        return applied
                    }
                }
                return try await group.reduce(into: []) { $0 += $1 }
            }
            #expect(applied.map(\.version) == [1, 2])
            try await #expect(database.pool.query(CountA()) == [1])
        }
    }

    @Test("A database that was migrated for a newer binary is used unchanged")
    func aNewerDatabase() async throws {
        try await withDatabase { database in
            _ = try await PostgresMigrator(migrations: [first, second]).apply(on: database.pool)
            let old = PostgresMigrator(migrations: [first])
            try await #expect(old.apply(on: database.pool) == [])
            let status = try await old.check(on: database.pool)
            #expect(status.applied == [first] && status.pending == [])
            #expect(status.newer.map(\.version) == [2] && status.newer.map(\.name) == ["second"])
        }
    }

    @Test(
        "A contracting migration admits only binaries that know the level in its name",
        arguments: [
            ("contract_1_drop", true), ("contract_2_drop", false), ("contract_drop", false), ("contract", false),
            ("contract_1", true), ("contractual_2_x", true), ("second", true),
        ])
    func contractions(name: String, isUsable: Bool) async throws {
        try await withDatabase { database in
            let contraction = PostgresMigration(version: 2, name: name, sql: "SELECT 1")
            _ = try await PostgresMigrator(migrations: [first, contraction]).apply(on: database.pool)
            let old = PostgresMigrator(migrations: [first])
            for error in [
                await postgresError { try await old.apply(on: database.pool) },
                await postgresError { try await old.check(on: database.pool) },
            ] {
                #expect((error == nil) == isUsable)
                guard let error else { continue }
                #expect(error.kind == .migration)
                #expect(error.message.contains("migration 2 (\(name))"))
                #expect(!error.isRetriable)
            }
            let known = PostgresMigrator(migrations: [first, contraction])
            try await #expect(known.check(on: database.pool).pending == [])
        }
    }

    @Test func aChangedMigrationIsRefused() async throws {
        try await withDatabase { database in
            _ = try await PostgresMigrator(migrations: [first]).apply(on: database.pool)
            let changed = PostgresMigration(version: 1, name: "first", sql: first.sql + " ")
            let migrator = PostgresMigrator(migrations: [changed, second])
            let error = await postgresError { try await migrator.apply(on: database.pool) }
            #expect(error?.kind == .migration)
            #expect(error?.message == "migration 1 (first) was changed after it was applied to the database")
            try await #expect(PostgresMigrator(migrations: [first]).check(on: database.pool).pending == [])
        }
    }

    @Test func aFailedMigrationLeavesNothing() async throws {
        try await withDatabase { database in
            let broken = PostgresMigration(
                version: 2, name: "broken", sql: "CREATE TABLE b (id int8); CREATE TABLE a (id int8)")
            let error = await postgresError {
                try await PostgresMigrator(migrations: [first, broken]).apply(on: database.pool)
            }
            #expect(error?.sqlState == "42P07")
            #expect(error?.statement == "migration 2 (broken)")
            try await #expect(database.pool.query(Exists(table: "a")) == [true])
            try await #expect(database.pool.query(Exists(table: "b")) == [false])
            // The previous migration stays, a corrected one continues there, and the lock was released.
            let mended = PostgresMigration(version: 2, name: "broken", sql: "CREATE TABLE b (id int8)")
            try await #expect(PostgresMigrator(migrations: [first, mended]).apply(on: database.pool) == [mended])
        }
    }

    @Test func aMigrationThatEndsItsTransactionIsFoundOut() async throws {
        try await withDatabase { database in
            let leaky = PostgresMigration(version: 1, name: "leaky", sql: "CREATE TABLE b (id int8); COMMIT")
            let error = await postgresError { try await PostgresMigrator(migrations: [leaky]).apply(on: database.pool) }
            #expect(error?.kind == .misuse)
            #expect(error?.statement == "migration 1 (leaky)")
        }
    }

    @Test(arguments: [[first, first], [second], [PostgresMigration(version: 0, name: "zero", sql: "")]])
    func versionsMustFollowOnFromOne(migrations: [PostgresMigration]) async throws {
        try await withDatabase { database in
            let error = await postgresError {
                try await PostgresMigrator(migrations: migrations).apply(on: database.pool)
            }
            #expect(error?.kind == .migration)
        }
    }

    @Test func theChecksumIsTheTextsSHA256() {
        let empty = PostgresMigration(version: 1, name: "", sql: "").checksum
        #expect(empty.count == 32)
        #expect(empty.starts(with: [0xE3, 0xB0, 0xC4, 0x42]))
    }
}
