package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
import WidgetModel
import WidgetStore

/// Adds a process's counts of its kinds to the database, for figures over all processes. It must stop after the
/// workers, so that their last counts are not lost.
package final class StatisticsFlusher: Service {
    private static let chunk = 1_000
    /// Kept days.
    private static let retention = 400
    private static let pruneInterval = Duration.seconds(86_400)
    /// Time limit of the last counts when the process stops.
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
        (self.pool, self.statistics, self.interval) = (pool, statistics, interval)
        self.clock = WorkerClock(clock)
        self.logger = logger
    }

    /// Flushes at intervals until graceful shutdown or cancellation, and once more then.
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
        // A task of its own, since this one may be cancelled.
        await Task { [clock] in
            _ = try? await clock.withLimit(Self.lastFlush) { await self.flush() }
        }.value
    }

    /// Adds the counts since the last flush. Counts that cannot be added wait for the next flush, except after a COMMIT
    /// of unknown outcome: these are dropped, so that nothing counts twice.
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
                // Once per outage.
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
