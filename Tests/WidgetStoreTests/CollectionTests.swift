import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Timelines that nobody shows, and erasure", .timeLimit(.minutes(5)))
struct CollectionTests {
    private func remove(_ widget: String, _ store: TestStore, timeline: TimelineID) async throws {
        try await store.pool.withTransaction { connection in
            _ = try await connection.query(LockTimelines([timeline]))
            try await connection.simple("UPDATE widget SET timeline_id = NULL WHERE id = '\(widget)'")
            _ = try await connection.execute(OrphanTimelines([timeline]))
        }
    }

    private func collect(_ claims: [ClaimedTimeline], _ store: TestStore) async throws -> Int64 {
        try await store.pool.withTransaction { connection in
            _ = try await connection.query(LockTimelines(claims.map(\.id)))
            return try await connection.query(CollectTimelines(claims.map { ($0.id, $0.claim) })).first ?? -1
        }
    }

    @Test("The last widget to go makes its timeline claimable for collection, in the bulk lane")
    func orphan() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1", device: "d1"), .test("w2", device: "d2")])[0]
            try await store.settle()
            try await remove("w1", store, timeline: id)
            #expect(try await store.timeline(id)?.isOrphaned == false)
            try await remove("w2", store, timeline: id)
            #expect(try await store.timeline(id)?.isOrphaned == true)
            let claims = try await store.claim(lane: .bulk)
            #expect(claims.map(\.isOrphaned) == [true])
            #expect(try await collect(claims, store) == 1)
            #expect(try await store.integer("SELECT count(*) FROM timeline_state") == 0)
            #expect(try await store.integer("SELECT count(*) FROM timeline") == 0)
        }
    }

    @Test("A widget that is placed before the collection revives the timeline; one placed meanwhile too")
    func revive() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.settle()
            try await remove("w1", store, timeline: id)
            let claims = try await store.claim(lane: .bulk)
            // While the tombstone goes out, somebody places the same widget again.
            try await store.place([.test("w2")])
            #expect(try await collect(claims, store) == 0)
            let timeline = try #require(try await store.timeline(id))
            #expect(!timeline.isOrphaned)
            #expect(!timeline.isLeased)
            #expect(timeline.publishedHash == nil)
            #expect(timeline.dueAt.microseconds <= timeline.readAt.microseconds)
        }
    }

    @Test("Erasing a user deletes widgets, tombstones, content and dead letters, and fences a fetch under way")
    func erase() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("mine", user: "me"), .test("gone", user: "me", kind: "DueDate"),
                .test("weather", user: "me", kind: "Weather"), .test("theirs", user: "you"),
                .test("city", user: "you", kind: "Weather"),
            ])
            let claimed = try await store.claim(lane: .interactive)
            _ = try await store.pool.query(
                SaveContent(
                    claimed.map {
                        ContentWrite(id: $0.id, claim: $0.claim, hash: ContentHash(high: 1, low: 1), content: "secret")
                    }))
            try await remove("gone", store, timeline: ids[1])
            _ = try await store.pool.execute(
                InsertDeadLetter(
                    DeadLetter(
                        topic: "t", partition: 0, offset: 0, app: TestKinds.app, code: "c", error: "e",
                        key: Array("me".utf8), headers: [], payload: nil)))

            let erasure = try #require(try await store.store.erase(user: "me", of: TestKinds.app))
            #expect(erasure == Erasure(widgets: 3, timelines: 2, deadLetters: 1))
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE user_id = 'me'") == 0)
            #expect(try await store.timeline(ids[0])?.content == nil)
            #expect(try await store.timeline(ids[0])?.isOrphaned == true)
            // Shared with somebody else: it stays, content and all.
            #expect(try await store.timeline(ids[2])?.isOrphaned == false)
            #expect(try await store.timeline(ids[2])?.content == "secret")
            #expect(try await store.timeline(ids[3])?.content == "secret")
            // The worker that was fetching comes too late.
            let late = try await store.pool.query(
                SaveContent(
                    claimed.filter { $0.id == ids[0] }.map {
                        ContentWrite(id: $0.id, claim: $0.claim, hash: ContentHash(high: 2, low: 2), content: "late")
                    }))
            #expect(late.isEmpty)
            #expect(try await store.store.erase(user: "me", of: "com.example.nobody") == nil)
        }
    }
}
