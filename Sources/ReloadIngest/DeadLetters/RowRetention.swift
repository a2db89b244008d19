package import Logging
package import PostgresClient
import ServiceLifecycle
import WidgetStore

/// Deletes old rows in small chunks with pauses between them, so that tables stay bounded.
package struct RowRetention: Service {
    /// Name of the rows in the log.
    let rows: String
    let pool: PostgresPool
    let logger: Logger
    /// Pause between two rounds.
    var interval = Duration.seconds(60)
    /// Pause between two chunks of a round.
    var pace = Duration.zero
    var chunk = 5_000
    /// Statement that deletes up to a number of rows.
    let deletion: @Sendable (_ limit: Int) -> PostgresQuery<Void>

    /// Retention of dead letters that were replayed, discarded or forwarded to the dead-letter topic.
    package static func deadLetters(
        pool: PostgresPool, retention: Duration, pace: Duration = .milliseconds(200), logger: Logger
    ) -> RowRetention {
        RowRetention(
            rows: "dead letters", pool: pool, logger: logger, interval: .seconds(600), pace: pace, chunk: 1_000
        ) {
            Statements.deleteOldDeadLetters(olderThan: retention, limit: $0)
        }
    }

    /// Retention of events' trace contexts, which are only hints.
    package static func eventTraces(
        pool: PostgresPool, retention: Duration = .seconds(3_600), logger: Logger
    ) -> RowRetention {
        RowRetention(rows: "trace contexts", pool: pool, logger: logger) {
            Statements.deleteOldEventTraces(olderThan: retention, limit: $0)
        }
    }

    /// Retention of the outcomes of events and of idempotency keys (an hour), and of the tombstones of widgets that
    /// were removed before they were placed (a day): at most a million of each app's.
    package static func outcomes(pool: PostgresPool, logger: Logger) -> [RowRetention] {
        let (hour, count) = (Duration.seconds(3_600), 1_000_000)
        return [
            RowRetention(rows: "outcomes", pool: pool, logger: logger) {
                Statements.deleteOldEventOutcomes(olderThan: hour, keeping: count, limit: $0)
            },
            RowRetention(rows: "idempotency keys", pool: pool, logger: logger) {
                Statements.deleteOldIdempotencyKeys(olderThan: hour, keeping: count, limit: $0)
            },
            RowRetention(rows: "tombstones", pool: pool, logger: logger) {
                Statements.deleteUnplacedWidgets(olderThan: hour * 24, keeping: count, limit: $0)
            },
        ]
    }

    package func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                do {
                    let deleted = try await prune()
                    if deleted > 0 { logger.info("old \(rows) deleted", metadata: ["count": "\(deleted)"]) }
                } catch is CancellationError {
                    return
                } catch {
                    logger.warning("cannot delete old \(rows)", metadata: ["error": "\(error)"])
                }
                try await Task.sleep(for: interval)
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
