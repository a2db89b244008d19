// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import TestSupport
import Testing

private let items = DatabaseTemplate(key: "outcome") { pool in
    try await pool.withConnection { try await $0.simple("CREATE TABLE item (id int8 PRIMARY KEY)") }
}

/// A connection that is cut around COMMIT leaves the outcome unknown to the caller.
@Suite(.tags(.postgres), .timeLimit(.patience))
struct CommitOutcomeTests {
    private func withProxy(
        _ cut: TestProxy.Cut,
        _ body: (_ proxied: PostgresPool, _ direct: PostgresPool, _ proxy: TestProxy) async throws -> Void
    ) async throws {
        try await withDatabase(template: items) { database in
            let proxy = try TestProxy(to: database.configuration, cutting: cut)
            try proxy.start()
            var configuration = database.configuration
            configuration.connectionString = proxy.connectionString
            let pool = PostgresPool(
                configuration: configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            try await body(pool, database.pool, proxy)
            await pool.shutdown()
            proxy.stop()
        }
    }

    @Test(arguments: [TestProxy.Cut.beforeCommit, .afterCommit])
    func aCommitThatIsCutOffHasAnUnknownOutcome(cut: TestProxy.Cut) async throws {
        try await withProxy(cut) { proxied, direct, _ in
            let closure = await postgresError {
                try await proxied.withTransaction { transaction in _ = try await transaction.execute(Insert(ids: [1])) }
            }
            #expect(closure?.kind == .connection)
            #expect(closure?.commitOutcomeUnknown == true)
            #expect(closure?.isRetriable == true)
            #expect(closure?.statement == "COMMIT")

            // Either outcome is possible.
            try await #expect(direct.query(Ids()) == (cut == .afterCommit ? [1] : []))
        }
    }

    /// A transaction in one round trip is committed by the Sync message.
    @Test(arguments: [false, true])
    func aSyncThatIsCutOffHasAnUnknownOutcome(isPassedOn: Bool) async throws {
        try await withProxy(.never) { proxied, direct, proxy in
            func insert(_ id: Int) async throws {
                var pipeline = PostgresPipeline()
                _ = pipeline.append(Insert(ids: [id]))
                _ = try await proxied.run(pipeline, commits: true)
            }
            try await insert(1)
            // Bind, Describe, Execute, Sync.
            proxy.cut(TestProxy.MessageCut(.toServer, 4, isPassedOn: isPassedOn))
            let error = await postgresError { try await insert(2) }
            #expect(error?.kind == .connection)
            #expect(error?.commitOutcomeUnknown == true)
            #expect(error?.isRetriable == true)
            try await eventually("the transaction has ended") {
                try await direct.query(Ids()) == (isPassedOn ? [1, 2] : [1])
            }
        }
    }

    @Test func aLossBeforeTheCommitIsKnownToHaveChangedNothing() async throws {
        try await withProxy(.never) { proxied, direct, _ in
            let error = await postgresError {
                try await proxied.withTransaction { transaction in
                    _ = try await transaction.execute(Insert(ids: [1]))
                    let pid = try await transaction.query(BackendPID())[0]
                    _ = try await direct.query(Terminate(pid: pid))
                    _ = try await transaction.execute(Insert(ids: [2]))
                }
            }
            #expect(error?.kind == .connection)
            #expect(error?.commitOutcomeUnknown == false)
            try await #expect(direct.query(Ids()) == [])
        }
    }
}
