package import PostgresClient
package import WidgetModel

private let kindsToChangeSQL = """
    SELECT c.kind_id FROM kind_change c JOIN kind k ON k.id = c.kind_id JOIN app a ON a.id = k.app_id
    WHERE c.pass_begins_at <= now() AND k.paused_at IS NULL AND a.paused_at IS NULL
        AND \(SweepRoom.ofMarks(kind: "c.kind_id", limit: "$1"))
    ORDER BY row_number() OVER (PARTITION BY k.app_id ORDER BY c.ran_at, c.kind_id), c.ran_at, c.kind_id
    """

package struct KindChangePage: Hashable, Sendable {
    /// Number of timelines read; below the limit at the end.
    package let examined: Int
    package let last: Int64?
    /// Timelines that their widgets have to leave, ascending: all of a retired kind, else those of another identity.
    /// Includes orphaned ones that a widget still shows, placed by a transaction that the orphaning one did not see.
    package let strays: [Int64]
}

private let kindChangePageSQL = """
    WITH page AS MATERIALIZED (
        SELECT t.id, ($4::bool OR \(isStray("$5")))
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

package struct KindChangeState: Hashable, Sendable {
    package let retires: Bool
    /// Whether the parameters of the kind's configuration were changed.
    package let configurations: Bool
    /// Last row of the pass so far.
    package let cursor: Int64
}

/// A configuration of widgets of a family that show a timeline.
package struct ShownConfiguration: Hashable, Sendable {
    package let timeline: Int64
    /// Nil for a family of a newer version.
    package let family: WidgetFamily?
    /// Canonical configuration of their own; nil for the timeline's.
    package let configuration: String?
    /// Configuration of the timeline.
    package let shown: String
    package let misfits: Int
}

private let configurationsShownSQL = """
    SELECT DISTINCT w.timeline_id, w.family, w.configuration, t.configuration AS shown, w.misfits
    FROM timeline t JOIN widget w ON w.timeline_id = t.id
    WHERE t.kind_id = $1::int4 AND t.id > $2::int8 AND t.id <= $3::int8
    """

/// Widgets of a timeline that may have to move.
package struct StrayWidgets: Hashable, Sendable {
    package var timeline: Int64
    /// Limits the widgets to a family with this configuration of their own; nil for all.
    package var family: WidgetFamily?
    package var configuration: String?

    fileprivate static let input = InputColumns<StrayWidgets>([
        .init("timeline_id") { $0.timeline }, .init("family") { $0.family },
        .init("configuration") { $0.configuration },
    ])
}

private let widgetsShowingSQL = """
    SELECT w.app_id, w.id
    FROM \(StrayWidgets.input.rows("s")) CROSS JOIN LATERAL (
        SELECT w.app_id, w.id FROM widget w
        WHERE w.timeline_id = s.timeline_id AND (
            s.family IS NULL OR w.family = s.family AND w.configuration IS NOT DISTINCT FROM s.configuration)
        LIMIT $4::int8
    ) w
    LIMIT $4::int8
    """

private let removeWidgetsSQL = """
    UPDATE widget w SET timeline_id = NULL, configuration = NULL, misfits = 0
    FROM \(WidgetScope.widgets.rows("i"))
    WHERE w.app_id = i.app_id AND w.id = i.id AND w.timeline_id = ANY ($3::int8[])
    """

/// Progress of the move of a kind's widgets.
package struct KindMove: Hashable, Sendable {
    package let kindID: Int32
    /// Time of the definition's change.
    package let startedAt: Timestamp
    /// From 1.
    package let pass: Int
    /// Begin of the pass.
    package let passBeginsAt: Timestamp
    /// Finished share of the range of the kind's rows, 0 to 1.
    package let passProgress: Double
    /// Widgets moved in this pass, and in all passes.
    package let moved: Int64
    package let movedInAll: Int64
}

extension PostgresStatement where Self == Statements {
    /// Kinds that a sweeper has to change now and that have fewer ready bulk lists than a limit, in turns between apps;
    /// of an app, those first whose latest chunk is longest ago.
    package static func kindsToChange(maximumLists: Int) -> PostgresQuery<Int32> {
        PostgresQuery(kindsToChangeSQL, maximumLists) { row in try row.value("kind_id") }
    }

    /// Locks the change of a kind for one chunk; no row without one, while it waits, or while another process holds it.
    ///
    /// The transaction must read the kind's definition after it: a change of the definition holds this lock until its
    /// commit, and restarts the move.
    package static func lockKindChange(kindID: Int32) -> PostgresQuery<KindChangeState> {
        PostgresQuery(
            """
            SELECT c.retires, c.configurations, c.cursor FROM kind_change c JOIN kind k ON k.id = c.kind_id
            WHERE c.kind_id = $1::int4 AND c.pass_begins_at <= now() AND (k.retired_at IS NOT NULL) = c.retires
            FOR NO KEY UPDATE OF c SKIP LOCKED
            """, kindID
        ) { row in
            try KindChangeState(
                retires: row.value("retires"), configurations: row.value("configurations"), cursor: row.value("cursor"))
        }
    }

    /// A page of a kind's timelines in row order, with those that their widgets have to leave. Locks nothing.
    package static func kindChangePage(_ kind: RegisteredKind, retires: Bool, after cursor: Int64, limit: Int)
        -> PostgresQuery<KindChangePage>
    {
        PostgresQuery(kindChangePageSQL, kind.id, cursor, limit, retires, kind.definition.identityParts) { row in
            try KindChangePage(examined: row.value("examined"), last: row.optional("last"), strays: row.array("strays"))
        }
    }

    /// The different configurations of the widgets that show a page of a kind's timelines.
    package static func configurationsShown(
        kindID: Int32, after cursor: Int64, through last: Int64
    ) -> PostgresQuery<ShownConfiguration> {
        PostgresQuery(configurationsShownSQL, kindID, cursor, last) { row in
            try ShownConfiguration(
                timeline: row.value("timeline_id"), family: row.family("family"),
                configuration: row.optional("configuration"), shown: row.value("shown"), misfits: row.value("misfits"))
        }
    }

    /// Widgets that show some timelines, in no order and up to a limit: a shared timeline may have millions.
    package static func widgetsShowing(_ strays: [StrayWidgets], limit: Int) -> PostgresQuery<WidgetScope.Name> {
        PostgresQuery(widgetsShowingSQL, binding: StrayWidgets.input.parameters(strays, limit)) { row in
            try (appID: row.value("app_id"), id: row.value("id"))
        }
    }

    /// Removes widgets from timelines, like a removal by the person; each stays as a tombstone that older events must
    /// not override. The transaction must have locked the rows.
    package static func removeWidgets(_ widgets: [WidgetScope.Name], from timelines: [Int64]) -> PostgresQuery<Void> {
        PostgresQuery(removeWidgetsSQL, binding: WidgetScope.widgets.parameters(widgets, PostgresArray(timelines)))
    }

    /// Moves the cursor of a pass, after a chunk.
    package static func advanceKindChange(kindID: Int32, cursor: Int64, changed: Int) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            UPDATE kind_change
            SET cursor = $2::int8, changed = changed + $3::int8, changed_in_all = changed_in_all + $3::int8,
                ran_at = clock_timestamp()
            WHERE kind_id = $1::int4
            """, kindID, cursor, changed
        )
    }

    /// Puts the change of a kind behind the others of its app, after a chunk that failed.
    package static func postponeKindChange(kindID: Int32) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE kind_change SET ran_at = clock_timestamp() WHERE kind_id = $1::int4", kindID)
    }

    /// Ends a pass and returns whether the change is over: the pass changed nothing and began after the definition had
    /// settled, so that no process places widgets by an older one. Otherwise another pass begins: at once if this one
    /// changed something, else when the definition has settled.
    ///
    /// - Parameter settling: time for which processes may use the old definition.
    package static func endKindChangePass(kindID: Int32, settling: Duration) -> PostgresQuery<Bool> {
        PostgresQuery(
            """
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
            """, kindID, settling.wholeMilliseconds
        ) { row in try row.value("over") }
    }

    /// The moves under way.
    package static func listMoves() -> PostgresQuery<KindMove> {
        PostgresQuery(
            """
            SELECT c.kind_id, c.started_at, c.pass, c.pass_begins_at, c.changed, c.changed_in_all,
                   CASE WHEN c.cursor = 0 OR r.last IS NULL THEN 0
                        ELSE least(1, (c.cursor - r.first + 1)::float8 / (r.last - r.first + 1)) END::float8 AS progress
            FROM kind_change c CROSS JOIN LATERAL (
                SELECT min(t.id) AS first, max(t.id) AS last FROM timeline t WHERE t.kind_id = c.kind_id
            ) r
            WHERE NOT c.retires
            ORDER BY c.kind_id
            """
        ) { row in
            try KindMove(
                kindID: row.value("kind_id"), startedAt: row.value("started_at"), pass: row.value("pass"),
                passBeginsAt: row.value("pass_begins_at"), passProgress: max(0, row.value("progress")),
                moved: row.value("changed"), movedInAll: row.value("changed_in_all"))
        }
    }
}
