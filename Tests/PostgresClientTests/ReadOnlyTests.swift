// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import TestSupport
import Testing

private struct Write: PostgresStatement {
    let sql = "INSERT INTO item VALUES (1)"
}

private let items = DatabaseTemplate(key: "read-only") { pool in
    try await pool.withConnection { try await $0.simple("CREATE TABLE item (id int8)") }
}

/// A server that is read-only for a while: a standby after a failover, or a suspended database.
@Suite(.tags(.postgres), .timeLimit(.patience))
struct ReadOnlyTests {
    private func setReadOnly(_ isReadOnly: Bool, _ database: TestDatabase) async throws {
        // The database's read-only default applies to the statement that reverts it, too, so that needs a write
        // transaction.
        try await database.pool.withConnection { connection in
            connection.discardAfterUse()
            try await connection.simple("SET default_transaction_read_only = off")
            try await connection.simple(
                "ALTER DATABASE \(database.name) SET default_transaction_read_only = \(isReadOnly ? "on" : "off")")
        }
    }

    private func withPool(
        _ database: TestDatabase, _ maximum: Int, _ body: (PostgresPool) async throws -> Void
    ) async throws {
        var configuration = database.configuration
        configuration.maximumConnections = maximum
        let pool = PostgresPool(
            configuration: configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        try await body(pool)
        await pool.shutdown()
    }

    @Test func aConnectionThatTakesNoWritesIsNotKept() async throws {
        try await withDatabase(template: items) { database in
            try await setReadOnly(true, database)
            try await withPool(database, 1) { pool in
                let single = await postgresError { try await pool.execute(Write()) }
                #expect(single?.sqlState == "25006" && single?.isRetriable == true)
                let closure = await postgresError {
                    try await pool.withTransaction { _ = try await $0.execute(Write()) }
                }
                #expect(closure?.sqlState == "25006")
                let simple = await postgresError {
                    try await pool.withConnection { try await $0.simple("INSERT INTO item VALUES (2)") }
                }
                #expect(simple?.sqlState == "25006")
                try await setReadOnly(false, database)
                _ = await postgresError { try await pool.execute(Write()) }
                try await #expect(pool.execute(Write()) == 1)
            }
        }
    }

    @Test func theIdleConnectionsToItGoWithTheFirstOneThatIsRefused() async throws {
        try await withDatabase(template: items) { database in
            try await setReadOnly(true, database)
            try await withPool(database, 4) { pool in
                // Four at once, so that there are four connections.
                try await withThrowingTaskGroup(of: Void.self) { group in
                    let all = Tally()
                    for _ in 0..<4 {
                        group.addTask {
                            try await pool.withConnection { _ in
                                all.add()
                                try await all.reaches(4)
                            }
                        }
                    }
                    try await group.waitForAll()
                }
                #expect(pool.statistics.idle == 4)
                let refusal = await postgresError { try await pool.execute(Write()) }
                #expect(refusal?.sqlState == "25006")
                try await setReadOnly(false, database)
                for _ in 0..<8 { try await #expect(pool.execute(Write()) == 1) }
            }
        }
    }

    /// Reads are unaffected, and their connections stay.
    @Test func aReadOnlyServerIsStillRead() async throws {
        try await withDatabase(template: items) { database in
            try await setReadOnly(true, database)
            try await withPool(database, 1) { pool in
                let pid = try await pool.query(BackendPID())
                try await #expect(pool.query(BackendPID()) == pid)
            }
        }
    }
}

/// A server or network that drops all data.
@Suite(.tags(.postgres), .timeLimit(.patience))
struct SilenceTests {
    @Test func aServerThatIsSilentForLongerThanItsStatementsMayTakeIsGivenUp() async throws {
        try await withDatabase(template: items) { database in
            let proxy = try TestProxy(to: database.configuration)
            try proxy.start()
            var configuration = database.configuration
            configuration.connectionString = proxy.connectionString
            configuration.statementTimeout = .seconds(1)
            configuration.cancelTimeout = .milliseconds(100)
            let pool = PostgresPool(
                configuration: configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            // On a busy machine a write may exceed the limits as well.
            func write() async throws -> Int {
                try await retrying(where: { $0.sqlState == "57014" || $0.kind == .connection }) {
                    try await pool.execute(Write())
                }
            }
            try await #expect(write() == 1)
            var error: PostgresError?
            try await eventually("the server falls silent after a write") {
                var isFrozen = false
                error = await postgresError {
                    try await pool.withTransaction { transaction in
                        _ = try await transaction.execute(Write())
                        proxy.freeze()
                        isFrozen = true
                    }
                }
                return isFrozen
            }
            #expect(error?.kind == .connection && error?.commitOutcomeUnknown == true && error?.isRetriable == true)
            proxy.freeze(false)
            try await #expect(write() == 1)
            await pool.shutdown()
            proxy.stop()
        }
    }

    /// Each statement in a round trip has its own time limit, and a slow answer does not count as silence.
    @Test func aSlowServerIsNotGivenUp() async throws {
        try await withDatabase { database in
            var configuration = database.configuration
            configuration.statementTimeout = .seconds(2)
            configuration.cancelTimeout = .milliseconds(50)
            let pool = PostgresPool(
                configuration: configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            var pipeline = PostgresPipeline()
            for _ in 0..<6 { _ = pipeline.append(Sleep(seconds: 0.5)) }
            let whole = pipeline
            // On a busy machine a single statement may exceed the limit.
            _ = try await retrying { try await pool.run(whole) }
            await pool.shutdown()
        }
    }
}
