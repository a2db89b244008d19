package import PostgresClient
package import WidgetModel

/// Kinds whose timelines a sweeper has to change now, and whose backlog in the bulk lane is below a limit.
package struct KindsToChange: PostgresStatement {
    package static let sql = """
        SELECT c.kind_id FROM kind_change c JOIN kind k ON k.id = c.kind_id JOIN app a ON a.id = k.app_id
        WHERE c.pass_begins_at <= now() AND k.paused_at IS NULL AND a.paused_at IS NULL AND (
            SELECT count(*) FROM (
                SELECT FROM work w WHERE w.kind_id = c.kind_id AND w.lane = \(ReloadLane.bulk.rawValue)
                    AND w.ready_at <= now() LIMIT $1::int8) b) < $1::int8
        ORDER BY c.kind_id
        """

    package let parameters: PostgresParameters

    /// - Parameter maximumLists: ready bulk lists of a kind beyond which it is not changed any further.
    package init(maximumLists: Int) {
        parameters = PostgresParameters(maximumLists)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int32 { try row.value("kind_id") }
}

/// Locks the change of a kind for one chunk; no row: there is none, it waits, or another process works on it.
///
/// The kind's definition must be read by a later statement of the transaction: a change of the definition holds this lock
/// until it is committed, and restarts the move.
package struct LockKindChange: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let retires: Bool
        /// Row of the timeline up to which the pass has come.
        package let cursor: Int64
    }

    package static let sql = """
        SELECT c.retires, c.cursor FROM kind_change c JOIN kind k ON k.id = c.kind_id
        WHERE c.kind_id = $1::int4 AND c.pass_begins_at <= now() AND (k.retired_at IS NOT NULL) = c.retires
        FOR NO KEY UPDATE OF c SKIP LOCKED
        """

    package let parameters: PostgresParameters

    package init(kindID: Int32) {
        parameters = PostgresParameters(kindID)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(retires: try row.value("retires"), cursor: try row.value("cursor"))
    }
}

/// A page of a kind's timelines in row order, with those whose widgets are to be moved or removed. Nothing is locked.
package struct KindChangePage: PostgresStatement {
    package struct Row: Hashable, Sendable {
        /// Timelines looked at; fewer than the limit: there are no more.
        package let examined: Int
        package let last: Int64?
        /// Timelines to be left by their widgets, ascending: of a retired kind all, else those of another identity. An
        /// orphaned one is among them while a widget shows it, which was placed by a transaction that the orphaning one
        /// did not see.
        package let strays: [Int64]
    }

    package static let sql = """
        WITH page AS MATERIALIZED (
            SELECT t.id, ($4::bool OR \(isStray(from: 5)))
                AND (NOT t.orphaned OR EXISTS (SELECT FROM widget w WHERE w.timeline_id = t.id)) AS stray
            FROM timeline t
            WHERE t.kind_id = $1::int4 AND t.id > $2::int8
            ORDER BY t.id
            LIMIT $3::int8
        )
        SELECT count(*) AS examined, max(id) AS last,
               coalesce(array_agg(id ORDER BY id) FILTER (WHERE stray), '{}') AS strays
        FROM page
        """

    package var parameters = PostgresParameters()

    package init(_ kind: RegisteredKind, retires: Bool, after cursor: Int64, limit: Int) {
        parameters.append(kind.id)
        parameters.append(cursor)
        parameters.append(limit)
        parameters.append(retires)
        kind.definition.bindIdentity(&parameters)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(examined: try row.value("examined"), last: try row.optional("last"), strays: try row.array("strays"))
    }
}

/// Names widgets that show some timelines, up to a limit, in no order: a shared timeline may have millions.
package struct WidgetsShowing: PostgresStatement {
    package static let sql = """
        SELECT w.app_id, w.id
        FROM unnest((SELECT $1::int8[])) AS t (id) CROSS JOIN LATERAL (
            SELECT w.app_id, w.id FROM widget w WHERE w.timeline_id = t.id LIMIT $2::int8
        ) w
        LIMIT $2::int8
        """

    package var parameters = PostgresParameters()

    package init(_ timelines: [Int64], limit: Int) {
        parameters.append(array: timelines)
        parameters.append(limit)
    }

    package static func decode(
        _ row: borrowing PostgresRow
    ) throws(PostgresError) -> WidgetScope.Name {
        (appID: try row.value("app_id"), id: try row.value("id"))
    }
}

