import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// What ingest marks is claimed in the same statement, where that is granted: with the effect of a mark and a claim right
/// behind it, or of the mark alone.
@Suite("Marks that claim", .timeLimit(.minutes(5)))
struct MarkAndClaimTests {
    private static let lease = Duration.seconds(30)

    private func mark(
        _ store: TestStore, _ audience: String, kind: String = "Purchases", urgency: RequestUrgency = .free
    ) async throws -> TimelineMark {
        let directory = try await store.directory()
        let app = try #require(directory.apps[TestKinds.app])
        return TimelineMark(
            appID: app.id, audienceID: audience, kindID: try #require(directory.kind(kind, of: app)).id, matching: nil,
            events: 2, urgency: urgency, lane: ReloadLane.push.rawValue,
            cause: EventPosition(topic: 0, partition: 1, offset: 2), reason: .push)
    }

    private func grant(_ kinds: [Int32], limit: Int = 10) -> MarkGrant {
        MarkGrant(kindIDs: kinds, lease: Self.lease, limit: limit)
    }

    /// Marks users, and claims; answers the outcome and what was claimed.
    private func run(
        _ store: TestStore, _ marks: [TimelineMark], _ grant: MarkGrant
    ) async throws -> (outcome: MarkOutcome, claimed: [ClaimedTimeline]) {
        let rows = try await store.pool.query(MarkAndClaimUsers(marks, limit: 100, grant: grant))
        return (try #require(rows.first).outcome, rows.compactMap(\.timeline))
    }

    @Test("What is claimed is as a mark and a claim leave it", arguments: [RequestUrgency.free, .budgeted, .forced])
    func same(urgency: RequestUrgency) async throws {
        try await withStore { store in
            let ids = try await store.place([.test("w1", user: "u1"), .test("w2", user: "u2")])
            try await store.settle()
            try await store.sql("UPDATE timeline_state SET eligible_at = '-infinity'")
            let mark = try await mark(store, "u1", urgency: urgency)
            let kind = try #require(mark.kindID)
            var other = mark
            other.audienceID = "u2"
            _ = try await store.pool.query(MarkUsers([other], limit: 100))
            let second = try #require(
                try await store.pool.query(
                    ClaimTimelines([ClaimWish(kindID: kind, lane: .push, count: 9)], lease: Self.lease)
                ).first)
            let (outcome, claimed) = try await run(store, [mark], grant([kind]))
            #expect(outcome.marked == 1)
            #expect(outcome.due == 0, "nothing is left for others to claim")
            let first = try #require(claimed.first)
            #expect(claimed.count == 1)
            #expect([first.id, second.id] == ids)
            #expect(first.claim > second.claim)
            #expect(first.requested == second.requested)
            #expect(first.kindGeneration == second.kindGeneration)
            #expect(first.appGeneration == second.appGeneration)
            #expect(first.publishedHash == second.publishedHash)
            #expect(first.lane == second.lane)
            #expect(first.attempts == second.attempts)
            #expect(first.family == second.family)
            #expect(first.configuration == second.configuration)
            #expect(first.locale == second.locale)
            #expect(first.timeZone == second.timeZone)
            #expect(first.user == "u1")
            #expect(first.cause == mark.cause)
            #expect(first.reason == .push)
            #expect(first.state.need == second.state.need)
            #expect(first.state.ledger == second.state.ledger)
            #expect(first.state.views.lastPlaced == second.state.views.lastPlaced)
            // All that a mark and a claim write, but for the times and the number.
            let differing = try await store.integer(
                """
                SELECT count(*) FROM timeline_state a, timeline_state b
                WHERE a.timeline_id = '\(ids[0])' AND b.timeline_id = '\(ids[1])'
                    AND (a.requested, a.free_requested, a.leased, a.lane, a.cause_topic, a.cause_partition, a.cause_offset,
                         a.cause_reason, a.rendered, a.attempts)
                        = (b.requested, b.free_requested, b.leased, b.lane, b.cause_topic, b.cause_partition,
                           b.cause_offset, b.cause_reason, b.rendered, b.attempts)
                    AND a.leased AND a.claim = \(first.claim) AND a.free_at = a.requested_at
                    AND a.due_at = a.requested_at + interval '30 s'
                """)
            #expect(differing == 1)
        }
    }

    /// Why a marked timeline is not claimed, as SQL that brings it about, and whether it is due for others.
    struct Obstacle: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let sql: String
        var urgency = RequestUrgency.free
        var isGranted = true
        var limit = 10
        var isDue = true

