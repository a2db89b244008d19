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
    /// The present transaction; nil outside of one.
    let transaction: TransactionMark?

    init(_ loan: Loan, in transaction: TransactionMark? = nil) {
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
        try await run([PostgresPipeline.Item(statement, decodes: false)]).outcomes[0].affected
    }

    /// Runs several statements in one round trip. The error names the statement that failed.
    package func run(_ pipeline: PostgresPipeline) async throws(PostgresError) -> PostgresPipelineResults {
        guard pipeline.followers == 0 else {
            throw PostgresError(.misuse, "statements that follow a COMMIT are for transaction(_:)")
        }
        return try await run(pipeline.items)
    }

    private func run(_ items: [PostgresPipeline.Item]) async throws(PostgresError) -> PostgresPipelineResults {
        try loan.validate()
        guard !items.isEmpty else { return PostgresPipelineResults(outcomes: []) }
        let exchange = Exchange(items: items, transaction: transaction)
        return try await loan.thread.perform { driver throws(PostgresError) in
            try driver.run(exchange)
        }
    }

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

extension TransactionMark {
    private static let next = Atomic<UInt64>(1)

    init() {
        self.init(id: Self.next.add(1, ordering: .relaxed).oldValue)
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
        let mark = TransactionMark()
        // A loan of its own, so that the connection lent to `body` ends with it.
        let inner = Loan(of: loan.thread, isInBackground: loan.isInBackground)
        let value: Value
        do {
            value = try await body(PostgresConnection(inner, in: mark))
        } catch {
            inner.end()
            await rollBack(mark)
            throw error
        }
        inner.end()
        // Shielded: whether a COMMIT that was sent has happened is worth waiting for.
        _ = try await loan.thread.perform(shielded: true) { driver throws(PostgresError) in
            try driver.run(Exchange(transaction: mark, commits: true))
        }
        return value
    }

    /// BEGIN, the statements, COMMIT, in one round trip. Rolled back when one of them fails.
    ///
    /// Statements that were appended to follow the COMMIT run only if it succeeds, each by itself; the error of such a
    /// statement does not undo the transaction, and says that its outcome is unknown. A row that cannot be decoded is
    /// found only when the transaction is committed already.
    package func transaction(_ pipeline: PostgresPipeline) async throws(PostgresError) -> PostgresPipelineResults {
        try loan.validate()
        guard transaction == nil else { throw PostgresError(.misuse, "transactions do not nest") }
        guard !pipeline.isEmpty else { return PostgresPipelineResults(outcomes: []) }
        let exchange = Exchange(
            items: pipeline.items, transaction: TransactionMark(), commits: true, followers: pipeline.followers)
        return try await loan.thread.perform { driver throws(PostgresError) in
            try driver.run(exchange)
        }
    }

    /// Also when the task is cancelled. A failure here means that the connection is lost, and with it the transaction.
    private func rollBack(_ mark: TransactionMark) async {
        do throws(PostgresError) {
            try await loan.thread.perform(shielded: true) { driver throws(PostgresError) in
                try driver.rollBack(mark)
            }
        } catch {
            loan.spoil()
        }
    }
}
