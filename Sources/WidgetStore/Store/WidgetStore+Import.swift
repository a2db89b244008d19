import PostgresClient
package import WidgetModel

/// A widget of an import, with the kind that its placement names.
package struct ImportedWidget: Sendable {
    package var placement: WidgetPlacement
    package var kind: RegisteredKind
    /// When it was placed, or last changed.
    package var time: Timestamp

    package init(placement: WidgetPlacement, kind: RegisteredKind, time: Timestamp) {
        self.placement = placement
        self.kind = kind
        self.time = time
    }
}

/// What an import wrote.
package struct ImportCounts: Hashable, Sendable {
    /// Widgets written, new or changed.
    package var widgets = 0
    /// Timelines created, or kept from being collected; they are due in the bulk lane.
    package var timelines = 0
    /// Widgets that were left out because what is stored is newer.
    package var older = 0

    package init() {}
}

extension WidgetStore {
    /// How often a chunk is tried that meets a concurrent writer.
    private static let importAttempts = 5

    /// Writes a chunk of widgets in one transaction: COPY into a temporary table, then set by set.
    ///
    /// As with events, an older time never overrides a newer one, and of equal times the later in the chunk wins.
    /// - Throws: `PostgresError`; nothing of the chunk is written then.
    package func importWidgets(_ widgets: [ImportedWidget]) async throws -> ImportCounts {
        let latest = Self.latest(widgets)
        guard !latest.isEmpty else { return ImportCounts() }
        var attempt = 1
        while true {
            do {
                var counts = try await importChunk(latest)
                counts.older += widgets.count - latest.count
                return counts
            } catch let error as PostgresError where error.isRetriable && !error.commitOutcomeUnknown {
                guard attempt < Self.importAttempts else { throw error }
                var generator = SystemRandomNumberGenerator()
                let backoff = Backoff(base: .milliseconds(20), cap: .seconds(1))
                try await Task.sleep(for: backoff.delay(attempt: attempt, using: &generator))
                attempt += 1
            }
        }
    }

    /// One row for each widget: a table cannot be updated from two rows at once.
    private static func latest(_ widgets: [ImportedWidget]) -> [ImportedWidget] {
        struct Key: Hashable {
            let appID: Int32
            let id: [UInt8]
        }
        var positions: [Key: Int] = [:]
        var latest: [ImportedWidget] = []
        for widget in widgets {
            let key = Key(appID: widget.kind.appID, id: Array(widget.placement.widget.utf8))
            guard let position = positions[key] else {
                positions[key] = latest.count
                latest.append(widget)
                continue
            }
            if widget.time >= latest[position].time { latest[position] = widget }
        }
        return latest
    }

    private func importChunk(_ widgets: [ImportedWidget]) async throws -> ImportCounts {
        try await pool.withTransaction { connection in
            // An import may take hours: by now the kind's definition, and so its timelines' identity, may be another.
            let kinds = Dictionary(try await connection.query(ListKinds()).map { ($0.id, $0) }) { $1 }
            let widgets = widgets.map { widget in
                var widget = widget
                widget.kind = kinds[widget.kind.id] ?? widget.kind
                return widget
            }
            try await connection.simple(ImportTable.create)
            _ = try await connection.copyIn(ImportTable.copy, rows: widgets) { widget, row in
                widget.append(to: &row)
            }
            try await connection.simple(ImportTable.analyze)
            var pipeline = PostgresPipeline()
            _ = pipeline.append(LockImportedWidgets())
            let dropped = pipeline.append(DropOlderImports())
            _ = pipeline.append(LockImportedTimelines())
            let placed = pipeline.append(PlaceImportedTimelines())
            _ = pipeline.append(InsertImportedWidgets())
            _ = pipeline.append(UpdateImportedWidgets())
            let departed = pipeline.append(DepartedImportTimelines())
            let results = try await connection.run(pipeline)
            let departures = results.rows(departed)
            if !departures.isEmpty { _ = try await connection.execute(OrphanTimelines(departures)) }
            var counts = ImportCounts()
            counts.older = results.affected(dropped)
            counts.widgets = widgets.count - counts.older
            counts.timelines = Int(results.rows(placed).first ?? 0)
            return counts
        }
    }
}

extension ImportedWidget {
    /// In the order of ``ImportTable/copy``.
    fileprivate func append(to row: inout PostgresCopyRow) {
        let identity = TimelineIdentity(
            app: placement.app, kind: placement.kind, sharing: kind.definition.sharing,
            variesBy: kind.definition.variesBy, family: placement.family, configuration: placement.configuration,
            environment: placement.environment, user: placement.user)
        row.append(placement, of: kind)
        row.append(PostgresTimestamp(time))
        row.append(PostgresUUID(identity.id))
        row.append(identity)
    }
}
