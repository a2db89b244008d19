// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization

/// Runs statements for groups of items, one at a time, with natural batching: while one is under way, further items
/// gather for the next one.
///
/// A caller that finds none under way runs at once and takes the gathered callers along; the others wait for the caller
/// that takes them, or until it is their turn. No task is made.
final class GroupCommitter<Item: Sendable, Answer: Sendable>: Sendable {
    /// A caller that waits. It is resumed with its answers, or with nil when it is its turn to run the statement.
    private typealias Waiter = (
        items: [Item], continuation: CheckedContinuation<Result<[Answer], any Error>?, Never>
    )

    private let limit: Int
    private let body: @Sendable ([Item]) async throws -> [Answer]
    private let state = Mutex((isRunning: false, waiters: [Waiter]()))

    /// - Parameters:
    ///   - limit: most items of a statement, unless a single caller has more.
    ///   - body: runs the statement and returns one value for each item, in order.
    init(limit: Int = 1_000, _ body: @escaping @Sendable ([Item]) async throws -> [Answer]) {
        (self.limit, self.body) = (limit, body)
    }

    var waiting: Int { state.withLock { $0.waiters.count } }

    /// Returns one value for each item, in order.
    ///
    /// - Throws: the statement's error, for all callers that share it. An error that the data of one caller causes is
    ///   thrown for that caller alone.
    func run(_ items: [Item]) async throws -> [Answer] {
        if !begin(), let result = await answers(to: items) { return try result.get() }
        let others = state.withLock { state in
            var (count, end) = (items.count, 0)
            while end < state.waiters.count, count + state.waiters[end].items.count <= limit {
                count += state.waiters[end].items.count
                end += 1
            }
            defer { state.waiters.removeFirst(end) }
            return Array(state.waiters[..<end])
        }
        let results = await results(of: [items] + others.map(\.items))
        let next = state.withLock { state -> Waiter? in
            state.isRunning = !state.waiters.isEmpty
            return state.isRunning ? state.waiters.removeFirst() : nil
        }
        next?.continuation.resume(returning: nil)
        for (other, result) in zip(others, results.dropFirst()) { other.continuation.resume(returning: result) }
        return try results[0].get()
    }

    /// Runs one statement for the items of several callers, and returns the result of each. A statement that fails
    /// because of its data is run again in halves, down to the callers that cause the error.
    private func results(of groups: [[Item]]) async -> [Result<[Answer], any Error>] {
        do {
            var answers = try await body(groups.count == 1 ? groups[0] : Array(groups.joined()))[...]
            return groups.map { group in
                defer { answers = answers.dropFirst(group.count) }
                return .success(Array(answers.prefix(group.count)))
            }
        } catch {
            guard groups.count > 1, let refused = error as? PostgresError, refused.blamesData else {
                return groups.map { _ in .failure(error) }
            }
            let middle = groups.count / 2
            let left = await results(of: Array(groups[..<middle]))
            return await left + results(of: Array(groups[middle...]))
        }
    }

    /// Whether no statement was under way, so that the caller runs one.
    private func begin() -> Bool {
        state.withLock { state in
            defer { state.isRunning = true }
            return !state.isRunning
        }
    }

    /// Waits for the caller's answers; nil when it is its turn.
    private func answers(to items: [Item]) async -> Result<[Answer], any Error>? {
        await withCheckedContinuation { continuation in
            let isTurn = state.withLock { state in
                // The statement may have ended by now.
                guard state.isRunning else {
                    state.isRunning = true
                    return true
                }
                state.waiters.append((items, continuation))
                return false
            }
            if isTurn { continuation.resume(returning: nil) }
        }
    }
}
