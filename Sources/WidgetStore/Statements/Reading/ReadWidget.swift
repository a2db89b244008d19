package import PostgresClient
package import WidgetModel

/// A widget with the state of the timeline that it shows.
package struct WidgetDetail: Sendable {
    package let app: String
    package let id: String
    package let kind: String
    package let family: WidgetFamily
    package let user: String
    package let device: String
    package let environment: WidgetEnvironment
    /// `nil` once the widget is removed.
    package let timelineID: TimelineID?
    package let configuration: String?
    package let placedAt: Timestamp
    package let changedAt: Timestamp
    package let lastViewedAt: Timestamp?
    package let views: Int64
}

/// Which widgets of an app to list.
package struct WidgetFilter: Hashable, Sendable {
    package var app: String
    package var user: String?
    package var device: String?
    package var kind: String?
    package var widget: String?
    /// List those after this id.
    package var after: String

    package init(
        app: String, user: String? = nil, device: String? = nil, kind: String? = nil, widget: String? = nil,
        after: String = ""
    ) {
        self.app = app
        self.user = user
        self.device = device
        self.kind = kind
        self.widget = widget
        self.after = after
    }
}

/// Lists an app's widgets in id order, removed ones only when asked for by id.
package struct ListWidgets: PostgresStatement {
    package static let sql = """
        SELECT a.name, w.id, k.name, w.family, w.user_id, w.device_id, w.locale, w.time_zone, w.timeline_id,
               t.configuration, w.placed_at, w.changed_at, w.last_viewed_at, w.views
        FROM app a
        JOIN widget w ON w.app_id = a.id
        JOIN kind k ON k.id = w.kind_id
        LEFT JOIN timeline t ON t.id = w.timeline_id
        WHERE a.name = $1::text AND k.retired_at IS NULL
            AND ($2::text IS NULL OR w.user_id = $2::text)
            AND ($3::text IS NULL OR w.device_id = $3::text)
            AND ($4::text IS NULL OR k.name = $4::text)
            AND ($5::text IS NULL OR w.id = $5::text)
            AND ($5::text IS NOT NULL OR w.timeline_id IS NOT NULL)
            AND w.id > $6::text
        ORDER BY w.id
        LIMIT $7::int8
        """

    let filter: WidgetFilter
    let limit: Int

    package init(_ filter: WidgetFilter, limit: Int) {
        self.filter = filter
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(filter.app)
        parameters.append(filter.user)
        parameters.append(filter.device)
        parameters.append(filter.kind)
        parameters.append(filter.widget)
        parameters.append(filter.after)
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> WidgetDetail {
        WidgetDetail(
            app: try row.value(0), id: try row.value(1), kind: try row.value(2), family: try row.family(3),
            user: try row.value(4), device: try row.value(5),
            environment: WidgetEnvironment(storedLocale: try row.value(6), timeZone: try row.value(7)),
            timelineID: try row.optional(8, as: PostgresUUID.self).map { TimelineID($0) },
            configuration: try row.optional(9),
            placedAt: Timestamp(try row.value(10, as: PostgresTimestamp.self)),
            changedAt: Timestamp(try row.value(11, as: PostgresTimestamp.self)),
            lastViewedAt: try row.optional(12, as: PostgresTimestamp.self).map { Timestamp($0) },
            views: try row.value(13))
    }
}
