import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("The sweep of a kind", .timeLimit(.minutes(5)))
struct SweepKindTests {
    @Test("A chunk walks the index: it neither reads nor sorts all that is left to sweep")
    func plan() async throws {
        try await withStore { store in
            let kind = try #require(
                try await store.directory().kinds.values.first {
                    $0.app == TestKinds.app && $0.definition.name == "Purchases"
                })
            try await store.sql(
                """
                INSERT INTO timeline_state (timeline_id, kind_id, requested, rendered, due_at, lane)
                SELECT md5(i::text)::uuid, \(kind.id), 1, 1, 'infinity', 2 FROM generate_series(1, 20000) i;
                ANALYZE timeline_state;
                """)
            // The statistics are from before the bump: as far as they go, hardly any row is behind.
            _ = try await store.pool.execute(BumpKinds([GenerationBump(id: kind.id, events: 1, reason: .foreground)]))
            try await store.pool.withConnection { connection in
                // The extended protocol's plans: with the values, and without them.
                for mode in ["force_custom_plan", "force_generic_plan"] {
                    try await connection.simple(
                        """
                        SET plan_cache_mode = \(mode);
                        PREPARE sweep_plan AS \(SweepKind.sql);
                        DO $$
                        DECLARE line text; whole text := '';
                        BEGIN
                            FOR line IN EXECUTE 'EXPLAIN EXECUTE sweep_plan(\(kind.id), 500)' LOOP
                                whole := whole || line || chr(10);
                            END LOOP;
                            IF whole LIKE '%Sort%' OR whole NOT LIKE '%Index Scan using timeline_state_sweep%' THEN
                                RAISE EXCEPTION 'another plan (\(mode)): %', whole;
                            END IF;
                        END $$;
                        DEALLOCATE sweep_plan;
                        """)
                }
            }
            #expect(try await store.pool.execute(SweepKind(kindID: kind.id, limit: 500)) == 500)
        }
    }

    @Test("A reload that is marked while a sweep's transaction is open stays in its lane")
    func markedMeanwhile() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1", user: "me")])[0]
            try await store.settle()
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let kind = try #require(try await store.directory().kind("Purchases", of: app))
            _ = try await store.pool.execute(BumpKinds([GenerationBump(id: kind.id, events: 1, reason: .foreground)]))
            let mark = TimelineMark(
                appID: app.id, audienceID: "me", kindID: kind.id, matching: nil, events: 1, urgency: .free,
                lane: ReloadLane.push.rawValue, cause: EventPosition(topic: 0, partition: 0, offset: 0),
                reason: .foreground)
            try await store.pool.withTransaction { connection in
                // Its now() is before that of the mark, which commits before the chunk gets to the row.
                try await connection.simple("SELECT now()")
                _ = try await store.pool.query(MarkUsers([mark], limit: 10))
                #expect(try await connection.execute(SweepKind(kindID: kind.id, limit: 10)) == 1)
            }
            let timeline = try #require(try await store.timeline(id))
            #expect(timeline.lane == .push)
            #expect(try await store.pool.query(DueWork(limit: 10)).map(\.lane) == [.push])
        }
    }
}
