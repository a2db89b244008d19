package import PostgresClient
package import WidgetModel

package struct QueueDepth: Hashable, Sendable {
    package let kindID: Int32
    package let lane: ReloadLane
    /// Ready lists and their timelines, counted up to the limit in whole lists.
    package let lists: Int
    package let due: Int
    package let overdue: Int
    /// Seconds since the oldest list became due.
    package let oldest: Double
}

/// Number of waiting dead letters of a cause, of sweeps, or of diverted apps.
package struct WaitingWork: Hashable, Sendable {
    /// Causes of the rows for sweeps and diverted apps, which no dead letter has.
    package static let sweeps = "=sweeps"
    package static let diversions = "=diversions"

    package let cause: String
    package let count: Int64
}

private let waitingWorkSQL = """
    SELECT c.cause, d.n AS count
    FROM unnest($2::text[]) AS c (cause)
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM dead_letter d
            WHERE d.cause = c.cause AND \(DeadLetterFilter.waiting)
            LIMIT $1::int8) waiting
    ) d
    UNION ALL
    SELECT '\(WaitingWork.sweeps)', count(*) FROM (SELECT FROM sweep LIMIT $1::int8) waiting
    UNION ALL
    SELECT '\(WaitingWork.diversions)', count(*) FROM diversion
    """

extension PostgresStatement where Self == Statements {
    /// Timelines in ready lists by kind and lane, overdue ones, and the age of the oldest, for metrics.
    ///
    /// Skips through the index of lists: the cost grows with the number of kinds and the limit, not with the backlog.
    /// Leaves out paused and retired kinds, and counts superseded ids.
    ///
    /// - Parameter limit: most counted timelines of a kind and lane.
    package static func queueDepths(limit: Int, overdueAfter: Duration) -> PostgresQuery<QueueDepth> {
        PostgresQuery(
            """
            SELECT k.id AS kind_id, l.lane, d.lists, d.due, d.overdue, extract(epoch FROM now() - d.since)::float8 AS oldest
            FROM kind k
            JOIN app a ON a.id = k.app_id
            CROSS JOIN unnest(ARRAY[0, 1, 2, 3]::int2[]) AS l (lane)
            CROSS JOIN LATERAL (
                SELECT count(*) AS lists, coalesce(sum(cardinality(o.timelines)), 0)::int8 AS due, min(o.due_at) AS since,
                       coalesce(sum(cardinality(o.timelines))
                           FILTER (WHERE o.due_at <= now() - $2::int8 * interval '1 millisecond'), 0)::int8 AS overdue
                FROM (SELECT w.timelines, w.due_at FROM work w
                      WHERE w.kind_id = k.id AND w.lane = l.lane AND w.ready_at <= now()
                      ORDER BY w.ready_at
                      LIMIT $1::int8) o
            ) d
            WHERE d.lists > 0 AND k.paused_at IS NULL AND k.retired_at IS NULL AND a.paused_at IS NULL
            """, (limit + Appending.limit - 1) / Appending.limit, overdueAfter.wholeMilliseconds
        ) { row in
            try QueueDepth(
                kindID: row.value("kind_id"), lane: row.value("lane"), lists: row.value("lists"), due: row.value("due"),
                overdue: row.value("overdue"), oldest: row.value("oldest"))
        }
    }

    /// Waiting work by cause, each counted up to a limit, for metrics.
    package static func waitingWork(limit: Int) -> PostgresQuery<WaitingWork> {
        PostgresQuery(waitingWorkSQL, limit, PostgresArray(DeadLetterCause.allCases)) { row in
            try WaitingWork(cause: row.value("cause"), count: row.value("count"))
        }
    }

    /// Estimated number of timelines: the planner's, or as many as fit into a table that was never analysed.
    package static func timelineEstimate() -> PostgresQuery<Int> {
        PostgresQuery(
            """
            SELECT CASE WHEN c.reltuples >= 0 THEN c.reltuples::int8
                        ELSE pg_relation_size(c.oid) / current_setting('block_size')::int8 * 8 END AS rows
            FROM pg_class c WHERE c.oid = 'timeline'::regclass
            """
        ) { row in try row.value("rows") }
    }

    /// Ages of timelines since their render by kind, in seconds at the 50th and the 99th percentile of a sample of the
    /// table's pages. Kinds without a sampled timeline have no row.
    ///
    /// Reads about `rows` rows of a table with an estimated number.
    package static func timelineAges(rows: Int, of estimate: Int) -> PostgresQuery<
        (kindID: Int32, median: Double, late: Double)
    > {
        let percent = estimate <= rows ? 100 : max(0.000_1, 100 * Double(rows) / Double(estimate))
        return PostgresQuery(
            """
            SELECT t.kind_id,
                   percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM now() - t.rendered_at)::float8) AS median,
                   percentile_disc(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM now() - t.rendered_at)::float8) AS late
            FROM timeline t TABLESAMPLE SYSTEM ($1::float8)
            WHERE t.rendered_at IS NOT NULL AND NOT t.orphaned
            GROUP BY t.kind_id
            """, percent
        ) { row in
            try (kindID: row.value("kind_id"), median: row.value("median"), late: row.value("late"))
        }
    }
}
