package import PostgresClient
package import WidgetModel

package struct DeviceTimeline: Hashable, Sendable {
    package let widget: String
    package let kind: String
    package let user: String
    package let timelineID: TimelineID
    package let isStale: Bool
    package let hash: ContentHash?
    package let revision: Int64?
}

private let deviceTimelinesSQL = """
    SELECT w.id AS widget, k.name AS kind, w.user_id, t.identity, \(RowFormula.isStale) AS stale,
           CASE WHEN t.content_revision > 0 THEN t.hash END AS hash, nullif(t.content_revision, 0) AS revision
    FROM app a
    JOIN widget w ON w.app_id = a.id
    JOIN kind k ON k.id = w.kind_id
    JOIN timeline t ON t.id = w.timeline_id
    WHERE a.name = $1::text AND w.device_id = $2::text AND w.timeline_id IS NOT NULL
        AND ($3::text IS NULL OR w.user_id = $3::text) AND k.retired_at IS NULL
    ORDER BY w.id LIMIT $4::int8
    """

extension PostgresStatement where Self == Statements {
    /// The timelines that the widgets of a device show, in the order of the widgets' ids.
    ///
    /// - Parameter user: only this user's widgets.
    package static func deviceTimelines(app: String, device: String, user: String?, limit: Int) -> PostgresQuery<
        DeviceTimeline
    > {
        PostgresQuery(deviceTimelinesSQL, app, device, user, limit) { row in
            try DeviceTimeline(
                widget: row.value("widget"), kind: row.value("kind"), user: row.value("user_id"),
                timelineID: row.value("identity"), isStale: row.value("stale"), hash: row.optional("hash"),
                revision: row.optional("revision"))
        }
    }
}
