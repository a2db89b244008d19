// SPDX-License-Identifier: Apache-2.0

import Synchronization

/// A counter on which tests wait without polling.
package final class Tally: Sendable {
    private struct State {
        var count = 0
        var waiters: [Int: (goal: Int, continuation: CheckedContinuation<Void, any Error>)] = [:]
        var nextWaiter = 0
    }

    private let state = Mutex(State())

    package init() {}

    package var count: Int { state.withLock { $0.count } }

    /// Adds to the count and returns the new one.
    @discardableResult
    package func add(_ number: Int = 1) -> Int {
        let (count, reached) = state.withLock { state in
            state.count += number
            let reached = state.waiters.filter { $0.value.goal <= state.count }
            for id in reached.keys { state.waiters[id] = nil }
            return (state.count, reached.values.map(\.continuation))
        }
        for continuation in reached { continuation.resume() }
        return count
    }

    /// Waits until the count has reached `goal`.
    ///
    /// - Throws: `CancellationError`, for instance when the test's time limit is reached.
    package func reaches(_ goal: Int) async throws {
        let id = state.withLock { state in
            state.nextWaiter += 1
            return state.nextWaiter
        }
        try await withTaskCancellationHandler {
            try await withCheckedThrowingContinuation { continuation in
                let result: Result<Void, any Error>? = state.withLock { state in
                    if Task.isCancelled { return .failure(CancellationError()) }
                    if state.count >= goal { return .success(()) }
                    state.waiters[id] = (goal, continuation)
                    return nil
                }
                if let result { continuation.resume(with: result) }
            }
        } onCancel: {
            let waiter = state.withLock { $0.waiters.removeValue(forKey: id) }
            waiter?.continuation.resume(throwing: CancellationError())
        }
    }
}

/// A gate that holds callers until the test opens it; it then stays open.
package final class Gate: Sendable {
    private let opened = Tally()

    package init() {}

    package func open() {
        opened.add()
    }

    /// - Throws: `CancellationError`.
    package func pass() async throws {
        try await opened.reaches(1)
    }
}
