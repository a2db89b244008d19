package import PostgresClient
import WidgetModel

/// Conditions that a kind has room for more bulk lists.
enum SweepRoom {
    /// Fewer lists of reloads of everyone than the limit. They are due from the start, so leased lists and those that
    /// were given back count.
    static func ofWalks(kind: String, limit: String) -> String {
        isBelow(limit, "w.kind_id = \(kind) AND w.generation IS NOT NULL")
    }

    /// Fewer ready bulk lists than the limit. Lists that lie ahead do not count: they hold timelines that have to wait.
    static func ofMarks(kind: String, limit: String) -> String {
        isBelow(limit, "w.kind_id = \(kind) AND w.lane = \(ReloadLane.bulk.rawValue) AND w.ready_at <= now()")
    }

    private static func isBelow(_ limit: String, _ condition: String) -> String {
        "(SELECT count(*) FROM (SELECT FROM work w WHERE \(condition) LIMIT \(limit)::int8) b) < \(limit)::int8"
    }
}

/// Most sweeps of a queue that run at the same time. Equal requests merge in those behind them.
private let concurrentSweeps = 8

private let listSweepsSQL = """
    WITH RECURSIVE queue AS (
        (SELECT s.app_id, coalesce(s.kind_id, 0) AS kind_id, s.queue FROM sweep s
         ORDER BY s.app_id, coalesce(s.kind_id, 0), s.queue LIMIT 1)
        UNION ALL
        SELECT n.* FROM queue q CROSS JOIN LATERAL (
            SELECT s.app_id, coalesce(s.kind_id, 0), s.queue FROM sweep s
            WHERE (s.app_id, coalesce(s.kind_id, 0), s.queue) > (q.app_id, q.kind_id, q.queue)
            ORDER BY s.app_id, coalesce(s.kind_id, 0), s.queue LIMIT 1) n
    ), open AS (
        SELECT q.* FROM queue q JOIN app a ON a.id = q.app_id LEFT JOIN kind k ON k.id = q.kind_id
        WHERE a.paused_at IS NULL AND k.paused_at IS NULL AND CASE
            WHEN q.kind_id = 0 THEN true
            WHEN q.queue = 0 THEN \(SweepRoom.ofWalks(kind: "q.kind_id", limit: "$2"))
            ELSE \(SweepRoom.ofMarks(kind: "q.kind_id", limit: "$2")) END
    ), ranked AS (
        SELECT s.id, o.queue = 0 AS walk, s.ran_at,
               row_number() OVER (PARTITION BY o.app_id ORDER BY s.ran_at, s.id) AS turn
        FROM open o CROSS JOIN LATERAL (
            SELECT s.id, s.ran_at FROM sweep s
            WHERE s.app_id = o.app_id AND coalesce(s.kind_id, 0) = o.kind_id AND s.queue = o.queue
            ORDER BY s.id LIMIT \(concurrentSweeps)) s
    )
    SELECT id, walk FROM ranked ORDER BY turn, ran_at, id LIMIT $1::int8
    """

extension PostgresStatement where Self == Statements {
    /// Sweeps that can continue, in turns between apps; of an app, those first whose latest chunk is longest ago. Paused
    /// apps and kinds and kinds with too many bulk lists are left out. Sweeps without a generation mark.
    ///
    /// The first sweeps of each kind are looked up in the index, so that the cost does not depend on the number of those
    /// that wait behind them.
    ///
    /// - Parameters:
    ///   - limit: most sweeps to return.
    ///   - maximumLists: number of a kind's bulk lists at which its sweeps wait.
    package static func listSweeps(limit: Int, maximumLists: Int) -> PostgresQuery<(id: Int64, isWalk: Bool)> {
        PostgresQuery(listSweepsSQL, limit, maximumLists) { row in
            try (id: row.value("id"), isWalk: row.value("walk"))
        }
    }

    /// Puts a sweep behind the others of its app, after a chunk that failed.
    package static func postponeSweep(_ id: Int64) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE sweep SET ran_at = clock_timestamp() WHERE id = $1::int8", id)
    }
}
