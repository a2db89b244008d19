package import PostgresClient
package import WidgetModel

package struct QueueDepth: Hashable, Sendable {
    package let kindID: Int32
    package let lane: ReloadLane
    /// Ready lists, and the timelines in them: counted up to the limit, in whole lists.
    package let lists: Int
    package let due: Int
    package let overdue: Int
    /// Seconds for which the oldest list has been due.
    package let oldest: Double
}

extension PostgresStatement where Self == Statements {
    /// Timelines in ready lists by kind and lane, those that have been ready for long, and the age of the oldest: for metrics.
    ///
    /// It skips through the index of lists: its cost grows with the number of kinds and the limit, never with the backlog. Paused
    /// and retired kinds are left out. Superseded ids count too.
    ///
    /// - Parameter limit: timelines of one kind and lane.
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
            QueueDepth(
                kindID: try row.value("kind_id"), lane: try row.value("lane"), lists: try row.value("lists"),
                due: try row.value("due"), overdue: try row.value("overdue"), oldest: try row.value("oldest"))
        }
    }
}
