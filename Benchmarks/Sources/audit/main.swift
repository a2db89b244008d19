// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Logging
import PostgresClient
import WidgetModel
import WidgetStore

// `audit`: what a pass of the audit over overdue timelines of a paused app costs, for few and for many timelines.
// Prints a line a number: its name, and the buffers that statements touch and rows that scans discard, for 1,000
// timelines. The cost is linear if the lines are alike.
//
// Needs an empty database, named by FRESHET_POSTGRES_URL; `Benchmarks/check` runs it.

guard let url = ProcessInfo.processInfo.environment["FRESHET_POSTGRES_URL"] else {
    FileHandle.standardError.write(Data("usage: FRESHET_POSTGRES_URL=… audit\n".utf8))
    exit(64)
}
let cost = AuditCost(
    pool: PostgresPool(configuration: PostgresConfiguration(connectionString: url), logger: Logger(label: "audit")))
try await cost.prepare()
for count in [2_000, 16_000] {
    try await cost.fill(count)
    print("audit of \(count) timelines\t\(try await cost.ofPass(over: count) * 1_000 / count)")
}

struct AuditCost {
    private static let app = "com.example.audit"

    let pool: PostgresPool

    func prepare() async throws {
        _ = try await PostgresMigrator(migrations: PostgresMigration.all).apply(on: pool)
        let store = WidgetStore(pool: pool)
        let kind = KindDefinition(name: "Kind", providerURL: "http://127.0.0.1:9", placeholder: [:])
        _ = try await store.apply([AppDefinition(name: Self.app, developerMode: true, kinds: [kind])], secrets: [:]) {
            Array(repeating: 7, count: 32)
        }
        _ = try await store.pause(app: Self.app, OperatorNote(by: "benchmark"))
    }

    /// Replaces all timelines by some that are overdue since the same time, in full lists.
    func fill(_ count: Int) async throws {
        try await pool.withConnection { connection in
            try await connection.simple(
                """
                TRUNCATE timeline, work CASCADE;
                INSERT INTO timeline (identity, kind_id, configuration, user_id, requested, listed_at, listed_lane)
                SELECT gen_random_uuid(), k.id, '{}', 'u' || n, 1, '2026-01-01', 1
                FROM generate_series(1, \(count)) n, (SELECT min(id) AS id FROM kind) k;
                INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                SELECT t.kind_id, 1, t.listed_at, t.listed_at, array_agg(t.id ORDER BY t.id)
                FROM (SELECT t.*, (row_number() OVER (ORDER BY id) - 1) / 200 AS part FROM timeline t) t
                GROUP BY t.kind_id, t.listed_at, t.part
                """)
            try await connection.simple("VACUUM ANALYZE timeline, work")
        }
    }

    /// Runs the statements of a pass and adds up what they touch and discard.
    func ofPass(over count: Int) async throws -> Int {
        var cost = 0
        var suspects = AuditSuspects(pass: 0)
        var next: Int64? = 0
        while let after = next {
            let page = Statements.auditTimelines(after: after, limit: 500, slack: .seconds(900))
            cost += try await work(of: page)
            let rows = try await pool.query(page)
            for timeline in rows.compactMap(\.item) { suspects.add(timeline) }
            next = rows.first?.last
        }
        guard suspects.count == count else { throw WrongResult(suspects: suspects.count) }
        next = 0
        while let after = next {
            let page = Statements.auditLists(after: after, limit: 5, latest: suspects.latest)
            cost += try await work(of: page)
            let rows = try await pool.query(page)
            for list in rows.compactMap(\.item) { suspects.remove(list.timelines, listedAt: list.dueAt) }
            next = rows.first?.last
        }
        guard suspects.isEmpty else { throw WrongResult(suspects: suspects.count) }
        return cost
    }

    /// Buffers of a whole statement, and the rows that its scans and joins discard.
    private func work(of statement: some PostgresStatement) async throws -> Int {
        let lines = try await pool.query(Plan(statement))
        // The first line of a plan that names buffers has those of the steps below it.
        let buffers = lines.first { $0.contains("Buffers: shared") } ?? ""
        return Self.sum(/(?:hit|read)=(\d+)/, in: [buffers]) + Self.sum(/Rows Removed by .*: (\d+)/, in: lines)
    }

    private static func sum(_ pattern: Regex<(Substring, Substring)>, in lines: [String]) -> Int {
        lines.flatMap { $0.matches(of: pattern) }.reduce(0) { $0 + (Int($1.1) ?? 0) }
    }
}

/// Less work must not pass for cheaper work.
struct WrongResult: Error {
    let suspects: Int
}

struct Plan: PostgresStatement {
    let sql: String
    let parameters: PostgresParameters

    init(_ statement: some PostgresStatement) {
        sql = "EXPLAIN (ANALYZE, BUFFERS, COSTS OFF, TIMING OFF, SUMMARY OFF) \(statement.sql)"
        parameters = statement.parameters
    }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("QUERY PLAN") }
}
