// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Rows of a table of states, with the results of the SQL functions.
private struct NextLooks: PostgresStatement {
    struct Row {
        let state: TimelineState
        let kind: KindGenerations
        let reason: ReloadReason?
        let next: Timestamp
        let lane: Int16
        let now: Timestamp
    }

    let sql = """
        SELECT s.*, now() AS now,
               next_look(orphaned, asleep, requested, rendered, free_requested, forced_requested, generation, eligible_at,
                         free_at, retry_at, policy_at, k_generation, k_free, k_forced, k_cancelled) AS next,
               next_lane(orphaned, requested, rendered, generation, cause_reason, k_generation, k_cancelled) AS lane
        FROM (
            SELECT r[1] < 0.1 AS orphaned, r[2] < 0.3 AS asleep, requested, (r[4] * 4)::int8 AS rendered,
                   least(requested, (r[5] * 4)::int8) AS free_requested,
                   least(requested, (r[6] * 4)::int8) AS forced_requested, (r[7] * 4)::int8 AS generation,
                   test_time(r[8], r[12]) AS eligible_at, test_time(r[9], r[13]) AS free_at,
                   test_time(r[10], r[14]) AS retry_at,
                   CASE WHEN r[11] < 0.3 THEN 'infinity' ELSE test_time(r[11], r[15]) END AS policy_at, k_generation,
                   least(k_generation, (r[17] * 4)::int8) AS k_free, least(k_generation, (r[18] * 4)::int8) AS k_forced,
                   least(k_generation, (r[19] * 4)::int8) AS k_cancelled, (r[20] * 7)::int2 AS cause_reason
            FROM (SELECT ARRAY(SELECT random() FROM generate_series(1, 20) WHERE n > 0) AS r
                  FROM generate_series(1, 5000) n) x,
                LATERAL (SELECT (r[3] * 4)::int8 AS requested, (r[16] * 4)::int8 AS k_generation) y
        ) s
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            state: TimelineState(
                requested: try row.value("requested"), rendered: try row.value("rendered"),
                freeRequested: try row.value("free_requested"), forcedRequested: try row.value("forced_requested"),
                generation: try row.value("generation"), eligibleAt: try row.value("eligible_at"),
                freeAt: try row.value("free_at"), retryAt: try row.value("retry_at"),
                policyAt: try row.value("policy_at"), isAsleep: try row.value("asleep"),
                isOrphaned: try row.value("orphaned")),
            kind: KindGenerations(
                current: try row.value("k_generation"), free: try row.value("k_free"),
                forced: try row.value("k_forced"), cancelled: try row.value("k_cancelled")),
            reason: ReloadReason(rawValue: try row.value("cause_reason")), next: try row.value("next"),
            lane: try row.value("lane"), now: try row.value("now"))
    }
}

@Suite("Time of a timeline's next look", .timeLimit(.patience))
struct NextLookTests {
    @Test("SQL and the model agree on thousands of random rows")
    func agreement() async throws {
        try await withStore { store in
            try await store.sql(
                """
                CREATE FUNCTION test_time(kind float8, at float8) RETURNS timestamptz LANGUAGE sql STABLE AS $$
                    SELECT CASE WHEN kind < 0.3 THEN '-infinity' ELSE now() + (at - 0.4) * interval '60 hours' END
                $$
                """)
            let rows = try await store.pool.withConnection { connection in
                try await connection.simple("SELECT setseed(0.25)")
                return try await connection.query(NextLooks())
            }
            #expect(rows.count == 5_000)
            var distinct = Set<ReloadLane>()
            for row in rows {
                let next = row.state.nextLook(row.kind, at: row.now)
                let expected = TimelineState.appointment(for: next, at: row.now)
                #expect(row.next == expected ?? .distantFuture, "\(row)")
                guard next != nil else { continue }
                let lane = row.state.nextLane(row.kind, reason: row.reason)
                distinct.insert(lane)
                #expect(row.lane == lane.rawValue, "\(row)")
            }
            #expect(distinct.count == 4)
        }
    }
}
