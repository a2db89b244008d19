// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import TestSupport
import Testing

private struct Notify: PostgresStatement {
    let sql = "SELECT pg_notify($1::text, $2::text)"
    var channel: String
    var payload: String
    var parameters: PostgresParameters { PostgresParameters(channel, payload) }
}

private struct ListenerPID: PostgresStatement {
    let sql =
        "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'listener'"
    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int32 { try row.value("pid") }
}

@Suite(.tags(.postgres), .timeLimit(.patience))
struct ListenerTests {
    @Test func notificationsArriveAndALostConnectionIsMadeAnew() async throws {
        try await withDatabase { database in
            var configuration = database.configuration
            configuration.applicationName = "listener"
            configuration.maximumBackoff = .milliseconds(5)
            let (stream, heard) = AsyncStream.makeStream(of: String.self)
            let running = Task { [configuration] in
                try await configuration.listen(
                    to: ["plain", "with \"quotes\""], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
                ) { heard.yield($0.map { "\($0.channel): \($0.payload)" } ?? "connected") }
            }
            var notifications = stream.makeAsyncIterator()
            #expect(await notifications.next() == "connected")

            _ = try await database.pool.execute(Notify(channel: "plain", payload: "1"))
            #expect(await notifications.next() == "plain: 1")
            _ = try await database.pool.execute(Notify(channel: "other", payload: "unheard"))
            _ = try await database.pool.execute(Notify(channel: "with \"quotes\"", payload: ""))
            #expect(await notifications.next() == "with \"quotes\": ")

            let pid = try await database.pool.query(ListenerPID())[0]
            _ = try await database.pool.query(Terminate(pid: pid))
            #expect(await notifications.next() == "connected")
            _ = try await database.pool.execute(Notify(channel: "plain", payload: "2"))
            #expect(await notifications.next() == "plain: 2")

            running.cancel()
            try await running.value
        }
    }

    @Test func whatNoAttemptCuresIsThrown() async throws {
        let error = await postgresError {
            try await PostgresConfiguration(connectionString: "sslmode=banana").listen(
                to: ["a"], logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }
            ) { _ in }
        }
        #expect(error?.kind == .configuration)
    }
}
