// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
package import WidgetModel

private let kindsToChangeSQL = """
    SELECT c.kind_id FROM kind_change c JOIN kind k ON k.id = c.kind_id JOIN app a ON a.id = k.app_id
    WHERE c.pass_begins_at <= now() AND k.paused_at IS NULL AND a.paused_at IS NULL
        AND \(hasRoomForMarks(kind: "c.kind_id", limit: "$1"))
    ORDER BY row_number() OVER (PARTITION BY k.app_id ORDER BY c.ran_at, c.kind_id), c.ran_at, c.kind_id
    """

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

/// Widgets of a timeline that may have to move.
package struct StrayWidgets: Sendable {
    let timeline: Int64
    /// Nil for all widgets of the timeline, or for a family of a newer version.
    var family: WidgetFamily?
    /// The widgets' own canonical configuration; nil for the timeline's.
    var configuration: String?
}

/// Widgets of a family with one configuration that show a timeline.
package struct ShownConfiguration: Sendable {
    let widgets: StrayWidgets
    /// Canonical configuration of the timeline.
    let shown: String
    let misfits: Int
}

private let configurationsShownSQL = """
    SELECT DISTINCT w.timeline_id, w.family, w.configuration, t.configuration AS shown, w.misfits
    FROM timeline t JOIN widget w ON w.timeline_id = t.id
    WHERE t.kind_id = $1::int4 AND t.id > $2::int8 AND t.id <= $3::int8
    """

private let strayWidgets = InputColumns<StrayWidgets>([
    .init("timeline_id") { $0.timeline }, .init("family") { $0.family }, .init("configuration") { $0.configuration },
])

private let widgetsShowingSQL = """
    SELECT w.app_id, w.id
    FROM \(strayWidgets.rows("s")) CROSS JOIN LATERAL (
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

    /// Locks the change of a kind for one chunk, and answers whether it retires the kind, whether the parameters of its
    /// configuration were changed, and the last row of the pass so far; no row without one, while it waits, or while
    /// another process holds it.
    ///
    /// The transaction must read the kind's definition after it: a change of the definition holds this lock until its
    /// commit, and restarts the move.
    package static func lockKindChange(kindID: Int32) -> PostgresQuery<
        (retires: Bool, configurations: Bool, cursor: Int64)
    > {
        PostgresQuery(
            """
            SELECT c.retires, c.configurations, c.cursor FROM kind_change c JOIN kind k ON k.id = c.kind_id
            WHERE c.kind_id = $1::int4 AND c.pass_begins_at <= now() AND (k.retired_at IS NOT NULL) = c.retires
            FOR NO KEY UPDATE OF c SKIP LOCKED
            """, kindID
        ) { row in
            try (
                retires: row.value("retires"), configurations: row.value("configurations"), cursor: row.value("cursor")
            )
        }
    }

    /// A page of a kind's timelines in row order: their number, which is below the limit at the end, the last one, and
    /// those that their widgets have to leave, ascending. Locks nothing.
    ///
    /// Strays are all of a retired kind, else those of another identity. They include orphaned ones that a widget still
    /// shows, placed by a transaction that the orphaning one did not see.
    package static func kindChangePage(
        kindID: Int32, definition: KindDefinition, retires: Bool, after cursor: Int64, limit: Int
    ) -> PostgresQuery<(examined: Int, last: Int64?, strays: [Int64])> {
        PostgresQuery(kindChangePageSQL, kindID, cursor, limit, retires, definition.identityParts) { row in
            try (examined: row.value("examined"), last: row.optional("last"), strays: row.array("strays"))
        }
    }

    /// The different configurations of the widgets that show a page of a kind's timelines.
    package static func configurationsShown(
        kindID: Int32, after cursor: Int64, through last: Int64
    ) -> PostgresQuery<ShownConfiguration> {
        PostgresQuery(configurationsShownSQL, kindID, cursor, last) { row in
            try ShownConfiguration(
                widgets: StrayWidgets(
                    timeline: row.value("timeline_id"), family: row.family("family"),
                    configuration: row.optional("configuration")),
                shown: row.value("shown"), misfits: row.value("misfits"))
        }
    }

    /// Widgets that show some timelines, in no order and up to a limit: a shared timeline may have millions.
    package static func widgetsShowing(_ strays: [StrayWidgets], limit: Int) -> PostgresQuery<WidgetScope.Name> {
        PostgresQuery(widgetsShowingSQL, binding: strayWidgets.parameters(strays, limit)) { row in
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
    /// known everywhere, so that no process places widgets by an older one. Otherwise another pass begins: at once if
    /// this one changed something, else when the definition is known everywhere.
    ///
    /// - Parameter grace: time for which processes may use the old definition.
    package static func endKindChangePass(kindID: Int32, grace: Duration) -> PostgresQuery<Bool> {
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
            """, kindID, grace.wholeMilliseconds
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

