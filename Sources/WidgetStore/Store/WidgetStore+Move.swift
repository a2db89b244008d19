import PostgresClient
import WidgetModel

extension WidgetStore {
    /// Moves some widgets of a kind to the timelines of its definition's identity, and leaves those timelines to be
    /// collected that nobody shows any more. Locks widgets before timelines, both in key order, as ingest does: what an
    /// event changed meanwhile is seen, and what one changes afterwards finds the widget moved.
    ///
    /// New timelines are due at once in the bulk lane. Until its widget has moved, the old one is read and reloaded as
    /// ever.
    ///
    /// - Parameters:
    ///   - limit: the most timelines to look at, and the most widgets to move.
    ///   - settling: how long after a change of the definition a process may still know the old one.
    /// - Returns: `nil` when there is nothing to move now, or another process does.
    /// - Throws: `PostgresError`.
    package func moveChunk(kindID: Int32, limit: Int, settling: Duration) async throws -> KindChunk? {
        try await pool.withTransaction { connection in
            guard let cursor = try await connection.query(LockMove(kindID: kindID)).first,
                let kind = try await connection.query(ReadKind(id: kindID)).first
            else { return nil }
            let query = MovePage(kindID: kindID, definition: kind.definition, after: cursor, limit: limit)
            guard let page = try await connection.query(query).first else { return nil }
            var chunk = KindChunk(isProgress: true)
            var isWhole = true
            if !page.strays.isEmpty {
                (chunk, isWhole) = try await move(kind, off: page.strays, limit: limit, connection)
            }
            var pipeline = PostgresPipeline()
            // A page with more widgets than the limit is looked at again; they are fewer then.
            let next = isWhole ? page.last ?? cursor : cursor
            _ = pipeline.append(AdvanceMove(kindID: kindID, cursor: next, moved: chunk.widgets))
            if isWhole && page.examined < limit {
                let end = pipeline.append(EndMovePass(kindID: kindID, settling: settling))
                chunk.isEnd = try await connection.run(pipeline).rows(end).first ?? false
            } else {
                _ = try await connection.run(pipeline)
            }
            return chunk
        }
    }

    /// Answers also whether all widgets of the timelines were looked at.
    private func move(
        _ kind: RegisteredKind, off strays: [TimelineID], limit: Int, _ connection: PostgresConnection
    ) async throws -> (KindChunk, Bool) {
        let found = try await connection.query(WidgetsShowing(strays, limit: limit + 1))
        let shown = Array(found.prefix(limit))
        let scope = WidgetScope(widgets: shown, devices: [], deviceLimit: 0)
        var placements: [TimelineID: TimelinePlacement] = [:]
        var writes: [WidgetWrite] = []
        if !shown.isEmpty {
            var pipeline = PostgresPipeline()
            _ = pipeline.append(LockWidgets(scope))
            let stored = pipeline.append(ReadWidgets(scope))
            for widget in try await connection.run(pipeline).rows(stored) {
                guard let write = moved(widget, to: kind, &placements) else { continue }
                writes.append(write)
            }
        }
        var pipeline = PostgresPipeline()
        _ = pipeline.append(LockTimelines(strays + placements.keys))
        let placed = placements.isEmpty ? nil : pipeline.append(PlaceTimelines(Array(placements.values)))
        if !writes.isEmpty { _ = pipeline.append(UpdateWidgets(writes)) }
        let orphans = pipeline.append(OrphanTimelines(strays))
        let results = try await connection.run(pipeline)
        var chunk = KindChunk(widgets: writes.count, orphans: results.affected(orphans))
        chunk.placed = Int(placed.flatMap { results.rows($0).first } ?? 0)
        chunk.isProgress = true
        return (chunk, found.count <= limit || writes.isEmpty)
    }

    /// What to write for a widget, whose row is locked; nil when it has gone, or shows the right timeline already.
    private func moved(
        _ widget: StoredWidget, to kind: RegisteredKind, _ placements: inout [TimelineID: TimelinePlacement]
    ) -> WidgetWrite? {
        guard let old = widget.timelineID, widget.kindID == kind.id else { return nil }
        let identity = TimelineIdentity(
            app: kind.app, kind: kind.definition.name, sharing: kind.definition.sharing,
            variesBy: kind.definition.variesBy, family: widget.family,
            configuration: WidgetConfiguration(storedCanonical: widget.configuration),
            environment: widget.environment, user: widget.user)
        let id = identity.id
        guard id != old else { return nil }
        placements[id] = TimelinePlacement(
            id: id, kindID: kind.id, identity: identity, lane: .bulk, cause: nil, reason: .placed)
        return WidgetWrite(
            appID: widget.appID, id: widget.id, kindID: kind.id, family: widget.family, timelineID: id,
            user: widget.user, device: widget.device, environment: widget.environment, changedAt: widget.changedAt)
    }
}
