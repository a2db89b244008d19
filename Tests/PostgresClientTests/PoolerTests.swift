import Logging
import TestSupport
import Testing

@testable import PostgresClient

@Suite("Connections that are no sessions of their own are refused", .timeLimit(.patience))
struct PoolerTests {
    private static let quiet = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }

    @Test("A pooler in transaction mode is recognized, and gets no settings and no prepared statements")
    func transactionMode() async throws {
        try await withDatabase { database in
            let pooler = try TransactionPooler(to: database.configuration)
            defer { pooler.stop() }
            var configuration = database.configuration
            configuration.connectionString = pooler.connectionString
            let error = await #expect(throws: PostgresError.self) {
                try await PoolerCheck(configuration, logger: Self.quiet).requireSessions()
            }
            #expect(error?.kind == .configuration && error?.isRetriable == false)
            #expect(error?.message.contains("pooler in transaction") == true && error?.hint != nil)
        }
    }

    @Test("A server is accepted, and keeps no session")
    func server() async throws {
        try await withDatabase { database in
            try await PoolerCheck(database.configuration, logger: Self.quiet).requireSessions()
        }
    }

    @Test("Through a pooler in transaction mode, settings of one connection leak into another")
    func leak() async throws {
        // What the check is for: without it, this is how a pool would leave the sessions of other clients.
        try await withDatabase { database in
            let pooler = try TransactionPooler(to: database.configuration)
            defer { pooler.stop() }
            var configuration = database.configuration
            configuration.connectionString = pooler.connectionString
            let pools = (0..<2).map { _ in PostgresPool(configuration: configuration, logger: Self.quiet) }
            _ = try await pools[0].withConnection { try await $0.simple("SET application_name = 'leaked'") }
            let name = try await pools[1].withConnection { connection in
                try await connection.query(ApplicationName())
            }
            #expect(name == ["leaked"])
            for pool in pools { await pool.shutdown() }
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

private struct ApplicationName: PostgresStatement {
    let sql = "SELECT current_setting('application_name') AS name"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("name") }
}
