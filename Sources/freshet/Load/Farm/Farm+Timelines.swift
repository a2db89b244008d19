import PostgresClient
import WidgetModel
import WidgetStore

extension Farm {
    /// Looks at every timeline in PostgreSQL, a page at a time.
    func forEachTimeline(_ body: (StoredTimelines.Row) -> Void) async throws {
        var after: TimelineID?
        let page = 20_000
        while true {
            let rows = try await pool.query(StoredTimelines(after: after, limit: page))
            for row in rows { body(row) }
            guard rows.count == page, let last = rows.last else { return }
            after = last.id
        }
    }
}
