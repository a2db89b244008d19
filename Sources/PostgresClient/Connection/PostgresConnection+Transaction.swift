import Synchronization

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
