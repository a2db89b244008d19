import PostgresClient
import WidgetModel

/// What was cancelled of a kind's bulk work.
package struct Cancellation: Hashable, Sendable {
    /// Reloads of everyone under way, and recorded sweeps.
    package var sweeps: Int
    /// Timelines that were due for them, or were to be, and are put back.
    package var timelines: Int

    package init(sweeps: Int, timelines: Int) {
        self.sweeps = sweeps
        self.timelines = timelines
    }
}

extension WidgetStore {
    /// How often the start is tried after a conflict, and how often the timelines are walked at the most.
    private static let cancelAttempts = 10

    /// Cancels the bulk work of a kind that is pending: a reload of everyone, recorded sweeps, and what they have made
    /// due already. A request that comes later is swept as usual; requests to a person, a device or a widget stay.
    ///
    /// - Parameter chunk: most timelines of one statement.
    /// - Returns: `nil` when there is no such kind.
    /// - Throws: `PostgresError`.
    package func cancelWork(app: String, kind: String, chunk: Int = 1_000) async throws -> Cancellation? {
        guard let (target, sweeps) = try await cancelSweeps(app, kind) else { return nil }
        var cancellation = Cancellation(sweeps: sweeps + (target.wasSweeping ? 1 : 0), timelines: 0)
        // A sweeper may be in the middle of a chunk that it began before: walk again until nothing is found.
        for _ in 1...Self.cancelAttempts {
            let count = try await cancelTimelines(of: target, chunk: chunk)
            cancellation.timelines += count
            if count == 0 { break }
        }
        return cancellation
    }

    private func cancelSweeps(_ app: String, _ kind: String) async throws -> (CancelKind.Row, Int)? {
        try await retryingConflicts(attempts: Self.cancelAttempts) {
            try await pool.withTransaction { connection in
                guard let target = try await connection.query(CancelKind(app: app, kind: kind)).first else {
                    return nil
                }
                let sweeps = try await connection.query(CancelSweeps(kindID: target.kindID)).first ?? 0
                return (target, Int(sweeps))
            }
        }
    }

    private func cancelTimelines(of target: CancelKind.Row, chunk: Int) async throws -> Int {
        var count = 0
        var cursor = CancelTimelines.Cursor.start
        while true {
            try Task.checkCancellation()
            let statement = CancelTimelines(
                kindID: target.kindID, generation: target.generation, after: cursor, limit: chunk)
            let outcome = try await retryingConflicts(attempts: Self.cancelAttempts) {
                try await pool.query(statement).first
            }
            guard let outcome else { return count }
            count += outcome.cancelled
            guard outcome.examined == chunk, let last = outcome.last else { return count }
            cursor = last
        }
    }

    /// Runs what does no harm when it is run again, whatever became of it, and again after a conflict with others.
    func retryingConflicts<Value: Sendable>(
        attempts: Int, _ body: () async throws -> Value
    ) async throws -> Value {
        var attempt = 1
        while true {
            do {
                return try await body()
            } catch let error as PostgresError where error.isRetriable && attempt < attempts {
                var generator = SystemRandomNumberGenerator()
                let backoff = Backoff(base: .milliseconds(20), cap: .seconds(1))
                try await Task.sleep(for: backoff.delay(attempt: attempt, using: &generator))
                attempt += 1
            }
        }
    }
}