/// Removes widgets from timelines, as their removal by the person would; each stays as the tombstone that older events
/// must not override. The rows must have been locked by earlier statements of the transaction.
package struct RemoveWidgets: PostgresStatement {
    private static let input = InputColumns<WidgetScope.Name>([.init("app_id") { $0.appID }, .init("id") { $0.id }])

    package static let sql = """
        UPDATE widget w SET timeline_id = NULL
        FROM \(input.rows("i"))
        WHERE w.app_id = i.app_id AND w.id = i.id AND w.timeline_id = ANY ($3::int8[])
        """

    package var parameters = PostgresParameters()

    package init(_ widgets: [WidgetScope.Name], from timelines: [Int64]) {
        Self.input.bind(widgets, to: &parameters)
        parameters.append(array: timelines)
    }
}

/// Moves the cursor of a pass, after a chunk.
package struct AdvanceKindChange: PostgresStatement {
    package static let sql = """
        UPDATE kind_change
        SET cursor = $2::int8, changed = changed + $3::int8, changed_in_all = changed_in_all + $3::int8
        WHERE kind_id = $1::int4
        """

    package let parameters: PostgresParameters

    package init(kindID: Int32, cursor: Int64, changed: Int) {
        parameters = PostgresParameters(kindID, cursor, changed)
    }
}

/// Ends a pass whose changed widgets are all counted. The change is over when the pass changed nothing and began after the
/// definition had settled: no process places widgets by an older one any more. Else another pass begins, at once if this
/// one changed something, and not before the definition has settled otherwise. Answers whether the change is over.
package struct EndKindChangePass: PostgresStatement {
    package static let sql = """
        WITH over AS (
            DELETE FROM kind_change c
            WHERE c.kind_id = $1::int4 AND c.changed = 0
                AND c.pass_begins_at >= c.started_at + $2::int8 * interval '1 millisecond'
            RETURNING 1
        ), next AS (
            UPDATE kind_change c
            SET pass = c.pass + 1, cursor = 0, changed = 0,
                pass_begins_at = CASE WHEN c.changed > 0 THEN now() ELSE
                    greatest(now(), c.started_at + $2::int8 * interval '1 millisecond') END
            WHERE c.kind_id = $1::int4 AND NOT (
                c.changed = 0 AND c.pass_begins_at >= c.started_at + $2::int8 * interval '1 millisecond')
        )
        SELECT EXISTS (SELECT 1 FROM over) AS over
        """

    package let parameters: PostgresParameters

    /// - Parameter settling: time after a change of the definition in which a process may still know the old one.
    package init(kindID: Int32, settling: Duration) {
        parameters = PostgresParameters(kindID, settling.wholeMilliseconds)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("over") }
}

/// Progress of the move of a kind's widgets.
package struct KindMove: Hashable, Sendable {
    package let kindID: Int32
    /// When the definition was changed.
    package let startedAt: Timestamp
    /// From 1.
    package let pass: Int
    /// When the pass began, or is to begin.
    package let passBeginsAt: Timestamp
    /// Share of the pass that is done, 0 to 1: of the range of the kind's rows.
    package let passProgress: Double
    /// Widgets moved in this pass, and in all.
    package let moved: Int64
    package let movedInAll: Int64
}

/// Moves that are under way.
package struct ListMoves: PostgresStatement {
    package static let sql = """
        SELECT c.kind_id, c.started_at, c.pass, c.pass_begins_at, c.changed, c.changed_in_all,
               CASE WHEN c.cursor = 0 OR r.last IS NULL THEN 0
                    ELSE least(1, (c.cursor - r.first + 1)::float8 / (r.last - r.first + 1)) END::float8 AS progress
        FROM kind_change c CROSS JOIN LATERAL (
            SELECT min(t.id) AS first, max(t.id) AS last FROM timeline t WHERE t.kind_id = c.kind_id
        ) r
        WHERE NOT c.retires
        ORDER BY c.kind_id
        """

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> KindMove {
        KindMove(
            kindID: try row.value("kind_id"), startedAt: try row.value("started_at"),
            pass: try row.value("pass"), passBeginsAt: try row.value("pass_begins_at"),
            passProgress: max(0, try row.value("progress")), moved: try row.value("changed"),
            movedInAll: try row.value("changed_in_all"))
    }
}
