// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import TestSupport
import Testing

/// Maximum number of concurrent tasks.
private final class Peak: Sendable {
    private struct State {
        var now = 0
        var most = 0
    }

    private let state = Locked(State())

    var most: Int { state.withLock { $0.most } }

    func enter() {
        state.withLock { state in
            state.now += 1
            state.most = max(state.most, state.now)
        }
    }

    func leave() { state.withLock { $0.now -= 1 } }
}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct PoolTests {
    @Test func noMoreConnectionsThanTheMaximumAreOpened() async throws {
        try await withDatabase {
            $0.maximumConnections = 3
        } _: { database in
            let pool = database.pool
            let lent = Peak()
            let pids = try await withThrowingTaskGroup(of: Int32.self) { group in
                for _ in 0..<40 {
                    group.addTask {
                        try await pool.withConnection { connection in
                            lent.enter()
                            defer { lent.leave() }
                            return try await connection.query(BackendPID())[0]
                        }
                    }
                }
                return try await group.reduce(into: Set<Int32>()) { $0.insert($1) }
            }
            #expect(pids.count <= 3)
            #expect(lent.most <= 3)
            #expect(pool.statistics.open <= 3)
            #expect(pool.statistics.waiting == 0)
        }
    }

    @Test("Background work holds a part of the connections, so that others find one however much of it there is")
    func background() async throws {
        try await withDatabase {
            $0.maximumConnections = 8
        } _: { database in
            let pool = database.pool
            let (lent, gate) = (Peak(), Gate())
            try await withThrowingTaskGroup(of: Void.self) { group in
                for _ in 0..<10 {
                    group.addTask {
                        try await PostgresPool.inBackground {
                            try await pool.withConnection { connection in
                                lent.enter()
                                defer { lent.leave() }
                                try await gate.pass()
                                _ = try await connection.query(SelectOne(value: 1))
                            }
                        }
                    }
                }
                try await eventually("background work waits for its share") {
                    pool.statistics.lent == 2 && pool.statistics.waiting == 8
                }
                for _ in 0..<20 { try await #expect(pool.query(SelectOne(value: 1)) == [1]) }
                #expect(lent.most == 2)
                gate.open()
                try await group.waitForAll()
            }
            #expect(lent.most == 2)
            #expect(pool.statistics.lent == 0 && pool.statistics.waiting == 0)
        }
    }

    /// A pool whose only connection has been opened.
    private func withOneConnection(_ body: (PostgresPool) async throws -> Void) async throws {
        try await withDatabase {
            $0.maximumConnections = 1
            $0.acquireTimeout = .milliseconds(300)
        } _: { database in
            let pool = database.pool
            // Connecting may exceed that on a busy machine, or fail; an idle connection is then lent at once.
            try await eventually("the pool has a connection") {
                await postgresError { try await pool.query(SelectOne(value: 0)) } == nil
            }
            try await body(pool)
        }
    }

    @Test func aCallerThatWaitsTooLongIsToldThatAllAreInUse() async throws {
        try await withOneConnection { pool in
            try await pool.withConnection { _ in
                #expect(pool.statistics.lent == 1)
                let before = pool.statistics
                let error = await postgresError { try await pool.query(SelectOne(value: 1)) }
                #expect(error?.kind == .poolTimeout)
                #expect(error?.isRetriable == true)
                #expect(error?.message.contains("1 of 1 are in use") == true)
                let after = pool.statistics
                #expect(after.waits == before.waits + 1)
                #expect(after.timeouts == before.timeouts + 1)
                #expect(after.waitingTime - before.waitingTime >= .milliseconds(250))
            }
        }
    }

    @Test func aCallerThatFindsAConnectionFreeDoesNotWait() async throws {
        try await withOneConnection { pool in
            let waits = pool.statistics.waits
            try await #expect(pool.query(SelectOne(value: 1)) == [1])
            #expect(pool.statistics.waits == waits)
        }
    }

    @Test func aCancelledWaiterLeavesTheQueue() async throws {
        try await withDatabase {
            $0.maximumConnections = 1
        } _: { database in
            let pool = database.pool
            try await pool.withConnection { connection in
                let waiting = Task { await postgresError { try await pool.query(SelectOne(value: 1)) } }
                waiting.cancel()
                #expect(await waiting.value?.kind == .cancelled)
                #expect(pool.statistics.waiting == 0)
                try await #expect(connection.query(SelectOne(value: 2)) == [2])
            }
        }
    }

    @Test func aConnectionThatTheServerEndsIsReplacedAtItsNextUse() async throws {
        try await withDatabase { database in
            let pool = database.pool
            try await pool.withConnection { administrator in
                for _ in 0..<5 {
                    let pid = try await pool.query(BackendPID())[0]
                    try await #expect(administrator.query(Terminate(pid: pid)) == [true])
                    let next = try await pool.withTransaction { try await $0.query(BackendPID())[0] }
                    #expect(next != pid)
                }
            }
        }
    }

    @Test func aConnectionLostInUseIsARetriableConnectionError() async throws {
        try await withDatabase { database in
            let pool = database.pool
            let error = await postgresError {
                try await pool.withTransaction { transaction in
                    let pid = try await transaction.query(BackendPID())[0]
                    _ = try await pool.query(Terminate(pid: pid))
                    _ = try await transaction.query(SelectOne(value: 1))
                }
            }
            #expect(error?.kind == .connection)
            #expect(error?.sqlState == "57P01")
            #expect(error?.isRetriable == true)
            // COMMIT was never sent.
            #expect(error?.commitOutcomeUnknown == false)
            try await #expect(pool.query(SelectOne(value: 1)) == [1])
        }
    }

    @Test func aStatementThatEndsItsOwnSessionSaysWhy() async throws {
        struct Suicide: PostgresStatement { let sql = "SELECT pg_terminate_backend(pg_backend_pid())" }
        try await withDatabase { database in
            let error = await postgresError { try await database.pool.execute(Suicide()) }
            #expect(error?.kind == .connection)
            #expect(error?.sqlState == "57P01")
            #expect(error?.statement == "Suicide")
            #expect(error?.isRetriable == true)
            // The server refused the statement before the COMMIT, so nothing was committed.
            #expect(error?.commitOutcomeUnknown == false)
        }
    }

    @Test func anAbsentServerIsTriedUntilTheTimeIsOver() async throws {
        var configuration = PostgresConfiguration(
            connectionString: "host=127.0.0.1 port=1 user=nobody password=hunter2")
        configuration.acquireTimeout = .seconds(1)
        configuration.maximumBackoff = .milliseconds(20)
        let log = RecordedLog()
        let pool = PostgresPool(configuration: configuration, logger: log.logger)
        var error: PostgresError?
        // A busy machine may not make several attempts, or any, within the time of one caller.
        try await eventually("several attempts have failed") {
            error = await postgresError { try await pool.query(SelectOne(value: 1)) }
            return log.lines.count > 2 && error?.kind != .poolTimeout
        }
        #expect(error?.kind == .connection)
        #expect(error?.isRetriable == true)
        #expect(error?.message.contains("port 1") == true)
        #expect(!log.lines.contains { $0.description.contains("hunter2") })
        await pool.shutdown()
    }

    @Test func aServerThatComesBackIsFoundAgain() async throws {
        try await withDatabase { database in
            // A proxy that does not answer yet stands for a starting server.
            let proxy = try TestProxy(to: database.configuration)
            var configuration = database.configuration
            configuration.connectionString = proxy.connectionString
            configuration.maximumBackoff = .milliseconds(20)
            let log = RecordedLog()
            let pool = PostgresPool(configuration: configuration, logger: log.logger)
            try proxy.start()
            try await #expect(pool.query(SelectOne(value: 1)) == [1])
            proxy.stop()
            async let rows = pool.query(SelectOne(value: 2))
            try await log.next { $0.text.contains("failed or was lost") }
            try proxy.start()
            try await #expect(rows == [2])
            await pool.shutdown()
            proxy.stop()
        }
    }

    @Test func aRefusalIsNotWaitedFor() async throws {
        try await withDatabase { database in
            var configuration = database.configuration
            configuration.connectionString += " dbname=freshet_no_such_database"
            let missing = PostgresPool(
                configuration: configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let noDatabase = await postgresError { try await missing.query(SelectOne(value: 1)) }
            #expect(noDatabase?.kind == .configuration)
            #expect(noDatabase?.sqlState == "3D000")
            #expect(noDatabase?.isRetriable == false)
            await missing.shutdown()

            configuration.connectionString = database.configuration.connectionString + " password=hunter2"
            let wrong = PostgresPool(
                configuration: configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let noEntry = await postgresError { try await wrong.query(SelectOne(value: 1)) }
            // A server without authentication accepts this connection, too.
            if let noEntry {
                #expect(noEntry.kind == .configuration)
                #expect(noEntry.sqlState == "28P01")
                #expect(!noEntry.description.contains("hunter2"))
            }
            await wrong.shutdown()
        }
    }

    @Test func shutdownWaitsForLentConnectionsAndRefusesOthers() async throws {
        try await withDatabase { database in
            let pool = database.pool
            let (isLent, mayReturn) = (Gate(), Gate())
            async let lent = pool.withConnection { connection in
                isLent.open()
                try await mayReturn.pass()
                return try await connection.query(SelectOne(value: 1))
            }
            try await isLent.pass()
            async let shutdown: Void = pool.shutdown()
            // Refusal begins with the shutdown, whenever its task runs.
            while await postgresError({ try await pool.query(SelectOne(value: 2)) })?.kind != .shutdown {}
            mayReturn.open()
            try await #expect(lent == [1])
            await shutdown
            #expect(pool.statistics.open == 0)
            #expect(pool.statistics.connecting == 0)
            await pool.shutdown()
        }
    }

    @Test func aPoolThatIsForgottenClosesItsConnections() async throws {
        struct Forgotten: PostgresStatement {
            let sql = """
                SELECT count(*) AS count FROM pg_stat_activity
                WHERE datname = current_database() AND application_name = 'forgotten'
                """
            func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("count") }
        }
        try await withDatabase { database in
            var configuration = database.configuration
            configuration.applicationName = "forgotten"
            var pool: PostgresPool? = PostgresPool(
                configuration: configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            try await pool?.withConnection { _ in try await #expect(database.pool.query(Forgotten()) == [1]) }
            pool = nil
            try await eventually("the connection is closed") { try await database.pool.query(Forgotten()) == [0] }
        }
    }

    @Test func sessionsHaveTheConfiguredSettings() async throws {
        struct Settings: PostgresStatement {
            let sql = """
                SELECT ARRAY[
                    current_setting('statement_timeout'), current_setting('idle_in_transaction_session_timeout'),
                    current_setting('application_name'), current_setting('client_encoding'), current_setting('jit')
                ] AS settings
                """
            func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> [String] {
                try row.array("settings")
            }
        }
        try await withDatabase {
            $0.statementTimeout = .seconds(77)
            $0.idleInTransactionTimeout = nil
            $0.applicationName = "settings"
        } _: { database in
            try await #expect(database.pool.query(Settings()) == [["77s", "0", "settings", "UTF8", "off"]])
        }
    }
}
