package import Logging
package import PostgresClient
import ServiceLifecycle
import WidgetStore

/// Deletes the trace contexts of events that were reloaded for long ago, in small chunks: they are hints, and few.
package final class TraceRetention: Service {
    private static let chunk = 5_000

    private let pool: PostgresPool
    private let retention: Duration
    private let interval: Duration
    private let logger: Logger

    package init(
        pool: PostgresPool, retention: Duration = .seconds(3_600), interval: Duration = .seconds(60), logger: Logger
    ) {
        self.pool = pool
        self.retention = retention
        self.interval = interval
        self.logger = logger
    }

    package func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while !Task.isCancelled {
                try await Task.sleep(for: self.interval)
                do {
                    while try await self.prune() == Self.chunk { try Task.checkCancellation() }
                } catch is CancellationError {
                    return
                } catch {
                    self.logger.warning("cannot delete old trace contexts", metadata: ["error": "\(error)"])
                }
            }
        }
    }

    /// Deletes one chunk; answers how many there were.
    func prune() async throws -> Int {
        try await pool.execute(DeleteOldEventTraces(olderThan: retention, limit: Self.chunk))
    }
}
