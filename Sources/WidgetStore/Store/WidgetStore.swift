package import PostgresClient
import WidgetModel

/// Operations on Freshet's state that take several statements. Single statements run directly on a pool or a
/// connection.
package struct WidgetStore: Sendable {
    package let pool: PostgresPool

    package init(pool: PostgresPool) {
        self.pool = pool
    }

    /// Runs one statement on a connection of the pool.
    package func query<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> [Statement.Row] {
        try await pool.query(statement)
    }

    /// Retries `body`, with back-off, after transient errors.
    ///
    /// - Parameter isIdempotent: whether `body` may run again after a COMMIT of unknown outcome.
    package func retryingConflicts<Value: Sendable>(
        attempts: Int = 10, isIdempotent: Bool = true, _ body: () async throws -> Value
    ) async throws -> Value {
        var attempt = 1
        while true {
            do {
                return try await body()
            } catch let error as PostgresError
                where error.isRetriable && attempt < attempts && (isIdempotent || !error.commitOutcomeUnknown)
            {
                var generator = SystemRandomNumberGenerator()
                let backoff = Backoff(base: .milliseconds(20), cap: .seconds(1))
                try await Task.sleep(for: backoff.delay(attempt: attempt, using: &generator))
                attempt += 1
            }
        }
    }
}
