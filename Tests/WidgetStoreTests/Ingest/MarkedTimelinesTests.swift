import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("What targeted requests have marked", .timeLimit(.minutes(5)))
struct MarkedTimelinesTests {
    private func mark(
        _ audience: String, kindID: Int32? = nil, matching: String? = nil, events: Int64 = 1, offset: Int64,
        _ store: TestStore
    ) async throws -> TimelineMark {
        TimelineMark(
            appID: try await store.directory().apps[TestKinds.app]?.id ?? -1, audienceID: audience, kindID: kindID,
            matching: matching, events: events, urgency: .budgeted, lane: ReloadLane.push.rawValue,
            cause: EventPosition(topic: 0, partition: 3, offset: offset), reason: .push)
    }

    /// Marks and reads what was marked, in one transaction.
    private func marked(
        users: [TimelineMark] = [], devices: [TimelineMark] = [], widgets: [TimelineMark] = [], limit: Int = 100,
        _ store: TestStore
    ) async throws -> [MarkedTimeline] {
        try await store.pool.withTransaction { connection in
            var pipeline = PostgresPipeline()
            let audiences = MarkAudiences(users: users, devices: devices, widgets: widgets)
            _ = pipeline.append(MarkTimelines(audiences, limit: limit))
            let handle = pipeline.append(MarkedTimelines(audiences, limit: limit))
            return try await connection.run(pipeline).rows(handle)
        }
    }

    @Test("by user, device and widget: each timeline once, with the events that hit it and its state")
    func audiences() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "u1", device: "d1"), .test("w2", user: "u1", device: "d2", kind: "DueDate"),
                .test("w3", user: "u2", device: "d1"), .test("w4", user: "u3", device: "d9"),
            ])
            try await store.settle()
            let rows = try await marked(
                users: [mark("u1", events: 2, offset: 10, store)],
                devices: [mark("d1", events: 3, offset: 11, store)],
                widgets: [mark("w3", events: 4, offset: 12, store)], store)
            let events = Dictionary(rows.map { ($0.id, $0.events) }, uniquingKeysWith: { $0 + $1 })
            #expect(events == [ids[0]: 5, ids[1]: 2, ids[2]: 7])
            let first = try #require(rows.first { $0.id == ids[0] })
            #expect(first.requested == 6 && first.rendered == 1 && first.user == "u1" && first.lane == .push)
            #expect(first.cause == EventPosition(topic: 0, partition: 3, offset: 11) && first.reason == .push)
            #expect(!first.isLeased && first.dueAt <= first.markedAt && first.renderedAt != nil)
            #expect(rows.map(\.id) == rows.map(\.id).sorted())
        }
    }

    @Test("only what the marks have marked: kind and match, audiences that were too large, other apps")
    func scope() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "u1", configuration: #"{"card":"acme"}"#),
                .test("w2", user: "u1", configuration: #"{"card":"soup"}"#),
                .test("w3", app: TestKinds.otherApp, user: "u1"),
            ])
            try await store.settle()
            let matching = try await marked(
                users: [mark("u1", matching: #"{"card":"acme"}"#, offset: 1, store)], store)
            #expect(matching.map(\.id) == [ids[0]])
            let unknown = try await marked(users: [mark("u1", kindID: 999_999, offset: 2, store)], store)
            #expect(unknown.isEmpty)
            // Two widgets and a limit of one: nothing is marked, so nothing is read.
            let tooMany = try await marked(users: [mark("u1", offset: 3, store)], limit: 1, store)
            #expect(tooMany.isEmpty)
        }
    }
}
