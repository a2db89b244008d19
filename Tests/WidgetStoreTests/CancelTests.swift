import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Cancelling bulk work", .timeLimit(.minutes(5)))
struct CancelTests {
    /// Timelines of Purchases that were rendered and published, and are due by their policy in an hour.
    private func settled(_ count: Int, _ store: TestStore) async throws -> [TimelineID] {
        let ids = try await store.place((0..<count).map { .test("w\($0)", user: "u\($0)") })
        try await store.settle()
        try await store.sql(
            """
            UPDATE timeline_state SET due_at = now() + interval '1 hour', policy_at = now() + interval '1 hour',
                published_hash = '00000000-0000-0000-0000-000000000001'
            """)
        return ids
    }

    private func kindID(_ store: TestStore, _ kind: String = "Purchases") async throws -> Int32 {
        let directory = try await store.directory()
        return try #require(directory.apps[TestKinds.app].flatMap { directory.kind(kind, of: $0) }).id
    }

    private func bump(_ store: TestStore) async throws {
        let bump = GenerationBump(id: try await kindID(store), events: 1, reason: .foreground)
        _ = try await store.pool.execute(BumpKinds([bump]))
    }

    private func sweep(_ store: TestStore, limit: Int = 100) async throws -> Int {
        try await store.pool.execute(SweepKind(kindID: try await kindID(store), limit: limit))
    }

    private func cancel(_ store: TestStore, chunk: Int = 1_000) async throws -> Cancellation {
        try #require(try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases", chunk: chunk))
    }

    private func due(_ store: TestStore) async throws -> Int {
        try await store.integer("SELECT count(*) FROM timeline_state WHERE due_at <= now()")
    }

    @Test("A reload of everyone ends where it is: what is due goes back to its policy's time, and stays stale")
    func everyone() async throws {
        try await withStore { store in
            let ids = try await settled(20, store)
            try await bump(store)
            #expect(try await sweep(store, limit: 12) == 12)
            #expect(try await due(store) == 12)

            #expect(try await cancel(store, chunk: 5) == Cancellation(sweeps: 1, timelines: 12))
            #expect(try await due(store) == 0)
            #expect(try await sweep(store) == 0)
            #expect(try await store.pool.query(KindsToSweep(highWater: 10)).isEmpty)
            #expect(
                try await store.integer(
                    """
                    SELECT count(*) FROM timeline_state WHERE lane = 2 AND due_at = policy_at AND last_decision = 7
                        AND decision_rule = 23 AND decided_at IS NOT NULL
                    """) == 12)
            for id in ids { #expect(try await store.timeline(id)?.isStale == true) }
            #expect(try await cancel(store) == Cancellation(sweeps: 0, timelines: 0), "it is repeatable")
        }
    }

    @Test("A later bump sweeps all of it as usual, of the kind or of the app")
    func laterBump() async throws {
        try await withStore { store in
            _ = try await settled(4, store)
            try await bump(store)
            _ = try await sweep(store, limit: 2)
            _ = try await cancel(store)
            let app = try #require(try await store.directory().apps[TestKinds.app])
            _ = try await store.pool.execute(BumpApps([GenerationBump(id: app.id, events: 1, reason: .foreground)]))
            #expect(try await sweep(store) == 4)
            #expect(try await due(store) == 4)
        }
    }

