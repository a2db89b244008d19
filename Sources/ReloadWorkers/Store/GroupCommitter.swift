import PostgresClient
import Synchronization

/// Runs statements for groups of items, with natural batching: while the maximum number of statements is under way,
/// further items gather for the next one.
///
/// A caller that finds a free slot runs at once and takes the gathered callers along; the others wait for the caller
/// that takes them, or until the slot is passed to them. No task is made.
final class GroupCommitter<Item: Sendable, Answer: Sendable>: Sendable {
    private enum Turn: Sendable {
        /// The caller has the slot.
        case lead
        /// Another caller ran the statement.
        case answered(Result<[Answer], any Error>)
    }

    private struct Waiter {
        let items: [Item]
        let continuation: CheckedContinuation<Turn, Never>
    }

    private struct State {
        var running = 0
        var waiters: [Waiter] = []

        mutating func takeSlot(of concurrency: Int) -> Bool {
            guard running < concurrency else { return false }
            running += 1
            return true
        }
    }

    private let concurrency: Int
    private let limit: Int
    private let body: @Sendable ([Item]) async throws -> [Answer]
    private let state = Mutex(State())

    /// - Parameters:
    ///   - concurrency: most concurrent statements.
    ///   - limit: most items of a statement, unless a single caller has more.
    ///   - body: runs the statement and returns one value for each item, in order.
    init(concurrency: Int, limit: Int, _ body: @escaping @Sendable ([Item]) async throws -> [Answer]) {
        (self.concurrency, self.limit, self.body) = (concurrency, limit, body)
    }

    var waiting: Int { state.withLock { $0.waiters.count } }

    /// Returns one value for each item, in order.
    ///
    /// - Throws: the statement's error. An error that the data of one caller causes is thrown for that caller alone.
    func run(_ items: [Item]) async throws -> [Answer] {
        if case .answered(let result) = await turn(items) { return try result.get() }
        let others = gathered(beside: items.count)
        let results = await results(of: [items] + others.map(\.items))
        passOn()
        for (other, result) in zip(others, results.dropFirst()) {
            other.continuation.resume(returning: .answered(result))
        }
        return try results[0].get()
    }

    /// Runs one statement for all groups and returns the result of each. A statement that fails because of its data is
    /// run again in halves, down to the groups that cause the error.
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

    private func turn(_ items: [Item]) async -> Turn {
        let leads = state.withLock { $0.takeSlot(of: concurrency) }
        if leads { return .lead }
        return await withCheckedContinuation { continuation in
            // A slot may be free by now.
            let leads = state.withLock { state in
                if state.takeSlot(of: concurrency) { return true }
                state.waiters.append(Waiter(items: items, continuation: continuation))
                return false
            }
            if leads { continuation.resume(returning: .lead) }
        }
    }

    private func gathered(beside own: Int) -> [Waiter] {
        state.withLock { state in
            var count = own
            var end = 0
            while end < state.waiters.count, count + state.waiters[end].items.count <= limit {
                count += state.waiters[end].items.count
                end += 1
            }
            defer { state.waiters.removeFirst(end) }
            return Array(state.waiters[..<end])
        }
    }

    private func passOn() {
        let next = state.withLock { state -> Waiter? in
            guard !state.waiters.isEmpty else {
                state.running -= 1
                return nil
            }
            return state.waiters.removeFirst()
        }
        next?.continuation.resume(returning: .lead)
    }
}

/// A ``GroupCommitter`` for urgent lanes and one for patient lanes, so that urgent timelines do not wait for hundreds of a
/// patient lane.
struct LaneCommitter<Item: Sendable, Answer: Sendable>: Sendable {
    private static var limit: Int { 1_000 }

    private let urgent: GroupCommitter<Item, Answer>
    private let patient: GroupCommitter<Item, Answer>

    /// - Parameter body: runs the statement and returns one value for each item, in order.
    init(_ body: @escaping @Sendable ([Item]) async throws -> [Answer]) {
        urgent = GroupCommitter(concurrency: 1, limit: Self.limit, body)
        patient = GroupCommitter(concurrency: 1, limit: Self.limit, body)
    }

    var waiting: Int { urgent.waiting + patient.waiting }

    /// Returns one value for each item, in order.
    ///
    /// - Throws: as ``GroupCommitter/run(_:)``.
    func run(_ items: [Item], isUrgent: Bool) async throws -> [Answer] {
        try await (isUrgent ? urgent : patient).run(items)
    }
}
