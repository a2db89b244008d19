// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization
import TestSupport
import Testing

@testable import ReloadWorkers

@Suite("Statements of concurrent callers are combined", .timeLimit(.patience))
struct GroupCommitterTests {
    private struct Refused: Error {}

    /// Records executed statements; the first one waits for the gate.
    private final class Statements: Sendable {
        let groups = Mutex<[[Int]]>([])
        let begun = Tally()
        let gate = Gate()

        func run(_ items: [Int]) async throws -> [String] {
            groups.withLock { $0.append(items) }
            if begun.add() == 1 { try await gate.pass() }
            if items.contains(13) { throw Refused() }
            if items.contains(14) { throw PostgresError(.server, "refused", sqlState: "23514") }
            return items.map { "\($0)" }
        }
    }

    private func committer(
        _ statements: Statements, limit: Int = 100
    ) -> GroupCommitter<Int, String> {
        GroupCommitter(limit: limit) { try await statements.run($0) }
    }

    /// Waits until this many callers are queued behind the running statement.
    private func gathered(_ count: Int, _ committer: GroupCommitter<Int, String>) async throws {
        try await eventually("\(count) callers wait", every: .milliseconds(1)) { committer.waiting == count }
    }

    @Test("Callers during a statement share the next one, and each gets its own answers in order")
    func sharing() async throws {
        let statements = Statements()
        let committer = committer(statements)
        async let first = committer.run([1, 2])
        try await statements.begun.reaches(1)
        async let second = committer.run([3, 4])
        try await gathered(1, committer)
        async let third = committer.run([5])
        try await gathered(2, committer)
        statements.gate.open()
        #expect(try await first == ["1", "2"])
        #expect(try await second == ["3", "4"])
        #expect(try await third == ["5"])
        #expect(statements.groups.withLock { $0 } == [[1, 2], [3, 4, 5]])
    }

    @Test("A statement has no more items than the limit, unless a single caller has more")
    func limit() async throws {
        let statements = Statements()
        let committer = committer(statements, limit: 3)
        async let first = committer.run([1])
        try await statements.begun.reaches(1)
        async let second = committer.run([2, 3])
        try await gathered(1, committer)
        async let third = committer.run([4, 5])
        try await gathered(2, committer)
        async let fourth = committer.run([6, 7, 8, 9])
        try await gathered(3, committer)
        statements.gate.open()
        _ = try await (first, second, third, fourth)
        #expect(statements.groups.withLock { $0 } == [[1], [2, 3], [4, 5], [6, 7, 8, 9]])
    }

    @Test("Only the callers that share a statement get its error")
    func errors() async throws {
        let statements = Statements()
        let committer = committer(statements)
        async let first = committer.run([1])
        try await statements.begun.reaches(1)
        let second = Task { try await committer.run([13]) }
        try await gathered(1, committer)
        let third = Task { try await committer.run([3]) }
        try await gathered(2, committer)
        statements.gate.open()
        #expect(try await first == ["1"])
        await #expect(throws: Refused.self) { try await second.value }
        await #expect(throws: Refused.self) { try await third.value }
        #expect(try await committer.run([4]) == ["4"], "the slot is released")
    }

    @Test("An error of the data is thrown for the caller that causes it, and the others get their answers")
    func dataErrors() async throws {
        let statements = Statements()
        let committer = committer(statements)
        async let first = committer.run([1])
        try await statements.begun.reaches(1)
        var callers: [Task<[String], any Error>] = []
        for items in [[2, 3], [4], [14, 5], [6]] {
            callers.append(Task { try await committer.run(items) })
            try await gathered(callers.count, committer)
        }
        statements.gate.open()
        #expect(try await first == ["1"])
        #expect(try await callers[0].value == ["2", "3"])
        #expect(try await callers[1].value == ["4"])
        await #expect(throws: PostgresError.self) { try await callers[2].value }
        #expect(try await callers[3].value == ["6"])
        let groups = statements.groups.withLock { $0 }
        #expect(groups == [[1], [2, 3, 4, 14, 5, 6], [2, 3, 4], [14, 5, 6], [14, 5], [6]])
    }

    @Test("A cancelled leader ends its statement and passes the slot on; a cancelled waiter gets its answer")
    func cancellation() async throws {
        let statements = Statements()
        let committer = committer(statements)
        let first = Task { try await committer.run([1]) }
        try await statements.begun.reaches(1)
        let second = Task { try await committer.run([2]) }
        try await gathered(1, committer)
        second.cancel()
        first.cancel()
        await #expect(throws: CancellationError.self) { try await first.value }
        #expect(try await second.value == ["2"])
        #expect(try await committer.run([3]) == ["3"])
    }
}
