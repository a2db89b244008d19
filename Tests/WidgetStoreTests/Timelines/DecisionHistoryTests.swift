// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("The history of decisions", .timeLimit(.patience))
struct DecisionHistoryTests {
    private static func history(_ store: TestStore) async throws -> [DecisionRecord] {
        let found = try await store.pool.query(.readExplanation(app: TestKinds.app, widget: "w1"))
        return try #require(found.first?.timeline?.history)
    }

    /// Requests the timeline, and passes the list with it.
    private static func look(
        _ store: TestStore, _ body: (LeasedList) async throws -> Void
    ) async throws {
        try await store.apply([try await store.mark(.user, "u1", urgency: .forced)])
        try await store.sql(
            "UPDATE timeline SET retry_at = '-infinity'; UPDATE work SET ready_at = now(), lease = NULL")
        let list = try #require(try await store.claimAll().first)
        try await body(list)
        try await store.end(list)
    }

    @Test("Stores, failures and deferrals append to it, latest first, with rule, reason and duration")
    func appended() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            #expect(try await Self.history(store).isEmpty)
            let first = try #require(try await store.claimAll().first)
            try await store.complete(first)
            try await store.end(first)
            try await Self.look(store) { try await store.complete($0, hash: 2) }
            try await Self.look(store) { try await store.fail($0, retryAt: try await store.now() + .seconds(60)) }
            try await Self.look(store) {
                try await store.finish($0, .wait(until: try await store.now() + .seconds(60), rule: .spacing))
            }
            // A look without a decision.
            try await Self.look(store) { try await store.finish($0, .nothing) }
            let history = try await Self.history(store)
            #expect(history.map(\.decision) == [.deferred, .failed, .reloaded, .reloaded])
            #expect(history.map(\.rule) == [.spacing, .providerStatus, .first, .first])
            #expect(history.map(\.reason) == [.operator, .operator, .operator, .placed])
            let five = Duration.milliseconds(5)
            #expect(history.map(\.fetchTime) == [nil, nil, five, five])
            let now = try await store.now()
            #expect(history.allSatisfy { now - $0.at < .seconds(600) && $0.at - now < .seconds(2) })
        }
    }

    @Test("It keeps the latest 50 decisions")
    func bounded() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let first = try #require(try await store.claimAll().first)
            try await store.complete(first)
            try await store.end(first)
            for number in 1...DecisionRecord.kept {
                try await Self.look(store) { try await store.complete($0, content: number == 1 ? nil : "{}") }
            }
            let history = try await Self.history(store)
            #expect(history.count == DecisionRecord.kept && history.last?.decision == .unchanged)
            #expect(try await store.integer("SELECT octet_length(history) FROM timeline") == 400)
        }
    }

    @Test("The largest and the smallest values are read as they were stored")
    func limits() async throws {
        try await withStore { store in
            func stored(_ values: String) async throws -> DecisionRecord? {
                let bytes = try await store.integer(
                    "SELECT ('x' || encode(decision_record(\(values)), 'hex'))::bit(64)::int8")
                return DecisionRecord.history(
                    stored: (0..<8).map { UInt8(truncatingIfNeeded: bytes >> (56 - 8 * $0)) }
                ).first
            }
            let last = try #require(try await stored("'2106-02-07T06:28:15Z', 9::int2, 43::int2, 7::int2, 2147483647"))
            #expect(last.at == Timestamp(rfc3339: "2106-02-07T06:28:15Z") && last.decision == .refused)
            #expect(last.rule == .retryBudget && last.reason == .policy && last.fetchTime == .milliseconds(65_534))
            let first = try #require(try await stored("'1970-01-01T00:00:00Z', 0::int2, 0::int2, 0::int2, 0"))
            #expect(first.at == Timestamp(microseconds: 0) && first.rule == .none && first.fetchTime == .zero)
            #expect(try await stored("now(), 1::int2, 1::int2, 1::int2, NULL")?.fetchTime == nil)
            // Written by a newer version.
            #expect(try await stored("now(), 7::int2, 1::int2, 1::int2, NULL") == nil)
            #expect(try await stored("now(), 1::int2, 200::int2, 1::int2, NULL") == nil)
        }
    }
}
