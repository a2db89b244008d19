// SPDX-License-Identifier: Apache-2.0

import Logging
import Metrics
import PostgresClient
import ServiceLifecycle
import Synchronization
import Waiting
import WidgetModel
import WidgetStore

/// Counts the reloads of each kind: decisions in the metrics, and all of ``KindCounters`` in the database, for figures
/// by day over all processes. It must stop after the workers, so that their last counts are not lost.
package final class KindRecorder: Service {
    /// Decisions of workers.
    private static let decisions: [Decision] = [.reloaded, .unchanged, .failed, .deferred, .slept, .released]
    private static let chunk = 1_000
    /// Kept days.
    private static let retention = 400
    private static let pruneInterval = Duration.seconds(86_400)
    /// Time limit of the last counts when the process stops.
    private static let lastFlush = Duration.seconds(3)

    private let pool: PostgresPool
    private let metrics: MetricRegistry
    private let interval: Duration
    private let clock: WorkerClock
    private let logger: Logger
    private let state = Mutex(State())

    private struct State {
        /// Counts that are not in the database yet.
        var counters: [Int32: KindCounters] = [:]
        /// Counters of a kind's decisions in the metrics, in the order of ``decisions``.
        var decisions: [Int32: [Counter]] = [:]
        var failures = 0
        var prunedAt: Duration?
    }

    init(
        pool: PostgresPool, metrics: MetricRegistry, interval: Duration = .seconds(10),
        clock: WorkerClock = WorkerClock(), logger: Logger
    ) {
        (self.pool, self.metrics, self.interval) = (pool, metrics, interval)
        (self.clock, self.logger) = (clock, logger)
    }

    // MARK: Counting

    /// Counts of a kind that are not in the database yet.
    func counters(of kindID: Int32) -> KindCounters { state.withLock { $0.counters[kindID] } ?? KindCounters() }

    /// Counts for the database.
    func count(kind id: Int32, _ body: (inout KindCounters) -> Void) {
        state.withLock { body(&$0.counters[id, default: KindCounters()]) }
    }

    /// Counts timelines with the same decision, and with `body` more of them for the database.
    func count(
        _ decision: Decision, _ timelines: Int = 1, of kind: RegisteredKind,
        _ body: (inout KindCounters) -> Void = { _ in }
    ) {
        guard timelines > 0, let index = Self.decisions.firstIndex(of: decision) else { return }
        let counter = state.withLock { state in
            state.counters[kind.id, default: KindCounters()].count(decision, timelines)
            body(&state.counters[kind.id, default: KindCounters()])
            if let known = state.decisions[kind.id] { return known[index] }
            let labels = metrics.labels(app: kind.app, kind: kind.definition.name)
            let counters = Self.decisions.map { metrics.decisions(labels + [$0.name]) }
            state.decisions[kind.id] = counters
            return counters[index]
        }
        counter.increment(by: timelines)
    }

    // MARK: Database

    /// Flushes at intervals until graceful shutdown or cancellation, and once more then.
    package func run() async throws {
        while !Task.isCancelled, !Task.isShuttingDownGracefully {
            do {
                try await cancelWhenGracefulShutdown { [clock, interval] in
                    try await clock.sleep(for: interval.jittered)
                }
            } catch {
                break
            }
            await flush()
            await prune()
        }
        // A task of its own, since this one may be cancelled.
        await Task { [clock] in
            _ = try? await withTimeLimit(Self.lastFlush, clock: clock.clock) { await self.flush() }
        }.value
    }

    /// Adds the counts since the last flush. Counts that cannot be added wait for the next flush, except after a COMMIT
    /// of unknown outcome: these are dropped, so that nothing counts twice.
    func flush() async {
        let counted = state.withLock { state in
            defer { state.counters = [:] }
            return state.counters
        }
        let increments = counted.sorted { $0.key < $1.key }.map { (kindID: $0, counters: $1) }
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
                guard !error.commitOutcomeUnknown else { continue }
                return state.withLock { state in
                    for (id, counters) in increments[start...] {
                        state.counters[id] = state.counters[id, default: KindCounters()] + counters
                    }
                }
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
