// SPDX-License-Identifier: Apache-2.0

import JSON
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

    /// Violations of the kind's definition.
    package var problems: [ModelError] { kind.definition.problems(with: resolved) }
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
    /// As with events, an older time never overrides a newer one, the later of equal times wins, and no time is after
    /// the database's.
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
            _ = pipeline.append(.insertWidgets(ImportChunk.writes(chunk.inserts, placed.rows)))
            _ = pipeline.append(.updateWidgets(ImportChunk.writes(chunk.updates, placed.rows)))
            var marks = MarkInput()
            marks.revived = placed.stale
            marks.revivalLane = .bulk
            marks.departed = Array(chunk.departed)
            if !marks.isEmpty {
                _ = pipeline.append(.markTimelines(marks, limit: 0))
                _ = pipeline.append(.orphanTimelines(marks.departed))
            }
            _ = pipeline.append(.recordPlaceholders(chunk.placeholders.map { (key: $0, renews: false) }))
            _ = try await connection.run(pipeline)
            return chunk.counts
        }
    }
}

/// The writes of one chunk of an import.
private struct ImportChunk {
    typealias Change = (widget: ImportedWidget, timeline: TimelineID, resolved: ResolvedPlacement)

    private let stored: [ScopedIdentifier: StoredWidget]
    private let now: Timestamp
    var counts = ImportCounts()
    var placements: [TimelineID: TimelinePlacement] = [:]
    var inserts: [Change] = []
    var updates: [Change] = []
    /// Rows of timelines that widgets stop showing.
    var departed: Set<Int64> = []
    var placeholders: Set<PlaceholderKey> = []

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
        let change = (widget: widget, timeline: id, resolved: resolved)
        if old == nil { inserts.append(change) } else { updates.append(change) }
        placeholders.insert(PlaceholderKey(kind: kind, family: placement.family, environment: placement.environment))
        counts.widgets += 1
    }

    /// The widgets' rows, by the primary keys of their timelines.
    static func writes(_ changes: [Change], _ rows: [TimelineID: Int64]) -> [WidgetWrite] {
        changes.map { widget, timeline, resolved in
            let placement = resolved.placement
            return WidgetWrite(
                appID: widget.kind.appID, id: placement.widget, kindID: widget.kind.id, family: placement.family,
                timelineID: rows[timeline], user: placement.user, device: placement.device,
                environment: placement.environment, configuration: resolved.configuration,
                misfits: resolved.problems.count, changedAt: widget.time)
        }
    }
}

/// A widget of a synthetic population with a timeline of its own, rendered and quiet.
package struct FilledWidget: Sendable {
    package var placement: WidgetPlacement
    package var identity: TimelineIdentity
    package var kind: RegisteredKind
    /// Canonical JSON of policy and entries; nil without content.
    package var content: String?
    package var hash: ContentHash
    /// Delay of the policy's next reload; nil without one.
    package var nextReload: Duration?

    package init(
        placement: WidgetPlacement, identity: TimelineIdentity, kind: RegisteredKind, content: String?,
        hash: ContentHash, nextReload: Duration?
    ) {
        (self.placement, self.identity, self.kind) = (placement, identity, kind)
        (self.content, self.hash, self.nextReload) = (content, hash, nextReload)
    }
}

private let input = InputColumns<FilledWidget>([
    .init("app_id") { $0.kind.appID }, .init("widget") { $0.placement.widget }, .init("kind_id") { $0.kind.id },
    .init("family") { $0.placement.family }, .init("user_id") { $0.placement.user },
    .init("device_id") { $0.placement.device }, .init("locale") { $0.placement.environment.locale },
    .init("time_zone") { $0.placement.environment.timeZone }, .init("identity") { $0.identity.id },
    .init("timeline_family") { $0.identity.family }, .init("configuration") { $0.identity.configuration.canonical },
    .init("timeline_locale") { $0.identity.locale }, .init("timeline_time_zone") { $0.identity.timeZone },
    .init("timeline_user") { $0.identity.user }, .init("content") { $0.content }, .init("hash") { $0.hash },
    .init("next_reload") { $0.nextReload?.wholeMilliseconds },
])

