package import PostgresClient
package import WidgetModel

extension WidgetStore {
    /// A timeline, and what is shown in its stead while nothing is stored.
    ///
    /// - Parameter widget: a widget that shows it, for the placeholder; any if nil.
    /// - Returns: nil when the app has no such timeline.
    package func timeline(
        _ id: TimelineID, of app: String, shownBy widget: WidgetDetail? = nil
    ) async throws(PostgresError) -> (detail: TimelineDetail, standIn: StandIn?)? {
        guard let detail = try await pool.query(ReadTimeline(id: id, app: app)).first else { return nil }
        guard detail.content == nil else { return (detail, nil) }
        if let standIn = try await pool.query(ReadStandIn(id: id, app: app, shownBy: widget)).first {
            return (detail, standIn)
        }
        // In between it was stored, or collected.
        return try await pool.query(ReadTimeline(id: id, app: app)).first.map { ($0, nil) }
    }
}
