package import PostgresClient
package import WidgetModel

/// Timelines that widgets are about to show, in a transaction: made, or locked against being collected.
package struct PlacedTimelines: Sendable {
    /// Primary keys of the rows, for ``WidgetWrite``.
    package let rows: [TimelineID: Int64]
    /// Rows for ``MarkInput/revived``: orphaned, asleep, or placed last more than an hour ago.
    package let stale: [Int64]
    /// Number of timelines that were made.
    package let inserted: Int
}

extension PostgresConnection {
    /// Makes the timelines that are missing and locks the others.
    ///
    /// - Parameter placements: each timeline once.
    /// - Throws: a retriable `PostgresError` (SQLSTATE 40001) when a timeline was collected in between.
    package func place(_ placements: [TimelinePlacement]) async throws(PostgresError) -> PlacedTimelines {
        guard !placements.isEmpty else { return PlacedTimelines(rows: [:], stale: [], inserted: 0) }
        var pipeline = PostgresPipeline()
        let inserting = pipeline.append(.insertTimelines(placements))
        let locking = pipeline.append(.lockPlacedTimelines(placements.map(\.id)))
        let results = try await run(pipeline)
        let locked = results.rows(locking)
        guard locked.count == placements.count else {
            throw PostgresError(
                .server, "a timeline was collected while a widget was placed on it", sqlState: "40001",
                isRetriable: true)
        }
        return PlacedTimelines(
            rows: Dictionary(locked.map { ($0.id, $0.row) }) { $1 }, stale: locked.filter(\.isStale).map(\.row),
            inserted: Int(results.rows(inserting).first ?? 0))
    }
}
