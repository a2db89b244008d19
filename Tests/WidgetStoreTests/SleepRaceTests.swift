import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// A timeline that nobody looked at for long is claimed, and is to sleep. Meanwhile somebody looks.
@Suite("Looking at a timeline that is going to sleep", .timeLimit(.minutes(5)))
struct SleepRaceTests {
    private static let seen = Timestamp(microseconds: 1_700_000_000_000_000)

    /// A timeline that is claimed because its policy's time has come.
    private func claimed(in store: TestStore) async throws -> (id: TimelineID, claim: ClaimedTimeline) {
        let id = try await store.place([.test("w1")])[0]
        try await store.settle()
        try await store.sql("UPDATE timeline_state SET due_at = now(), lane = 2")
        return (id, try #require(try await store.claim(lane: .scheduled).first))
    }

    private func sleep(_ claim: ClaimedTimeline, on connection: PostgresConnection) async throws {
        _ = try await connection.query(LockTimelines([claim.id]))
        let deferral = Deferral(
            id: claim.id, claim: claim.claim, requested: claim.requested, kindGeneration: claim.kindGeneration,
            appGeneration: claim.appGeneration, until: nil, lastActive: claim.state.views.lastActive, rule: .dormant,
            reason: .policy, cause: nil)
        _ = try await connection.query(DeferTimelines([deferral]))
    }

    private func view(_ store: TestStore) async throws -> RecordViews {
        let app = try #require(try await store.directory().apps[TestKinds.app])
        return RecordViews([WidgetViews(appID: app.id, widget: "w1", times: [Self.seen])])
    }

    private func isDue(_ id: TimelineID, _ store: TestStore) async throws -> Bool {
        try await store.integer(
            "SELECT count(*) FROM timeline_state WHERE due_at <= now() AND NOT leased AND view_class <> 3") == 1
    }

    /// Until a transaction of this database waits for a lock.
    private func waitsForLock(_ store: TestStore) async throws {
        try await eventually("a transaction waits for a lock") {
            try await store.integer(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """) > 0
        }
    }

    @Test("With nobody looking it sleeps")
    func nobody() async throws {
        try await withStore { store in
            let (id, claim) = try await claimed(in: store)
            try await store.pool.withTransaction { try await sleep(claim, on: $0) }
            #expect(try await store.timeline(id)?.dueAt.isFinite == false)
        }
    }

    @Test("A view that was counted after the claim keeps it awake")
    func before() async throws {
        try await withStore { store in
            let (id, claim) = try await claimed(in: store)
            #expect(try await store.pool.query(view(store)).first?.woken == 0)
            try await store.pool.withTransaction { try await sleep(claim, on: $0) }
            #expect(try await isDue(id, store))
        }
    }

    @Test("A view that is being counted is waited for")
    func during() async throws {
        try await withStore { store in
            let (id, claim) = try await claimed(in: store)
            let view = try await view(store)
            try await store.pool.withTransaction { connection in
                _ = try await connection.query(view)
                async let asleep: Void = store.pool.withTransaction { try await sleep(claim, on: $0) }
                try await waitsForLock(store)
                try await connection.simple("COMMIT; BEGIN")
                try await asleep
            }
            #expect(try await isDue(id, store))
        }
    }

    @Test("A view that comes while it goes to sleep wakes it")
    func after() async throws {
        try await withStore { store in
            let (id, claim) = try await claimed(in: store)
            let view = try await view(store)
            try await store.pool.withTransaction { connection in
                try await sleep(claim, on: connection)
                async let counted = store.pool.query(view)
                try await waitsForLock(store)
                try await connection.simple("COMMIT; BEGIN")
                #expect(try await counted.first?.woken == 1)
            }
            #expect(try await isDue(id, store))
        }
    }
}