private let fillWidgetsSQL = """
    WITH revision AS MATERIALIZED (
        SELECT nextval('token') AS revision
    ), input AS MATERIALIZED (
        -- Rendered so long ago that no spacing holds a reload back, and on the grid of lists, so that many share one.
        SELECT i.*, nextval('timeline_id') AS id, k.generation, now() - interval '1 hour' AS rendered_at,
               coalesce(date_bin('268.435456 seconds',
                                 now() + i.next_reload * interval '1 millisecond' + interval '268.435455 seconds', 'epoch'),
                        'infinity') AS policy_at
        FROM \(input.rows("i")) JOIN kind k ON k.id = i.kind_id
    ), filled AS (
        INSERT INTO timeline (
            id, identity, kind_id, family, configuration, locale, time_zone, user_id, requested, rendered,
            free_requested, generation, revision, content_revision, listed_at, policy_at, rendered_at, requested_at,
            placed_at, stored_at, hash, content)
        SELECT i.id, i.identity, i.kind_id, i.timeline_family, i.configuration, i.timeline_locale, i.timeline_time_zone,
               i.timeline_user, 1, 1, 1, i.generation, r.revision,
               CASE WHEN i.content IS NULL THEN 0 ELSE r.revision END,
               CASE WHEN i.policy_at < 'infinity' THEN greatest(now(), least(i.policy_at, list_horizon()))
                    ELSE 'infinity' END,
               i.policy_at, i.rendered_at, i.rendered_at, i.rendered_at,
               CASE WHEN i.content IS NOT NULL THEN i.rendered_at END,
               CASE WHEN i.content IS NOT NULL THEN i.hash END, i.content
        FROM input i, revision r
    )
    INSERT INTO widget (
        app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone, placed_at, changed_at)
    SELECT app_id, widget, kind_id, family, id, user_id, device_id, locale, time_zone, rendered_at, rendered_at
    FROM input
    """

private let appointFilledSQL = """
    WITH filled AS (
        SELECT id, kind_id, listed_lane, listed_at, true AS listed_anew FROM timeline
    ), \(appendedLists(of: "filled"))
    SELECT count(*) AS lists FROM appended
    """

extension PostgresStatement where Self == Statements {
    /// Inserts widgets of a population with their timelines, without lists.
    static func fillWidgets(_ widgets: [FilledWidget]) -> PostgresQuery<Void> {
        PostgresQuery(fillWidgetsSQL, binding: input.parameters(widgets))
    }

    /// Appends the lists of all timelines.
    static func appointFilled() -> PostgresQuery<Void> { PostgresQuery(appointFilledSQL) }
}

extension WidgetStore {
    /// Number of widgets of one statement.
    private static let fillChunk = 2_000

    /// Fills an empty database with a synthetic population, over several connections.
    ///
    /// - Parameters:
    ///   - count: number of widgets, each with its own timeline.
    ///   - connections: number of concurrent statements.
    ///   - widget: makes a widget by its index.
    ///   - progress: receives the number of widgets so far.
    package func fill(
        _ count: Int, connections: Int = 4, _ widget: @escaping @Sendable (Int) -> FilledWidget,
        progress: (Int) -> Void = { _ in }
    ) async throws {
        try await withThrowingTaskGroup(of: Int.self) { group in
            var done = 0
            for (place, start) in stride(from: 0, to: count, by: Self.fillChunk).enumerated() {
                if place >= connections { done += try await group.next() ?? 0 }
                progress(done)
                group.addTask { [pool] in
                    let widgets = (start..<min(start + Self.fillChunk, count)).map(widget)
                    _ = try await pool.execute(.fillWidgets(widgets))
                    return widgets.count
                }
            }
            for try await inserted in group { done += inserted }
            progress(done)
        }
        try await pool.withConnection { connection in
            connection.discardAfterUse()
            try await connection.simple("SET statement_timeout = 0")
            _ = try await connection.execute(.appointFilled())
            // For the visibility map, which index-only scans need, and for the planner.
            try await connection.simple("VACUUM (ANALYZE) timeline, widget, work")
        }
    }
}
