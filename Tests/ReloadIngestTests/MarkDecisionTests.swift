import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

/// What ingest decides about requests: merged, deferred, refused.
@Suite(.serialized, .timeLimit(.minutes(5)))
struct MarkDecisionTests {
    private static let now = Timestamp(rfc3339: "2026-06-22T10:00:00Z") ?? .distantPast

    private static func marked(
        events: Int64 = 1, requested: Int64 = 5, rendered: Int64 = 4, isLeased: Bool = false,
        dueIn: Duration = .zero, retryIn: Duration? = nil, renderedAgo: Duration? = .seconds(100)
    ) -> MarkedTimeline {
        MarkedTimeline(
            id: TimelineID(high: 1, low: 2), kindID: 7, user: "u1", events: events, requested: requested,
            rendered: rendered, lane: .push, isLeased: isLeased, dueAt: now + dueIn, eligibleAt: now,
            retryAt: retryIn.map { now + $0 } ?? .distantPast, renderedAt: renderedAgo.map { now - $0 },
            cause: EventPosition(topic: 0, partition: 1, offset: 2), reason: .push, markedAt: now)
    }

    private static let directory = KindDirectory(
        apps: [],
        kinds: [
            RegisteredKind(
                id: 7, appID: 1, app: "a", isDeveloperMode: false,
                definition: KindDefinition(name: "K", providerURL: "https://x.example.com", placeholder: [:]))
        ])

    @Test("the table of decisions")
    func table() {
        let cases: [(MarkedTimeline, Decision?, ReloadRule?)] = [
            (Self.marked(), nil, nil),
            (Self.marked(requested: 6), .merged, .coalescing),
            (Self.marked(events: 2, requested: 6), nil, nil),
            (Self.marked(events: 2, requested: 7, dueIn: .seconds(200)), .merged, .coalescing),
            (Self.marked(dueIn: .seconds(200)), .deferred, .spacing),
            (Self.marked(dueIn: .seconds(900)), .deferred, .budget),
            (Self.marked(dueIn: .seconds(60), retryIn: .seconds(60)), .deferred, .backoff),
            (Self.marked(requested: 9, isLeased: true, dueIn: .seconds(30)), .deferred, .inFlight),
            (Self.marked(dueIn: .seconds(60), renderedAgo: nil), .deferred, .spacing),
        ]
        for (index, (timeline, decision, rule)) in cases.enumerated() {
            let records = MarkDecisions.records(of: [timeline], directory: Self.directory)
            #expect(records.first?.decision == decision && records.first?.rule == rule, "case \(index)")
        }
        let record = MarkDecisions.records(of: [Self.marked(dueIn: .seconds(200))], directory: Self.directory).first
        #expect(record?.app == "a" && record?.kind == "K" && record?.user == "u1" && record?.requested == 5)
        #expect(record?.dueAt == Self.now + .seconds(200) && record?.claim == nil)
        let leased = MarkDecisions.records(of: [Self.marked(isLeased: true)], directory: Self.directory).first
        #expect(leased?.dueAt == nil, "the end of the lease is no due time")
    }

    @Test("requests through Kafka and the database: merged, deferred and refused are told, once, after the commit")
    func told() async throws {
        try await IngestHarness.lend { harness in
            let ids = try await harness.store.place([.test("w1", user: "u1"), .test("w2", user: "u2")])
            try await harness.store.settle()
            try await harness.store.sql(
                """
                UPDATE timeline_state SET rendered_at = now() - interval '10 s', eligible_at = now() + interval '290 s'
                WHERE timeline_id = '\(ids[1])'
                """)
            let told = Mutex<[DecisionRecord]>([])
            let service = harness.service(onDecisions: { records in told.withLock { $0 += records } })
            try await harness.running([service]) {
                // Due at once: a worker decides.
                try await harness.publish([harness.push("u1")])
                try await harness.waitUntilApplied(1)
                #expect(told.withLock { $0 }.isEmpty)
                try await harness.publish([harness.push("u1")])
                try await harness.waitUntilApplied(2)
                try await harness.publish([harness.push("u2")])
                try await harness.waitUntilApplied(3)
                try await harness.publish([harness.push("u1", kinds: ["NoSuchKind"])])
                try await eventually("all four are applied and told") { told.withLock { $0.count } == 3 }
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
