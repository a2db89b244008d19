import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("What a batch will mark is locked in one statement", .timeLimit(.minutes(5)))
struct LockMarkedTests {
    private func mark(
        _ audience: String, matching: String? = nil, _ store: TestStore
    ) async throws -> TimelineMark {
        TimelineMark(
            appID: try await store.directory().apps[TestKinds.app]?.id ?? -1, audienceID: audience, kindID: nil,
            matching: matching, events: 1, urgency: .budgeted, lane: ReloadLane.push.rawValue,
            cause: EventPosition(topic: 0, partition: 3, offset: 1), reason: .push)
    }

    @Test("all that the mark statements and the lifecycle events will write, and nothing else")
    func locks() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w0", user: "u0", device: "d0"), .test("w1", user: "u1", device: "d1"),
                .test("w2", user: "u2", device: "d2"), .test("w3", user: "u3", device: "d3"),
                .test("w4", user: "u4", device: "d4"),
                .test("w5", user: "u5", device: "d5", configuration: #"{"card":"acme"}"#),
                .test("w6", user: "u5", device: "d5", configuration: #"{"card":"soup"}"#),
            ])
            try await store.settle()
            let lock = LockMarked(
                MarkAudiences(
                    users: [try await mark("u0", store), try await mark("u5", matching: #"{"card":"acme"}"#, store)],
                    devices: [try await mark("d1", store)], widgets: [try await mark("w2", store)]),
                ids: [ids[3]], limit: 100)
            try await store.pool.withTransaction { connection in
                #expect(try await connection.query(lock) == [5])
                let free = try await store.integer(
                    "SELECT count(*) FROM (SELECT 1 FROM timeline_state FOR UPDATE SKIP LOCKED) s")
                #expect(free == ids.count - 5)
            }
        }
    }
}
