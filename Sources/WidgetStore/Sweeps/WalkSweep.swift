package import PostgresClient
import WidgetModel

/// Result of one chunk of a sweep.
package struct SweepChunk: Sendable {
    /// Number of listed or marked timelines.
    package let timelines: Int
    package let isDone: Bool

    /// CTE that deletes the sweep once `step` is done, and the result.
    fileprivate static func end(counting rows: String) -> String {
        """
        ended AS (
            DELETE FROM sweep s USING step e WHERE s.id = e.id AND e.done
        )
        SELECT (SELECT count(*) FROM \(rows)) AS timelines, done FROM step
        """
    }

    fileprivate init(_ row: borrowing PostgresRow) throws(PostgresError) {
        timelines = try row.value("timelines")
        isDone = try row.value("done")
    }
}

private let walkKindSQL = """
    WITH walk AS MATERIALIZED (
        SELECT s.* FROM sweep s WHERE s.id = $1::int8
            -- After a raise by another transaction, this snapshot does not see what was rendered before it.
            AND s.generation = (SELECT o.generation FROM sweep o WHERE o.id = $1::int8)
            AND \(SweepRoom.ofWalks(kind: "s.kind_id", limit: "$3"))
        FOR NO KEY UPDATE SKIP LOCKED
    ), page AS MATERIALIZED (
        SELECT p.id, p.generation FROM walk s CROSS JOIN LATERAL (
            SELECT t.id, t.generation FROM timeline t
            WHERE t.kind_id = s.kind_id AND t.id > s.cursor AND (NOT s.wrapped OR t.id <= s.until)
            ORDER BY t.id LIMIT $2::int8) p
    ), numbered AS (
        SELECT p.id, (row_number() OVER (ORDER BY p.id) - 1) / \(Appending.limit) AS part
        FROM page p, walk s WHERE p.generation < s.generation
    ), appended AS (
        INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
        SELECT s.kind_id, \(ReloadLane.bulk.rawValue), now(), now(), s.generation, array_agg(n.id ORDER BY n.id)
        FROM numbered n, walk s GROUP BY s.kind_id, s.generation, n.part
    ), passed AS MATERIALIZED (
        SELECT count(*) AS n, max(id) AS last FROM page
    ), step AS MATERIALIZED (
        SELECT s.id, p.n < $2::int8 AS at_end, p.n < $2::int8 AND (s.wrapped OR s.until = 0) AS done, p.last
        FROM walk s, passed p
    ), moved AS (
        UPDATE sweep s
        SET cursor = CASE WHEN e.at_end THEN 0 ELSE e.last END, wrapped = s.wrapped OR e.at_end, started = true,
            ran_at = clock_timestamp()
        FROM step e WHERE s.id = e.id AND NOT e.done
    ), \(SweepChunk.end(counting: "numbered"))
    """

private let formula = RowFormula(
    [
        "requested": "t.requested + h.events",
        "free_requested": "CASE WHEN h.urgency > 0 THEN t.requested + h.events ELSE t.free_requested END",
        "forced_requested": "CASE WHEN h.urgency > 1 THEN t.requested + h.events ELSE t.forced_requested END",
        "asleep": "false",
    ], kind: "h.k_")

private func audience(_ number: Int, _ column: String) -> String {
    """
    (SELECT w.timeline_id, w.kind_id, w.id FROM widget w
     WHERE s.audience = \(number) AND w.app_id = s.app_id AND w.\(column) = s.audience_id
         AND w.timeline_id IS NOT NULL AND w.id > s.cursor_widget ORDER BY w.id LIMIT $2::int8)
    """
}

private let sweepMarksSQL = """
    WITH walk AS MATERIALIZED (
        SELECT s.* FROM sweep s WHERE s.id = $1::int8 AND s.generation IS NULL
            AND (s.kind_id IS NULL OR \(SweepRoom.ofMarks(kind: "s.kind_id", limit: "$3")))
        FOR NO KEY UPDATE SKIP LOCKED
    ), page AS MATERIALIZED (
        SELECT p.* FROM walk s CROSS JOIN LATERAL (
            (SELECT t.id, t.kind_id, NULL AS widget, t.configuration FROM timeline t
             WHERE s.audience = 0 AND t.kind_id = s.kind_id AND t.id > s.cursor ORDER BY t.id LIMIT $2::int8)
            UNION ALL
            (SELECT a.timeline_id, a.kind_id, a.id, t.configuration
             FROM (\(audience(1, "user_id")) UNION ALL \(audience(2, "device_id"))) a
             JOIN timeline t ON t.id = a.timeline_id)
        ) p
    ), hit AS MATERIALIZED (
        SELECT DISTINCT p.id, s.events, s.urgency, s.audience, s.cause_topic, s.cause_partition, s.cause_offset,
               s.cause_reason, \(RowFormula.kindColumns)
        FROM page p JOIN walk s ON s.kind_id IS NULL OR p.kind_id = s.kind_id JOIN kind k ON k.id = p.kind_id
        WHERE s.matching IS NULL OR p.configuration::jsonb @> s.matching::jsonb
        ORDER BY p.id
    ), marked AS (
        UPDATE timeline t
        SET \(formula.assignments), \(formula.improvement(lane: "\(ReloadLane.bulk.rawValue)::int2")),
            requested_at = CASE WHEN h.audience = 0 THEN t.requested_at ELSE now() END, cause_topic = h.cause_topic,
            cause_partition = h.cause_partition, cause_offset = h.cause_offset, cause_reason = h.cause_reason
        FROM hit h WHERE t.id = h.id
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew
    ), \(Appending.lists(of: "marked")), step AS MATERIALIZED (
        SELECT s.id, p.n < $2::int8 AS done, p.last, p.last_widget
        FROM walk s, (SELECT count(*) AS n, max(id) AS last, max(widget) AS last_widget FROM page) p
    ), moved AS (
        UPDATE sweep s
        SET cursor = e.last, cursor_widget = coalesce(e.last_widget, s.cursor_widget), started = true,
            ran_at = clock_timestamp()
        FROM step e WHERE s.id = e.id AND NOT e.done
    ), \(SweepChunk.end(counting: "marked"))
    """

extension PostgresStatement where Self == Statements {
    /// One chunk of a walk: a kind's timelines in id order from the cursor on. Timelines below the generation go into
    /// bulk lists with it; no row of `timeline` is written. No row if another process walks it, or the kind has too
    /// many lists of reloads of everyone.
    ///
    /// - Parameters:
    ///   - limit: number of timelines of the chunk.
    ///   - maximumLists: number of the kind's lists of reloads of everyone at which nothing is appended.
    package static func walkKind(_ sweep: Int64, limit: Int, maximumLists: Int) -> PostgresQuery<SweepChunk> {
        PostgresQuery(walkKindSQL, sweep, limit, maximumLists) { row in try SweepChunk(row) }
    }

    /// One chunk of a sweep that marks: a kind's matching timelines, or an audience's widgets, in id order from the
    /// cursor on. The appointments go into the bulk lane. No row if another process walks it, or the kind has too many
    /// ready bulk lists. Appointments that lie ahead are no backlog: each timeline has at most one.
    package static func sweepMarks(_ sweep: Int64, limit: Int, maximumLists: Int) -> PostgresQuery<SweepChunk> {
        PostgresQuery(sweepMarksSQL, sweep, limit, maximumLists) { row in try SweepChunk(row) }
    }
}
