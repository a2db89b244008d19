// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing

private struct Add: PostgresStatement {
    let sql = "UPDATE counter SET value = value + $2::int8 WHERE id = $1::int8"
    var id: Int
    var amount: Int
    var parameters: PostgresParameters { PostgresParameters(id, amount) }
}

private struct Total: PostgresStatement {
    let sql = "SELECT sum(value)::int8 AS total FROM counter"
    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("total") }
}

private let counters = DatabaseTemplate(key: "counters") { pool in
    try await pool.withConnection {
        try await $0.simple(
            "CREATE TABLE counter (id int8 PRIMARY KEY, value int8 NOT NULL); INSERT INTO counter VALUES (1, 0), (2, 0)"
        )
        try await $0.simple(AwaitLockWaiter.define)
    }
}

private struct Changed: Error {}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct TransactionTests {
    @Test func whatReturnsIsCommittedAndWhatThrowsIsRolledBack() async throws {
        try await withDatabase(template: counters) { database in
            let pool = database.pool
            let sum = try await pool.withTransaction { transaction in
                _ = try await transaction.execute(Add(id: 1, amount: 2))
                _ = try await transaction.execute(Add(id: 2, amount: 3))
                // Other sessions do not see the changes yet.
                try await #expect(pool.query(Total()) == [0])
                return try await transaction.query(Total())
            }
            #expect(sum == [5])
            try await #expect(pool.query(Total()) == [5])

            await #expect(throws: Changed.self) {
                try await pool.withTransaction { transaction in
                    _ = try await transaction.execute(Add(id: 1, amount: 100))
                    throw Changed()
                }
            }
            try await #expect(pool.query(Total()) == [5])
        }
    }

    @Test func aTransactionInWhichNothingIsDoneSendsNothing() async throws {
        try await withDatabase { database in
            let value = try await database.pool.withTransaction { _ in 7 }
            #expect(value == 7)
            await #expect(throws: Changed.self) { try await database.pool.withTransaction { _ in throw Changed() } }
        }
    }

    /// PostgreSQL then answers COMMIT with ROLLBACK, which must not count as success.
    @Test func aFailedStatementThatIsIgnoredFailsTheTransaction() async throws {
        try await withDatabase(template: counters) { database in
            for breaksFirst in [true, false] {
                let error = await postgresError {
                    try await database.pool.withTransaction { transaction in
                        if !breaksFirst { _ = try await transaction.execute(Add(id: 1, amount: 1)) }
                        do { try await transaction.simple("SELECT 1/0") } catch {}
                    }
                }
                #expect(error?.sqlState == "22012")
                try await #expect(database.pool.query(Total()) == [0])
            }
            #expect(database.pool.statistics.open == 1)
        }
    }

    @Test func simpleStatementsJoinTheTransaction() async throws {
        try await withDatabase(template: counters) { database in
            await #expect(throws: Changed.self) {
                try await database.pool.withTransaction { transaction in
                    try await transaction.simple("UPDATE counter SET value = 1; UPDATE counter SET value = 2")
                    try await #expect(transaction.query(Total()) == [4])
                    throw Changed()
                }
            }
            try await #expect(database.pool.query(Total()) == [0])
        }
    }

    @Test func transactionsDoNotNest() async throws {
        try await withDatabase(template: counters) { database in
            try await database.pool.withConnection { connection in
                try await connection.withTransaction { transaction in
                    _ = try await transaction.execute(Add(id: 1, amount: 1))
                    let nested = await postgresError { try await transaction.withTransaction { _ in } }
                    #expect(nested?.kind == .misuse)
                    let whole = await postgresError { try await transaction.run(PostgresPipeline(), commits: true) }
                    #expect(whole?.kind == .misuse)
                    // The outer connection would act inside the transaction unnoticed.
                    let around = await postgresError { try await connection.execute(Add(id: 1, amount: 1)) }
                    #expect(around?.kind == .misuse)
                }
                try await #expect(connection.query(Total()) == [1])
            }
        }
    }

    @Test func aStatementThatEndsTheTransactionIsFoundOut() async throws {
        try await withDatabase(template: counters) { database in
            let error = await postgresError {
                try await database.pool.withTransaction { transaction in
                    _ = try await transaction.execute(Add(id: 1, amount: 1))
                    try await transaction.simple("COMMIT")
                }
            }
            #expect(error?.kind == .misuse)
        }
    }

    @Test func aConnectionKeptBeyondItsClosureIsRefused() async throws {
        try await withDatabase { database in
            let kept = try await database.pool.withConnection { $0 }
            #expect(await postgresError { try await kept.query(SelectOne(value: 1)) }?.kind == .misuse)
            let transaction = try await database.pool.withTransaction { $0 }
            #expect(await postgresError { try await transaction.simple("SELECT 1") }?.kind == .misuse)
        }
    }

    @Test func aConnectionLeftInATransactionIsNotLentAgain() async throws {
        try await withDatabase(template: counters) { database in
            try await database.pool.withConnection { connection in
                try await connection.simple("BEGIN; UPDATE counter SET value = 9")
            }
            try await #expect(database.pool.query(Total()) == [0])
        }
    }

    @Test func aSerializationFailureCanBeRetried() async throws {
        try await withDatabase(template: counters) { database in
            let pool = database.pool
            let error = await postgresError {
                try await pool.withTransaction { first in
                    try await first.simple("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                    _ = try await first.query(Total())
                    try await pool.withTransaction { second in
                        try await second.simple("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
                        _ = try await second.query(Total())
                        _ = try await second.execute(Add(id: 2, amount: 1))
                    }
                    _ = try await first.execute(Add(id: 1, amount: 1))
                }
            }
            #expect(error?.sqlState == "40001")
            #expect(error?.kind == .server)
            #expect(error?.isRetriable == true)
            try await #expect(pool.query(Total()) == [1])
        }
    }

    @Test func aDeadlockCanBeRetried() async throws {
        try await withDatabase(template: counters) { database in
            let pool = database.pool
            let (firstHolds, secondHolds) = (Gate(), Gate())
            let errors = await withTaskGroup(of: PostgresError?.self) { group in
                for (own, other, holds, otherHolds) in [
                    (1, 2, firstHolds, secondHolds), (2, 1, secondHolds, firstHolds),
                ] {
                    group.addTask {
                        await postgresError {
                            try await pool.withTransaction { transaction in
                                defer { holds.open() }
                                _ = try await transaction.execute(Add(id: own, amount: 1))
                                holds.open()
                                try await otherHolds.pass()
                                _ = try await transaction.execute(Add(id: other, amount: 1))
                            }
                        }
                    }
                }
                return await group.reduce(into: []) { $0.append($1) }
            }
            let failed = errors.compactMap { $0 }
            #expect(failed.map(\.sqlState) == ["40P01"])
            #expect(failed.first?.isRetriable == true)
            #expect(failed.first?.statement == "Add")
            try await #expect(pool.query(Total()) == [2])
        }
    }

    @Test func lockTimeoutsCanBeRetried() async throws {
        try await withDatabase(template: counters) { database in
            try await database.pool.withTransaction { holder in
                _ = try await holder.execute(Add(id: 1, amount: 1))
                let error = await postgresError {
                    try await database.pool.withTransaction { transaction in
                        try await transaction.simple("SET LOCAL lock_timeout = '20ms'")
                        _ = try await transaction.execute(Add(id: 1, amount: 1))
                    }
                }
                #expect(error?.sqlState == "55P03")
                #expect(error?.isRetriable == true)
            }
        }
    }
}