/// Result of one chunk of a kind's change.
package struct KindChunk: Hashable, Sendable {
    /// Widgets removed from timelines or moved to others.
    package var widgets = 0
    /// Timelines that no widget shows any more.
    package var orphans = 0
    /// New timelines.
    package var placed = 0
    /// Whether the change is over.
    package var isEnd = false
}

extension WidgetStore {
    /// Removes the widgets from some timelines of a retired kind, or moves them to timelines of the present identity,
    /// and orphans timelines without widgets. Locks widgets before timelines, like ingest: events before it are seen,
    /// and events after it find the widget moved.
    ///
    /// New timelines are due at once in the bulk lane. A widget's old timeline is read and reloaded until the widget
    /// has moved.
    ///
    /// - Parameters:
    ///   - limit: most timelines to read, and most widgets to change.
    ///   - grace: time for which processes may use the old definition.
    /// - Returns: `nil` if nothing is to change now, another process changes it, or this version cannot read the kind's
    ///   definition or a widget's family, so that the change is left to a newer one.
    /// - Throws: `PostgresError`.
    package func changeChunk(kindID: Int32, limit: Int, grace: Duration) async throws -> KindChunk? {
        try await pool.withTransaction { connection in
            guard let change = try await connection.query(.lockKindChange(kindID: kindID)).first,
                let kind = try await connection.query(.listKinds(id: kindID)).readable.first
            else { return nil }
            let query = Statements.kindChangePage(
                kindID: kindID, definition: kind.definition, retires: change.retires, after: change.cursor,
                limit: limit)
            guard let page = try await connection.query(query).first else { return nil }
            var chunk = KindChunk()
            var isWhole = true
            var strays = page.strays.map { StrayWidgets(timeline: $0) }
            if change.configurations, !change.retires, let last = page.last {
                let shown = Statements.configurationsShown(kindID: kindID, after: change.cursor, through: last)
                let configurations = try await connection.query(shown)
                guard !configurations.contains(where: { $0.widgets.family == nil }) else { return nil }
                strays += configurations.filter { kind.definition.hasOther($0) }.map(\.widgets)
            }
            if !strays.isEmpty {
                let left = try await leave(strays, kind: change.retires ? nil : kind, limit: limit, connection)
                guard let left else { return nil }
                (chunk, isWhole) = left
            }
            // A page with more widgets than the limit is read again; it has fewer then.
            let next = isWhole ? page.last ?? change.cursor : change.cursor
            var pipeline = PostgresPipeline()
            _ = pipeline.append(.advanceKindChange(kindID: kindID, cursor: next, changed: chunk.widgets))
            if isWhole && page.examined < limit {
                let end = pipeline.append(.endKindChangePass(kindID: kindID, grace: grace))
                chunk.isEnd = try await connection.run(pipeline).rows(end).first ?? false
            } else {
                _ = try await connection.run(pipeline)
            }
            return chunk
        }
    }

    /// Removes widgets from timelines. Returns also whether all widgets of the timelines were read; nil, without any
    /// change, if one of them has an unknown family.
    ///
    /// - Parameter kind: kind to whose timelines they move; nil removes them.
    private func leave(
        _ strays: [StrayWidgets], kind: RegisteredKind?, limit: Int, _ connection: PostgresConnection
    ) async throws -> (KindChunk, Bool)? {
        let timelines = Set(strays.map(\.timeline))
        let found = try await connection.query(.widgetsShowing(strays, limit: limit + 1))
        let shown = Array(found.prefix(limit))
        var chunk = KindChunk()
        var marks = MarkInput()
        marks.departed = timelines.sorted()
        marks.revivalLane = .bulk
        if !shown.isEmpty {
            if let kind {
                guard let revived = try await move(shown, off: timelines, to: kind, &chunk, connection) else {
                    return nil
                }
                marks.revived = revived
            } else {
                chunk.widgets = try await remove(shown, from: timelines.sorted(), connection)
            }
        }
        var pipeline = PostgresPipeline()
        _ = pipeline.append(.markTimelines(marks, limit: 0))
        let orphaned = pipeline.append(.orphanTimelines(timelines.sorted()))
        chunk.orphans = Int(try await connection.run(pipeline).rows(orphaned).first ?? 0)
        return (chunk, found.count <= limit || chunk.widgets == 0)
    }

