package import PostgresClient
package import WidgetModel

/// What is shown in a timeline's stead while it has none.
package enum StandIn: Hashable, Sendable {
    /// Canonical JSON of one entry, and when it was stored.
    case snapshot(entry: String, storedAt: Timestamp)
    /// JSON of the content, and when the provider gave it: `nil` for the manifest's.
    case placeholder(content: String, fetchedAt: Timestamp?)
}

/// What stands in for a timeline; no row when it has content by now, or is gone.
///
/// The placeholder is that of the timeline's family and environment; what its kind does not vary by is taken from the
/// widget that shows it, if one is given.
package struct ReadStandIn: PostgresStatement {
    package static let sql = """
        SELECT p.entry, p.stored_at, h.content, h.fetched_at, (d.definition -> 'placeholder')::text
        FROM timeline t
        JOIN kind k ON k.id = t.kind_id
        JOIN app a ON a.id = k.app_id
        JOIN kind_definition d ON d.kind_id = k.id
        LEFT JOIN snapshot p ON p.timeline_id = t.id
        LEFT JOIN placeholder h ON h.kind_id = t.kind_id AND h.family = coalesce(t.family, $3::int2)
            AND h.locale = coalesce(t.locale, $4::text) AND h.time_zone = coalesce(t.time_zone, '')
            AND h.content IS NOT NULL
        WHERE t.id = $1::uuid AND a.name = $2::text
            AND NOT EXISTS (SELECT 1 FROM timeline_content c WHERE c.timeline_id = t.id)
        """

    let id: TimelineID
    let app: String
    let widget: WidgetDetail?

    package init(id: TimelineID, app: String, shownBy widget: WidgetDetail? = nil) {
        self.id = id
        self.app = app
        self.widget = widget
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(PostgresUUID(id))
        parameters.append(app)
        parameters.append(widget?.family.rawValue)
        parameters.append(widget?.environment.locale)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> StandIn {
        if let entry = try row.optional(0, as: String.self) {
            return .snapshot(entry: entry, storedAt: Timestamp(try row.value(1, as: PostgresTimestamp.self)))
        }
        if let content = try row.optional(2, as: String.self) {
            return .placeholder(
                content: content, fetchedAt: try row.optional(3, as: PostgresTimestamp.self).map { Timestamp($0) })
        }
        return .placeholder(content: try row.value(4), fetchedAt: nil)
    }
}
