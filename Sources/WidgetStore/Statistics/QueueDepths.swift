package import PostgresClient
package import WidgetModel

/// Timelines in ready lists by kind and lane, those that have been ready for long, and the age of the oldest: for metrics.
///
/// It skips through the index of lists: its cost goes with the number of kinds and with the limit, never with the backlog.
/// Paused and retired kinds are left out: nobody waits for them. An id whose row has another appointment by now counts too.
package struct QueueDepths: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let kindID: Int32
        package let lane: ReloadLane
        /// Ready lists, and the timelines in them: counted up to the limit, in whole lists.
        package let lists: Int
        package let due: Int
        package let overdue: Int
        /// Seconds for which the oldest list has been due.
        package let oldest: Double

        package init(kindID: Int32, lane: ReloadLane, lists: Int, due: Int, overdue: Int, oldest: Double) {
            self.kindID = kindID
            self.lane = lane
            self.lists = lists
            self.due = due
            self.overdue = overdue
            self.oldest = oldest
        }
    }

    package static let sql = """
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
        """

    let limit: Int
    let overdueAfter: Duration

    /// - Parameter limit: timelines of one kind and lane.
    package init(limit: Int, overdueAfter: Duration) {
        self.limit = limit
        self.overdueAfter = overdueAfter
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64((limit + Appending.limit - 1) / Appending.limit))
        parameters.append(overdueAfter.wholeMilliseconds)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            kindID: try row.value("kind_id"), lane: try row.lane("lane"), lists: try row.count("lists"),
            due: try row.count("due"), overdue: try row.count("overdue"), oldest: try row.value("oldest"))
    }
}
