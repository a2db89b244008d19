import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Saving, completing, failing and giving back", .timeLimit(.minutes(5)))
struct CompletionTests {
    private let hash = ContentHash(high: 1, low: 2)

    private func content(_ claimed: ClaimedTimeline, _ text: String, hash: ContentHash) -> ContentWrite {
        ContentWrite(id: claimed.id, claim: claimed.claim, hash: hash, content: text)
    }

    @Test("Content is written where it differs, and only under the claim that is still held")
    func save() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.claim(lane: .interactive).first)
            let saved = try await store.pool.query(SaveContent([content(first, "one", hash: hash)]))
            #expect(saved.map(\.isChanged) == [true])
            let same = try await store.pool.query(SaveContent([content(first, "one again", hash: hash)]))
            #expect(same.map(\.isChanged) == [false])
            #expect(try await store.timeline(id)?.content == "one")

            // The lease ends; another worker claims; what the first one brings now is dropped.
            try await store.sql("UPDATE timeline_state SET due_at = now() - interval '1 s'")
            let second = try #require(try await store.claim(lane: .interactive).first)
            #expect(second.claim > first.claim)
            let late = try await store.pool.query(
                SaveContent([content(first, "late", hash: ContentHash(high: 9, low: 9))]))
            #expect(late.isEmpty)
            #expect(try await store.complete([first]).isEmpty)
            #expect(try await store.timeline(id)?.content == "one")
            #expect(try await store.timeline(id)?.isLeased == true)
        }
    }

    @Test("Without requests meanwhile the policy decides: its date, not before the spacing, or never")
    func policy() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let now = try #require(try await store.timeline(id)?.readAt)
            let tomorrow = now + .seconds(86_400)
            _ = try await store.complete(store.claim(lane: .interactive), next: tomorrow)
            #expect(try await store.timeline(id)?.dueAt == PostgresTimestamp(tomorrow))
            #expect(try await store.timeline(id)?.lane == .scheduled)

            try await store.sql("UPDATE timeline_state SET due_at = now(), lane = 0")
            _ = try await store.complete(store.claim(lane: .interactive), next: now + .seconds(-3600))
            let past = try #require(try await store.timeline(id))
            let wait = past.dueAt.microseconds - past.readAt.microseconds
            #expect(wait > 290_000_000 && wait <= 300_000_000)

            // Developer mode lifts the spacing, but a policy that is always past must not become a loop.
            try await store.sql("UPDATE timeline_state SET due_at = now(), lane = 0")
            _ = try await store.complete(
                store.claim(lane: .interactive), spacing: .zero, next: now + .seconds(-3600))
            let loop = try #require(try await store.timeline(id))
            #expect(loop.dueAt.microseconds > loop.readAt.microseconds)

            try await store.sql("UPDATE timeline_state SET due_at = now(), lane = 0")
            _ = try await store.complete(store.claim(lane: .interactive), next: nil)
            #expect(try await store.timeline(id)?.dueAt == .infinity)
        }
    }

    @Test("What was published under no claim of ours is published again: the row is due at once")
    func republish() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            _ = try await store.complete(store.claim(lane: .interactive))
            #expect(try await store.timeline(id)?.publishedHash == hash)
            let gone = TimelineID(high: 7, low: 7)
            #expect(try await store.pool.query(RepublishTimelines([id, gone])) == [id])
            let timeline = try #require(try await store.timeline(id))
            #expect(timeline.publishedHash == nil)
            #expect(timeline.dueAt.microseconds <= timeline.readAt.microseconds)

            // While somebody holds the lease: he may have published before that message, so he loses the claim, and the
            // row is due for one who publishes after it.
            let claims = try await store.claim(lane: .scheduled)
            #expect(claims.count == 1)
            _ = try await store.pool.query(RepublishTimelines([id]))
            #expect(try await store.complete(claims).isEmpty)
            #expect(try await store.claim(lane: .scheduled).count == 1)
        }
    }

    @Test("Giving back makes due at once and counts no attempt")
    func release() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let claimed = try await store.claim(lane: .interactive)
            #expect(try await store.claim(lane: .interactive).isEmpty)
            let ended = claimed.map {
                EndedClaim(id: $0.id, claim: $0.claim, delay: .zero, decision: .released)
            }
            #expect(try await store.pool.execute(ReleaseTimelines(ended)) == 1)
            #expect(try await store.pool.execute(ReleaseTimelines(ended)) == 0)
            #expect(try await store.timeline(id)?.attempts == 0)
            #expect(try await store.claim(lane: .interactive).count == 1)
        }
    }

    @Test("The captured generation is behind when a mark comes before the claim's update of the row")
    func claimReadsUnderLock() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.sql("UPDATE timeline_state SET requested = requested + 5")
            let claimed = try #require(try await store.claim(lane: .interactive).first)
            #expect(claimed.requested == 6)
            _ = try await store.complete([claimed])
            #expect(try await store.timeline(id)?.rendered == 6)
        }
    }
}