    @Test("What is due for anything else than the cancelled sweep is left alone")
    func leftAlone() async throws {
        try await withStore { store in
            let ids = try await settled(8, store)
            try await bump(store)
            #expect(try await sweep(store) == 8)
            func update(_ index: Int, _ change: String) async throws {
                try await store.sql("UPDATE timeline_state SET \(change) WHERE timeline_id = '\(ids[index])'")
            }
            try await update(0, "requested = requested + 1")
            try await update(1, "rendered_at = NULL")
            try await update(2, "leased = true, due_at = now() + interval '30 s'")
            try await update(3, "orphaned = true")
            try await update(4, "published_hash = NULL")
            try await update(5, "lane = 1")
            // Swept for a generation that is later than what is cancelled.
            try await update(6, "swept_generation = 99")
            #expect(try await cancel(store).timelines == 1)
            #expect(try await store.timeline(ids[7])?.lane == .scheduled)
            for id in ids.dropLast() { #expect(try await store.timeline(id)?.lane != .scheduled) }
        }
    }

    @Test("What failed keeps its back-off, and what waits for its spacing is put back too")
    func waiting() async throws {
        try await withStore { store in
            let ids = try await settled(2, store)
            try await bump(store)
            try await store.sql(
                """
                UPDATE timeline_state SET retry_at = now() + interval '2 hours' WHERE timeline_id = '\(ids[0])';
                UPDATE timeline_state SET policy_at = 'infinity', decided_at = now() WHERE timeline_id = '\(ids[1])';
                """)
            _ = try await sweep(store)
            try await store.sql("UPDATE timeline_state SET due_at = now() + interval '10 s', lane = 3")
            #expect(try await cancel(store).timelines == 2)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM timeline_state WHERE timeline_id = '\(ids[0])' AND due_at = retry_at") == 1)
            #expect(try await store.timeline(ids[1])?.dueAt == .infinity)
        }
    }

    @Test("Recorded sweeps lose the kind; one with others goes on with them, and is not joined by later requests")
    func recorded() async throws {
        try await withStore { store in
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let (purchases, dueDate) = (try await kindID(store), try await kindID(store, "DueDate"))
            func record(_ audience: SweepRequest.Audience, _ kindIDs: [Int32]) async throws {
                let request = SweepRequest(
                    appID: app.id, audience: audience, kindIDs: kindIDs.sorted(), matching: #"{"card":"acme"}"#,
                    events: 1, urgency: .free,
                    cause: EventPosition(topic: 0, partition: 0, offset: 1), reason: .foreground)
                _ = try await store.pool.execute(InsertSweep(request))
            }
            try await record(.everyone, [purchases])
            try await record(.everyone, [purchases, dueDate])
            try await record(.everyone, [dueDate])
            _ = try await store.pool.execute(StartSweeps(limit: 1))
            try await record(.user("u1"), [purchases])
            #expect(try await cancel(store) == Cancellation(sweeps: 2, timelines: 0))
            // A person's own request is never cancelled.
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 3)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM sweep WHERE \(purchases) = ANY (kind_ids) AND audience = 0") == 0)
            // The same request again, with both kinds.
            try await record(.everyone, [purchases, dueDate])
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 4)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM sweep WHERE cardinality(kind_ids) = 2 AND NOT started AND events = 1") == 1)
        }
    }

    @Test("Other kinds keep their work; a kind that is not there, or retired, is not found")
    func others() async throws {
        try await withStore { store in
            _ = try await settled(2, store)
            try await store.place([.test("d", kind: "DueDate")])
            try await store.settle()
            try await store.sql(
                """
                UPDATE timeline_state
                SET published_hash = timeline_id, policy_at = 'infinity', decided_at = now()
                """)
            let app = try #require(try await store.directory().apps[TestKinds.app])
            _ = try await store.pool.execute(BumpApps([GenerationBump(id: app.id, events: 1, reason: .foreground)]))
            _ = try await sweep(store)
            let dueDate = try await kindID(store, "DueDate")
            _ = try await store.pool.execute(SweepKind(kindID: dueDate, limit: 10))
            #expect(try await cancel(store) == Cancellation(sweeps: 0, timelines: 2))
            #expect(try await due(store) == 1)
            #expect(try await store.store.cancelWork(app: TestKinds.app, kind: "Nothing") == nil)
            _ = try await store.store.retire(app: TestKinds.app, kind: "DueDate")
            #expect(try await store.store.cancelWork(app: TestKinds.app, kind: "DueDate") == nil)
        }
    }
}
