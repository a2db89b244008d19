// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Randomness
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Targeted requests mark timelines", .timeLimit(.patience))
struct MarkTests {
    @Test("A push to a user marks only that user's timelines of the kind")
    func user() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "u1"), .test("w2", user: "u1", kind: "DueDate"), .test("w3", user: "u2"),
                .test("w1", app: TestKinds.otherApp, user: "u1"),
            ])
            try await store.settle()
            let row = try await store.apply([try await store.mark(.user, "u1", kind: "Purchases", events: 3)])
            #expect(row.marked == 1 && row.due == 1 && row.swept == 0 && row.timeline == nil)
            let marked = try #require(try await store.timeline(ids[0]))
            #expect(marked.requested == 4 && marked.rendered == 1 && marked.isStale && marked.lane == .push)
            #expect(marked.latestCause == EventPosition(topic: 0, partition: 1, offset: 1))
            for other in ids.dropFirst(1).prefix(2) {
                #expect(try await store.timeline(other)?.isStale == false)
            }
            #expect(try await store.timeline(ids[3], app: TestKinds.otherApp)?.isStale == false)
        }
    }

    @Test("A mark that waited for the row leaves an appointment alone that was made meanwhile and is due")
    func laterAppointment() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.settle()
            let mark = try await store.mark(.user, "u1")
            let (marking, listedAt) = try await store.pool.withTransaction { connection in
                try await connection.simple("SELECT 1 FROM timeline FOR UPDATE")
                let marking = Task { try await store.apply([mark]) }
                try await store.waitUntilBlocked()
                // As a store does that finds a further request. The mark's transaction is older.
                try await connection.simple("UPDATE timeline SET listed_at = clock_timestamp(), listed_lane = 1")
                let listedAt = try await connection.query(ListedAt()).first
                return (marking, listedAt)
            }
            let row = try await marking.value
            #expect(row.marked == 1 && row.due == 0)
            #expect(try await store.pool.query(ListedAt()).first == listedAt)
            #expect(try await store.timeline(id)?.isStale == true)
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
            let row = try await store.apply([try await store.mark(.user, "u1", matching: predicate)])
            #expect(row.marked == Int64(widgets.count))
            for (index, id) in ids.enumerated() {
                #expect(try await store.timeline(id)?.isStale == widgets.contains("w\(index + 1)"))
            }
        }
    }

    @Test("Several audiences mark each timeline once, with the most urgent lane and the last cause")
    func severalSorts() async throws {
        try await withStore { store in
            let ids = try await store.place([
                // Equal IDs of a user, a device and a widget are separate audiences.
                .test("w1", user: "same", device: "d1"), .test("w2", user: "u2", device: "same"),
                .test("same", user: "u3", device: "d3"), .test("w4", user: "u4", device: "d4"),
                // Two widgets of one timeline.
                .test("w5", user: "u4", device: "d5"),
            ])
            #expect(ids[3] == ids[4])
            try await store.settle()
            let row = try await store.apply([
                try await store.mark(.user, "same"), try await store.mark(.device, "same", events: 2),
                try await store.mark(.widget, "same", events: 3), try await store.mark(.user, "u4", events: 10),
                try await store.mark(.device, "d4", events: 100, lane: .interactive),
                try await store.mark(.widget, "w4", events: 1_000, urgency: .free, lane: .bulk, offset: 9),
                try await store.mark(.device, "nobody"),
            ])
            #expect(row.marked == 4 && row.due == 2, "two lists")
            var requested: [Int64] = []
            for id in ids.prefix(4) { requested.append(try #require(try await store.timeline(id)).requested) }
            #expect(requested == [2, 3, 4, 1_111])
            let last = try #require(try await store.timeline(ids[3]))
            #expect(last.lane == .interactive && last.latestCause?.offset == 9)
            #expect(last.timeline.state.pending(last.timeline.kind) == .free)
        }
    }

    /// Places five timelines of one user and one of another.
    private func placeCrowd(_ store: TestStore) async throws -> [TimelineID] {
        let ids = try await store.place(
            (0..<5).map { .test("w\($0)", user: "crowd", configuration: #"{"n":\#($0)}"#) } + [
                .test("w9", user: "u9")
            ])
        try await store.settle()
        return ids
    }

    @Test("An audience over the limit becomes a sweep, equal ones a single sweep; smaller audiences are marked")
    func tooMany() async throws {
        try await withStore { store in
            let ids = try await placeCrowd(store)
            for _ in 0..<2 {
                let row = try await store.apply(
                    [try await store.mark(.user, "crowd", events: 2), try await store.mark(.user, "u9")], limit: 4)
                #expect(row.marked == 1 && row.swept == 1)
            }
            #expect(try await store.timeline(ids[0])?.isStale == false)
            #expect(try await store.integer("SELECT count(*) FROM sweep WHERE audience = 1 AND events = 4") == 1)
        }
    }

    @Test("The sweep of an audience marks its timelines in chunks and lists them in the bulk lane")
    func sweptAudience() async throws {
        try await withStore { store in
            let ids = try await placeCrowd(store)
            try await store.apply([try await store.mark(.user, "crowd", events: 4)], limit: 4)
            let sweep = try #require(try await store.pool.query(.listSweeps(limit: 9, maximumLists: 100)).first)
            #expect(!sweep.isWalk)
            var marked = 0
            for _ in 0..<10 {
                guard let chunk = try await store.pool.query(.sweepMarks(sweep.id, limit: 2, maximumLists: 100)).first
                else { break }
                marked += chunk.timelines
            }
            #expect(marked == 5)
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 0)
            for id in ids.prefix(5) {
                let timeline = try #require(try await store.timeline(id))
                #expect(timeline.requested == 5 && timeline.lane == .bulk)
            }
            #expect(try await store.claim(.bulk).map(\.timelines.count).reduce(0, +) == 5)
            #expect(try await store.unappointed() == 0)
        }
    }

    /// Places a timeline whose next budgeted reload is in an hour.
    private func placeIneligible(_ store: TestStore) async throws -> TimelineID {
        let id = try await store.place([.test("w1")])[0]
        try await store.settle()
        try await store.sql("UPDATE timeline SET eligible_at = now() + interval '1 hour'")
        return id
    }

    @Test("Marks of a timeline that has to wait share the list of its eligible time")
    func waits() async throws {
        try await withStore { store in
            let id = try await placeIneligible(store)
            #expect(try await store.apply([try await store.mark(.user, "u1")]).due == 0)
            let later = try #require(try await store.timeline(id))
            #expect(later.timeline.listedAt == later.timeline.state.eligibleAt)
            #expect(try await store.lists("due_at > now()") == 1)
            _ = try await store.apply([try await store.mark(.user, "u1")])
            #expect(try await store.lists() == 1, "the list covers the request")
        }
    }

    @Test("A mark may move an appointment to an earlier time or a more urgent lane, never the reverse")
    func improves() async throws {
        try await withStore { store in
            let id = try await placeIneligible(store)
            try await store.apply([try await store.mark(.user, "u1")])
            // A free request is due now.
            #expect(try await store.apply([try await store.mark(.user, "u1", urgency: .free, lane: .push)]).due == 1)
            // At the same time a more urgent lane applies; a less urgent one changes nothing.
            #expect(try await store.apply([try await store.mark(.user, "u1", urgency: .free, lane: .bulk)]).due == 0)
            #expect(
                try await store.apply([try await store.mark(.user, "u1", urgency: .free, lane: .interactive)]).due == 1)
            #expect(try await store.timeline(id)?.lane == .interactive)
            #expect(try await store.claim(.interactive).first?.timelines.map(\.state.requested) == [5])
        }
    }

    /// Places three timelines of two kinds, of which the second is eligible in an hour.
    private func placeThree(_ store: TestStore) async throws -> [TimelineID] {
        let ids = try await store.place([
            .test("w1"), .test("w2", configuration: #"{"n":2}"#), .test("w3", kind: "DueDate"),
        ])
        try await store.settle()
        try await store.sql(
            "UPDATE timeline SET eligible_at = now() + interval '1 hour' WHERE identity = '\(ids[1])'")
        return ids
    }

    @Test("Handed-over lists are leased to this process with their rows")
    func handOver() async throws {
        try await withStore { store in
            // The second timeline has to wait: it is not handed over.
            let ids = try await placeThree(store)
            let kind = try await store.kind()
            var input = MarkInput()
            input.marks = [try await store.mark(.user, "u1")]
            let grant = HandOver(shares: [.init(kindIDs: [kind.id], timelines: 10)], lease: .seconds(30))
            let rows = try await store.pool.query(.markTimelines(input, limit: 100, handOver: grant))
            #expect(rows.count == 1 && rows[0].marked == 3 && rows[0].due == 2)
            let handed = try #require(rows[0].timeline)
            #expect(handed.timeline.id == ids[0] && handed.timeline.state.requested == 2)
            #expect(handed.lane == .push && handed.events == 1)
            let claim = try #require(Claim(handedOver: [handed]))
            #expect(Claim(handedOver: []) == nil && claim.count == 1 && claim.lists.count == 1)
            let (token, list) = (claim.token, claim.lists[0])
            #expect(token == list.lease && token > handed.timeline.revision && !list.wasLeasedBefore)
            // No other worker claims the list; it is stored and ended like any other.
            #expect(try await store.claim(.push).map(\.kindID) != [kind.id])
            #expect(try await store.complete(list, token: token).count == 1)
            #expect(try await store.end(list) == .ended)
        }
    }

    @Test("Reports name every marked timeline and no list")
    func reports() async throws {
        try await withStore { store in
            // The second timeline, which has to wait, is reported, too.
            let ids = try await placeThree(store)
            var input = MarkInput()
            input.marks = [try await store.mark(.user, "u1")]
            let reported = try await store.pool.query(.markTimelines(input, limit: 100, reports: true))
            #expect(Set(reported.compactMap(\.timeline?.timeline.id)) == Set(ids))
            #expect(reported.allSatisfy { $0.timeline?.list == nil })
        }
    }

    @Test("Timelines beyond the room of their kinds' share are listed for any worker")
    func handOverWithinRoom() async throws {
        try await withStore { store in
            let widgets = (0..<7).map { WidgetPlacement.test("w\($0)", configuration: #"{"n":\#($0)}"#) }
            try await store.place(widgets + [.test("d1", kind: "DueDate"), .test("d2", user: "u2", kind: "DueDate")])
            try await store.settle()
            let (purchases, dueDate) = (try await store.kind(), try await store.kind("DueDate"))
            var input = MarkInput()
            input.marks = [try await store.mark(.user, "u1"), try await store.mark(.user, "u2")]
            func hand(_ shares: [HandOver.Share]) async throws -> [Int32: Int] {
                try await store.settle()
                let rows = try await store.pool.query(
                    .markTimelines(input, limit: 100, handOver: HandOver(shares: shares, lease: .seconds(30))))
                #expect(rows[0].marked == 9)
                let handed = rows.compactMap(\.timeline)
                #expect(handed.allSatisfy { $0.list != nil })
                let leased = "SELECT coalesce(sum(cardinality(timelines)), 0) FROM work WHERE lease IS NOT NULL"
                #expect(try await store.integer(leased) == handed.count)
                let ready = "SELECT sum(cardinality(timelines)) FROM work WHERE lease IS NULL AND ready_at <= now()"
                #expect(try await store.integer(ready) == 9 - handed.count)
                #expect(try await store.unappointed() == 0)
                return Dictionary(grouping: handed, by: \.timeline.kindID).mapValues(\.count)
            }
            let apart: [HandOver.Share] = [
                .init(kindIDs: [purchases.id], timelines: 3), .init(kindIDs: [dueDate.id], timelines: 1),
            ]
            #expect(try await hand(apart) == [purchases.id: 3, dueDate.id: 1])
            let together = try await hand([.init(kindIDs: [purchases.id, dueDate.id], timelines: 8)])
            #expect(together.values.reduce(0, +) == 8)
        }
    }

    @Test("A mark without matches returns one row with zero counts")
    func nothing() async throws {
        try await withStore { store in
            let row = try await store.apply([try await store.mark(.user, "nobody")])
            #expect(row.marked == 0 && row.due == 0 && row.timeline == nil)
        }
    }

    private static let timelinesInOrder =
        "%Update on timeline t%Nested Loop%CTE Scan on ordered%Index Scan using timeline_pkey%"

    /// Statements that write rows, by the plan in which each locks them in the order of its input.
    static let ordered = [
        (Statements.markTimelines(MarkInput(), limit: 1).sql, timelinesInOrder),
        (Statements.markUsers([], limit: 1).sql, timelinesInOrder),
        (Statements.storeTimelines([]).sql, timelinesInOrder),
        (Statements.replaceContent([]).sql, timelinesInOrder),
        (Statements.rescheduleTimelines([]).sql, timelinesInOrder),
    ]

    @Test("A nested loop over the ordered input locks rows in key order", arguments: ordered)
    func order(statement: String, plan: String) async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.sql(
                """
                INSERT INTO timeline (identity, kind_id, configuration)
                SELECT md5(i::text)::uuid, (SELECT min(id) FROM kind), '{}' FROM generate_series(1, 20000) i;
                ANALYZE timeline;
                """)
            let count = try #require(statement.matches(of: /\$([0-9]+)/).compactMap { Int($0.1) }.max())
            let nothing = Array(repeating: "NULL", count: count).joined(separator: ", ")
            try await store.pool.withConnection { connection in
                try await connection.simple(
                    """
                    SET plan_cache_mode = force_generic_plan;
                    PREPARE ordered_plan AS \(statement);
                    DO $$
                    DECLARE line text; whole text := '';
                    BEGIN
                        FOR line IN EXECUTE 'EXPLAIN EXECUTE ordered_plan(\(nothing))' LOOP
                            whole := whole || line || chr(10);
                        END LOOP;
                        IF whole NOT LIKE '\(plan)' OR whole LIKE '%Seq Scan on timeline%' THEN
                            RAISE EXCEPTION 'another plan: %', whole;
                        END IF;
                    END $$;
                    DEALLOCATE ordered_plan;
                    """)
            }
        }
    }
}

@Suite("Views", .timeLimit(.patience))
struct ViewTests {
    private static let start = Timestamp(microseconds: 1_700_000_000_000_000)

    @Test("A view within an hour of a counted one writes nothing; the rate decays over three days")
    func hourly() async throws {
        try await withStore { store in
            // Two widgets of one timeline count together.
            try await store.place([.test("w1"), .test("w2")])
            func view(_ widget: String = "w1", after seconds: Int64...) async throws -> Int64 {
                try await store.view(widget, at: seconds.map { Self.start + .seconds($0) }).marked
            }
            #expect(try await view(after: 0) == 1)
            let version = try await store.integer("SELECT xmin::text::bigint FROM timeline")
            #expect(try await view(after: 3_599) == 0)
            #expect(try await view("w2", after: 1_800) == 0)
            #expect(try await store.integer("SELECT xmin::text::bigint FROM timeline") == version)
            #expect(try await view("w2", after: 3_000, 3_600, 3_700, 7_199) == 1)
            #expect(try await store.integer("SELECT views FROM timeline") == 2)
            #expect(try await store.integer("SELECT (view_rate * 1000)::bigint FROM timeline") == 662)
        }
    }

    @Test("A view with a time in the future counts as now")
    func future() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            #expect(try await store.view("w1", at: [Self.start + .seconds(1_000_000_000)]).marked == 1)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE viewed_at <= now()") == 1)
        }
    }

    @Test("Views of removed and unknown widgets change nothing")
    func unknown() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.sql("UPDATE widget SET timeline_id = NULL")
            #expect(try await store.view("w1", at: [Self.start]).marked == 0)
            #expect(try await store.view("nothing", at: [Self.start]).marked == 0)
        }
    }

    @Test("SQL and the model agree on counted views and their rate for any batching")
    func conformance() async throws {
        try await withStore { store in
            var random = SeededGenerator(seed: 5)
            var widgets: [String: [Timestamp]] = [:]
            for index in 0..<20 {
                // Some are out of order, some days apart.
                var second: Int64 = 0
                widgets["w\(index)"] = (0..<40).map { _ in
                    second += Int64.random(in: -600...7_200, using: &random)
                    if Int.random(in: 0..<10, using: &random) == 0 { second += 200_000 }
                    return Self.start + .seconds(second)
                }
            }
            try await store.place(widgets.keys.map { .test($0, user: $0) })
            for (widget, times) in widgets.sorted(by: { $0.key < $1.key }) {
                var rest = times[...]
                while !rest.isEmpty {
                    let batch = rest.prefix(Int.random(in: 1...7, using: &random))
                    rest = rest.dropFirst(batch.count)
                    try await store.view(widget, at: Array(batch))
                }
            }
            for (widget, times) in widgets {
                let counted = ViewStatistics.counted(times, after: nil)
                var rate = 0.0
                for (index, time) in counted.enumerated() {
                    rate = ViewStatistics.rate(rate, viewedAfter: index > 0 ? time - counted[index - 1] : nil)
                }
                let row = "FROM timeline WHERE user_id = '\(widget)'"
                #expect(try await store.integer("SELECT views \(row)") == counted.count)
                let stored = try await store.integer("SELECT (view_rate * 100000)::bigint \(row)")
                #expect(abs(Double(stored) / 100_000 - rate) < 0.0002)
                #expect(
                    try await store.integer("SELECT (extract(epoch FROM viewed_at) * 1000000)::bigint \(row)")
                        == Int(try #require(counted.last).microseconds))
            }
        }
    }
}
