package import Logging
package import PostgresClient
import ServiceLifecycle
import WidgetStore

/// Deletes old rows in small chunks with pauses between them, so that tables stay bounded.
package final class RowRetention: Service {
    private let rows: String
    private let pool: PostgresPool
    private let interval: Duration
    private let pace: Duration
    private let chunk: Int
    private let logger: Logger
    /// Statement that deletes up to a number of rows.
    private let deletion: @Sendable (_ limit: Int) -> PostgresQuery<Void>

    /// - Parameters:
    ///   - rows: name of the rows in the log.
    ///   - interval: pause between two rounds.
    ///   - pace: pause between two chunks of a round.
    private init(
        _ rows: String, _ pool: PostgresPool, interval: Duration = .seconds(60), pace: Duration = .zero,
        chunk: Int = 5_000, _ logger: Logger, deletion: @escaping @Sendable (_ limit: Int) -> PostgresQuery<Void>
    ) {
        (self.rows, self.pool, self.interval, self.pace) = (rows, pool, interval, pace)
        (self.chunk, self.logger, self.deletion) = (chunk, logger, deletion)
    }

    /// Retention of dead letters that were replayed, discarded or forwarded to the dead-letter topic.
    package static func deadLetters(
        pool: PostgresPool, retention: Duration, pace: Duration = .milliseconds(200), logger: Logger
    ) -> RowRetention {
        RowRetention("dead letters", pool, interval: .seconds(600), pace: pace, chunk: 1_000, logger) {
            Statements.deleteOldDeadLetters(olderThan: retention, limit: $0)
        }
    }

    /// Retention of events' trace contexts, which are only hints.
    package static func eventTraces(
        pool: PostgresPool, retention: Duration = .seconds(3_600), logger: Logger
    ) -> RowRetention {
        RowRetention("trace contexts", pool, logger) {
            Statements.deleteOldEventTraces(olderThan: retention, limit: $0)
        }
    }

    /// Retention of the outcomes of events and of idempotency keys (an hour), and of the tombstones of widgets that were
    /// removed before they were placed (a day): at most a million of each app's.
    package static func outcomes(pool: PostgresPool, logger: Logger) -> [RowRetention] {
        let (hour, count) = (Duration.seconds(3_600), 1_000_000)
        return [
            RowRetention("outcomes", pool, logger) {
                Statements.deleteOldEventOutcomes(olderThan: hour, keeping: count, limit: $0)
            },
            RowRetention("idempotency keys", pool, logger) {
                Statements.deleteOldIdempotencyKeys(olderThan: hour, keeping: count, limit: $0)
            },
            RowRetention("tombstones", pool, logger) {
                Statements.deleteUnplacedWidgets(olderThan: hour * 24, keeping: count, limit: $0)
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
            let deleted = try await pool.execute(deletion(chunk))
            total += deleted
            if deleted < chunk { return total }
            try await Task.sleep(for: pace)
        }
    }
}
