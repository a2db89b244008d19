package import PostgresClient
package import WidgetModel

/// The views of one widget in a batch, folded.
package struct WidgetViews: Hashable, Sendable {
    package var appID: Int32
    package var widget: String
    package var count: Int64
    /// Time of the latest of them.
    package var latest: Timestamp

    package init(appID: Int32, widget: String, count: Int64, latest: Timestamp) {
        self.appID = appID
        self.widget = widget
        self.count = count
        self.latest = latest
    }
}

/// Counts views. A widget's row is written at most once an hour of views: a view within the hour after the last counted
/// one changes nothing and writes nothing (design, section 4). A view from the future counts as now.
package struct RecordViews: PostgresStatement {
    package static let sql = """
        WITH locked AS (
            SELECT w.app_id, w.id, i.views, least(i.latest, now()) AS latest
            FROM unnest($1::int4[], $2::text[], $3::int8[], $4::timestamptz[]) AS i (app_id, id, views, latest)
            JOIN widget w ON w.app_id = i.app_id AND w.id = i.id
            WHERE w.timeline_id IS NOT NULL
                AND (w.last_viewed_at IS NULL OR least(i.latest, now()) >= w.last_viewed_at + interval '1 hour')
            ORDER BY w.app_id, w.id
            FOR NO KEY UPDATE OF w
        )
        UPDATE widget w
        SET views = w.views + l.views, last_viewed_at = l.latest,
            view_rate = l.views / 3.0 + w.view_rate
                * exp(-coalesce(extract(epoch FROM l.latest - w.last_viewed_at), 0)::float8 / (3 * 86400))
        FROM locked l WHERE w.app_id = l.app_id AND w.id = l.id
        """

    let views: [WidgetViews]

    package init(_ views: [WidgetViews]) {
        self.views = views
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: views.map(\.appID))
        parameters.append(array: views.map(\.widget))
        parameters.append(array: views.map(\.count))
        parameters.append(array: views.map { PostgresTimestamp($0.latest) })
    }
}
