package import Logging
package import PostgresClient
import ServiceLifecycle
import WidgetStore

/// Deletes old rows in small chunks with pauses between them, so that tables stay bounded.
package final class RowRetention: Service {
    private let rows: String
    private let interval: Duration
    private let pace: Duration
    private let chunk: Int
    private let logger: Logger
    /// Deletes up to a chunk and returns the number of deleted rows.
    private let deleteChunk: @Sendable () async throws -> Int

    /// - Parameters:
    ///   - rows: name of the rows in the log.
    ///   - interval: pause between two rounds.
    ///   - pace: pause between two chunks of a round.
    private init(
        _ rows: String, interval: Duration, pace: Duration, chunk: Int, logger: Logger,
        deleteChunk: @escaping @Sendable () async throws -> Int
    ) {
        (self.rows, self.interval, self.pace) = (rows, interval, pace)
        (self.chunk, self.logger, self.deleteChunk) = (chunk, logger, deleteChunk)
    }

    /// Retention of dead letters that were replayed, discarded or forwarded to the dead-letter topic.
    package static func deadLetters(
        pool: PostgresPool, retention: Duration, pace: Duration = .milliseconds(200), logger: Logger
    ) -> RowRetention {
        let chunk = 1_000
        return RowRetention("dead letters", interval: .seconds(600), pace: pace, chunk: chunk, logger: logger) {
            try await pool.execute(.deleteOldDeadLetters(olderThan: retention, limit: chunk))
        }
    }

    /// Retention of events' trace contexts, which are only hints.
    package static func eventTraces(
        pool: PostgresPool, retention: Duration = .seconds(3_600), logger: Logger
    ) -> RowRetention {
        let chunk = 5_000
        return RowRetention("trace contexts", interval: .seconds(60), pace: .zero, chunk: chunk, logger: logger) {
            try await pool.execute(.deleteOldEventTraces(olderThan: retention, limit: chunk))
        }
    }

    /// Retention of the outcomes of events and of idempotency keys (an hour), and of the tombstones of widgets that
    /// were removed before they were placed (a day): at most a million of each app's.
    package static func outcomes(pool: PostgresPool, logger: Logger) -> [RowRetention] {
        let (chunk, count) = (5_000, 1_000_000)
        return [
            RowRetention("outcomes", interval: .seconds(60), pace: .zero, chunk: chunk, logger: logger) {
                try await pool.execute(
                    .deleteOldEventOutcomes(olderThan: .seconds(3_600), keeping: count, limit: chunk))
            },
            RowRetention("idempotency keys", interval: .seconds(60), pace: .zero, chunk: chunk, logger: logger) {
                try await pool.execute(
                    .deleteOldIdempotencyKeys(olderThan: .seconds(3_600), keeping: count, limit: chunk))
            },
            RowRetention("tombstones", interval: .seconds(60), pace: .zero, chunk: chunk, logger: logger) {
                try await pool.execute(
                    .deleteUnplacedWidgets(olderThan: .seconds(86_400), keeping: count, limit: chunk))
            },
        ]
    }

    package func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                do {
                    let deleted = try await self.prune()
                    if deleted > 0 { self.logger.info("old \(self.rows) deleted", metadata: ["count": "\(deleted)"]) }
                } catch is CancellationError {
                    return
                } catch {
                    self.logger.warning("cannot delete old \(self.rows)", metadata: ["error": "\(error)"])
                }
                try await Task.sleep(for: self.interval)
            }
        }
    }

    /// Runs one round and returns the number of deleted rows.
    func prune() async throws -> Int {
        var total = 0
        while true {
            let deleted = try await deleteChunk()
            total += deleted
            if deleted < chunk { return total }
            try await Task.sleep(for: pace)
        }
    }
}
