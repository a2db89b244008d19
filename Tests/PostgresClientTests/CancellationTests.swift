// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import TestSupport
import Testing

private let locks = DatabaseTemplate(key: "locks") { pool in
    try await pool.withConnection {
        try await $0.simple("CREATE TABLE item (id int8); \(AwaitLockWaiter.define)")
    }
}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct CancellationTests {
    /// Keeps a connection however long a busy machine takes to cancel its statement.
    private func waitForCancellation(_ configuration: inout PostgresConfiguration) {
        configuration.cancelTimeout = Patience.limit
    }

    @Test func aCancelledTaskCancelsItsStatementAndKeepsTheConnection() async throws {
        try await withDatabase(template: locks, configure: waitForCancellation) { database in
            let pool = database.pool
            try await pool.withTransaction { holder in
                _ = try await holder.execute(TakeLock(key: 1))
                try await pool.withConnection { connection in
                    let pid = try await connection.query(BackendPID())
                    let waiting = Task { await postgresError { try await connection.execute(TakeLock(key: 1)) } }
                    _ = try await pool.execute(AwaitLockWaiter())
                    waiting.cancel()
                    let error = await waiting.value
                    #expect(error?.kind == .cancelled)
                    #expect(error?.isRetriable == false)
                    try await #expect(connection.query(BackendPID()) == pid)
                }
            }
        }
    }

    /// Neither the request nor its late arrival may cancel the next statement.
    @Test func theNextStatementIsSafeFromAnEarlierCancellation() async throws {
        try await withDatabase(configure: waitForCancellation) { database in
            try await database.pool.withConnection { connection in
                for round in 0..<40 {
                    let sleeping = Task { await postgresError { try await connection.execute(Sleep(seconds: 0.002)) } }
                    if round % 2 == 0 { await Task.yield() }
                    sleeping.cancel()
                    let error = await sleeping.value
                    #expect(error == nil || error?.kind == .cancelled)
                    try await #expect(connection.query(SelectOne(value: round)) == [round])
                }
            }
            #expect(database.pool.statistics.open == 1)
        }
    }

    @Test func aServerThatStandsStillDoesNotHoldACancelledTask() async throws {
        try await withDatabase { database in
            let proxy = try TestProxy(to: database.configuration)
            try proxy.start()
            var configuration = database.configuration
            configuration.connectionString = proxy.connectionString
            configuration.cancelTimeout = .milliseconds(50)
            let pool = PostgresPool(
                configuration: configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let error = await postgresError {
                try await pool.withConnection { connection in
                    _ = try await connection.query(SelectOne(value: 1))
                    proxy.freeze()
                    let waiting = Task { try await connection.query(SelectOne(value: 2)) }
                    try await eventually("the statement is sent") { !proxy.isQuiet }
                    waiting.cancel()
                    _ = try await waiting.value
                }
            }
            #expect(error?.kind == .cancelled)
            proxy.freeze(false)
            // The connection cannot be used any more and is replaced.
            try await #expect(pool.query(SelectOne(value: 3)) == [3])
            await pool.shutdown()
            proxy.stop()
        }
    }

    @Test func aCallThatWaitsItsTurnIsCancelledWithoutBeingSent() async throws {
        try await withDatabase(template: locks) { database in
            let pool = database.pool
            try await pool.withConnection { connection in
                try await pool.withTransaction { holder in
                    _ = try await holder.execute(TakeLock(key: 1))
                    async let blocked = connection.execute(TakeLock(key: 1))
                    _ = try await pool.execute(AwaitLockWaiter())
                    let queued = Task { await postgresError { try await connection.execute(Insert(ids: [1])) } }
                    queued.cancel()
                    #expect(await queued.value?.kind == .cancelled)
                    // The lock is released with the holder's transaction, and the next transaction begins.
                    try await holder.simple("COMMIT; BEGIN")
                    _ = try await blocked
                }
                try await #expect(connection.query(Count()) == [0])
            }
        }
    }

    @Test func aCancelledTransactionRollsBackAndKeepsTheConnection() async throws {
        try await withDatabase(template: locks, configure: waitForCancellation) { database in
            let pool = database.pool
            try await pool.withTransaction { holder in
                _ = try await holder.execute(TakeLock(key: 1))
                try await pool.withConnection { connection in
                    let waiting = Task {
                        await postgresError {
                            try await connection.withTransaction { transaction in
                                try await transaction.simple("INSERT INTO item VALUES (1)")
                                _ = try await transaction.execute(TakeLock(key: 1))
                            }
                        }
                    }
                    _ = try await pool.execute(AwaitLockWaiter())
                    waiting.cancel()
                    #expect(await waiting.value?.kind == .cancelled)
                    try await #expect(connection.query(SelectOne(value: 1)) == [1])
                }
            }
        }
    }

    /// A cancellation after the body has returned does not interrupt the COMMIT.
    @Test func theCommitOfACancelledTaskIsNotInterrupted() async throws {
        try await withDatabase(template: locks) { database in
            let pool = database.pool
            let task = Task {
                try await pool.withTransaction { transaction in
                    try await transaction.simple("INSERT INTO item VALUES (1)")
                    withUnsafeCurrentTask { $0?.cancel() }
                }
            }
            try await task.value
            try await #expect(pool.query(Count()) == [1])
        }
    }
}
