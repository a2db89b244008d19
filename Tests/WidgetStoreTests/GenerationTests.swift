import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Reloads of everyone", .timeLimit(.minutes(5)))
struct GenerationTests {
    /// How many rows of a table the transaction has updated so far.
    private func updates(of table: String) -> String {
        "SELECT n_tup_upd FROM pg_stat_xact_user_tables WHERE relname = '\(table)'"
    }

    @Test("A global reload over a million timelines is one row update, and a single reload goes ahead of it")
    func million() async throws {
        try await withStore { store in
            let single = try await store.place([.test("mine", user: "me")])[0]
            let kind = try #require(
                try await store.directory().kinds.values.first {
                    $0.app == TestKinds.app && $0.definition.name == "Purchases"
                })
            try await store.settle()
            // Rendered and idle, as after settle().
            for first in stride(from: 1, to: 1_000_000, by: 100_000) {
                let ids = "md5(i::text)::uuid, \(kind.id)"
                let series = "generate_series(\(first), \(first + 99_999)) i"
                try await store.sql(
                    """
                    INSERT INTO timeline_state (timeline_id, kind_id, requested, rendered, due_at, lane)
                    SELECT \(ids), 1, 1, 'infinity', 2 FROM \(series);
                    INSERT INTO timeline (id, kind_id, configuration) SELECT \(ids), '{}' FROM \(series);
                    """)
            }

            // What the transaction wrote, by the server's own count.
            try await store.pool.withTransaction { connection in
                _ = try await connection.execute(
                    BumpApps([GenerationBump(id: kind.appID, events: 1, reason: .push)]))
                try await connection.simple(
                    """
                    DO $$
                    BEGIN
                        IF (SELECT sum(n_tup_upd + n_tup_ins + n_tup_del) FROM pg_stat_xact_user_tables) <> 1
                            OR (\(updates(of: "app"))) <> 1 THEN
                            RAISE EXCEPTION 'the reload wrote more than one row';
                        END IF;
                    END $$
                    """)
            }
            #expect(try await store.timeline(single)?.isStale == true)

            // The sweeper makes it due in chunks, in the bulk lane.
            let swept = try await store.pool.execute(SweepKind(kindID: kind.id, limit: 2000))
            #expect(swept == 2000)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM timeline_state WHERE lane = 3 AND due_at <= now()") == 2000)

            // A push meanwhile is due in its own lane, which is claimed first.
            let mark = TimelineMark(
                appID: kind.appID, audienceID: "me", kindID: kind.id, matching: nil, events: 1, urgency: .free,
                lane: ReloadLane.push.rawValue, cause: EventPosition(topic: 0, partition: 0, offset: 0),
                reason: .foreground)
            _ = try await store.pool.query(MarkUsers([mark], limit: 100))
            let work = try await store.pool.query(DueWork(limit: 10))
            #expect(work.map(\.lane).contains(.push))
            #expect(work.map(\.lane).contains(.bulk))
            let claimed = try await store.pool.query(
                ClaimTimelines(
                    [
                        ClaimWish(kindID: kind.id, lane: .push, count: 10)
                    ], lease: .seconds(30)))
            #expect(claimed.map(\.id) == [single])
            // That fetch renders the global reload for it as well.
            _ = try await store.complete(claimed)
            #expect(try await store.timeline(single)?.isStale == false)
        }
    }

    @Test("A bump during the fetch is one more reload: generations are captured before it")
    func captured() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let kind = try #require(
                try await store.directory().kinds.values.first {
                    $0.app == TestKinds.app && $0.definition.name == "Purchases"
                })
            let claimed = try await store.claim(lane: .interactive)
            _ = try await store.pool.execute(BumpKinds([GenerationBump(id: kind.id, events: 1, reason: .push)]))
            _ = try await store.complete(claimed, spacing: .zero)
            let timeline = try #require(try await store.timeline(id))
            #expect(timeline.renderedKindGeneration == 0)
            #expect(timeline.kindGeneration == 1)
            #expect(timeline.isStale)
            #expect(try await store.pool.execute(SweepKind(kindID: kind.id, limit: 10)) == 1)
            _ = try await store.complete(store.claim(lane: .bulk))
            #expect(try await store.timeline(id)?.isStale == false)
            #expect(try await store.pool.execute(SweepKind(kindID: kind.id, limit: 10)) == 0)
        }
    }

    @Test("A bump and a sweep between the claim's snapshot and its lock are not taken for rendered")
    func sweptBeforeTheLock() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let claimed = try await store.claim(lane: .interactive)
            // What the claim would have found, had it waited for the lock while both committed.
            try await store.sql("UPDATE kind SET generation = 1; UPDATE timeline_state SET swept_generation = 1")
            #expect(try await store.complete(claimed, spacing: .zero).map(\.isDue) == [true])
            #expect(try await store.timeline(id)?.isStale == true)
            // Tried again because the answer was lost: the lease has ended, nothing changes.
            #expect(try await store.complete(claimed).isEmpty)
            _ = try await store.complete(store.claim(lane: .interactive))
            #expect(try await store.timeline(id)?.isStale == false)
        }
    }

    @Test("The sweep passes over leased rows, and leaves a row in the lane of what it is due for already")
    func lanes() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("leased"), .test("pushed", user: "u2"), .test("policy", user: "u3"),
            ])
            try await store.settle()
            try await store.sql(
                """
                UPDATE timeline_state SET due_at = now() - interval '1 s', lane = 0 WHERE timeline_id = '\(ids[0])';
                UPDATE timeline_state SET due_at = now() - interval '1 s', lane = 1 WHERE timeline_id = '\(ids[1])';
                UPDATE timeline_state SET due_at = now() + interval '1 day', lane = 2 WHERE timeline_id = '\(ids[2])';
                """)
            let claimed = try await store.claim(lane: .interactive)
            #expect(claimed.map(\.id) == [ids[0]])
            let app = try #require(try await store.directory().apps[TestKinds.app])
            _ = try await store.pool.execute(BumpApps([GenerationBump(id: app.id, events: 1, reason: .push)]))
            let kinds = try await store.pool.query(KindsToSweep(highWater: 10))
            #expect(kinds.count == 1)
            let kind = try #require(kinds.first)
            #expect(kind.backlog == 0)
            #expect(try await store.pool.execute(SweepKind(kindID: kind.kindID, limit: 10)) == 2)
            #expect(try await store.timeline(ids[1])?.lane == .push)
            #expect(try await store.timeline(ids[2])?.lane == .bulk)
            #expect(try await store.pool.query(KindsToSweep(highWater: 10)).map(\.backlog) == [1])
            // The leased one was claimed before the bump, so it is found once it is complete.
            _ = try await store.complete(claimed)
            #expect(try await store.pool.execute(SweepKind(kindID: kind.kindID, limit: 10)) == 1)
            #expect(try await store.pool.query(KindsToSweep(highWater: 10)).isEmpty)
        }
    }

    @Test("The oldest generation goes first, so bumps in a row do not starve the tail")
    func oldestFirst() async throws {
        try await withStore { store in
            let ids = try await store.place((0..<6).map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let kind = try #require(try await store.directory().kind("Purchases", of: app))
            for _ in 0..<3 {
                _ = try await store.pool.execute(BumpApps([GenerationBump(id: app.id, events: 1, reason: .foreground)]))
                #expect(try await store.pool.execute(SweepKind(kindID: kind.id, limit: 2)) == 2)
            }
            // Two a round, none twice: after three rounds every row has been swept once.
            let claimed = try await store.claim(lane: .bulk)
            #expect(Set(claimed.map(\.id)) == Set(ids))
        }
    }
}
