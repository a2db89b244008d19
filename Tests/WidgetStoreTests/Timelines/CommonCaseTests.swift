// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// `markUsers` and `replaceContent` write and return what `markTimelines` and `storeTimelines` do.
@Suite("Statements of fewer plan nodes", .timeLimit(.patience))
struct CommonCaseTests {
    /// Users with up to four widgets of two kinds, some of which share a timeline.
    private func place(_ store: TestStore) async throws {
        for user in 0..<12 {
            var widgets: [WidgetPlacement] = []
            for number in 0..<(1 + user % 4) {
                widgets.append(
                    .test(
                        "w\(user)-\(number)", user: "u\(user)", kind: number == 2 ? "DueDate" : "Purchases",
                        configuration: user % 3 == 0 ? "{}" : #"{"n":\#(user * number % 5)}"#))
            }
            // Lists of their own.
            try await store.place(widgets)
        }
    }

    /// Gives all rows states that the rules treat differently. The same seed gives the same states.
    private func randomise(_ store: TestStore, seed: Int) async throws {
        func time(_ past: String = "'-infinity'") -> String {
            "CASE floor(random() * 3) WHEN 0 THEN \(past) ELSE now() + (random() - 0.5) * interval '2 hours' END"
        }
        try await store.sql(
            """
            SELECT setseed(\(Double(seed) / 100));
            UPDATE kind SET generation = floor(random() * 5), free_generation = floor(random() * 3),
                forced_generation = floor(random() * 2), cancelled_generation = floor(random() * 3);
            UPDATE timeline SET rendered = floor(random() * 3), requested = 2 + floor(random() * 3),
                free_requested = floor(random() * 4), forced_requested = floor(random() * 3),
                generation = floor(random() * 4), looked_generation = floor(random() * 6), revision = 7,
                content_revision = floor(random() * 2) * 7, content = '{"old":1}', attempts = floor(random() * 3),
                asleep = random() < 0.3, orphaned = random() < 0.1, eligible_at = \(time()), free_at = \(time()),
                retry_at = \(time()), policy_at = \(time("'infinity'")), listed_at = \(time("'infinity'")),
                listed_lane = floor(random() * 4), cause_reason = 1 + floor(random() * 7);
            """)
    }

    /// All rows that a mark or a store writes, without the numbers that sequences give.
    private static let rows = PostgresQuery(
        """
        SELECT 'timeline ' || to_jsonb(t)::text AS line FROM timeline t
        UNION ALL
        SELECT 'list ' || (to_jsonb(w) - ARRAY['id', 'lease'])::text || (w.lease IS NULL)::text FROM work w
        UNION ALL
        SELECT 'relevance ' || c.timeline_id FROM relevance_change c
        UNION ALL
        SELECT 'snapshot ' || to_jsonb(s)::text FROM snapshot s
        UNION ALL
        SELECT 'delivery ' || (to_jsonb(d) - 'id')::text FROM delivery_change d
        ORDER BY line
        """
    ) { row throws(PostgresError) -> String in try row.value("line") }

    /// Runs a statement in a savepoint, and returns its answer and what it wrote.
    private func effects<Row: Sendable>(
        of query: PostgresQuery<Row>, on connection: PostgresConnection, _ describe: (Row) -> String
    ) async throws -> [String] {
        try await connection.simple("SAVEPOINT attempt")
        let answer = try await connection.query(query).map(describe).sorted()
        let rows = try await connection.query(Self.rows)
        try await connection.simple("ROLLBACK TO SAVEPOINT attempt")
        return answer + rows
    }

    private func description(_ row: MarkRow) -> String {
        guard let marked = row.timeline else { return "\(row.marked) \(row.due) \(row.swept)" }
        let timeline = marked.timeline
        return """
            \(row.marked) \(row.due) \(row.swept) \(timeline.row) \(timeline.state) \(timeline.kind) \(timeline.readAt) \
            \(marked.events) \(marked.listedAt) \(marked.lane) \(marked.list != nil)
            """
    }

    @Test("Marks of users", arguments: 1...6, [(false, false), (false, true), (true, false), (true, true)])
    func marks(seed: Int, options: (handsOver: Bool, reports: Bool)) async throws {
        try await withStore { store in
            try await place(store)
            try await randomise(store, seed: seed)
            var marks: [TimelineMark] = []
            for index in 0..<20 {
                marks.append(
                    try await store.mark(
                        .user, "u\(index * seed % 13)", kind: [nil, "Purchases", "DueDate"][index % 3],
                        events: Int64(1 + index % 4), urgency: RequestUrgency.allCases[index * seed % 3],
                        lane: ReloadLane.allCases[index % 4], offset: Int64(index)))
            }
            var input = MarkInput()
            input.marks = marks
            let kinds = [try await store.kind().id, try await store.kind("DueDate").id]
            // Of one provider, or each of its own.
            let shares = seed % 2 == 0 ? [kinds] : kinds.map { [$0] }
            let handOver = HandOver(
                shares: shares.map { .init(kindIDs: $0, timelines: seed) }, lease: .seconds(30))
            try await store.pool.withTransaction { connection in
                let grant = options.handsOver ? handOver : nil
                let whole = try await effects(
                    of: Statements.markTimelines(input, limit: 10, handOver: grant, reports: options.reports),
                    on: connection, description)
                let common = try await effects(
                    of: Statements.markUsers(marks, limit: 10, handOver: grant, reports: options.reports),
                    on: connection, description)
                #expect(common == whole)
                #expect(common.count > 30)
            }
        }
    }

    @Test("A user with more widgets than the limit is left to markTimelines")
    func tooManyWidgets() async throws {
        try await withStore { store in
            try await store.place((0..<5).map { .test("w\($0)", configuration: #"{"n":\#($0)}"#) })
            try await store.settle()
            let mark = try await store.mark(.user, "u1")
            let error = await #expect(throws: PostgresError.self) {
                _ = try await store.pool.query(.markUsers([mark], limit: 4))
            }
            #expect(error?.findsTooManyWidgets == true)
            #expect(try await store.integer("SELECT max(requested) FROM timeline") == 1)
            #expect(try await store.pool.query(.markUsers([mark], limit: 5)).first?.marked == Int64(5))
        }
    }

    @Test("Stores of rows with content", arguments: 1...6)
    func stores(seed: Int) async throws {
        try await withStore { store in
            try await place(store)
            let lists = try await store.claimAll()
            try await randomise(store, seed: seed)
            try await store.sql(
                """
                INSERT INTO relevance (timeline_id, revision, history, points)
                SELECT id, 1, '', '' FROM timeline WHERE random() < 0.3;
                UPDATE timeline SET revision = 0 WHERE random() < 0.8;
                UPDATE timeline SET content_revision = 7;
                -- Some lists are lost: leased anew, ended, or with the lease of another one.
                UPDATE work SET lease = lease + 1 WHERE random() < 0.2;
                DELETE FROM work WHERE random() < 0.2;
                UPDATE work w SET lease = o.lease FROM work o WHERE o.id = w.id + 1 AND random() < 0.3;
                """)
            var jobs: [TimelineJob] = []
            for list in lists { jobs += try await store.jobs(list, token: 1_000) }
            for index in jobs.indices {
                jobs[index].content = index % 3 == 0 ? nil : Array(#"{"new":\#(index)}"#.utf8)
                jobs[index].hash = ContentHash(high: 1, low: UInt64(index))
                jobs[index].next = ReloadRules.Next(
                    eligibleAt: .distantPast, freeAt: Timestamp(microseconds: Int64(index)), policyAt: .distantFuture)
                jobs[index].rule = .first
            }
            try await store.pool.withTransaction { [jobs] connection in
                func description(_ row: WrittenTimeline) -> String { "\(row)" }
                let whole = try await effects(of: Statements.storeTimelines(jobs), on: connection, description)
                let common = try await effects(of: Statements.replaceContent(jobs), on: connection, description)
                #expect(common == whole)
                #expect(common.contains { $0.contains(#""content": "{\"new\"#) })
            }
        }
    }

    @Test("First content, and the content of apps with devices or with a snapshot, is left to storeTimelines")
    func leftAlone() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", configuration: #"{"n":2}"#)])
            let list = try #require(try await store.claim(.interactive).first)
            try await store.sql(
                "UPDATE timeline SET content_revision = 7, content = '{}' WHERE id = \(list.timelines[0].row)")
            var jobs = try await store.jobs(list, token: 1_000)
            for index in jobs.indices {
                jobs[index].content = Array(#"{"new":1}"#.utf8)
                jobs[index].next = ReloadRules.Next(
                    eligibleAt: .distantPast, freeAt: .distantPast, policyAt: .distantFuture)
            }
            try await store.pool.withTransaction { [jobs] connection in
                func stored() async throws -> [Int64] {
                    try await connection.simple("SAVEPOINT attempt")
                    let rows = try await connection.query(.replaceContent(jobs)).map(\.row)
                    try await connection.simple("ROLLBACK TO SAVEPOINT attempt")
                    return rows
                }
                #expect(try await stored() == [list.timelines[0].row])
                try await connection.simple("SAVEPOINT shown")
                try await connection.simple(
                    "INSERT INTO snapshot (timeline_id, revision, entry) VALUES (\(list.timelines[0].row), 1, '{}')")
                #expect(try await stored() == [])
                try await connection.simple("ROLLBACK TO SAVEPOINT shown")
                try await connection.simple("UPDATE app SET delivers = true")
                #expect(try await stored() == [])
            }
        }
    }
}
