import PostgresClient
import WidgetModel

/// Result of one chunk of a kind's change.
package struct KindChunk: Hashable, Sendable {
    /// Widgets removed from their timelines, or moved to others.
    package var widgets = 0
    /// Timelines that no widget shows any more.
    package var orphans = 0
    /// Timelines that were made.
    package var placed = 0
    /// Whether the change is over.
    package var isEnd = false
}

extension WidgetStore {
    /// Takes the widgets off some timelines of a retired kind, or moves them to the timelines of the definition's identity,
    /// and leaves those to be collected that no widget shows any more. Widgets are locked before timelines, as ingest
    /// does: a change that an event made meanwhile is seen, and one that comes afterwards finds the widget moved.
    ///
    /// New timelines are due at once in the bulk lane. Until its widget has moved, the old one is read and reloaded as
    /// ever.
    ///
    /// - Parameters:
    ///   - limit: the most timelines to look at, and the most widgets to change.
    ///   - settling: time after a change of the definition in which a process may still know the old one.
    /// - Returns: `nil` when there is nothing to change now, or another process does.
    /// - Throws: `PostgresError`.
    package func changeChunk(kindID: Int32, limit: Int, settling: Duration) async throws -> KindChunk? {
        try await pool.withTransaction { connection in
            guard let change = try await connection.query(.lockKindChange(kindID: kindID)).first,
                let kind = try await connection.query(.listKinds(id: kindID)).first
            else { return nil }
            let query = Statements.kindChangePage(
                kind, isWhole: change.retires || kind.definition.intent != nil, after: change.cursor, limit: limit)
            guard let page = try await connection.query(query).first else { return nil }
            var chunk = KindChunk()
            var isWhole = true
            if !page.strays.isEmpty {
                (chunk, isWhole) = try await leave(
                    page.strays, kind: change.retires ? nil : kind, limit: limit, connection)
            }
            // A page with more widgets than the limit is looked at again; they are fewer then.
            let next = isWhole ? page.last ?? change.cursor : change.cursor
            var pipeline = PostgresPipeline()
            _ = pipeline.append(.advanceKindChange(kindID: kindID, cursor: next, changed: chunk.widgets))
            if isWhole && page.examined < limit {
                let end = pipeline.append(.endKindChangePass(kindID: kindID, settling: settling))
                chunk.isEnd = try await connection.run(pipeline).rows(end).first ?? false
            } else {
                _ = try await connection.run(pipeline)
            }
            return chunk
        }
    }

    /// Takes widgets off timelines; answers also whether all widgets of the timelines were looked at.
    ///
    /// - Parameter kind: the kind to whose timelines they move; nil: they are removed.
    private func leave(
        _ strays: [Int64], kind: RegisteredKind?, limit: Int, _ connection: PostgresConnection
    ) async throws -> (KindChunk, Bool) {
        let found = try await connection.query(.widgetsShowing(strays, limit: limit + 1))
        let shown = Array(found.prefix(limit))
        var chunk = KindChunk()
        var marks = MarkInput()
        marks.departed = strays
        marks.revivalLane = .bulk
        if !shown.isEmpty {
            if let kind {
                marks.revived = try await move(shown, off: Set(strays), to: kind, &chunk, connection)
            } else {
                var pipeline = PostgresPipeline()
                _ = pipeline.append(.lockWidgets(WidgetScope(widgets: shown)))
                let removed = pipeline.append(.removeWidgets(shown, from: strays))
                chunk.widgets = try await connection.run(pipeline).affected(removed)
            }
        }
        var pipeline = PostgresPipeline()
        _ = pipeline.append(.markTimelines(marks, limit: 0))
        let orphaned = pipeline.append(.orphanTimelines(strays))
        chunk.orphans = Int(try await connection.run(pipeline).rows(orphaned).first ?? 0)
        return (chunk, found.count <= limit || chunk.widgets == 0)
    }

    /// Answers rows to be revived.
    private func move(
        _ shown: [WidgetScope.Name], off strays: Set<Int64>, to kind: RegisteredKind, _ chunk: inout KindChunk,
        _ connection: PostgresConnection
    ) async throws -> [Int64] {
        let scope = WidgetScope(widgets: shown)
        var reading = PostgresPipeline()
        _ = reading.append(.lockWidgets(scope))
        let stored = reading.append(.readWidgets(scope))
        var placements: [TimelineID: TimelinePlacement] = [:]
        var moves: [(widget: StoredWidget, identity: TimelineIdentity, id: TimelineID)] = []
        for widget in try await connection.run(reading).rows(stored) {
            // It may have gone meanwhile, or show the right timeline already.
            guard let old = widget.timeline, strays.contains(old.row), widget.kindID == kind.id else { continue }
            let identity = kind.definition.identity(of: widget.placement(app: kind.app, kind: kind.definition.name))
            let id = identity.id
            guard id != old.id else { continue }
            placements[id] = TimelinePlacement(
                id: id, kindID: kind.id, identity: identity, lane: .bulk, cause: nil, reason: .placed)
            moves.append((widget, identity, id))
        }
        let placed = try await connection.place(Array(placements.values))
        let writes = moves.map { widget, identity, id in
            let isEffective = Text.equal(identity.configuration.canonical, widget.configuration)
            return WidgetWrite(
                appID: widget.appID, id: widget.id, kindID: kind.id, family: widget.family, timelineID: placed.rows[id],
                user: widget.user, device: widget.device, environment: widget.environment,
                configuration: isEffective ? nil : widget.configuration, changedAt: widget.changedAt)
        }
        if !writes.isEmpty { _ = try await connection.query(.updateWidgets(writes)) }
        chunk.widgets = writes.count
        chunk.placed = placed.inserted
        return placed.stale
    }
}
