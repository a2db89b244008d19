package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
import WidgetModel
import WidgetStore

/// Adds what a process has counted of its kinds to the database, so that all processes are seen together.
///
/// It must stop after the workers, so that their last counts are not lost.
package final class StatisticsFlusher: Service {
    private static let chunk = 1_000
    /// Days that are kept.
    private static let retention = 400
    private static let pruneInterval = Duration.seconds(86_400)
    /// How long the last counts may take when the process stops.
    private static let lastFlush = Duration.seconds(3)

    private let pool: PostgresPool
    private let statistics: WorkerStatistics
    private let interval: Duration
    private let clock: WorkerClock
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        /// Totals in the database.
        var flushed: [Int32: KindCounters] = [:]
        var failures = 0
        var prunedAt: Duration?
    }

    package init(
        pool: PostgresPool, statistics: WorkerStatistics, interval: Duration = .seconds(10),
        clock: any Clock<Duration> = ContinuousClock(), logger: Logger
    ) {
        self.pool = pool
        self.statistics = statistics
        self.interval = interval
        self.clock = WorkerClock(clock)
        self.logger = logger
    }

    /// Flushes at the interval until graceful shutdown or cancellation, and once more then.
    package func run() async throws {
        while !Task.isCancelled, !Task.isShuttingDownGracefully {
            do {
                try await cancelWhenGracefulShutdown { [clock, interval] in
                    try await clock.sleep(for: WorkerClock.jittered(interval))
                }
            } catch {
                break
            }
            await flush()
            await prune()
        }
        // A task of its own, since this one may be cancelled; awaited, and bounded.
        await Task { [clock] in
            _ = try? await clock.withLimit(Self.lastFlush) { await self.flush() }
        }.value
    }

    /// Adds what was counted since the last time. What cannot be added is kept for the next time, unless it may have been
    /// added: then it is given up rather than counted twice.
    func flush() async {
        let counted = statistics.snapshot.kinds
        let flushed = state.withLock { $0.flushed }
        let increments = counted.sorted { $0.key < $1.key }.compactMap { id, counters in
            let increment = counters - flushed[id, default: KindCounters()]
            return increment.isZero ? nil : (kindID: id, counters: increment)
        }
        for start in stride(from: 0, to: increments.count, by: Self.chunk) {
            let chunk = Array(increments[start..<min(start + Self.chunk, increments.count)])
            do throws(PostgresError) {
                _ = try await pool.execute(.addKindStatistics(chunk))
                state.withLock { $0.failures = 0 }
            } catch {
                let failures = state.withLock { state in
                    state.failures += 1
                    return state.failures
                }
                // Once an outage, not every few seconds.
                if failures == 1 {
                    logger.warning("cannot add the counts of kinds", metadata: ["error": "\(error)"])
                }
                guard error.commitOutcomeUnknown else { return }
            }
            state.withLock { state in
                for (id, _) in chunk { state.flushed[id] = counted[id] }
            }
        }
    }

    private func prune() async {
        let elapsed = clock.elapsed
        let isDue = state.withLock { state in
            guard state.failures == 0, state.prunedAt.map({ elapsed - $0 >= Self.pruneInterval }) ?? true else {
                return false
            }
            state.prunedAt = elapsed
            return true
        }
        guard isDue else { return }
        _ = try? await pool.execute(.pruneKindStatistics(olderThan: Self.retention))
    }
}
