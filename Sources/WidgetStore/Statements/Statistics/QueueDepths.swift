package import PostgresClient
package import WidgetModel

/// How much is due by kind and lane, how much of it has been for long, and since when: for metrics.
///
/// A skip scan over the claim's index, as ``DueWork`` does it: its cost goes with the number of kinds and with the limit,
/// never with the number of timelines. What is paused or retired is left out: nobody waits for it.
package struct QueueDepths: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let kindID: Int32
        package let lane: ReloadLane
        /// Both counted up to the limit.
        package let due: Int
        package let overdue: Int
        /// For how long the one that is due for longest has been, in seconds.
        package let oldest: Double

        package init(kindID: Int32, lane: ReloadLane, due: Int, overdue: Int, oldest: Double) {
            self.kindID = kindID
            self.lane = lane
            self.due = due
            self.overdue = overdue
            self.oldest = oldest
        }
    }

    package static let sql = """
        WITH RECURSIVE head AS (
            (SELECT s.kind_id, s.lane FROM timeline_state s ORDER BY s.kind_id, s.lane LIMIT 1)
            UNION ALL
            SELECT n.kind_id, n.lane FROM head h CROSS JOIN LATERAL (
                SELECT s.kind_id, s.lane FROM timeline_state s
                WHERE (s.kind_id, s.lane) > (h.kind_id, h.lane)
                ORDER BY s.kind_id, s.lane LIMIT 1
            ) n
        )
        SELECT h.kind_id, h.lane, d.due, d.overdue, extract(epoch FROM now() - d.since)::float8
        FROM head h
        JOIN kind k ON k.id = h.kind_id AND k.paused_at IS NULL AND k.retired_at IS NULL
        JOIN app a ON a.id = k.app_id AND a.paused_at IS NULL
        CROSS JOIN LATERAL (
            SELECT count(*) AS due, min(o.due_at) AS since,
                   count(*) FILTER (WHERE o.due_at <= now() - $2::int8 * interval '1 millisecond') AS overdue
            FROM (SELECT s.due_at FROM timeline_state s
                  WHERE s.kind_id = h.kind_id AND s.lane = h.lane AND s.due_at <= now()
                  ORDER BY s.due_at
                  LIMIT $1::int8) o
        ) d
        WHERE d.due > 0
        """

    let limit: Int
    let overdueAfter: Duration

    package init(limit: Int, overdueAfter: Duration) {
        self.limit = limit
        self.overdueAfter = overdueAfter
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(limit))
        parameters.append(overdueAfter.wholeMilliseconds)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            kindID: try row.value(0), lane: try row.lane(1), due: Int(try row.value(2, as: Int64.self)),
            overdue: Int(try row.value(3, as: Int64.self)), oldest: try row.value(4))
    }
}

extension PostgresPool {
    /// Reads ``QueueDepths`` in the order of the index: where much is due the planner would rather gather and sort all of
    /// it than read the first rows.
    package func queueDepths(
        limit: Int, overdueAfter: Duration
    ) async throws(PostgresError) -> [QueueDepths.Row] {
        var pipeline = PostgresPipeline()
        _ = pipeline.append(PlanInOrder())
        let depths = pipeline.append(QueueDepths(limit: limit, overdueAfter: overdueAfter))
        return try await transaction(pipeline).rows(depths)
    }
}
