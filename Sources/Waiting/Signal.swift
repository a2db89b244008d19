// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// Wakes tasks that wait for a change. A signal means only that there may be one.
///
/// Signals are counted, not queued: any number before a look wake a task once, and a signal during a look is not lost,
/// since the task waits *past* the version that it took before.
package final class Signal: Sendable {
    private struct State {
        var version: UInt64 = 0
        /// All wait past the present version.
        var waiters: [UInt64: CheckedContinuation<Void, any Error>] = [:]
        var nextWaiter: UInt64 = 0
    }

    private let state = Mutex(State())

    package init() {}

    /// Number of signals: taken before a look, to wait past after it.
    package var version: UInt64 { state.withLock { $0.version } }

    package func signal() {
        let woken = state.withLock { state in
            state.version += 1
            defer { state.waiters = [:] }
            return state.waiters
        }
        for continuation in woken.values { continuation.resume() }
    }

    /// Waits until a signal after the version.
    ///
    /// - Throws: `CancellationError`.
    package func wait(past version: UInt64) async throws {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result: Result<Void, any Error>? = state.withLock { state in
                    if Task.isCancelled { return .failure(CancellationError()) }
                    if state.version > version { return .success(()) }
                    state.waiters[id] = continuation
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
            waiter?.resume(throwing: CancellationError())
        }
    }

    /// Waits for a signal after the version, at most for the timeout, and returns whether there was one.
    ///
    /// - Throws: `CancellationError`.
    package func wait(past version: UInt64, timeout: Duration, clock: some Clock<Duration>) async throws -> Bool {
        if self.version > version {
            try Task.checkCancellation()
            return true
        }
        return try await withTimeLimit(timeout, clock: clock) {
            try await self.wait(past: version)
            return true
        } ?? false
    }
}

/// Runs an operation, and cancels it at the time limit; returns nil in that case.
///
/// It returns when the operation has ended, so one that ignores cancellation takes longer than the limit. A result that
/// comes at the limit may be dropped.
package func withTimeLimit<Value: Sendable>(
    _ limit: Duration, clock: any Clock<Duration> = ContinuousClock(), priority: TaskPriority? = nil,
    _ operation: @escaping @Sendable () async throws -> Value
) async throws -> Value? {
    try await withThrowingTaskGroup(of: Value?.self) { group in
        group.addTask(priority: priority) { try await operation() }
        group.addTask {
            try await clock.sleep(for: limit)
            return nil
        }
        defer { group.cancelAll() }
        return try await group.next() ?? nil
    }
}
