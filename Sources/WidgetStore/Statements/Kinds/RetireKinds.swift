package import PostgresClient
package import WidgetModel

/// Retires a kind, and ends a move of its widgets; no row: there is no such kind.
package struct RetireKind: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let kindID: Int32
        /// Whether it was not retired before.
        package let isChanged: Bool
        package let isPaused: Bool
    }

    package static let sql = """
        WITH locked AS (
            SELECT k.id, k.retired_at, k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL AS is_paused
            FROM kind k JOIN app a ON a.id = k.app_id
            WHERE a.name = $1::text AND k.name = $2::text
            FOR NO KEY UPDATE OF k
        ), changed AS (
            UPDATE kind k SET retired_at = now() FROM locked l WHERE k.id = l.id AND l.retired_at IS NULL
        ), ended AS (
            DELETE FROM kind_move m USING locked l WHERE m.kind_id = l.id
        )
        SELECT id, retired_at IS NULL, is_paused FROM locked
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
        Row(kindID: try row.value(0), isChanged: try row.value(1), isPaused: try row.value(2))
    }
}

/// How many timelines a kind has, counted up to a limit.
package struct CountTimelines: PostgresStatement {
    package static let sql = """
        SELECT count(*) FROM (SELECT 1 FROM timeline_state s WHERE s.kind_id = $1::int4 LIMIT $2::int8) counted
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

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int {
        Int(try row.value(0, as: Int64.self))
    }
}

/// The `swept_generation` of a retired kind's timelines that need no more work: greater than any generation, so the
/// sweep's index is the cursor. One that a widget takes up again, placed by a process that does not know yet, has a
/// lower one and is found again.
enum RetiredGeneration {
    static let sql = "9223372036854775807"
}

/// The kinds whose timelines the sweeper has to change: retired ones with widgets left, and those whose widgets are
/// moved to timelines of another identity.
package struct KindsToChange: PostgresStatement {
    package enum Change: Hashable, Sendable {
        case retire, move
    }

    package struct Row: Hashable, Sendable {
        package let kindID: Int32
        package let change: Change
        /// Due timelines of the kind in the bulk lane, counted up to the high-water mark.
        package let backlog: Int
    }

    package static let sql = """
        WITH change AS (
            SELECT k.id, true AS retires
            FROM kind k CROSS JOIN LATERAL (
                SELECT 1 FROM timeline_state s
                WHERE s.kind_id = k.id AND s.swept_generation < \(RetiredGeneration.sql)
                ORDER BY s.swept_generation
                LIMIT 1
            ) left_over
            WHERE k.retired_at IS NOT NULL
            UNION ALL
            SELECT k.id, false FROM kind_move m JOIN kind k ON k.id = m.kind_id
            WHERE k.retired_at IS NULL AND m.pass_begins_at <= now()
        )
        SELECT k.id, c.retires, (
            SELECT count(*) FROM (
                SELECT s.orphaned FROM timeline_state s
                WHERE s.kind_id = k.id AND s.lane = \(ReloadLane.bulk.rawValue) AND s.due_at <= now()
                ORDER BY s.due_at
                LIMIT $1::int8
            ) due
            -- Of a retired kind nothing else is ever claimed: what is merely due must not hold its retirement up.
            WHERE NOT c.retires OR due.orphaned
        )
        FROM change c JOIN kind k ON k.id = c.id JOIN app a ON a.id = k.app_id
        WHERE k.paused_at IS NULL AND a.paused_at IS NULL
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
        Row(
            kindID: try row.value(0), change: try row.value(1) ? .retire : .move,
            backlog: Int(try row.value(2, as: Int64.self)))
    }
}

/// Locks a retired kind for one chunk of work; no row: another process works on it, or it lives again.
package struct LockRetiredKind: PostgresStatement {
    package static let sql = """
        SELECT 1 FROM kind k WHERE k.id = $1::int4 AND k.retired_at IS NOT NULL FOR NO KEY UPDATE SKIP LOCKED
        """

    let kindID: Int32

    package init(kindID: Int32) {
        self.kindID = kindID
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
    }
}

/// The next timelines of a retired kind to take the widgets from. Not locked: widgets are locked before timelines.
package struct TimelinesToRetire: PostgresStatement {
    package static let sql = """
        SELECT s.timeline_id FROM timeline_state s
        WHERE s.kind_id = $1::int4 AND s.swept_generation < \(RetiredGeneration.sql)
        ORDER BY s.swept_generation, s.view_class
        LIMIT $2::int8
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

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> TimelineID {
        TimelineID(try row.value(0, as: PostgresUUID.self))
    }
}

/// Names widgets that show some timelines, up to a limit, in no order: a shared timeline may have millions.
package struct WidgetsShowing: PostgresStatement {
    package static let sql = """
        SELECT w.app_id, w.id
        FROM unnest($1::uuid[]) AS t (id) CROSS JOIN LATERAL (
            SELECT w.app_id, w.id FROM widget w WHERE w.timeline_id = t.id LIMIT $2::int8
        ) w
        LIMIT $2::int8
        """

    let timelines: [TimelineID]
    let limit: Int

    package init(_ timelines: [TimelineID], limit: Int) {
        self.timelines = timelines
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: timelines.map { PostgresUUID($0) })
        parameters.append(Int64(limit))
    }

    package static func decode(
        _ row: borrowing PostgresRow
    ) throws(PostgresError) -> (appID: Int32, id: String) {
        (appID: try row.value(0), id: try row.value(1))
    }
}

/// Removes widgets from timelines, as their removal by the person would; each stays as the tombstone that older events
/// must not override. The rows must have been locked by earlier statements of the transaction.
package struct RemoveWidgets: PostgresStatement {
    package static let sql = """
        UPDATE widget w SET timeline_id = NULL
        FROM unnest($1::int4[], $2::text[]) AS i (app_id, id)
        WHERE w.app_id = i.app_id AND w.id = i.id AND w.timeline_id = ANY ($3::uuid[])
        """

    let widgets: [(appID: Int32, id: String)]
    let timelines: [TimelineID]

    package init(_ widgets: [(appID: Int32, id: String)], from timelines: [TimelineID]) {
        self.widgets = widgets
        self.timelines = timelines
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: widgets.map(\.appID))
        parameters.append(array: widgets.map(\.id))
        parameters.append(array: timelines.map { PostgresUUID($0) })
    }
}

/// Notes that timelines of a retired kind, those that no widget shows any more, need no more work than to be collected.
/// Their rows must have been locked by an earlier statement of the transaction.
package struct MarkRetired: PostgresStatement {
    package static let sql = """
        UPDATE timeline_state s SET swept_generation = \(RetiredGeneration.sql)
        WHERE s.timeline_id = ANY ($1::uuid[]) AND s.orphaned
        """

    let timelines: [TimelineID]

    package init(_ timelines: [TimelineID]) {
        self.timelines = timelines
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: timelines.map { PostgresUUID($0) })
    }
}
