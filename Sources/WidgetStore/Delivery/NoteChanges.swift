package import PostgresClient
import WidgetModel

private let noteSQL = """
    WITH stored AS (
        UPDATE timeline t SET content_revision = nextval('token'), stored_at = now()
        FROM unnest($1::int8[]) i (id) WHERE t.id = i.id AND t.id = ANY ($1::int8[])
        RETURNING t.id, t.kind_id, t.user_id, t.content_revision AS revision, t.content_revision,
            \(ReloadReason.push.rawValue)::int2 AS reason
    ), \(DeliveryChanges.noted(of: "stored"))
    SELECT count(*) AS changed FROM stored
    """

extension PostgresStatement where Self == Statements {
    /// Has timelines count as changed without a fetch, for load tests of the delivery.
    package static func noteChanges(of rows: [Int64]) -> PostgresQuery<Int64> {
        PostgresQuery(noteSQL, PostgresArray(rows)) { row in try row.value("changed") }
    }

    /// Row ids of the timelines that the widgets of an app show, by widget, in chunks of widgets.
    package static func timelinesOfWidgets(app: String, widgets: [String]) -> PostgresQuery<
        (widget: String, row: Int64)
    > {
        PostgresQuery(
            """
            SELECT w.id, w.timeline_id FROM app a JOIN widget w ON w.app_id = a.id AND w.id = ANY ($2::text[])
            WHERE a.name = $1::text AND w.timeline_id IS NOT NULL
            """, app, PostgresArray(widgets)
        ) { row in try (widget: row.value("id"), row: row.value("timeline_id")) }
    }
}
