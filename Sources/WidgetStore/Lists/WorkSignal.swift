// SPDX-License-Identifier: Apache-2.0

package import Logging
package import PostgresClient
import Synchronization

/// Wakes tasks that look for work in the database. A signal means only that there may be work.
///
/// Signals are counted, not queued: any number before a look wake a task once, and a signal during a look is not lost,
/// since the task waits *past* the version that it took before.
package final class WorkSignal: Sendable {
    package enum Work: Int, CaseIterable, Sendable {
        /// Timelines have become due, or there is room to work on them.
        case timelines
        /// Generations are ahead, a sweep was recorded, or the bulk backlog has shrunk.
        case sweeps
        /// A list of devices is done, so that there is room for another one.
        case deliveries
    }

    /// Number of signals of a type of work at one time.
    package struct Version: Hashable, Sendable {
        fileprivate let work: Work
        fileprivate let count: UInt64
    }

    private struct State {
        var counts = Work.allCases.map { _ in UInt64(0) }
        var waiters: [UInt64: (version: Version, continuation: CheckedContinuation<Void, any Error>)] = [:]
        var nextWaiter: UInt64 = 0

        func isPast(_ version: Version) -> Bool { counts[version.work.rawValue] > version.count }
    }

    private let state = Mutex(State())

    package init() {}

    /// Signals a type of work; by default all types, after events were applied or a notification came.
    package func signal(_ work: Work? = nil) {
        let woken = state.withLock { state in
            for work in work.map({ [$0] }) ?? Work.allCases { state.counts[work.rawValue] += 1 }
            let woken = state.waiters.filter { state.isPast($0.value.version) }
            for id in woken.keys { state.waiters[id] = nil }
            return woken.values.map(\.continuation)
        }
        for continuation in woken { continuation.resume() }
    }

    /// Returns the version to take before a look and to wait past after it.
    package func version(of work: Work) -> Version {
        state.withLock { Version(work: work, count: $0.counts[work.rawValue]) }
    }

    /// Waits until a signal after the version.
    ///
    /// - Throws: `CancellationError`.
    package func wait(past version: Version) async throws {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result: Result<Void, any Error>? = state.withLock { state in
                    if Task.isCancelled { return .failure(CancellationError()) }
                    if state.isPast(version) { return .success(()) }
                    state.waiters[id] = (version, continuation)
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }

    /// Waits for a signal after the version, at most for the timeout, and returns whether there was one.
    ///
    /// - Throws: `CancellationError`.
    package func wait(past version: Version, timeout: Duration, clock: some Clock<Duration>) async throws -> Bool {
        if state.withLock({ $0.isPast(version) }) {
            try Task.checkCancellation()
            return true
        }
        return try await withThrowingTaskGroup(of: Bool.self) { group in
            group.addTask {
                try await self.wait(past: version)
                return true
            }
            group.addTask {
                try await clock.sleep(for: timeout)
                return false
            }
            defer { group.cancelAll() }
            return try await group.next() ?? false
        }
    }
}

extension PostgresStatement where Self == Statements {
    /// Wakes the workers of other processes. Never inside a transaction that writes, since NOTIFY serialises commits.
    package static func notifyDue() -> PostgresQuery<Void> {
        PostgresQuery("SELECT pg_notify('freshet_due', '')")
    }
}

/// Notifies the workers of other processes of ready lists. While no other worker is registered, ``signal()`` does
/// nothing.
package final class DueNotifier: Sendable {
    package static let channel = "freshet_due"

    private let pool: PostgresPool
    private let worker: UInt128?
    private let interval: Duration
    private let logger: Logger
    private let work = WorkSignal()
    /// True until the first check.
    private let othersAreRegistered = Atomic(true)

    /// - Parameters:
    ///   - worker: this process's own worker, which is woken within the process; nil without one.
    ///   - interval: interval of the checks for other workers.
    package init(pool: PostgresPool, worker: UInt128?, interval: Duration = .seconds(3), logger: Logger) {
        self.pool = pool
        self.worker = worker
        self.interval = interval
        self.logger = logger
    }

    /// Signals that lists are ready for any worker.
    package func signal() {
        if othersAreRegistered.load(ordering: .relaxed) { work.signal(.timelines) }
    }

    /// Runs until the task is cancelled. A notification that fails is dropped: it is only a hint.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.look() }
            group.addTask { await self.notify() }
        }
    }

    /// Sends one notification at a time, for all signals since the last one.
    private func notify() async {
        var version = work.version(of: .timelines)
        while !Task.isCancelled {
            do {
                try await work.wait(past: version)
                version = work.version(of: .timelines)
                _ = try await pool.query(.notifyDue())
            } catch is CancellationError {
                return
            } catch {
                logger.debug("cannot notify workers", metadata: ["error": "\(error)"])
                try? await Task.sleep(for: .milliseconds(500))
            }
        }
    }

    private func look() async {
        while !Task.isCancelled {
            do {
                let others = try await pool.query(.otherWorkers(than: worker)).first ?? true
                othersAreRegistered.store(others, ordering: .relaxed)
            } catch {
                logger.debug("cannot look for other workers", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: interval)
        }
    }
}
