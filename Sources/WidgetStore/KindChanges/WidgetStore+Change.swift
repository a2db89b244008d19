import PostgresClient
import WidgetModel

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
    ///   - settling: time for which processes may use the old definition.
    /// - Returns: `nil` if nothing is to change now, another process changes it, or this version cannot read the kind's
    ///   definition or a widget's family, so that the change is left to a newer one.
    /// - Throws: `PostgresError`.
    package func changeChunk(kindID: Int32, limit: Int, settling: Duration) async throws -> KindChunk? {
        try await pool.withTransaction { connection in
            guard let change = try await connection.query(.lockKindChange(kindID: kindID)).first,
                let kind = try await connection.query(.listKinds(id: kindID)).readable.first
            else { return nil }
            let query = Statements.kindChangePage(kind, retires: change.retires, after: change.cursor, limit: limit)
            guard let page = try await connection.query(query).first else { return nil }
            var chunk = KindChunk()
            var isWhole = true
            var strays = page.strays.map { StrayWidgets(timeline: $0) }
            if change.configurations, !change.retires, let last = page.last {
                let shown = Statements.configurationsShown(kindID: kindID, after: change.cursor, through: last)
                let configurations = try await connection.query(shown)
                guard !configurations.contains(where: { $0.family == nil }) else { return nil }
                strays += configurations.filter { kind.definition.hasOther($0) }.map {
                    StrayWidgets(timeline: $0.timeline, family: $0.family, configuration: $0.configuration)
                }
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
                let end = pipeline.append(.endKindChangePass(kindID: kindID, settling: settling))
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

extension KindDefinition {
    /// Whether widgets of a configuration have to show another timeline, or have other misfits.
    fileprivate func hasOther(_ configuration: ShownConfiguration) -> Bool {
        let given = WidgetConfiguration(storedCanonical: configuration.configuration ?? configuration.shown)
        let resolution = configuration.family.flatMap { intent?.resolve(given, family: $0) }
        return !Text.equal((resolution?.effective ?? given).canonical, configuration.shown)
            || resolution?.problems.count ?? 0 != configuration.misfits
    }
}