    /// Removes widgets from timelines and from their owners' stacks, and returns their number. Locks people before
    /// widgets, like ingest.
    private func remove(
        _ shown: [WidgetScope.Name], from timelines: [Int64], _ connection: PostgresConnection
    ) async throws -> Int {
        let owners = try await connection.query(.ownersOfWidgets(shown))
        var pipeline = PostgresPipeline()
        let people = pipeline.append(.readPeople(owners))
        _ = pipeline.append(.lockWidgets(WidgetScope(widgets: shown)))
        let removed = pipeline.append(.removeWidgets(shown, from: timelines))
        let results = try await connection.run(pipeline)
        let widgets = Set(shown.map { Array($0.id.utf8) })
        var writes: [PersonWrite] = []
        for person in results.rows(people) {
            // The stacks of a person whose state cannot be read stay as they are. The app is not part of the stored
            // form.
            guard var record = PersonRecord(app: "", habits: nil, arrangement: person.arrangement) else { continue }
            let members = record.stacks.flatMap(\.arrangement.widgets).filter { widgets.contains(Array($0.utf8)) }
            guard !members.isEmpty else { continue }
            for widget in members {
                _ = record.remove(widget: widget, at: .distantPast, isOrderedByArrival: true)
            }
            writes.append(
                PersonWrite(appID: person.appID, user: person.user, arrangement: record.storedArrangement))
        }
        if !writes.isEmpty { _ = try await connection.query(.writePeople(writes)) }
        return results.affected(removed)
    }

    /// Moves widgets and returns the rows to revive; nil, without any change, if a widget has an unknown family.
    private func move(
        _ shown: [WidgetScope.Name], off strays: Set<Int64>, to kind: RegisteredKind, _ chunk: inout KindChunk,
        _ connection: PostgresConnection
    ) async throws -> [Int64]? {
        let scope = WidgetScope(widgets: shown)
        var reading = PostgresPipeline()
        _ = reading.append(.lockWidgets(scope))
        let stored = reading.append(.readWidgets(scope))
        var placements: [TimelineID: TimelinePlacement] = [:]
        var moves: [(widget: StoredWidget, resolved: ResolvedPlacement)] = []
        for widget in try await connection.run(reading).rows(stored) {
            // The widget may be gone since, or show the right timeline already.
            guard let old = widget.timeline, strays.contains(old.row), widget.kindID == kind.id else { continue }
            guard let placement = widget.placement(app: kind.app, kind: kind.definition.name) else { return nil }
            let resolved = kind.definition.resolve(placement)
            let id = resolved.identity.id
            guard id != old.id || resolved.problems.count != widget.misfits else { continue }
            if id != old.id {
                placements[id] = TimelinePlacement(
                    id: id, kindID: kind.id, identity: resolved.identity, lane: .bulk, cause: nil, reason: .placed)
            }
            moves.append((widget, resolved))
        }
        let placed = try await connection.place(Array(placements.values))
        let writes = moves.map { widget, resolved in
            WidgetWrite(
                appID: widget.appID, id: widget.id, kindID: kind.id, family: resolved.placement.family,
                timelineID: placed.rows[resolved.identity.id] ?? widget.timeline?.row, user: widget.user,
                device: widget.device,
                environment: widget.environment, configuration: resolved.configuration,
                misfits: resolved.problems.count,
                changedAt: widget.changedAt)
        }
        if !writes.isEmpty { _ = try await connection.query(.updateWidgets(writes)) }
        chunk.widgets = writes.count
        chunk.placed = placed.inserted
        return placed.stale
    }
}

extension WidgetStore {
    /// Most timelines that are compared to count those that a changed intent moves.
    private static let comparedTimelines = 100_000

    /// Timelines that widgets of a kind leave by a definition with other parameters.
    ///
    /// - Returns: their number among those that are compared, and whether there may be more.
    func countMoving(
        kindID: Int32, to definition: KindDefinition, _ connection: PostgresConnection
    ) async throws -> (count: Int, isMinimum: Bool) {
        var (count, compared, cursor) = (0, 0, Int64(0))
        while compared < Self.comparedTimelines {
            let query = Statements.kindChangePage(
                kindID: kindID, definition: definition, retires: false, after: cursor, limit: 10_000)
            guard let page = try await connection.query(query).first, let last = page.last else {
                return (count, false)
            }
            let shown = Statements.configurationsShown(kindID: kindID, after: cursor, through: last)
            let others = try await connection.query(shown).filter { definition.compare($0).isElsewhere }
            count += Set(page.strays).union(others.map(\.widgets.timeline)).count
            compared += page.examined
            cursor = last
        }
        return (count, true)
    }
}

extension KindDefinition {
    /// Whether widgets of a configuration have to show another timeline, or have other misfits.
    fileprivate func hasOther(_ configuration: ShownConfiguration) -> Bool {
        let comparison = compare(configuration)
        return comparison.isElsewhere || comparison.misfits != configuration.misfits
    }

    /// Whether widgets of a configuration have to show another timeline, and the number of their misfits.
    fileprivate func compare(_ configuration: ShownConfiguration) -> (isElsewhere: Bool, misfits: Int) {
        let widgets = configuration.widgets
        let given = WidgetConfiguration(storedCanonical: widgets.configuration ?? configuration.shown)
        let resolution = widgets.family.flatMap { intent?.resolve(given, family: $0) }
        return (
            !Text.equal((resolution?.effective ?? given).canonical, configuration.shown),
            resolution?.problems.count ?? 0
        )
    }
}
