package import PostgresClient
import WidgetModel

/// Neither the kind nor its app is paused, and the sweep up to the current generation was not cancelled.
private let mayBeSwept = """
    k.paused_at IS NULL AND a.paused_at IS NULL AND k.generation + a.generation > k.cancelled_generation
    """

/// The kinds whose generation, or whose app's, is ahead of what the sweeper has made due.
package struct KindsToSweep: PostgresStatement {
    package struct Row: Sendable {
        package let kindID: Int32
        /// Due timelines of the kind in the bulk lane, counted up to the high-water mark.
        package let backlog: Int
    }

    package static let sql = """
        SELECT k.id, (
            SELECT count(*) FROM (
                SELECT 1 FROM timeline_state s
                WHERE s.kind_id = k.id AND s.lane = \(ReloadLane.bulk.rawValue) AND s.due_at <= now()
                ORDER BY s.due_at
                LIMIT $1::int8
            ) due
        )
        FROM kind k JOIN app a ON a.id = k.app_id
        WHERE k.retired_at IS NULL AND \(mayBeSwept) AND EXISTS (
            SELECT 1 FROM timeline_state s
            WHERE s.kind_id = k.id AND s.swept_generation < k.generation + a.generation)
        ORDER BY k.id
        """

    let highWater: Int

    package init(highWater: Int) {
        self.highWater = highWater
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(highWater))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(kindID: try row.value(0), backlog: Int(try row.value(1, as: Int64.self)))
    }
}

/// Makes one chunk of a kind's timelines due that a generation bump has made stale: the oldest generation first,
/// often-viewed ones first within it, in the bulk lane unless something better wants them sooner. The index is the
/// cursor; leased rows are passed over and found again once they are complete.
///
/// The kind is compared with the parameter and the limit is hidden from the planner, so that it walks the index in
/// order: joined to the goal, or with statistics from before the bump, it would read and sort all that is left to sweep
/// for every chunk.
package struct SweepKind: PostgresStatement {
    private static let isFree = """
        (g.app_free > s.rendered_app_generation OR g.kind_free > s.rendered_kind_generation)
        """
    private static let isForced = """
        (g.app_operator > s.rendered_app_generation OR g.kind_operator > s.rendered_kind_generation)
        """

    package static let sql = """
        WITH goal AS (
            SELECT k.id, k.generation + a.generation AS generation, k.free_generation AS kind_free,
                   a.free_generation AS app_free, k.operator_generation AS kind_operator,
                   a.operator_generation AS app_operator
            FROM kind k JOIN app a ON a.id = k.app_id
            WHERE k.id = $1::int4 AND k.retired_at IS NULL AND \(mayBeSwept)
            -- Waits for a cancellation under way and makes it wait, and neither waits for bumps nor holds them up.
            FOR KEY SHARE OF k
        ), picked AS (
            SELECT s.timeline_id
            FROM timeline_state s
            WHERE s.kind_id = $1::int4 AND s.swept_generation < (SELECT generation FROM goal) AND NOT s.leased
            ORDER BY s.swept_generation, s.view_class
            LIMIT (SELECT $2::int8)
            FOR NO KEY UPDATE OF s SKIP LOCKED
        )
        UPDATE timeline_state s
        SET swept_generation = g.generation,
            due_at = \(MarkFormula.dueAt(free: isFree, forced: isForced)),
            free_at = \(MarkFormula.freeAt(forced: isForced)),
            lane = \(MarkFormula.bulkLane(free: isFree, forced: isForced))
        FROM picked p, goal g WHERE s.timeline_id = p.timeline_id
        """

    let kindID: Int32
    let limit: Int

    package init(kindID: Int32, limit: Int) {
        self.kindID = kindID
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
        parameters.append(Int64(limit))
    }
}
