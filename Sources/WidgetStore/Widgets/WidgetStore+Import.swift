import PostgresClient
package import WidgetModel

/// A widget of an import, with the kind of its placement.
package struct ImportedWidget: Sendable {
    fileprivate var placement: WidgetPlacement { resolved.placement }
    fileprivate let kind: RegisteredKind
    /// Time of its placement or last change.
    fileprivate var time: Timestamp
    /// Resolved by the kind's definition, before the transaction.
    fileprivate let resolved: ResolvedPlacement

    package init(placement: WidgetPlacement, kind: RegisteredKind, time: Timestamp) {
        self.kind = kind
        self.time = time
        resolved = kind.definition.resolve(placement)
    }

    /// First violation of the kind's definition.
    package var problem: ModelError? { kind.definition.problem(with: resolved) }
}

/// Counts of an import.
package struct ImportCounts: Hashable, Sendable {
    /// New and changed widgets.
    package var widgets = 0
    /// Written stacks.
    package var stacks = 0
    /// New timelines, due in the bulk lane.
    package var timelines = 0
    /// Skipped widgets and stacks, for which newer states are stored.
    package var older = 0

    package init() {}

    package static func += (counts: inout ImportCounts, others: ImportCounts) {
        counts.widgets += others.widgets
        counts.stacks += others.stacks
        counts.timelines += others.timelines
        counts.older += others.older
    }
}

extension WidgetStore {
    /// Attempts for a chunk that conflicts with concurrent writers.
    private static let importAttempts = 5

    /// Writes a chunk of widgets in one transaction.
    ///
    /// As with events, an older time never overrides a newer one, the later of equal times wins, and no time is after the
    /// database's.
    /// - Throws: `PostgresError`, and ``KindConflict`` for a kind with an unreadable definition; without effect.
    package func importWidgets(_ widgets: [ImportedWidget]) async throws -> ImportCounts {
        guard !widgets.isEmpty, let now = try await pool.query(.databaseTime()).first else { return ImportCounts() }
        var widgets = widgets
        for index in widgets.indices { widgets[index].time = min(widgets[index].time, now) }
        // The latest row of each widget: an `UPDATE` takes one row from its input.
        let byKey = Dictionary(widgets.map { (ScopedIdentifier($0.kind.appID, $0.placement.widget), $0) }) {
            $1.time >= $0.time ? $1 : $0
        }
        let latest = Array(byKey.values)
        var counts = try await retryingConflicts(attempts: Self.importAttempts, isIdempotent: false) {
            try await importChunk(latest)
        }
        counts.older += widgets.count - latest.count
        return counts
    }

    private func importChunk(_ widgets: [ImportedWidget]) async throws -> ImportCounts {
        try await pool.withTransaction { connection in
            // During an import of hours the kinds' definitions may change.
            let stored = try await connection.query(.listKinds())
            let kinds = Dictionary(stored.readable.map { ($0.id, $0) }) { $1 }
            for kind in stored.unreadable where widgets.contains(where: { $0.kind.id == kind.id }) {
                throw KindConflict(app: kind.app, kind: kind.name, message: kind.message)
            }
            let scope = WidgetScope(widgets: widgets.map { (appID: $0.kind.appID, id: $0.placement.widget) })
            var reading = PostgresPipeline()
            _ = reading.append(.lockWidgets(scope))
            let read = reading.append(.readWidgets(scope))
            let clock = reading.append(.databaseTime())
            let results = try await connection.run(reading)
            var chunk = ImportChunk(stored: results.rows(read), now: results.rows(clock).first ?? .distantFuture)
            var isUnchanged: [Int32: Bool] = [:]
            for widget in widgets {
                let kind = kinds[widget.kind.id] ?? widget.kind
                let isSame = isUnchanged[kind.id] ?? (kind.definition == widget.kind.definition)
                isUnchanged[kind.id] = isSame
                chunk.add(widget, kind: kind, isResolved: isSame)
            }
            guard !chunk.placements.isEmpty else { return chunk.counts }

            let placed = try await connection.place(Array(chunk.placements.values))
            chunk.counts.timelines = placed.inserted
            var pipeline = PostgresPipeline()
            _ = pipeline.append(.insertWidgets(chunk.inserts.map { $0.write(placed.rows) }))
            _ = pipeline.append(.updateWidgets(chunk.updates.map { $0.write(placed.rows) }))
            var marks = MarkInput()
            marks.revived = placed.stale
            marks.revivalLane = .bulk
            marks.departed = Array(chunk.departed)
            if !marks.isEmpty {
                _ = pipeline.append(.markTimelines(marks, limit: 0))
                _ = pipeline.append(.orphanTimelines(marks.departed))
            }
            _ = try await connection.run(pipeline)
            return chunk.counts
        }
    }
}

/// The writes of one chunk of an import.
private struct ImportChunk {
    struct Change {
        let widget: ImportedWidget
        let timeline: TimelineID
        let resolved: ResolvedPlacement

        func write(_ rows: [TimelineID: Int64]) -> WidgetWrite {
            let placement = resolved.placement
            return WidgetWrite(
                appID: widget.kind.appID, id: placement.widget, kindID: widget.kind.id, family: placement.family,
                timelineID: rows[timeline], user: placement.user, device: placement.device,
                environment: placement.environment, configuration: resolved.configuration,
                misfits: resolved.problems.count, changedAt: widget.time)
        }
    }

    private let stored: [ScopedIdentifier: StoredWidget]
    private let now: Timestamp
    var counts = ImportCounts()
    var placements: [TimelineID: TimelinePlacement] = [:]
    var inserts: [Change] = []
    var updates: [Change] = []
    /// Rows of timelines that widgets stop showing.
    var departed: Set<Int64> = []

    init(stored: [StoredWidget], now: Timestamp) {
        self.now = now
        self.stored = Dictionary(stored.map { (ScopedIdentifier($0.appID, $0.id), $0) }) { $1 }
    }

    /// Adds a widget.
    ///
    /// - Parameter isResolved: whether the widget was resolved by the present definition.
    mutating func add(_ widget: ImportedWidget, kind: RegisteredKind, isResolved: Bool) {
        var (resolved, placement) = (widget.resolved, widget.placement)
        let old = stored[ScopedIdentifier(kind.appID, widget.placement.widget)]
        if let old, old.changedAt.usable(at: now) > widget.time {
            counts.older += 1
            return
        }
        if let old, old.kindID == kind.id, Text.equal(old.user, placement.user), let intent = kind.definition.intent {
            placement.configuration = intent.completed(
                placement.configuration, from: WidgetConfiguration(storedCanonical: old.configuration))
        }
        if !isResolved || placement != resolved.placement { resolved = kind.definition.resolve(placement) }
        let id = resolved.identity.id
        placements[id] = TimelinePlacement(
            id: id, kindID: kind.id, identity: resolved.identity, lane: .bulk, cause: nil, reason: .placed)
        if let shown = old?.timeline, shown.id != id { departed.insert(shown.row) }
        let change = Change(widget: widget, timeline: id, resolved: resolved)
        if old == nil { inserts.append(change) } else { updates.append(change) }
        counts.widgets += 1
    }
}
