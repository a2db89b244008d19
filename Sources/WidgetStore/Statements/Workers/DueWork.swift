package import PostgresClient
package import WidgetModel

/// How much is due, by kind and lane: a skip scan over the claim's index, so its cost goes with the number of kinds,
/// not of timelines. What may not be claimed is left out: all of a paused kind, and of a retired one what widgets still
/// show. (The order keeps the planner from reading the table where much of it is due.)
package struct DueWork: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let kindID: Int32
        package let lane: ReloadLane
        /// Due timelines, counted up to the limit.
        package let count: Int
        /// How long the first of them has been due; a day at most.
        package let waited: Duration

        package init(kindID: Int32, lane: ReloadLane, count: Int, waited: Duration = .zero) {
            self.kindID = kindID
            self.lane = lane
            self.count = count
            self.waited = waited
        }
    }

    /// Counts what is due of the queue in the row of that name, beside `k`, the kind, and tells since when; the first
    /// parameter is the limit.
    static func counted(of queue: String, since: String? = nil) -> String {
        let due =
            since.map { "s.due_at BETWEEN \($0) AND now()" } ?? "s.due_at <= now()"
        return """
            SELECT count(*) AS n, min(due.due_at) AS since FROM (
                (SELECT s.due_at FROM timeline_state s
                 WHERE k.retired_at IS NULL AND s.kind_id = \(queue).kind_id AND s.lane = \(queue).lane AND \(due)
                 ORDER BY s.due_at
                 LIMIT $1::int8)
                UNION ALL
                (SELECT earliest.due_at FROM (
                     SELECT s.orphaned, s.due_at FROM timeline_state s
                     WHERE k.retired_at IS NOT NULL AND s.kind_id = \(queue).kind_id AND s.lane = \(queue).lane
                         AND \(due)
                     ORDER BY s.due_at
                     LIMIT $1::int8
                 ) earliest WHERE earliest.orphaned)
            ) due
            """
    }

    /// What is read of a row `d` of what was counted.
    static let columns =
        "d.n, (extract(epoch FROM now() - greatest(d.since, now() - interval '1 day')) * 1000)::int8"

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
        SELECT h.kind_id, h.lane, \(columns)
        FROM head h
        JOIN kind k ON k.id = h.kind_id AND k.paused_at IS NULL
        JOIN app a ON a.id = k.app_id AND a.paused_at IS NULL
        CROSS JOIN LATERAL (\(counted(of: "h"))) d
        WHERE d.n > 0
        """

    let limit: Int

    package init(limit: Int) {
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            kindID: try row.value(0), lane: try row.lane(1), count: Int(try row.value(2, as: Int64.self)),
            waited: .milliseconds(try row.value(3, as: Int64.self)))
    }
}
