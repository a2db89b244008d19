// SPDX-License-Identifier: Apache-2.0

import Logging
import TestSupport
import Testing

@testable import PostgresClient

@Suite("Connections that are no sessions of their own are refused", .timeLimit(.patience))
struct PoolerTests {
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    @Test("A pooler in transaction mode is recognized by a pool and by a listener, and gets no settings")
    func transactionMode() async throws {
        try await withDatabase { database in
            let pooler = try TransactionPooler(to: database.configuration)
            defer { pooler.stop() }
            var configuration = database.configuration
            configuration.connectionString = pooler.connectionString
            for _ in 1...2 {
                let pool = PostgresPool(configuration: configuration, logger: Self.quiet)
                let error = await #expect(throws: PostgresError.self) { try await pool.query(Jit()) }
                #expect(error?.kind == .configuration && error?.isRetriable == false)
                #expect(error?.message.contains("pooler in transaction") == true && error?.hint != nil)
                await pool.shutdown()
            }
            #expect(pooler.statements.allSatisfy { !$0.contains("set_config") }, "\(pooler.statements)")
        }
    }

    @Test("A pooler in session mode is accepted, and is asked for a second connection only once")
    func sessionMode() async throws {
        try await withDatabase { database in
            let pooler = try TransactionPooler(to: database.configuration, keepsSessions: true)
            defer { pooler.stop() }
            var configuration = database.configuration
            configuration.connectionString = pooler.connectionString
            for connections in [2, 3] {
                let pool = PostgresPool(configuration: configuration, logger: Self.quiet)
                #expect(try await pool.query(Jit()) == ["off"])
                await pool.shutdown()
                #expect(pooler.clients == connections)
            }
        }
    }

    @Test("A server is accepted with the only connection that it grants")
    func server() async throws {
        try await withDatabase { database in
            try await database.pool.withConnection {
                try await $0.simple("CREATE ROLE \(database.name) LOGIN PASSWORD 'p' CONNECTION LIMIT 1")
            }
            var configuration = database.configuration
            configuration.connectionString += " user=\(database.name) password=p"
            let pool = PostgresPool(configuration: configuration, logger: Self.quiet)
            #expect(try await pool.query(Jit()) == ["off"])
            await pool.shutdown()
            try await database.pool.withConnection { try await $0.simple("DROP ROLE \(database.name)") }
        }
    }

    @Test(
        "A database that is not UTF-8 is refused by the migrations and their check", arguments: ["LATIN1", "SQL_ASCII"])
    func encoding(_ encoding: String) async throws {
        try await withDatabase { database in
            let name = "\(database.name)_\(encoding.lowercased())"
            try await database.pool.withConnection {
                try await $0.simple(
                    "CREATE DATABASE \(name) ENCODING '\(encoding)' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
            }
            var configuration = database.configuration
            configuration.connectionString = database.connectionString.replacing(database.name, with: name)
            let pool = PostgresPool(configuration: configuration, logger: Self.quiet)
            let migrator = PostgresMigrator(migrations: [])
            for refused in [
                await #expect(throws: PostgresError.self) { try await migrator.apply(on: pool) },
                await #expect(throws: PostgresError.self) { try await migrator.check(on: pool) },
            ] {
                #expect(refused?.kind == .migration && refused?.message.contains(encoding) == true)
            }
            await pool.shutdown()
            try await database.pool.withConnection { try await $0.simple("DROP DATABASE \(name) WITH (FORCE)") }
        }
    }
}

/// A setting that each session gets.
private struct Jit: PostgresStatement {
    let sql = "SELECT current_setting('jit') AS jit"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("jit") }
}
