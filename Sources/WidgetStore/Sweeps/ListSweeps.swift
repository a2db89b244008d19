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

/// CTE with the queues that have sweeps, read without those behind the first of each.
private let queues = """
    queue AS (
        (SELECT s.app_id, coalesce(s.kind_id, 0) AS kind_id, s.queue FROM sweep s
         ORDER BY s.app_id, coalesce(s.kind_id, 0), s.queue LIMIT 1)
        UNION ALL
        SELECT n.* FROM queue q CROSS JOIN LATERAL (
            SELECT s.app_id, coalesce(s.kind_id, 0), s.queue FROM sweep s
            WHERE (s.app_id, coalesce(s.kind_id, 0), s.queue) > (q.app_id, q.kind_id, q.queue)
            ORDER BY s.app_id, coalesce(s.kind_id, 0), s.queue LIMIT 1) n
    )
    """

/// Condition that a queue's kind has room for more lists.
private func hasRoom(limit: String) -> String {
    """
    CASE WHEN q.kind_id = 0 THEN true
         WHEN q.queue = 0 THEN \(SweepRoom.ofWalks(kind: "q.kind_id", limit: limit))
         ELSE \(SweepRoom.ofMarks(kind: "q.kind_id", limit: limit)) END
    """
}

private let listSweepsSQL = """
    WITH RECURSIVE \(queues), open AS (
        SELECT q.* FROM queue q JOIN app a ON a.id = q.app_id LEFT JOIN kind k ON k.id = q.kind_id
        WHERE a.paused_at IS NULL AND k.paused_at IS NULL AND \(hasRoom(limit: "$2"))
    ), ranked AS (
        SELECT s.id, o.queue = 0 AS walk, s.tried_at,
               row_number() OVER (PARTITION BY o.app_id ORDER BY s.tried_at, s.id) AS turn
        FROM open o CROSS JOIN LATERAL (
            SELECT s.id, greatest(s.ran_at, s.failed_at) AS tried_at FROM sweep s
            WHERE s.app_id = o.app_id AND coalesce(s.kind_id, 0) = o.kind_id AND s.queue = o.queue
            ORDER BY s.id LIMIT \(concurrentSweeps)) s
    )
    SELECT id, walk FROM ranked ORDER BY turn, tried_at, id LIMIT $1::int8
    """

/// Sweeps of a kind, or of all kinds of users and devices of an app, that have not gone on for some time though it is
/// their turn, and those that wait behind them.
package struct WaitingSweeps: Hashable, Sendable {
    package enum Obstacle: String, Sendable, PostgresConvertible {
        case appPaused, kindPaused
        /// Too many of the kind's lists wait for workers.
        case noRoom
        /// The latest chunk of at least one of the sweeps has failed.
        case fails
    }

    /// Most counted sweeps.
    package static let limit = 1_000

    package let app: String
    /// Nil: all kinds.
    package let kind: String?
    package let count: Int
    package let silence: Duration
    /// Nil: none, so that no worker sweeps, or they will go on in a moment.
    package let obstacle: Obstacle?
}

private let waitingSweepsSQL = """
    WITH RECURSIVE \(queues), waiting AS (
        SELECT q.*, f.count, f.active_at, f.fails FROM queue q CROSS JOIN LATERAL (
            SELECT count(*) AS count, min(s.active_at) AS active_at, min(s.place) AS first,
                   bool_or(s.failed_at > s.ran_at) AS fails
            FROM (
                SELECT greatest(s.created_at, s.ran_at) AS active_at, s.ran_at, s.failed_at,
                       row_number() OVER (ORDER BY s.id) AS place
                FROM sweep s
                WHERE s.app_id = q.app_id AND coalesce(s.kind_id, 0) = q.kind_id AND s.queue = q.queue
                ORDER BY s.id LIMIT \(WaitingSweeps.limit)) s
            WHERE s.active_at < now() - $2::int8 * interval '1 millisecond') f
        -- Those behind the first wait for their turn.
        WHERE f.first <= \(concurrentSweeps)
    )
    SELECT a.name AS app, k.name AS kind, q.count, extract(epoch FROM now() - q.active_at)::float8 AS silence,
           CASE WHEN a.paused_at IS NOT NULL THEN '\(WaitingSweeps.Obstacle.appPaused.rawValue)'
                WHEN k.paused_at IS NOT NULL THEN '\(WaitingSweeps.Obstacle.kindPaused.rawValue)'
                WHEN NOT \(hasRoom(limit: "$3")) THEN '\(WaitingSweeps.Obstacle.noRoom.rawValue)'
                WHEN q.fails THEN '\(WaitingSweeps.Obstacle.fails.rawValue)' END AS obstacle
    FROM waiting q JOIN app a ON a.id = q.app_id LEFT JOIN kind k ON k.id = q.kind_id
    WHERE $1::text IS NULL OR a.name = $1::text
    ORDER BY q.active_at LIMIT $4::int8
    """

extension PostgresStatement where Self == Statements {
    /// Sweeps that have not gone on for some time, and why, those that wait longest first.
    ///
    /// - Parameters:
    ///   - app: nil: every app.
    ///   - silence: time since a sweep was requested, and since its latest chunk that did not fail.
    ///   - maximumLists: number of a kind's bulk lists at which its sweeps wait.
    ///   - limit: most kinds to return.
    package static func waitingSweeps(app: String?, silence: Duration, maximumLists: Int, limit: Int)
        -> PostgresQuery<WaitingSweeps>
    {
        PostgresQuery(waitingSweepsSQL, app, silence.wholeMilliseconds, maximumLists, limit) { row in
            try WaitingSweeps(
                app: row.value("app"), kind: row.optional("kind"), count: row.value("count"),
                silence: .seconds(row.value("silence")), obstacle: row.optional("obstacle"))
        }
    }

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
        PostgresQuery("UPDATE sweep SET failed_at = clock_timestamp() WHERE id = $1::int8", id)
    }
}
