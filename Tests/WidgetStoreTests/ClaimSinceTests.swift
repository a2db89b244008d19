import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Claims that start from a time on", .timeLimit(.minutes(5)))
struct ClaimSinceTests {
    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")

    /// Ten timelines of one kind, the n-th due since n minutes ago.
    private func withDue(_ body: (TestStore, Int32, [TimelineID], Timestamp) async throws -> Void) async throws {
        try await withStore { store in
            let ids = try await store.place(
                (1...10).map { index in
                    WidgetPlacement(
                        app: TestKinds.app, widget: "w\(index)", user: "u\(index)", device: "d\(index)",
                        kind: "Purchases", family: .systemSmall, environment: Self.environment)
                })
            let seconds = try await store.integer("SELECT extract(epoch FROM now())::int8 - 1")
            for (index, id) in ids.enumerated() {
                try await store.sql(
                    """
                    UPDATE timeline_state SET lane = 1, due_at = to_timestamp(\(seconds - 60 * (index + 1)))
                    WHERE timeline_id = '\(id)'
                    """)
            }
            let directory = try await store.directory()
            let app = try #require(directory.apps[TestKinds.app])
            let kind = try #require(directory.kind("Purchases", of: app))
            try await body(store, kind.id, ids, Timestamp(microseconds: Int64(seconds) * 1_000_000))
        }
    }

    @Test(
        "what became due before is left, what became due then or later is claimed, and each says since when it was due")
    func claim() async throws {
        try await withDue { store, kind, ids, start in
            let since = start - .seconds(4 * 60)
            let some = try await store.pool.claim(
                [ClaimWish(kindID: kind, lane: .push, count: 100, since: since)], lease: .seconds(30))
            #expect(Set(some.map(\.id)) == Set(ids.prefix(4)))
            for timeline in some {
                let index = try #require(ids.firstIndex(of: timeline.id))
                #expect(timeline.dueAt == start - .seconds(60 * (index + 1)))
            }
            let rest = try await store.pool.claim(
                [ClaimWish(kindID: kind, lane: .push, count: 100)], lease: .seconds(30))
            #expect(Set(rest.map(\.id)) == Set(ids.dropFirst(4)))
        }
    }

    @Test("what is due is counted from a time on, of the queues that are asked for; without a time as by DueWork")
    func count() async throws {
        try await withDue { store, kind, _, start in
            func count(_ since: Timestamp?, lane: ReloadLane = .push, limit: Int = 100) async throws -> [DueWork.Row] {
                try await store.pool.due(
                    since: [ClaimWish(kindID: kind, lane: lane, count: 0, since: since)], limit: limit)
            }
            let row = try #require(try await count(start - .seconds(4 * 60)).first)
            #expect(row.kindID == kind && row.lane == .push && row.count == 4)
            // The look comes after `start`, by however much.
            #expect(row.waited > .seconds(3 * 60) && row.waited < .seconds(24 * 60 * 60))
            let all = try await store.pool.query(DueWork(limit: 100))
            #expect(try await count(nil).map { [Int($0.kindID), $0.count] } == all.map { [Int($0.kindID), $0.count] })
            let longest = try #require(all.first).waited
            #expect(longest >= row.waited, "the first of them, not the last")
            try await store.sql("UPDATE timeline_state SET due_at = '-infinity' WHERE due_at <= now()")
            #expect(try await count(nil).map(\.waited) == [.seconds(24 * 60 * 60)])
            #expect(try await count(nil, limit: 3).map(\.count) == [3])
            #expect(try await count(start).isEmpty)
            #expect(try await count(nil, lane: .bulk).isEmpty)
            try await store.sql("UPDATE kind SET paused_at = now()")
            #expect(try await count(nil).isEmpty)
        }
    }
}
