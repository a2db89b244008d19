// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// Ingest's decisions on requests: merged, deferred or refused.
@Suite(.serialized, .timeLimit(.patience))
struct MarkDecisionTests {
    /// A timeline's row before a request, and the expected decision.
    private struct Case {
        var row: String
        var decision: Decision?
        var rule: ReloadRule?
    }

    private static let cases = [
        Case(row: "rendered = requested"),
        Case(row: "requested = 6, rendered = 5", decision: .merged, rule: .coalescing),
        Case(row: waiting("290 s"), decision: .deferred, rule: .spacing),
        Case(row: waiting("1 h"), decision: .deferred, rule: .budget),
        Case(row: waiting("290 s") + ", requested = 6, rendered = 5", decision: .merged, rule: .coalescing),
        Case(row: waiting("290 s", rendered: "NULL"), decision: .deferred, rule: .spacing),
        Case(row: "retry_at = now() + interval '60 s'", decision: .deferred, rule: .backoff),
    ]

    private static func waiting(_ interval: String, rendered: String = "now() - interval '10 s'") -> String {
        "rendered_at = \(rendered), eligible_at = now() + interval '\(interval)'"
    }

    @Test("Requests are merged, deferred or refused by the state of the row")
    func table() async throws {
        try await withStore { store in
            let ids = try await store.place(Self.cases.indices.map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            for (id, row) in zip(ids, Self.cases.map(\.row)) {
                try await store.sql("UPDATE timeline SET \(row) WHERE identity = '\(id)'")
            }
            let directory = try await store.directory()
            let app = try #require(directory.apps[TestKinds.app])
            for (index, expected) in Self.cases.enumerated() {
                var input = MarkInput()
                input.marks = [
                    TimelineMark(
                        audience: .user, appID: app.id, audienceID: "u\(index)", kindID: nil, matching: nil, events: 1,
                        urgency: .budgeted, lane: .push, cause: .at(index), reason: .push)
                ]
                let rows = try await store.pool.query(.markTimelines(input, limit: 10, reports: true))
                let records = rows.compactMap(\.timeline).compactMap {
                    TimelineDecidedEvent(marked: $0, directory: directory)
                }
                #expect(records.count == (expected.decision == nil ? 0 : 1), "case \(index)")
                guard let record = records.first else { continue }
                #expect(record.decision == expected.decision && record.rule == expected.rule, "case \(index)")
                #expect(record.app == TestKinds.app && record.kind == "Purchases" && record.user == "u\(index)")
                #expect(record.timeline == ids[index] && record.cause == .at(index) && record.dueAt != nil)
            }
        }
    }

    @Test("Merged, deferred and refused requests are recorded once, after the commit")
    func told() async throws {
        try await IngestHarness.lend { harness in
            let ids = try await harness.store.place([.test("w1", user: "u1"), .test("w2", user: "u2")])
            try await harness.store.settle()
            try await harness.store.sql(
                """
                UPDATE timeline SET rendered_at = now() - interval '10 s', eligible_at = now() + interval '290 s'
                WHERE identity = '\(ids[1])'
                """)
            let told = Mutex<[TimelineDecidedEvent]>([])
            let service = harness.service(onDecisions: { records in told.withLock { $0 += records } })
            try await harness.running([service]) {
                // The request is due at once, so a worker decides.
                try await harness.publish([harness.push("u1")])
                try await harness.waitUntilApplied(1)
                #expect(told.withLock { $0 }.isEmpty)
                try await harness.publish([harness.push("u1")])
                try await harness.waitUntilApplied(2)
                try await harness.publish([harness.push("u2")])
                try await harness.waitUntilApplied(3)
                try await harness.publish([harness.push("u1", kinds: ["NoSuchKind"])])
                try await eventually("all four are applied and reported") { told.withLock { $0.count } == 3 }
            }
            let records = told.withLock { $0 }
            #expect(records.map(\.decision) == [.merged, .deferred, .refused])
            #expect(records.map(\.rule) == [.coalescing, .spacing, .invalidEvent])
            #expect(records[0].timeline == ids[0] && records[1].timeline == ids[1] && records[2].timeline == nil)
            #expect(records[1].user == "u2" && records[1].reason == .push && records[1].cause?.topic == 0)
            #expect(records[2].app == TestKinds.app && records[2].error == "unknownKind")
            #expect(records[2].cause?.topic == 0 && records[2].cause?.offset != nil)
        }
    }
}
