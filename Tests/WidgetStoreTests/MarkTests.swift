import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Targeted requests mark timelines", .timeLimit(.minutes(5)))
struct MarkTests {
    private func mark(
        _ store: TestStore, _ audience: String, kind: String? = nil, matching: String? = nil, events: Int64 = 1,
        isFree: Bool = false, lane: ReloadLane = .push, app: String = TestKinds.app
    ) async throws -> TimelineMark {
        let directory = try await store.directory()
        let registered = try #require(directory.apps[app])
        return TimelineMark(
            appID: registered.id, audienceID: audience,
            kindID: kind.flatMap { directory.kind($0, of: registered)?.id }, matching: matching, events: events,
            urgency: isFree ? .free : .budgeted, lane: lane.rawValue,
            cause: EventPosition(topic: 0, partition: 1, offset: 2), reason: isFree ? .foreground : .push)
    }

    @Test("A push to a user marks that user's timelines of the kind, and nobody else's")
    func user() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "u1"), .test("w2", user: "u1", kind: "DueDate"), .test("w3", user: "u2"),
                .test("w1", app: TestKinds.otherApp, user: "u1"),
            ])
            try await store.settle()
            let outcome = try #require(
                try await store.pool.query(
                    MarkUsers([mark(store, "u1", kind: "Purchases", events: 3)], limit: 100)
                ).first)
            #expect(outcome.marked == 1)
            #expect(outcome.due == 1)
            #expect(outcome.tooMany.isEmpty)
            let marked = try #require(try await store.timeline(ids[0]))
            #expect(marked.requested == 4)
            #expect(marked.rendered == 1)
            #expect(marked.isStale)
            #expect(marked.lane == .push)
            #expect(marked.cause == EventPosition(topic: 0, partition: 1, offset: 2))
            for other in ids.dropFirst(1).prefix(2) {
                #expect(try await store.timeline(other)?.isStale == false)
            }
            #expect(try await store.timeline(ids[3], app: TestKinds.otherApp)?.isStale == false)
        }
    }

    @Test("Two widgets of one timeline count an event once")
    func sharedTimeline() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "u1", device: "phone"), .test("w2", user: "u1", device: "tablet"),
            ])
            #expect(ids[0] == ids[1])
            try await store.settle()
            let outcome = try await store.pool.query(MarkUsers([mark(store, "u1")], limit: 100)).first
            #expect(outcome?.marked == 1)
            #expect(try await store.timeline(ids[0])?.requested == 2)
        }
    }

    @Test(
        "A match reloads the widgets whose configuration contains it",
        arguments: [
            (#"{"card":"acme"}"#, ["w1", "w2"]), (#"{"card":"acme","category":"all"}"#, ["w1"]),
            (#"{"card":"none"}"#, []), ("{}", ["w1", "w2", "w3"]),
        ])
    func matching(predicate: String, widgets: [String]) async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", configuration: #"{"card":"acme","category":"all"}"#),
                .test("w2", configuration: #"{"card":"acme","category":"travel"}"#),
                .test("w3", configuration: #"{"card":"globex"}"#),
            ])
            try await store.settle()
            let outcome = try await store.pool.query(
                MarkUsers([mark(store, "u1", kind: "Purchases", matching: predicate)], limit: 100)
            ).first
            #expect(outcome?.marked == Int64(widgets.count))
            for (index, id) in ids.enumerated() {
                #expect(try await store.timeline(id)?.isStale == widgets.contains("w\(index + 1)"))
            }
        }
    }

    @Test("Devices and single widgets are audiences too")
    func devicesAndWidgets() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "u1", device: "d1"), .test("w2", user: "u2", device: "d2"),
            ])
            try await store.settle()
            _ = try await store.pool.query(MarkDevices([mark(store, "d2")], limit: 100))
            #expect(try await store.timeline(ids[0])?.isStale == false)
            #expect(try await store.timeline(ids[1])?.isStale == true)
            _ = try await store.pool.query(MarkWidgets([mark(store, "w1")]))
            #expect(try await store.timeline(ids[0])?.isStale == true)
        }
    }

    @Test("Audiences of several sorts in one statement: each its own timelines, and each timeline once")
    func severalSorts() async throws {
        try await withStore { store in
            let ids = try await store.place([
                // Ids that are the same of one sort and of another are not the same audience.
                .test("w1", user: "same", device: "d1"), .test("w2", user: "u2", device: "same"),
                .test("same", user: "u3", device: "d3"), .test("w4", user: "u4", device: "d4"),
                .test("w5", app: TestKinds.otherApp, user: "same", device: "same"),
            ])
            try await store.settle()
            func requested() async throws -> [Int64] {
                var counts: [Int64] = []
                for (index, id) in ids.enumerated() {
                    let app = index == 4 ? TestKinds.otherApp : TestKinds.app
                    counts.append(try #require(try await store.timeline(id, app: app)).requested)
                }
                return counts
            }
            for (audiences, counts) in [
                (MarkAudiences(users: [try await mark(store, "same")], devices: []), [2, 1, 1, 1, 1]),
                (MarkAudiences(devices: [try await mark(store, "same", events: 2)]), [2, 3, 1, 1, 1]),
                (MarkAudiences(widgets: [try await mark(store, "same", events: 3)]), [2, 3, 4, 1, 1]),
                (
                    MarkAudiences(
                        users: [try await mark(store, "same"), try await mark(store, "u4")],
                        devices: [try await mark(store, "d4", events: 10), try await mark(store, "nobody")],
                        widgets: [try await mark(store, "w4", events: 100), try await mark(store, "same")]),
                    [3, 3, 5, 112, 1]
                ),
            ] as [(MarkAudiences, [Int64])] {
                let before = try await requested()
                let outcome = try #require(
                    try await store.pool.query(MarkTimelines(audiences, limit: 100)).first)
                #expect(try await requested() == counts)
                #expect(Int(outcome.marked) == zip(before, counts).count { $0 != $1 })
                #expect(outcome.due == outcome.marked && outcome.tooMany.isEmpty)
            }
        }
    }

    @Test("What hits a timeline by several sorts counts together: the best lane, the last cause, one of them free")
    func severalSortsOfOneTimeline() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1", user: "u1", device: "d1")])[0]
            try await store.settle()
            try await store.sql("UPDATE timeline_state SET eligible_at = now() + interval '1 hour', lane = 3")
            var widget = try await mark(store, "w1", events: 2, lane: .bulk)
            widget.cause = EventPosition(topic: 1, partition: 7, offset: 9)
            let audiences = MarkAudiences(
                users: [try await mark(store, "u1", events: 3, isFree: true, lane: .push)],
                devices: [try await mark(store, "d1", events: 4, lane: .bulk)], widgets: [widget])
            let outcome = try #require(
                try await store.pool.query(MarkTimelines(audiences, limit: 100)).first)
            #expect(outcome.marked == 1 && outcome.due == 1, "one of them is free, so it waits for no spacing")
            let marked = try #require(try await store.timeline(id))
            #expect(marked.requested == 10)
            #expect(marked.lane == .push)
            #expect(marked.cause == widget.cause)
        }
    }

    @Test(
        "Of several sorts too, those with more widgets than the limit are named by their place; or fail the statement")
    func tooManyOfSeveralSorts() async throws {
        try await withStore { store in
            let ids = try await store.place(
                (0..<3).map { .test("w\($0)", user: "crowd", device: "d", configuration: #"{"n":\#($0)}"#) }
                    + [.test("w9", user: "u9", device: "d9")])
            try await store.settle()
            let audiences = MarkAudiences(
                users: [try await mark(store, "u9"), try await mark(store, "crowd")],
                devices: [try await mark(store, "d")], widgets: [try await mark(store, "w1")])
            #expect(audiences.onlySort == nil && audiences.sorts == [.user, .user, .device, .widget])
            let error = await #expect(throws: PostgresError.self) {
                try await store.pool.query(MarkTimelines(audiences, limit: 2, isStrict: true))
            }
            #expect(error?.sqlState == LargeAudience.state)
            let outcome = try #require(
                try await store.pool.query(MarkTimelines(audiences, limit: 2)).first)
            #expect(outcome.tooMany.sorted() == [1, 2])
            #expect(outcome.marked == 2)
            #expect(try await store.timeline(ids[0])?.isStale == false)
            #expect(try await store.timeline(ids[1])?.isStale == true)
            #expect(try await store.timeline(ids[3])?.isStale == true)
        }
    }

    @Test(
        "Rows are looked up one after the other, and so locked in the order of their keys",
        arguments: [
            (MarkUsers.sql, 13), (MarkDevices.sql, 13), (MarkWidgets.sql, 13), (MarkTimelines.sql, 14),
            (MarkAndClaimTimelines.sql, 17),
        ])
    func order(sql: String, parameters: Int) async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.sql(
                """
                INSERT INTO timeline_state (timeline_id, kind_id, requested, rendered, due_at, lane)
                SELECT md5(i::text)::uuid, (SELECT min(id) FROM kind), 1, 1, 'infinity', 2 FROM generate_series(1, 20000) i;
                ANALYZE timeline_state;
                """)
            let nothing = Array(repeating: "NULL", count: parameters).joined(separator: ", ")
            try await store.pool.withConnection { connection in
                try await connection.simple(
                    """
                    SET plan_cache_mode = force_generic_plan;
                    PREPARE mark_plan AS \(sql);
                    DO $$
                    DECLARE line text; whole text := '';
                    BEGIN
                        FOR line IN EXECUTE 'EXPLAIN EXECUTE mark_plan(\(nothing))' LOOP
                            whole := whole || line || chr(10);
                        END LOOP;
                        IF whole NOT LIKE
                            '%Update on timeline_state s%Nested Loop%CTE Scan on ordered%Index Scan using timeline_state_pkey%'
                            OR whole LIKE '%Seq Scan on timeline_state%'
                        THEN
                            RAISE EXCEPTION 'another plan: %', whole;
                        END IF;
                    END $$;
                    DEALLOCATE mark_plan;
                    """)
            }
        }
    }

    @Test("An audience of more widgets than the limit is left alone and named; the others are marked")
    func tooMany() async throws {
        try await withStore { store in
            var placements = (0..<5).map { index in
                WidgetPlacement.test("w\(index)", user: "crowd", configuration: #"{"n":\#(index)}"#)
            }
            placements.append(.test("single", user: "u1"))
            let ids = try await store.place(placements)
            try await store.settle()
            let outcome = try #require(
                try await store.pool.query(MarkUsers([mark(store, "u1"), mark(store, "crowd")], limit: 4)).first)
            #expect(outcome.tooMany == [1])
            #expect(outcome.marked == 1)
            #expect(try await store.timeline(ids[0])?.isStale == false)
            #expect(try await store.timeline(ids[5])?.isStale == true)
        }
    }

    @Test("Where nothing can be done about it, an audience of more widgets than the limit fails the statement")
    func tooManyForStrict() async throws {
        try await withStore { store in
            let ids = try await store.place(
                (0..<3).map { .test("w\($0)", user: "crowd", configuration: #"{"n":\#($0)}"#) })
            try await store.settle()
            let error = await #expect(throws: PostgresError.self) {
                try await store.pool.query(MarkUsers([mark(store, "crowd")], limit: 2, isStrict: true))
            }
            #expect(error?.sqlState == LargeAudience.state)
            #expect(try await store.timeline(ids[0])?.isStale == false)
            let outcome = try await store.pool.query(MarkUsers([mark(store, "crowd")], limit: 3, isStrict: true)).first
            #expect(outcome?.marked == 3 && outcome?.tooMany == [])
        }
    }

    @Test("A leased row keeps the end of its lease; the request stays to be seen at completion")
    func leased() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let claimed = try await store.claim(lane: .interactive)
            let before = try #require(try await store.timeline(id))
            #expect(before.isLeased)
            _ = try await store.pool.query(MarkUsers([mark(store, "u1", lane: .push)], limit: 100))
            let after = try #require(try await store.timeline(id))
            #expect(after.dueAt == before.dueAt)
            #expect(after.requested == before.requested + 1)
            // Completing what was captured before the mark leaves exactly one more reload.
            let again = try await store.complete(claimed)
            #expect(again.map(\.isDue) == [false])
            #expect(try await store.timeline(id)?.isStale == true)
        }
    }

    @Test("A budgeted request waits for the spacing; a free one does not")
    func spacing() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            _ = try await store.complete(store.claim(lane: .interactive), spacing: .seconds(300))
            let budgeted = try #require(
                try await store.pool.query(MarkUsers([mark(store, "u1")], limit: 100)).first)
            #expect(budgeted.marked == 1)
            #expect(budgeted.due == 0)
            let deferred = try #require(try await store.timeline(id))
            let wait = deferred.dueAt.microseconds - deferred.readAt.microseconds
            #expect(wait > 290_000_000 && wait <= 300_000_000)
            let free = try #require(
                try await store.pool.query(
                    MarkUsers([mark(store, "u1", isFree: true, lane: .interactive)], limit: 100)
                ).first)
            #expect(free.due == 1)
            #expect(try await store.timeline(id)?.lane == .interactive)
        }
    }

    @Test("After a failure not even a free request comes before the back-off has passed")
    func backoff() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let claimed = try await store.claim(lane: .interactive)
            _ = try await store.pool.execute(
                FailTimelines(
                    claimed.map {
                        EndedClaim(id: $0.id, claim: $0.claim, delay: .seconds(60), decision: .failed)
                    }))
            let outcome = try await store.pool.query(MarkUsers([mark(store, "u1", isFree: true)], limit: 100)).first
            #expect(outcome?.due == 0)
            let timeline = try #require(try await store.timeline(id))
            #expect(timeline.dueAt.microseconds > timeline.readAt.microseconds + 50_000_000)
            #expect(timeline.attempts == 1)
            #expect(timeline.decision == .failed)
        }
    }
}

extension TestStore {
    /// Claims what is due of all kinds of the first app in one lane.
    func claim(lane: ReloadLane, lease: Duration = .seconds(30)) async throws -> [ClaimedTimeline] {
        let kinds = try await directory().kinds.keys
        return try await pool.query(
            ClaimTimelines(kinds.map { ClaimWish(kindID: $0, lane: lane, count: 1000) }, lease: lease))
    }

    /// Completes claims as if they had been published.
    func complete(
        _ claims: [ClaimedTimeline], spacing: Duration = .seconds(300), next: Timestamp? = nil
    ) async throws -> [CompleteTimelines.Row] {
        try await pool.query(
            CompleteTimelines(
                claims.map {
                    Completion(
                        id: $0.id, claim: $0.claim, requested: $0.requested, kindGeneration: $0.kindGeneration,
                        appGeneration: $0.appGeneration, publishedHash: ContentHash(high: 1, low: 2),
                        nextReload: next, jitter: .zero, spacing: spacing, decision: .reloaded)
                }))
    }
}
