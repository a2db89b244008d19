import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Snapshots are shown until there is a timeline", .timeLimit(.minutes(5)))
struct SnapshotTests {
    private static let entry = #"{"content":"at once","date":"2026-01-01T00:00:00Z"}"#

    private func save(_ claims: [ClaimedTimeline], _ store: TestStore, entry: String = entry) async throws -> Int64? {
        try await store.pool.query(
            SaveSnapshots(claims.map { SnapshotWrite(id: $0.id, claim: $0.claim, entry: entry) })
        ).first
    }

    private func content(_ claims: [ClaimedTimeline], _ store: TestStore) async throws {
        _ = try await store.pool.query(
            SaveContent(
                claims.map {
                    ContentWrite(id: $0.id, claim: $0.claim, hash: ContentHash(high: 1, low: 1), content: "stored")
                }))
    }

    @Test("First the manifest's placeholder, then the snapshot, then the timeline alone")
    func order() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.store.timeline(id, of: TestKinds.app))
            #expect(first.standIn == .placeholder(content: "{}", fetchedAt: nil))
            #expect(try await store.store.timeline(id, of: TestKinds.otherApp) == nil)

            let claims = try await store.claim(lane: .interactive)
            #expect(claims.map(\.renderedAt) == [nil])
            #expect(try await save(claims, store) == 1)
            guard
                case .snapshot(Self.entry, let storedAt)? = try await store.store.timeline(id, of: TestKinds.app)?
                    .standIn
            else {
                Issue.record("no snapshot")
                return
            }
            #expect(storedAt >= first.detail.readAt)

            try await content(claims, store)
            let last = try #require(try await store.store.timeline(id, of: TestKinds.app))
            #expect(last.standIn == nil && last.detail.content == "stored")
            #expect(try await store.integer("SELECT count(*) FROM snapshot") == 0)
            // A snapshot that comes after its timeline changes nothing.
            #expect(try await save(claims, store) == 0)
            _ = try await store.complete(claims)
            try await store.sql("UPDATE timeline_state SET due_at = now(), lane = 0")
            #expect(try await store.claim(lane: .interactive).first?.renderedAt != nil)
        }
    }

    @Test("It is stored only under the claim that is still held; a later one replaces it")
    func fenced() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1"), .test("w2", user: "u2")])[0]
            let first = try await store.claim(lane: .interactive)
            try await store.sql("UPDATE timeline_state SET due_at = now() WHERE timeline_id = '\(id)'")
            let second = try await store.claim(lane: .interactive)
            #expect(second.map(\.id) == [id])
            #expect(try await save(first, store, entry: "old") == 1, "only the other one's")
            #expect(try await save(second, store) == 1)
            #expect(try await save(second, store, entry: #"{"content":2,"date":"2026-01-01T00:00:00Z"}"#) == 1)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM snapshot WHERE timeline_id = '\(id)' AND entry LIKE '%2,%' AND revision = "
                        + "\(second[0].claim)") == 1)
        }
    }

    @Test("It goes with the timeline that is collected, and with the user who is erased")
    func goes() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "me"), .test("w2", user: "you"), .test("w3", user: "them"),
            ])
            let claims = try await store.claim(lane: .interactive)
            #expect(try await save(claims, store) == 3)
            _ = try await store.store.erase(user: "me", of: TestKinds.app)
            #expect(try await store.integer("SELECT count(*) FROM snapshot WHERE timeline_id = '\(ids[0])'") == 0)

            try await store.pool.withTransaction { connection in
                _ = try await connection.query(LockTimelines([ids[1]]))
                try await connection.simple("UPDATE widget SET timeline_id = NULL WHERE id = 'w2'")
                _ = try await connection.execute(OrphanTimelines([ids[1]]))
                let claim = try #require(claims.first { $0.id == ids[1] })
                // Nobody will look at it.
                let late = try await connection.query(
                    SaveSnapshots([SnapshotWrite(id: claim.id, claim: claim.claim, entry: "late")]))
                #expect(late == [0])
                let collected = try await connection.query(CollectTimelines([(claim.id, claim.claim)]))
                #expect(collected == [1])
            }
            #expect(try await store.integer("SELECT count(*) FROM snapshot") == 1)
            #expect(try await store.integer("SELECT count(*) FROM snapshot WHERE timeline_id = '\(ids[2])'") == 1)
        }
    }
}
