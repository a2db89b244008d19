import PostgresClient
import WidgetModel

/// What retiring a kind did.
package struct Retirement: Hashable, Sendable {
    /// Whether it was not retired before.
    package let isChanged: Bool
    /// Timelines that are left of it, counted up to ``WidgetStore/timelineCountLimit``.
    package let timelines: Int
    /// It, or its app, is paused: they stay until it is resumed.
    package let isPaused: Bool
}

/// What a chunk of work on a kind's timelines did.
package struct KindChunk: Hashable, Sendable {
    /// Widgets removed from their timelines, or moved to others.
    package var widgets = 0
    /// Timelines that no widget shows any more.
    package var orphans = 0
    /// Timelines that are due for their first time.
    package var placed = 0
    /// Whether it came any further.
    package var isProgress = false
    /// The move that it was a part of is over.
    package var isEnd = false
}

extension WidgetStore {
    /// Up to how many timelines of a kind are counted for people.
    package static let timelineCountLimit = 1_000_000

    /// Retires a kind: from now on nothing of it is claimed but to be collected, and nobody can read it. The sweepers
    /// then take the widgets off its timelines, and the workers publish their tombstones. Events that name it become
    /// dead letters.
    ///
    /// - Returns: `nil` when there is no such kind.
    /// - Throws: `PostgresError`.
    package func retire(app: String, kind: String) async throws -> Retirement? {
        let retirement: Retirement? = try await pool.withTransaction { connection in
            // After whoever applies a manifest that lists it, and before the next one.
            _ = try await connection.query(LockManifests())
            guard let row = try await connection.query(RetireKind(app: app, kind: kind)).first else { return nil }
            let count = CountTimelines(kindID: row.kindID, limit: Self.timelineCountLimit)
            let timelines = try await connection.query(count).first ?? 0
            return Retirement(isChanged: row.isChanged, timelines: timelines, isPaused: row.isPaused)
        }
        if retirement != nil { await notifyWorkers() }
        return retirement
    }

    /// Takes the widgets off some timelines of a retired kind, and leaves those to be collected that nobody shows any
    /// more. Locks widgets before timelines, both in key order, as ingest does.
    ///
    /// - Parameters:
    ///   - timelines: the most that may become orphans.
    ///   - widgets: the most that may be removed; a timeline that has more is left for other chunks.
    /// - Returns: `nil` when another process works on the kind.
    /// - Throws: `PostgresError`.
    package func retireChunk(kindID: Int32, timelines: Int, widgets: Int) async throws -> KindChunk? {
        try await pool.withTransaction { connection in
            guard try await !connection.query(LockRetiredKind(kindID: kindID)).isEmpty else { return nil }
            let ids = try await connection.query(TimelinesToRetire(kindID: kindID, limit: timelines))
            guard !ids.isEmpty else { return KindChunk() }
            let shown = try await connection.query(WidgetsShowing(ids, limit: widgets))
            var pipeline = PostgresPipeline()
            if !shown.isEmpty {
                _ = pipeline.append(LockWidgets(WidgetScope(widgets: shown, devices: [], deviceLimit: 0)))
            }
            _ = pipeline.append(LockTimelines(ids))
            let removed = pipeline.append(RemoveWidgets(shown, from: ids))
            _ = pipeline.append(OrphanTimelines(ids))
            let retired = pipeline.append(MarkRetired(ids))
            let results = try await connection.run(pipeline)
            var chunk = KindChunk(widgets: results.affected(removed), orphans: results.affected(retired))
            chunk.isProgress = chunk.widgets + chunk.orphans > 0
            return chunk
        }
    }
}
