// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A connection that the pool lends to a closure. Calls of several tasks take turns.
///
/// The cancellation of a task cancels its statement on the server, throws `.cancelled`, and leaves the connection
/// usable.
package final class PostgresConnection: Sendable {
    /// Loan of a connection, with which its ``PostgresConnection`` values end.
    final class Loan: Sendable {
        let thread: ConnectionThread
        /// Whether background work holds it.
        let isInBackground: Bool
        private let hasEnded = Atomic<Bool>(false)
        private let isSpoilt = Atomic<Bool>(false)

        init(of thread: ConnectionThread, isInBackground: Bool) {
            (self.thread, self.isInBackground) = (thread, isInBackground)
        }

        func end() { hasEnded.store(true, ordering: .releasing) }

        /// Whether the connection must not be lent again.
        func spoil() { isSpoilt.store(true, ordering: .releasing) }

        /// Whether the pool can lend the connection again, once the loan has ended.
        var isReusable: Bool { !isSpoilt.load(ordering: .acquiring) && thread.isReusable }

        func validate() throws(PostgresError) {
            if hasEnded.load(ordering: .acquiring) {
                throw PostgresError(.misuse, "the connection was used after the closure that it was lent to")
            }
        }
    }

    let loan: Loan
    /// The present transaction, by its identity; nil outside of one.
    let transaction: UInt64?

    private static let nextTransaction = Atomic<UInt64>(1)

    init(_ loan: Loan, in transaction: UInt64? = nil) {
        self.loan = loan
        self.transaction = transaction
    }

    package func query<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> [Statement.Row] {
        var pipeline = PostgresPipeline()
        let handle = pipeline.append(statement)
        return try await run(pipeline).rows(handle)
    }

    /// Runs a statement and returns the number of inserted, updated, deleted or selected rows.
    package func execute<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> Int {
        var pipeline = PostgresPipeline()
        pipeline.items = [PostgresPipeline.Item(statement, decodes: false)]
        return try await run(pipeline).outcomes[0].affected
    }

    /// Runs several statements in one round trip. The error names the statement that failed.
    ///
    /// A row that cannot be decoded is found only when the transaction is committed already.
    ///
    /// - Parameter commits: whether the statements are a transaction, which is committed behind them, and rolled back
    ///   when one fails.
    package func run(
        _ pipeline: PostgresPipeline, commits: Bool = false
    ) async throws(PostgresError) -> PostgresPipelineResults {
        try loan.validate()
        guard !commits || transaction == nil else { throw PostgresError(.misuse, "transactions do not nest") }
        guard !pipeline.isEmpty else { return PostgresPipelineResults() }
        var pipeline = pipeline
        pipeline.transaction = commits ? Self.newTransaction() : transaction
        pipeline.commits = commits
        return try await loan.thread.perform { [pipeline] driver throws(PostgresError) in
            try driver.run(pipeline)
        }
    }

    private static func newTransaction() -> UInt64 { nextTransaction.add(1, ordering: .relaxed).oldValue }

    /// Runs a text of statements by the simple protocol, for DDL and the like, without reading rows.
    package func simple(_ sql: String) async throws(PostgresError) {
        try loan.validate()
        let transaction = transaction
        try await loan.thread.perform { driver throws(PostgresError) in
            try driver.simple(sql, in: transaction)
        }
    }

    /// Closes the connection after the closure instead of lending it again, for closures that change settings.
    package func discardAfterUse() {
        loan.spoil()
        loan.thread.settingsMayChange()
    }
}

extension PostgresConnection {
    /// Runs `body` in a transaction: BEGIN travels with its first statement, COMMIT follows when it returns, ROLLBACK
    /// when it throws. Inside, use only the connection that is lent; transactions do not nest.
    /// - Throws: The error of `body` or of the COMMIT; or that of a failed statement if `body` went on after it.
    package func withTransaction<Value: Sendable>(
        _ body: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        try loan.validate()
        guard transaction == nil else { throw PostgresError(.misuse, "transactions do not nest") }
        var commit = PostgresPipeline()
        (commit.transaction, commit.commits) = (Self.newTransaction(), true)
        // A loan of its own, so that the connection lent to `body` ends with it.
        let inner = Loan(of: loan.thread, isInBackground: loan.isInBackground)
        let value: Value
        do {
            value = try await body(PostgresConnection(inner, in: commit.transaction))
        } catch {
            inner.end()
            await rollBack(commit.transaction)
            throw error
        }
        inner.end()
        // Shielded: whether a COMMIT that was sent has happened is worth waiting for.
        _ = try await loan.thread.perform(shielded: true) { [commit] driver throws(PostgresError) in
            try driver.run(commit)
        }
        return value
    }

    /// Also when the task is cancelled. A failure here means that the connection is lost, and with it the transaction.
    private func rollBack(_ transaction: UInt64?) async {
        do throws(PostgresError) {
            try await loan.thread.perform(shielded: true) { driver throws(PostgresError) in
                try driver.rollBack(transaction)
            }
        } catch {
            loan.spoil()
        }
    }
}
