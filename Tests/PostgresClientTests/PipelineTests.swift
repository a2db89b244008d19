// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing

private struct Divide: PostgresStatement {
    let sql = "SELECT 1 / $1::int8 AS quotient"
    var by: Int
    var parameters: PostgresParameters { PostgresParameters(by) }
    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("quotient") }
}

/// Returns the requested number of bytes in rows of 1000.
private struct Bulk: PostgresStatement {
    let sql = "SELECT repeat('x', 1000) AS text, $2::bytea AS payload FROM generate_series(1, $1::int8)"
    var rows: Int
    var payload: [UInt8] = []
    var parameters: PostgresParameters { PostgresParameters(rows, payload) }
    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int {
        try row.value("text", as: String.self).utf8.count + (try row.value("payload", as: [UInt8].self).count)
    }
}

private let items = DatabaseTemplate(key: "pipeline") { pool in
    try await pool.withConnection {
        try await $0.simple("CREATE TABLE item (id int8 PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")
    }
}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct PipelineTests {
    @Test func everyStatementHasItsOwnResults() async throws {
        try await withDatabase(template: items) { database in
            var pipeline = PostgresPipeline()
            #expect(pipeline.isEmpty)
            let insert = pipeline.append(Insert(ids: [3, 1, 2]))
            let ids = pipeline.append(Ids())
            let one = pipeline.append(SelectOne(value: 9))
            let again = pipeline.append(Insert(ids: [4]))
            let more = pipeline.append(Ids())
            #expect(pipeline.count == 5)
            let results = try await database.pool.run(pipeline)
            #expect(results.affected(insert) == 3)
            #expect(results.rows(insert).isEmpty)
            #expect(results.rows(ids) == [1, 2, 3])
            #expect(results.rows(one) == [9])
            #expect(results.affected(again) == 1)
            #expect(results.rows(more) == [1, 2, 3, 4])
        }
    }

    @Test func anEmptyPipelineDoesNothing() async throws {
        try await withDatabase { database in
            _ = try await database.pool.run(PostgresPipeline())
            _ = try await database.pool.run(PostgresPipeline(), commits: true)
        }
    }

    @Test(arguments: [false, true])
    func aFailureNamesItsStatementAndUndoesAll(inTransaction: Bool) async throws {
        try await withDatabase(template: items) { database in
            var pipeline = PostgresPipeline()
            _ = pipeline.append(Insert(ids: [1]))
            _ = pipeline.append(Divide(by: 0))
            _ = pipeline.append(Insert(ids: [2]))
            let (failing, pool) = (pipeline, database.pool)
            let error = await postgresError {
                inTransaction ? try await pool.run(failing, commits: true) : try await pool.run(failing)
            }
            #expect(error?.sqlState == "22012")
            #expect(error?.statement == "Divide")
            try await #expect(pool.query(Ids()) == [])
            #expect(pool.statistics.open == 1)
        }
    }

    /// Deferred constraints fail at the end of the transaction, with and without BEGIN and COMMIT.
    @Test(arguments: [false, true])
    func aDeferredConstraintFailsAtTheEnd(inTransaction: Bool) async throws {
        try await withDatabase(template: items) { database in
            var pipeline = PostgresPipeline()
            _ = pipeline.append(Insert(ids: [1, 1]))
            let (failing, pool) = (pipeline, database.pool)
            let error = await postgresError {
                inTransaction ? try await pool.run(failing, commits: true) : try await pool.run(failing)
            }
            #expect(error?.sqlState == "23505")
            #expect(error?.statement == (inTransaction ? "COMMIT" : "Insert"))
            #expect(error?.commitOutcomeUnknown == false)
            try await #expect(pool.query(Ids()) == [])
            #expect(pool.statistics.open == 1)
        }
    }

    /// Both directions carry far more than the sockets' buffers: neither side may wait for the other to read.
    @Test func bigParametersAndBigResultsDoNotDeadlock() async throws {
        try await withDatabase { database in
            var pipeline = PostgresPipeline()
            let payload = [UInt8](repeating: 7, count: 2_000_000)
            let handles = (0..<8).map { _ in pipeline.append(Bulk(rows: 4, payload: payload)) }
            let wide = pipeline.append(Bulk(rows: 20_000))
            let results = try await database.pool.run(pipeline)
            for handle in handles { #expect(results.rows(handle) == [2_001_000, 2_001_000, 2_001_000, 2_001_000]) }
            #expect(results.rows(wide).count == 20_000)
            #expect(results.rows(wide).allSatisfy { $0 == 1000 })
        }
    }

    @Test("Transactions are READ COMMITTED, whatever the database's default is")
    func isolation() async throws {
        struct Isolation: PostgresStatement {
            let sql = """
                SELECT current_setting('transaction_isolation') AS isolation,
                       current_setting('transaction_read_only') AS read_only
                """

            func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> [String] {
                [try row.value("isolation"), try row.value("read_only")]
            }
        }
        try await withDatabase { database in
            try await database.pool.withConnection { connection in
                try await connection.simple(
                    """
                    DO $$ BEGIN EXECUTE format(
                        'ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
                    END $$
                    """)
                // The default is that of sessions that begin from now on.
                connection.discardAfterUse()
            }
            var pipeline = PostgresPipeline()
            let isolation = pipeline.append(Isolation())
            try await #expect(
                database.pool.run(pipeline, commits: true).rows(isolation) == [["read committed", "off"]])
            let open = try await database.pool.withTransaction { try await $0.query(Isolation()) }
            #expect(open == [["read committed", "off"]])
            try await #expect(database.pool.query(Isolation()) == [["read committed", "off"]])
        }
    }

    @Test("An error of a statement or of the COMMIT names it, and nothing took effect")
    func failedTransaction() async throws {
        try await withDatabase(template: items) { database in
            for (ids, divisor) in [([1, 1], 1), ([2], 0)] {
                var pipeline = PostgresPipeline()
                _ = pipeline.append(Insert(ids: ids))
                _ = pipeline.append(Divide(by: divisor))
                let (failing, pool) = (pipeline, database.pool)
                let error = await postgresError { try await pool.run(failing, commits: true) }
                #expect(
                    error?.statement == (divisor == 0 ? "Divide" : "COMMIT") && error?.commitOutcomeUnknown == false)
            }
            try await #expect(database.pool.query(Ids()).isEmpty)
            #expect(database.pool.statistics.open == 1)
        }
    }

    /// Tasks that share a lent connection take turns.
    @Test func concurrentCallsOnOneConnectionTakeTurns() async throws {
        try await withDatabase { database in
            try await database.pool.withConnection { connection in
                try await withThrowingTaskGroup(of: (Int, [Int]).self) { group in
                    for value in 0..<32 {
                        group.addTask { (value, try await connection.query(SelectOne(value: value))) }
                    }
                    for try await (value, rows) in group { #expect(rows == [value]) }
                }
            }
            #expect(database.pool.statistics.open == 1)
        }
    }

    @Test func copyInAStatementIsRefused() async throws {
        struct Copy: PostgresStatement { let sql = "COPY item FROM STDIN" }
        try await withDatabase(template: items) { database in
            let error = await postgresError { try await database.pool.execute(Copy()) }
            #expect(error?.kind == .misuse)
            try await #expect(database.pool.query(Ids()) == [])
        }
    }
}
