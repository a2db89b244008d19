// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel

@testable import WidgetStore

@Suite("Explanation of a widget", .timeLimit(.patience))
struct ReadExplanationTests {
    private func read(
        _ widget: String, app: String = TestKinds.app, _ store: TestStore
    ) async throws -> WidgetExplanation? {
        try await store.pool.query(.readExplanation(app: app, widget: widget)).first
    }

    private static func minute(_ minute: Int) -> Timestamp? { Timestamp(rfc3339: "2026-06-22T10:0\(minute):00Z") }

    /// The ledger that the budget of ``withEveryColumn(_:)`` stores.
    private static let ledger: BudgetLedger = {
        var ledger = BudgetLedger()
        ledger.spend(of: 8, at: Timestamp(microseconds: 1_782_122_400_000_000))
        return ledger
    }()

    /// A widget whose rows have another value in every column.
    private func withEveryColumn(
        _ body: (_ widget: WidgetExplanation, _ timeline: WidgetExplanation.Timeline, _ id: TimelineID) throws -> Void
    ) async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let budget = try #require(Self.ledger.stored).map { String($0, radix: 16) }.map {
                $0.count == 1 ? "0" + $0 : $0
            }
            try await store.sql(
                """
                UPDATE app SET paused_at = '2026-06-22T01:00:00Z' WHERE name = '\(TestKinds.app)';
                UPDATE kind SET generation = 20, free_generation = 19, forced_generation = 3, cancelled_generation = 7,
                    paused_at = '2026-06-22T03:00:00Z', cause_topic = 0, cause_partition = 21, cause_offset = 22,
                    cause_reason = 5, bumped_at = '2026-06-22T04:00:00Z' WHERE name = 'Purchases';
                UPDATE timeline SET requested = 9, rendered = 8, free_requested = 6, forced_requested = 5,
                    generation = 18, listed_at = '2026-06-22T10:00:00Z', retry_at = '2026-06-22T10:01:00Z',
                    eligible_at = '2026-06-22T10:02:00Z', free_at = '2026-06-22T10:03:00Z',
                    policy_at = '2026-06-22T10:04:00Z', rendered_at = '2026-06-22T10:05:00Z',
                    requested_at = '2026-06-22T10:06:00Z', decided_at = '2026-06-22T10:07:00Z', cause_topic = 2,
                    cause_partition = 31, cause_offset = 32, cause_reason = 0, decision_topic = 0,
                    decision_partition = 41, decision_offset = 42, decision_reason = 5, last_decision = 1,
                    decision_rule = 5, fetch_milliseconds = 123, attempts = 3, listed_lane = 1, asleep = true,
                    budget = '\\x\(budget.joined())', hash = identity, revision = 71, content_revision = 70,
                    stored_at = '2026-06-22T10:08:00Z', content = '{"é":1}';
                UPDATE work SET due_at = '2026-06-22T10:00:00Z', ready_at = now() + interval '30 min', lease = 77;
                """)
            let widget = try #require(try await read("w1", store))
            try body(widget, try #require(widget.timeline), id)
        }
    }

    @Test("Every column of a widget is read into its property")
    func widgetColumns() async throws {
        try await withEveryColumn { widget, _, id in
            #expect(widget.widget == "w1" && widget.app == TestKinds.app && widget.kind == "Purchases")
            #expect(widget.user == "u1" && widget.device == "d1" && widget.family == .systemSmall)
            #expect(widget.timelineID == id && !widget.isDeveloperMode)
            #expect(widget.explanation?.status == .fetching)
        }
    }

    @Test("Every column of a timeline is read into its property")
    func timelineColumns() async throws {
        try await withEveryColumn { _, timeline, _ in
            let facts = timeline.facts
            let (retryAt, eligibleAt, freeAt, policyAt) = (
                try #require(Self.minute(1)), try #require(Self.minute(2)), try #require(Self.minute(3)),
                try #require(Self.minute(4))
            )
            #expect(
                facts.timeline
                    == TimelineState(
                        requested: 9, rendered: 8, freeRequested: 6, forcedRequested: 5, generation: 18,
                        eligibleAt: eligibleAt, freeAt: freeAt, retryAt: retryAt, policyAt: policyAt, isAsleep: true,
                        isOrphaned: false))
            #expect(facts.kind == KindGenerations(current: 20, free: 19, forced: 3, cancelled: 7))
            let times: [Timestamp?] = [
                facts.listedAt, facts.renderedAt, facts.requestedAt, facts.decidedAt, timeline.content?.storedAt,
            ]
            #expect(times == [0, 5, 6, 7, 8].map(Self.minute))
            #expect(
                [facts.appPause?.at, facts.kindPause?.at]
                    == ["2026-06-22T01:00:00Z", "2026-06-22T03:00:00Z"].map { Timestamp(rfc3339: $0) })
            #expect(facts.decision == .reloaded && facts.rule == .token && facts.fetchTime == .milliseconds(123))
            #expect(facts.attempts == 3 && facts.lane == .push && !facts.isRetired && facts.isStored)
            #expect(facts.lease?.token == 77 && facts.ledger == Self.ledger)
            #expect(timeline.content?.revision == 70 && timeline.content?.bytes == 8)
        }
    }

    @Test("Requests of a person and of everyone are pending together")
    func pending() async throws {
        try await withEveryColumn { _, timeline, _ in
            let facts = timeline.facts
            #expect(facts.targetedPending == 1 && facts.everyonePending == 2 && facts.pending == 3)
        }
    }

    @Test("The causes of the last request, decision and reload of everyone are read")
    func causes() async throws {
        try await withEveryColumn { _, timeline, _ in
            #expect(
                timeline.causes == [
                    ExplainedCause(
                        role: .request, position: EventPosition(topic: 2, partition: 31, offset: 32), reason: .placed,
                        appliedAt: Self.minute(6)),
                    ExplainedCause(
                        role: .decision, position: EventPosition(topic: 0, partition: 41, offset: 42), reason: .push,
                        appliedAt: Self.minute(7)),
                    ExplainedCause(
                        role: .kind, position: EventPosition(topic: 0, partition: 21, offset: 22), reason: .push,
                        appliedAt: Timestamp(rfc3339: "2026-06-22T04:00:00Z")),
                ])
        }
    }

    @Test("A newly placed row has no decision and no rendering")
    func fresh() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let timeline = try #require(try await read("w1", store)?.timeline)
            #expect(timeline.facts.need == .first && timeline.facts.renderedAt == nil && !timeline.facts.isStored)
            #expect(timeline.facts.timeline.policyAt == .distantFuture)
            #expect(timeline.facts.ledger == BudgetLedger() && timeline.content == nil)
            // This test inserts the widget directly, so no event placed it.
            #expect(timeline.causes.map(\.reason) == [.placed] && timeline.causes[0].position == nil)
            let explanation = try #require(try await read("w1", store)?.explanation)
            #expect(explanation.status == .due && explanation.next.rule == .first)
        }
    }

    @Test("Views decay, and those of all widgets of the timeline add up")
    func views() async throws {
        try await withStore { store in
            try await store.place((0..<70).map { .test("w\($0)", device: "d\($0)") })
            try await store.sql(
                """
                UPDATE timeline SET placed_at = now() - interval '30 days', view_rate = 2,
                    viewed_at = now() - interval '3 days'
                """)
            let widget = try #require(try await read("w2", store))
            let timeline = try #require(widget.timeline)
            #expect(abs(timeline.facts.views.viewsADay - 2 * 0.367_879 * 90 / 16) < 0.01)
            #expect(timeline.widgets == 65, "counted up to the limit")
            let views = timeline.facts.views
            #expect(views.lastActive == timeline.viewedAt)
            #expect(abs((widget.readAt - (try #require(views.lastPlaced))) / .seconds(86_400) - 30) < 0.1)
        }
    }

    @Test("A timeline may wait for its time, for the sweeper, or in a paused kind")
    func waiting() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.settle()
            func status() async throws -> Explanation.Status? { try await read("w1", store)?.explanation?.status }
            #expect(try await status() == .onRequest)
            let kind = try await store.kind()
            _ = try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id)]))
            let unswept = try #require(try await read("w1", store)?.explanation)
            #expect(unswept.status == .waiting && unswept.next.text.contains("sweeper") && unswept.nextAt == nil)
            _ = try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")
            let cancelled = try #require(try await read("w1", store)?.explanation)
            #expect(cancelled.status == .onRequest && cancelled.facts.isEveryoneCancelled && !cancelled.facts.isStale)
            try await store.sql("UPDATE timeline SET eligible_at = now() + interval '1 minute'")
            try await store.apply([try await store.mark(.user, "u1")])
            #expect(try await status() == .waiting)
            _ = try await store.store.pause(app: TestKinds.app)
            #expect(try await status() == .paused)
        }
    }

    /// Places two widgets of one person; a sweep of two events that matches the first one's configuration waits.
    private func withSweep(_ body: (TestStore, RegisteredKind) async throws -> Void) async throws {
        try await withStore { store in
            try await store.place([
                .test("w1", configuration: #"{"card":"c1"}"#), .test("w2", configuration: #"{"card":"c2"}"#),
            ])
            try await store.settle()
            let kind = try await store.kind()
            func everyone(_ kindID: Int32, _ matching: String) -> EveryoneReload {
                EveryoneReload(
                    appID: kind.appID, kindID: kindID, matching: matching, events: 2, urgency: .budgeted,
                    cause: EventPosition(topic: 0, partition: 0, offset: 7), reason: .push)
            }
            _ = try await store.pool.execute(
                .recordSweep([
                    everyone(kind.id, #"{"card":"c1"}"#), everyone(try await store.kind("DueDate").id, "{}"),
                ]))
            try await body(store, kind)
        }
    }

    private func sweepsAhead(of widget: String, _ store: TestStore) async throws -> Int64? {
        try await read(widget, store)?.explanation?.facts.sweepsAhead
    }

    @Test("While a sweep that matches has not reached the timeline, not all requests are rendered")
    func sweepAhead() async throws {
        try await withSweep { store, _ in
            let ahead = try #require(try await read("w1", store)?.explanation)
            #expect(ahead.facts.sweepsAhead == 2 && !ahead.facts.isStale && !ahead.facts.isAllRendered)
            #expect(ahead.status == .waiting && ahead.next.text.contains("sweeper") && ahead.nextAt == nil)
            #expect(ahead.notes.contains { $0.text.contains("2 requests") })
            let other = try #require(try await read("w2", store)?.explanation)
            #expect(other.facts.isAllRendered && other.status == .onRequest)
        }
    }

    @Test("Sweeps of other people, even more than are counted, do not hide those of a widget's person")
    func sweepsOfOthers() async throws {
        try await withSweep { store, _ in
            try await store.apply([try await store.mark(.user, "u1", events: 3)], limit: 1)
            #expect(try await sweepsAhead(of: "w2", store) == 3)
            try await store.sql(
                """
                INSERT INTO sweep (id, app_id, audience, audience_id) OVERRIDING SYSTEM VALUE
                SELECT -n, s.app_id, 1, 'other-' || n FROM sweep s, generate_series(1, 1001) n WHERE s.audience = 1
                """)
            #expect(try await sweepsAhead(of: "w2", store) == 3)
        }
    }

    @Test("More earlier sweeps with other matches than are examined leave their number unknown")
    func tooManySweeps() async throws {
        try await withSweep { store, kind in
            try await store.sql(
                """
                INSERT INTO sweep (id, app_id, kind_id, audience, matching) OVERRIDING SYSTEM VALUE
                SELECT -n, s.app_id, s.kind_id, 0, '{"n": ' || n || '}'
                FROM sweep s, generate_series(1, 1001) n WHERE s.kind_id = \(kind.id)
                """)
            let hidden = try #require(try await read("w1", store)?.explanation)
            #expect(hidden.facts.sweepsAhead == nil && !hidden.facts.isStale && !hidden.facts.isAllRendered)
            #expect(hidden.notes.contains { $0.text.contains("more sweeps wait") })
        }
    }

    @Test("A sweep counts as ahead of a timeline until it has passed it")
    func sweepPassed() async throws {
        try await withSweep { store, _ in
            try await store.apply([try await store.mark(.user, "u1", events: 3)], limit: 1)
            for sweep in try await store.pool.query(.listSweeps(limit: 10, maximumLists: 100)) {
                // The first one of the audience's widgets, both timelines of the kind.
                let limit = 2 - (try await store.integer("SELECT audience FROM sweep WHERE id = \(sweep.id)"))
                _ = try await store.pool.query(.sweepMarks(sweep.id, limit: limit, maximumLists: 100))
            }
            #expect(try await sweepsAhead(of: "w1", store) == 0)
            #expect(try await read("w1", store)?.explanation?.facts.pending == 5)
            #expect(try await sweepsAhead(of: "w2", store) == 3, "the audience goes on behind w1")
        }
    }

    @Test("Fallback content is a snapshot, the provider's placeholder or the manifest's")
    func fallbackContent() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            func facts() async throws -> ReloadFacts? { try await read("w1", store)?.timeline?.facts }
            #expect(try await facts()?.snapshotAt == nil)
            #expect(try await facts()?.placeholderAt == nil)
            let first = try await read("w1", store)?.explanation?.notes.first?.text
            #expect(first?.hasSuffix("the manifest's placeholder") == true)
            try await store.sql(
                """
                INSERT INTO placeholder (kind_id, family, locale, time_zone, fetched_at, content)
                SELECT w.kind_id, w.family, w.locale, z, '2026-06-22T10:00:00Z', '{}'
                FROM widget w, (VALUES ('Europe/London'), ('Asia/Tokyo')) v (z)
                """)
            #expect(try await facts()?.placeholderAt == Timestamp(rfc3339: "2026-06-22T10:00:00Z"))
            try await store.sql(
                """
                INSERT INTO snapshot (timeline_id, revision, stored_at, entry)
                SELECT id, 1, '2026-06-22T11:00:00Z', '{}' FROM timeline WHERE identity = '\(id)'
                """)
            #expect(try await facts()?.snapshotAt == Timestamp(rfc3339: "2026-06-22T11:00:00Z"))
            let note = try await read("w1", store)?.explanation?.notes.first?.text
            #expect(note?.contains("the snapshot stored ") == true)
        }
    }

    @Test("An open breaker is read until it closes or its process ends, with the message and the next probe")
    func outage() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w1", app: TestKinds.otherApp)])
            let apps = try await store.directory().apps
            let (app, other) = (try #require(apps[TestKinds.app]), try #require(apps[TestKinds.otherApp]))
            func record(_ worker: UInt128, _ rest: Duration?, _ message: String = "") async throws {
                let state = BreakerState(
                    app: app.name, appID: app.id, provider: "http://127.0.0.1:1/bank", rest: rest, message: message)
                _ = try await store.pool.execute(.recordBreakers([state], worker: worker))
            }
            func outage() async throws -> ProviderOutage? { try await read("w1", store)?.timeline?.facts.outage }

            try await record(1, .seconds(60), "an unregistered process")
            #expect(try await outage() == nil)
            for worker in [1, 2] as [UInt128] { _ = try await store.pool.query(.registerWorker(worker)) }
            try await record(1, .seconds(60), "connection: refused")
            let first = try #require(try await outage())
            #expect(first.provider == "http://127.0.0.1:1/bank" && first.message == "connection: refused")
            #expect(first.probeAt - first.since == .seconds(60) && first.processes == 1 && first.workers == 2)
            try await record(2, .seconds(20), "status: 503")
            try await record(2, .seconds(90), "status: 504")
            let second = try #require(try await outage())
            #expect(second.since == first.since && second.probeAt == first.probeAt && second.isEverywhere)
            #expect(second.message == "status: 504", "of the latest probe")
            #expect(try await store.pool.query(.listOutages(app: app.name)) == [second])
            #expect(try await store.pool.query(.listOutages(app: other.name)).isEmpty)
            #expect(try await read("w1", app: other.name, store)?.timeline?.facts.outage == nil)

            // A manifest moves the kinds to another provider.
            func move(to url: String) async throws {
                try await store.sql("UPDATE kind_definition SET definition['providerURL'] = '\"\(url)\"'")
            }
            try await move(to: "http://127.0.0.1:1/moved")
            #expect(try await outage() == nil)
            #expect(try await store.pool.query(.listOutages(app: app.name)).isEmpty)
            try await move(to: "http://127.0.0.1:1/bank")

            // The first process answers a probe, the second one is killed.
            try await record(1, nil)
            #expect(try await outage()?.processes == 1)
            try await store.sql("UPDATE worker SET seen_at = now() - interval '2 minutes' WHERE id::text LIKE '%2'")
            #expect(try await outage() == nil)
            try await store.sql("DELETE FROM worker")
            #expect(try await store.integer("SELECT count(*) FROM open_breaker") == 0)
        }
    }

    @Test("A widget of another app is not found; a removed one has no timeline")
    func tenancy() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w1", app: TestKinds.otherApp), .test("w2")])
            #expect(try await read("w1", app: TestKinds.otherApp, store)?.app == TestKinds.otherApp)
            #expect(try await read("w2", app: TestKinds.otherApp, store)?.widget == nil)
            #expect(try await read("w2", app: "no.such.app", store)?.widget == nil)
            try await store.sql("UPDATE widget SET timeline_id = NULL WHERE id = 'w2'")
            let removed = try #require(try await read("w2", store))
            #expect(removed.isRemoved && removed.timeline == nil && removed.explanation == nil)
        }
    }

    @Test("The explanation uses the kind's own rules and developer mode")
    func rules() async throws {
        var apps = TestKinds.apps(minimumSpacing: .seconds(1_234), developerMode: true)
        apps[0].kinds[0].dailyBudget = DailyBudget(minimum: 3, maximum: 5)
        try await withStore(apps) { store in
            try await store.place([.test("w1"), .test("w2", kind: "Weather")])
            let widget = try #require(try await read("w1", store))
            let rules = try #require(widget.explanation?.rules)
            #expect(widget.isDeveloperMode && rules.minimumSpacing == .seconds(1_234))
            #expect(rules.budget == DailyBudget(minimum: 3, maximum: 5) && !rules.isShared)
            #expect(try await read("w2", store)?.explanation?.rules.isShared == true)
        }
    }

    @Test("A widget that only a newer version can read is named with the reason")
    func unreadable() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", user: "u2", kind: "DueDate")])
            try await store.overwrite("Purchases", with: #"{"sharing":"perHousehold"}"#)
            try await store.sql("UPDATE widget SET family = 77 WHERE id = 'w2'")
            let kind = try #require(try await read("w1", store))
            #expect(kind.kind == "Purchases" && kind.timeline != nil && kind.explanation == nil)
            #expect(kind.unreadable?.contains("perHousehold") == true)
            let family = try #require(try await read("w2", store))
            #expect(family.family == nil && family.unreadable == "this version does not know its family")
            let filter = WidgetFilter(app: TestKinds.app)
            let families = try await store.pool.query(.listWidgets(filter, limit: 9)).map(\.family)
            #expect(families == [.systemSmall, nil])
        }
    }

    @Test("Refused requests are those of the app with one of the keys, latest first")
    func refused() async throws {
        try await withStore { store in
            func refuse(_ key: String?, app: String?, offset: Int64) async throws {
                let letter = DeadLetter(
                    topic: "freshet.pushes", partition: 3, offset: offset, app: app, code: "unknownKind",
                    error: "/kinds: no kind", key: key.map { Array($0.utf8) }, headers: [], payload: Array("x".utf8))
                _ = try await store.pool.execute(.insertDeadLetter(letter))
            }
            try await refuse("u1", app: TestKinds.app, offset: 1)
            try await refuse("u1", app: TestKinds.otherApp, offset: 2)
            try await refuse("u2", app: TestKinds.app, offset: 3)
            try await refuse("w1", app: TestKinds.app, offset: 4)
            try await refuse(nil, app: nil, offset: 5)
            // Letters of other apps, and the app's own that wait for the end of a diversion, hide none.
            try await store.sql(
                """
                INSERT INTO dead_letter (topic, partition, "offset", app, cause, code, error, header_names, header_values)
                SELECT 't', 1, n, CASE n % 2 WHEN 0 THEN '\(TestKinds.app)' ELSE '\(TestKinds.otherApp)' END,
                       CASE n % 2 WHEN 0 THEN 'diverted' ELSE 'unknownKind' END, 'c', 'e', '{}', '{}'
                FROM generate_series(1, 2002) n
                """)
            let rows = try await store.pool.query(.refusedRequests(app: TestKinds.app, keys: ["w1", "u1", "d1"]))
            #expect(rows.map(\.offset) == [4, 1])
            #expect(rows[0].code == "unknownKind" && rows[0].error == "/kinds: no kind" && rows[0].partition == 3)
        }
    }
}
