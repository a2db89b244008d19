// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel

@testable import WidgetStore

@Suite("Audit of appointments", .timeLimit(.patience))
struct AuditTests {
    @Test("The audit appoints and counts only rows with work and no list")
    func found() async throws {
        try await withStore { store in
            let ids = try await store.place((0..<4).map { .test("w\($0)", user: "u\($0)") })
            #expect(try await store.unappointed() == 0)
            try await store.sql("DELETE FROM work")
            #expect(try await store.unappointed(slack: .seconds(3_600)) == 0, "within the slack it is trusted")
            #expect(try await store.unappointed() == 4)
            #expect(try await store.unappointed() == 0)
            // The appointment is never although a request is pending.
            try await store.settle()
            try await store.sql(
                "UPDATE timeline SET requested = requested + 1 WHERE id = (SELECT min(id) FROM timeline)")
            let page = Statements.auditTimelines(after: 0, limit: 2, slack: .seconds(3_600))
            let first = try await store.pool.query(page)
            #expect(first.compactMap(\.item).map(\.listedAt) == [.distantFuture])
            let next = Statements.auditTimelines(after: try #require(first.first?.last), limit: 3, slack: .zero)
            let second = try await store.pool.query(next)
            #expect(second.count == 1 && second[0].item == nil && second[0].last == nil)
            #expect(try await store.unappointed(slack: .seconds(3_600)) == 1)
            let found = try await store.claimAll().flatMap(\.timelines)
            #expect(found.count == 1 && ids.contains(found[0].id))
        }
    }

    @Test("A generation ahead is a finding only without a sweep and lists")
    func everyone() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.settle()
            let kind = try await store.kind()
            _ = try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id)]))
            #expect(try await store.unappointed() == 0)
            let sweep = try #require(try await store.pool.query(.listSweeps(limit: 1, maximumLists: 100)).first)
            _ = try await store.pool.query(.walkKind(sweep.id, limit: 10, maximumLists: 10))
            #expect(try await store.unappointed() == 0)
            try await store.sql("DELETE FROM work; DELETE FROM sweep")
            #expect(try await store.unappointed() == 1)
        }
    }

    @Test("A timeline that was appointed anew meanwhile, or whose list ended, is no finding")
    func movedOn() async throws {
        try await withStore { store in
            try await store.place((0..<2).map { .test("w\($0)", user: "u\($0)") })
            let page = Statements.auditTimelines(after: 0, limit: 10, slack: .zero)
            let suspects = try await store.pool.query(page).compactMap(\.item)
            #expect(suspects.count == 2)
            // One is rendered, the other one appointed for a later time.
            for list in try await store.claimAll() {
                try await store.complete(list)
                try await store.end(list)
            }
            try await store.sql("UPDATE timeline SET eligible_at = now() + interval '1 hour'")
            try await store.apply([try await store.mark(.user, "u1")])
            #expect(try await store.pool.query(.appointLost(suspects)) == [0])
        }
    }

    @Test("With more suspects than the limit, a pass audits a share of the timelines, and later ones the others")
    func bounded() {
        var audited: Set<Int64> = []
        for pass in Int64(7)..<15 {
            var suspects = AuditSuspects(pass: pass, limit: 100)
            for id in Int64(1)...800 { suspects.add((id, Timestamp(microseconds: id))) }
            #expect(suspects.count <= 100 && !suspects.isEmpty)
            #expect(suspects.latest == suspects.timelines.last?.listedAt)
            audited.formUnion(suspects.timelines.map(\.id))
        }
        #expect(audited.count == 800)
        var suspects = AuditSuspects(pass: 0, limit: 100)
        for id in Int64(1)...3 { suspects.add((id, Timestamp(microseconds: 5))) }
        suspects.remove([1, 2], listedAt: Timestamp(microseconds: 5))
        suspects.remove([3], listedAt: Timestamp(microseconds: 4))
        #expect(suspects.timelines.map(\.id) == [3], "a superseded list is no appointment")
    }

    @Test("The audit has one worker at a time, and another one continues after the end of the lease")
    func lease() async throws {
        try await withStore { store in
            let (first, second): (UInt128, UInt128) = (1, 2)
            func take(_ worker: UInt128) async throws -> [Int64]? {
                try await store.pool.query(.takeAudit(worker: worker, lease: .seconds(600))).first.map {
                    [$0.pass, $0.cursor]
                }
            }
            #expect(try await take(first) == [0, 0])
            #expect(try await take(second) == nil)
            let advance = Statements.advanceAudit(worker: first, cursor: 7, lease: .seconds(600))
            #expect(try await store.pool.query(advance) == [7])
            try await store.sql("UPDATE audit SET lease_ends_at = now()")
            #expect(try await take(second) == [0, 7])
            #expect(try await store.pool.query(advance).isEmpty, "the first one notices it")
            func end(_ worker: UInt128, isWhole: Bool) async throws {
                let end = Statements.endAuditPass(worker: worker, isWhole: isWhole, interval: .seconds(600))
                _ = try await store.pool.execute(end)
            }
            try await end(first, isWhole: true)
            try await end(second, isWhole: false)
            #expect(try await take(first) == [1, 0], "the pass was not whole")
            try await end(first, isWhole: true)
            #expect(try await take(first) == nil, "the next pass is later")
            try await store.sql("UPDATE audit SET pass_begins_at = now()")
            #expect(try await take(first) == [2, 0])
        }
    }

    /// Buffers and rows that one pass over a paused app touches.
    private func cost(of timelines: Int) async throws -> Int {
        try await withStore { store in
            // All of them overdue since the same time, in lists of 200.
            try await store.place([.test("w0")])
            try await store.sql(
                """
                INSERT INTO timeline (identity, kind_id, configuration, user_id, requested, listed_at, listed_lane)
                SELECT gen_random_uuid(), k.id, '{}', 'u' || n, 1, '2026-01-01', 1
                FROM generate_series(1, \(timelines)) n, (SELECT min(kind_id) AS id FROM timeline) k;
                DELETE FROM work;
                DELETE FROM timeline WHERE listed_at <> '2026-01-01';
                INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                SELECT t.kind_id, 1, t.listed_at, t.listed_at, array_agg(t.id ORDER BY t.id)
                FROM (SELECT t.*, (row_number() OVER (ORDER BY id) - 1) / 200 AS part FROM timeline t) t
                GROUP BY t.kind_id, t.listed_at, t.part;
                ANALYZE timeline, work
                """)
            _ = try await store.store.pause(app: TestKinds.app)
            var cost = 0
            var suspects = AuditSuspects(pass: 0)
            var last: Int64? = 0
            while let after = last {
                let page = Statements.auditTimelines(after: after, limit: 500, slack: .seconds(900))
                cost += try await store.work(of: page)
                let rows = try await store.pool.query(page)
                for timeline in rows.compactMap(\.item) { suspects.add(timeline) }
                last = rows.first?.last
            }
            #expect(suspects.count == timelines)
            var list: Int64? = 0
            while let after = list {
                let page = Statements.auditLists(after: after, limit: 5, latest: suspects.latest)
                cost += try await store.work(of: page)
                let rows = try await store.pool.query(page)
                for item in rows.compactMap(\.item) { suspects.remove(item.timelines, listedAt: item.dueAt) }
                list = rows.first?.last
            }
            #expect(suspects.isEmpty)
            return cost
        }
    }

    @Test("The cost of a pass over overdue timelines grows with their number, not with its square")
    func linear() async throws {
        let (small, large) = try await (cost(of: 2_000), cost(of: 16_000))
        #expect(Double(large) < Double(small) * 8 * 1.25, "\(small) for 2,000, \(large) for 16,000")
    }
}

extension TestStore {
    /// Buffers that a statement touches and rows that its scans read and discard.
    fileprivate func work(of statement: some PostgresStatement) async throws -> Int {
        let lines = try await pool.query(Plan(statement))
        func sum(_ pattern: Regex<(Substring, Substring)>) -> Int {
            lines.flatMap { $0.matches(of: pattern) }.reduce(0) { $0 + (Int($1.1) ?? 0) }
        }
        return sum(/shared hit=(\d+)/) + sum(/Rows Removed by .*: (\d+)/)
    }
}

private struct Plan: PostgresStatement {
    let sql: String
    let parameters: PostgresParameters

    init(_ statement: some PostgresStatement) {
        sql = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) \(statement.sql)"
        parameters = statement.parameters
    }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("QUERY PLAN") }
}
