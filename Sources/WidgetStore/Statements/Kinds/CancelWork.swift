package import PostgresClient
package import WidgetModel

/// Cancels the sweep of a kind up to the generations of now; no row: there is no such kind, or it is retired.
///
/// The app's generation is read without its lock. One that is being bumped meanwhile is not seen, and is then greater
/// than what is cancelled: all of it is swept.
package struct CancelKind: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let kindID: Int32
        /// `kind.generation + app.generation` up to which it is cancelled.
        package let generation: Int64
        /// Whether the sweeper had not made all of its timelines due yet.
        package let wasSweeping: Bool
    }

    package static let sql = """
        WITH target AS (
            SELECT k.id, k.cancelled_generation AS cancelled,
                   greatest(k.cancelled_generation, k.generation + a.generation) AS goal
            FROM kind k JOIN app a ON a.id = k.app_id
            WHERE a.name = $1::text AND k.name = $2::text AND k.retired_at IS NULL
            FOR UPDATE OF k
        ), changed AS (
            UPDATE kind k SET cancelled_generation = t.goal FROM target t WHERE k.id = t.id
        )
        SELECT t.id, t.goal, t.goal > t.cancelled AND EXISTS (
            SELECT 1 FROM timeline_state s WHERE s.kind_id = t.id AND s.swept_generation < t.goal)
        FROM target t
        """

    let app: String
    let kind: String

    package init(app: String, kind: String) {
        self.app = app
        self.kind = kind
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(kind)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(kindID: try row.value(0), generation: try row.value(1), wasSweeping: try row.value(2))
    }
}

/// Takes a kind out of the recorded sweeps, and deletes those that are left without kinds; answers how many there were.
///
/// A sweep that waits is started by it: an equal request from now on has to be a sweep of its own, with all its kinds.
package struct CancelSweeps: PostgresStatement {
    package static let sql = """
        WITH locked AS (
            SELECT s.id, array_remove(s.kind_ids, $1::int4) AS others FROM sweep s
            WHERE s.audience = 0 AND $1::int4 = ANY (s.kind_ids)
            ORDER BY s.id
            FOR UPDATE
        ), kept AS (
            UPDATE sweep s SET kind_ids = l.others, started = true
            FROM locked l WHERE s.id = l.id AND cardinality(l.others) > 0
        ), gone AS (
            DELETE FROM sweep s USING locked l WHERE s.id = l.id AND cardinality(l.others) = 0
        )
        SELECT count(*) FROM locked
        """

    let kindID: Int32

    package init(kindID: Int32) {
        self.kindID = kindID
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}

/// One chunk of the timelines of a kind that wait in the bulk lane, in the order in which they come due: puts back what
/// only a cancelled sweep had made due, to its policy's time. It stays stale, and its next reload, whatever causes it,
/// serves the cancelled generation too. What had slept sleeps on: its policy's time is long past.
///
/// Left alone are those that are being fetched, that no widget shows, that were never rendered or whose stored content
/// is still to be published, that a later generation wants, and those with a request of their own: it is never lost.
package struct CancelTimelines: PostgresStatement {
    /// Where a walk has come to.
    package struct Cursor: Hashable, Sendable {
        package var dueAt: PostgresTimestamp
        package var id: TimelineID

        package static let start = Cursor(dueAt: .negativeInfinity, id: TimelineID(high: 0, low: 0))
    }

    package struct Row: Hashable, Sendable {
        /// Rows looked at; fewer than the limit: there are no more.
        package let examined: Int
        package let cancelled: Int
        /// The last one looked at.
        package let last: Cursor?
    }

    package static let sql = """
        WITH page AS MATERIALIZED (
            SELECT s.timeline_id, s.due_at, s.claim FROM timeline_state s
            WHERE s.kind_id = $1::int4 AND s.lane = \(ReloadLane.bulk.rawValue)
                AND (s.due_at, s.timeline_id) > ($3::timestamptz, $4::uuid)
            ORDER BY s.due_at, s.timeline_id
            LIMIT $5::int8
        ), locked AS (
            SELECT s.timeline_id FROM page p JOIN timeline_state s ON s.timeline_id = p.timeline_id
            WHERE s.lane = \(ReloadLane.bulk.rawValue) AND NOT s.leased AND NOT s.orphaned
                AND s.rendered_at IS NOT NULL AND s.published_hash IS NOT NULL
                AND s.requested = s.rendered AND s.swept_generation <= $2::int8
                -- A claim has stored something and come no further: nobody else would publish it.
                AND NOT EXISTS (SELECT 1 FROM timeline_content c
                                WHERE c.timeline_id = s.timeline_id AND c.hash <> s.published_hash)
                -- What is stored is seen as of the snapshot: a claim since then may have stored something else.
                AND s.claim = p.claim
                -- Rendered by a version that did not note its policy's time: that one would be lost.
                AND (s.policy_at < 'infinity' OR s.decided_at IS NOT NULL)
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE OF s
        ), cancelled AS (
            UPDATE timeline_state s
            SET due_at = CASE WHEN s.view_class = \(ViewClass.dormant.rawValue) THEN 'infinity'
                              ELSE greatest(s.policy_at, s.retry_at) END,
                lane = \(ReloadLane.scheduled.rawValue),
                last_decision = \(Decision.cancelled.rawValue),
                decision_rule = \(ReloadRule.operatorCommand.rawValue), decided_at = now(),
                decision_topic = NULL, decision_partition = NULL, decision_offset = NULL, decision_reason = NULL
            FROM locked l WHERE s.timeline_id = l.timeline_id
            RETURNING 1
        ), last AS (
            SELECT due_at, timeline_id FROM page ORDER BY due_at DESC, timeline_id DESC LIMIT 1
        )
        SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM cancelled), (SELECT due_at FROM last),
               (SELECT timeline_id FROM last)
        """

    let kindID: Int32
    let generation: Int64
    let cursor: Cursor
    let limit: Int

    /// - Parameter generation: what is cancelled; see ``CancelKind``.
    package init(kindID: Int32, generation: Int64, after cursor: Cursor, limit: Int) {
        self.kindID = kindID
        self.generation = generation
        self.cursor = cursor
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
        parameters.append(generation)
        parameters.append(cursor.dueAt)
        parameters.append(PostgresUUID(cursor.id))
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        var last: Cursor?
        if let dueAt = try row.optional(2, as: PostgresTimestamp.self),
            let id = try row.optional(3, as: PostgresUUID.self)
        {
            last = Cursor(dueAt: dueAt, id: TimelineID(id))
        }
        return Row(
            examined: Int(try row.value(0, as: Int64.self)), cancelled: Int(try row.value(1, as: Int64.self)),
            last: last)
    }
}
