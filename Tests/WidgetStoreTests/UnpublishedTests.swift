import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// What a claim has stored and could not publish is not forgotten: the simulation found how it could be.
@Suite("Stored and not published", .timeLimit(.minutes(5)))
struct UnpublishedTests {
    private let old = ContentHash(high: 0, low: 1)
    private let new = ContentHash(high: 0, low: 2)

    private func kindID(_ store: TestStore) async throws -> Int32 {
        let directory = try await store.directory()
        return try #require(directory.apps[TestKinds.app].flatMap { directory.kind("Purchases", of: $0) }).id
    }

    /// A timeline whose old content was stored and published.
    private func published(_ store: TestStore) async throws -> TimelineID {
        let id = try await store.place([.test("w1")])[0]
        let claim = try #require(try await store.claim(lane: .interactive).first)
        _ = try await store.pool.query(SaveContent([write(claim, old)]))
        try await store.settle()
        try await store.sql(
            "UPDATE timeline_state SET published_hash = '\(old)', policy_at = 'infinity', decided_at = now()")
        return id
    }

    private func write(_ claim: ClaimedTimeline, _ hash: ContentHash) -> ContentWrite {
        ContentWrite(id: claim.id, claim: claim.claim, hash: hash, content: "{}")
    }

    /// Claims it, stores the new content, and gives it back, as when Kafka is away.
    private func storeNew(_ store: TestStore, lane: ReloadLane) async throws {
        let claim = try #require(try await store.claim(lane: lane).first)
        #expect(try await store.pool.query(SaveContent([write(claim, new)])).first?.isChanged == true)
        let ended = EndedClaim(id: claim.id, claim: claim.claim, delay: .zero, decision: .released, rule: .output)
        #expect(try await store.pool.execute(ReleaseTimelines([ended])) == 1)
    }

    @Test("Cancelling bulk work leaves it due", arguments: [true, false])
    func cancelled(isUnpublished: Bool) async throws {
        try await withStore { store in
            let id = try await published(store)
            let kindID = try await kindID(store)
            _ = try await store.pool.execute(
                BumpKinds([GenerationBump(id: kindID, events: 1, reason: .foreground)]))
            #expect(try await store.pool.execute(SweepKind(kindID: kindID, limit: 10)) == 1)
            if isUnpublished { try await storeNew(store, lane: .bulk) }
            _ = try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases", chunk: 10)
            let timeline = try #require(try await store.timeline(id))
            #expect(timeline.dueAt.isFinite == isUnpublished)
            #expect(try await store.claim(lane: .bulk).count == (isUnpublished ? 1 : 0))
        }
    }

    @Test("It does not sleep before it is published, though nobody looks", arguments: [true, false])
    func asleep(isUnpublished: Bool) async throws {
        try await withStore { store in
            let id = try await published(store)
            try await store.sql("UPDATE timeline_state SET due_at = now(), lane = 2")
            if isUnpublished { try await storeNew(store, lane: .scheduled) }
            let claim = try #require(try await store.claim(lane: .scheduled).first)
            let deferral = Deferral(
                id: claim.id, claim: claim.claim, requested: claim.requested, kindGeneration: claim.kindGeneration,
                appGeneration: claim.appGeneration, until: nil, lastActive: claim.state.views.lastActive,
                rule: .dormant, reason: .policy, cause: nil)
            let rows = try await store.pool.query(DeferTimelines([deferral]))
            #expect(rows.map(\.isDue) == [isUnpublished])
            #expect(try await store.timeline(id)?.dueAt.isFinite == isUnpublished)
            guard isUnpublished else { return }
            let again = try #require(try await store.claim(lane: .scheduled).first)
            #expect(again.state.need == .free, "what is not published waits for no rule")
        }
    }

    @Test("A claim whose snapshot was older than the row does not take back what was rendered")
    func rendered() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let claim = try await store.claim(lane: .interactive)
            try await store.sql("UPDATE timeline_state SET rendered_kind_generation = 7, rendered_app_generation = 8")
            #expect(try await store.complete(claim).count == 1)
            #expect(
                try await store.integer(
                    """
                    SELECT count(*) FROM timeline_state WHERE timeline_id = '\(id)' AND rendered_kind_generation = 7
                        AND rendered_app_generation = 8
                    """) == 1)
        }
    }
}
