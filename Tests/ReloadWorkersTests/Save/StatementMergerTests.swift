import Synchronization
import TestSupport
import Testing

@testable import ReloadWorkers

@Suite("Batches that come at the same time share statements", .timeLimit(.minutes(5)))
struct StatementMergerTests {
    private struct Item: ClaimedItem, Equatable {
        var claim: Int64
    }

    private struct Refused: Error {}

    /// Statements that wait until they are let go.
    private final class Statements: Sendable {
        private struct State {
            var seen: [[Int64]] = []
            var held: [CheckedContinuation<Void, Never>] = []
            var isOpen = false
        }

        private let state = Mutex(State())

        /// The rows of each statement, in the order in which they began.
        var seen: [[Int64]] { state.withLock { $0.seen } }

        func run(_ items: [Item]) async -> [Item] {
            await withCheckedContinuation { continuation in
                let isOpen = state.withLock { state in
                    state.seen.append(items.map(\.claim))
                    if !state.isOpen { state.held.append(continuation) }
                    return state.isOpen
                }
                if isOpen { continuation.resume() }
            }
            return items.reversed()
        }

        func open() {
            let held = state.withLock { state in
                state.isOpen = true
                defer { state.held = [] }
                return state.held
            }
            for continuation in held { continuation.resume() }
        }
    }

    private func items(_ claims: ClosedRange<Int64>) -> [Item] { claims.map { Item(claim: $0) } }

    @Test("what comes while a statement runs goes with the next one, and everybody gets his own rows")
    func merges() async throws {
        let merger = StatementMerger<Item, Item>(concurrency: 1, limit: 100)
        let statements = Statements()
        let batches = [items(1...3), items(4...4), items(5...9)]
        let answers = try await withThrowingTaskGroup(of: (Int, [Item]?).self) { group in
            for (index, batch) in batches.enumerated() {
                group.addTask { (index, try await merger.run(batch, statements.run)) }
                // One after the other, so that the order is known.
                try await eventually("batch \(index) has come") {
                    statements.seen.count == 1 && merger.waiting == index
                }
            }
            statements.open()
            return try await group.reduce(into: [Int: [Item]?]()) { $0[$1.0] = $1.1 }
        }
        #expect(statements.seen == [[1, 2, 3], [4, 5, 6, 7, 8, 9]])
        for (index, batch) in batches.enumerated() { #expect(answers[index] == .some(batch.reversed())) }
    }

    @Test("a statement has no more rows than the limit, but for a single batch")
    func limit() async throws {
        let merger = StatementMerger<Item, Item>(concurrency: 1, limit: 4)
        let statements = Statements()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for (index, batch) in [items(1...1), items(2...4), items(5...6), items(7...12)].enumerated() {
                group.addTask { _ = try await merger.run(batch, statements.run) }
                try await eventually("batch \(index) has come") { merger.waiting == index }
                try await eventually("the first is running") { !statements.seen.isEmpty }
            }
            statements.open()
            try await group.waitForAll()
        }
        #expect(statements.seen == [[1], [2, 3, 4], [5, 6], [7, 8, 9, 10, 11, 12]])
        #expect(merger.waiting == 0)
    }

    @Test("what fails together is left to each; what fails alone says so")
    func failure() async throws {
        let merger = StatementMerger<Item, Item>(concurrency: 1, limit: 100)
        await #expect(throws: Refused.self) { _ = try await merger.run(items(1...2)) { _ in throw Refused() } }
        let statements = Statements()
        let answers = try await withThrowingTaskGroup(of: [Item]?.self) { group in
            group.addTask { try await merger.run(items(1...1), statements.run) }
            try await eventually("the first is running") { !statements.seen.isEmpty }
            for index in 1...2 {
                let batch = items(Int64(index * 10)...Int64(index * 10))
                group.addTask { try await merger.run(batch) { _ in throw Refused() } }
                try await eventually("it waits") { merger.waiting == index }
            }
            statements.open()
            return try await group.reduce(into: []) { $0.append($1) }
        }
        #expect(answers.count(where: { $0 == nil }) == 2)
        // The place is free again.
        #expect(try await merger.run(items(7...7), statements.run) == items(7...7))
    }

    @Test("where nothing hurries, who finds a place free lets others come; many rows go at once")
    func gathering() async throws {
        let merger = StatementMerger<Item, Item>(concurrency: 2, limit: 1_000, gathering: .seconds(3_600))
        let statements = Statements()
        statements.open()
        let first = Task { try await merger.run(items(1...2), statements.run) }
        let second = Task { () -> [Item]? in
            try await eventually("the first has found a place") { merger.running == 1 }
            return try await merger.run(items(3...4), statements.run)
        }
        try await eventually("the second waits for the first, though a place is free") { merger.waiting == 1 }
        #expect(statements.seen.isEmpty)
        // A task that is cancelled does not wait any longer.
        first.cancel()
        #expect(try await first.value == items(1...2).reversed())
        #expect(try await second.value == items(3...4).reversed())
        #expect(statements.seen == [[1, 2, 3, 4]])
        _ = try await merger.run(items(101...300), statements.run)
        #expect(statements.seen.count == 2)
    }

    @Test("so many at a time", arguments: [1, 2, 3])
    func concurrency(_ places: Int) async throws {
        let merger = StatementMerger<Item, Item>(concurrency: places, limit: 100)
        let statements = Statements()
        try await withThrowingTaskGroup(of: Void.self) { group in
            for index in 1...5 {
                let batch = items(Int64(index)...Int64(index))
                group.addTask { _ = try await merger.run(batch, statements.run) }
            }
            try await eventually("the others wait") {
                statements.seen.count == places && merger.waiting == 5 - places
            }
            statements.open()
            try await group.waitForAll()
        }
        #expect(Set(statements.seen.flatMap { $0 }) == [1, 2, 3, 4, 5])
    }
}