        static let all = [
            Obstacle(
                testDescription: "leased",
                sql: "UPDATE timeline_state SET leased = true, claim = 1, due_at = now() + interval '9 s'", isDue: false
            ),
            Obstacle(
                testDescription: "no budget yet", sql: "UPDATE timeline_state SET eligible_at = now() + interval '9 s'",
                urgency: .budgeted, isDue: false),
            Obstacle(
                testDescription: "backs off", sql: "UPDATE timeline_state SET retry_at = now() + interval '9 s'",
                isDue: false),
            Obstacle(
                testDescription: "shared, and its spacing is not over",
                sql: "UPDATE timeline_state SET free_at = now() + interval '9 s'", isDue: false),
            Obstacle(testDescription: "kind not granted", sql: "SELECT 1", isGranted: false),
            Obstacle(testDescription: "kind paused meanwhile", sql: "UPDATE kind SET paused_at = now()"),
            Obstacle(testDescription: "app paused meanwhile", sql: "UPDATE app SET paused_at = now()"),
            Obstacle(testDescription: "kind retired meanwhile", sql: "UPDATE kind SET retired_at = now()"),
            Obstacle(testDescription: "to be collected", sql: "UPDATE timeline_state SET orphaned = true"),
            Obstacle(testDescription: "no room", sql: "SELECT 1", limit: 0),
        ]
    }

    @Test("What may not be claimed is marked as ever", arguments: Obstacle.all)
    func obstacles(_ obstacle: Obstacle) async throws {
        try await withStore { store in
            let ids = try await store.place([.test("w1", user: "u1"), .test("w2", user: "u2")])
            try await store.settle()
            let mark = try await mark(store, "u1", urgency: obstacle.urgency)
            try await store.sql(obstacle.sql)
            var other = mark
            other.audienceID = "u2"
            let plain = try #require(try await store.pool.query(MarkUsers([other], limit: 100)).first)
            let kind = try #require(mark.kindID)
            let (outcome, claimed) = try await run(
                store, [mark], grant(obstacle.isGranted ? [kind] : [kind + 1], limit: obstacle.limit))
            #expect(claimed.isEmpty)
            #expect(outcome.marked == 1)
            #expect(outcome.due == (obstacle.isDue ? 1 : 0))
            #expect(plain.due == outcome.due)
            // The same but for the times: the two statements have two.
            let alike = try await store.integer(
                """
                SELECT count(*) FROM timeline_state a, timeline_state b
                WHERE a.timeline_id = '\(ids[0])' AND b.timeline_id = '\(ids[1])'
                    AND (a.requested, a.leased, a.lane, a.claim) = (b.requested, b.leased, b.lane, b.claim)
                    AND greatest(a.due_at, b.due_at) < least(a.due_at, b.due_at) + interval '1 minute'
                """)
            #expect(alike == 1)
        }
    }

    @Test("No more than the limit is claimed; the others are due")
    func limit() async throws {
        try await withStore { store in
            try await store.place((0..<5).map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            var marks: [TimelineMark] = []
            for user in 0..<5 { marks.append(try await mark(store, "u\(user)")) }
            let (outcome, claimed) = try await run(store, marks, grant([try #require(marks[0].kindID)], limit: 3))
            #expect(claimed.count == 3)
            #expect(Set(claimed.map(\.claim)).count == 3)
            #expect(outcome.marked == 5)
            #expect(outcome.due == 2)
            #expect(try await store.integer("SELECT count(*) FROM timeline_state WHERE leased") == 3)
        }
    }

    @Test("Devices and widgets are marked and claimed alike; an audience without widgets claims nothing")
    func audiences() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "u1", device: "d1"), .test("w2", user: "u2", device: "d2"),
            ])
            try await store.settle()
            let device = try await mark(store, "d1")
            let widget = try await mark(store, "w2")
            let kinds = grant([try #require(device.kindID)])
            let byDevice = try await store.pool.query(MarkAndClaimDevices([device], limit: 100, grant: kinds))
            #expect(byDevice.compactMap(\.timeline?.id) == [ids[0]])
            let byWidget = try await store.pool.query(MarkAndClaimWidgets([widget], grant: kinds))
            #expect(byWidget.compactMap(\.timeline?.id) == [ids[1]])
            let byBoth = try await store.pool.query(
                MarkAndClaimTimelines(
                    MarkAudiences(devices: [device], widgets: [widget]), limit: 100, grant: kinds))
            #expect(byBoth.allSatisfy { $0.timeline == nil }, "both are leased")
            try await store.sql("UPDATE timeline_state SET leased = false, due_at = 'infinity'")
            let anew = try await store.pool.query(
                MarkAndClaimTimelines(
                    MarkAudiences(devices: [device], widgets: [widget]), limit: 100, grant: kinds))
            #expect(Set(anew.compactMap(\.timeline?.id)) == Set(ids))
            #expect(anew.first?.outcome.marked == 2)
            var fewer = kinds
            fewer.limit = 1
            try await store.sql("UPDATE timeline_state SET leased = false, due_at = 'infinity'")
            let limited = try await store.pool.query(
                MarkAndClaimTimelines(
                    MarkAudiences(devices: [device], widgets: [widget]), limit: 100, grant: fewer))
            #expect(limited.compactMap(\.timeline).count == 1)
            #expect(limited.first?.outcome.due == 1)
            let nobody = try await run(store, [try await mark(store, "nobody")], kinds)
            #expect(nobody.outcome.marked == 0)
            #expect(nobody.claimed.isEmpty)
        }
    }
}
