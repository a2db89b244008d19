package import Logging
package import PostgresClient
import ServiceLifecycle
import WidgetStore

/// Deletes dead letters that nobody needs any more, in small chunks with pauses between, so that the table is bounded: those
/// that were replayed or discarded, and those that are on the dead-letter topic, long enough ago.
package final class DeadLetterRetention: Service {
    private static let chunk = 1_000

    private let pool: PostgresPool
    private let retention: Duration
    private let interval: Duration
    private let pace: Duration
    private let logger: Logger

    /// - Parameters:
    ///   - interval: between two rounds.
    ///   - pace: between two chunks of one.
    package init(
        pool: PostgresPool, retention: Duration, interval: Duration = .seconds(600),
        pace: Duration = .milliseconds(200),
        logger: Logger
    ) {
        self.pool = pool
        self.retention = retention
        self.interval = interval
        self.pace = pace
        self.logger = logger
    }

    package func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                do {
                    let deleted = try await self.prune()
                    if deleted > 0 { self.logger.info("old dead letters deleted", metadata: ["count": "\(deleted)"]) }
                } catch is CancellationError {
                    return
                } catch {
                    self.logger.warning("cannot delete old dead letters", metadata: ["error": "\(error)"])
                }
                try await Task.sleep(for: self.interval)
            }
        }
    }

    /// One round; answers how many were deleted.
    func prune() async throws -> Int {
        var total = 0
        while true {
            let deleted = try await pool.execute(DeleteOldDeadLetters(olderThan: retention, limit: Self.chunk))
            total += deleted
            if deleted < Self.chunk { return total }
            try await Task.sleep(for: pace)
        }
    }
}
