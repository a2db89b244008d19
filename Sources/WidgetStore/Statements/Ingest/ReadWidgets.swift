package import PostgresClient
package import WidgetModel

/// A widget as it is stored, locked until the transaction ends.
package struct StoredWidget: Sendable {
    package let appID: Int32
    package let id: String
    package let kindID: Int32
    package let family: WidgetFamily
    /// `nil` once the widget is removed.
    package let timelineID: TimelineID?
    package let user: String
    package let device: String
    package let environment: WidgetEnvironment
    /// Canonical JSON of the configuration; `{}` once the widget is removed.
    package let configuration: String
    package let changedAt: Timestamp

    package init(
        appID: Int32, id: String, kindID: Int32, family: WidgetFamily, timelineID: TimelineID?, user: String,
        device: String, environment: WidgetEnvironment, configuration: String, changedAt: Timestamp
    ) {
        self.appID = appID
        self.id = id
        self.kindID = kindID
        self.family = family
        self.timelineID = timelineID
        self.user = user
        self.device = device
        self.environment = environment
        self.configuration = configuration
        self.changedAt = changedAt
    }
}

/// Reads and locks the widgets that lifecycle events of a batch name, by id or by device, in key order.
package struct ReadWidgets: PostgresStatement {
    package static let sql = """
        WITH named AS (
            SELECT w.app_id, w.id
            FROM unnest($1::int4[], $2::text[]) AS i (app_id, id) JOIN widget w ON w.app_id = i.app_id AND w.id = i.id
            UNION
            SELECT d.app_id, d.id
            FROM unnest($3::int4[], $4::text[]) AS i (app_id, device_id)
            CROSS JOIN LATERAL (
                SELECT w.app_id, w.id FROM widget w
                WHERE w.app_id = i.app_id AND w.device_id = i.device_id AND w.timeline_id IS NOT NULL
                ORDER BY w.id
                LIMIT $5::int8
            ) d
        ), locked AS (
            SELECT w.* FROM named n JOIN widget w ON w.app_id = n.app_id AND w.id = n.id
            ORDER BY w.app_id, w.id
            FOR NO KEY UPDATE OF w
        )
        SELECT w.app_id, w.id, w.kind_id, w.family, w.timeline_id, w.user_id, w.device_id, w.locale, w.time_zone,
               coalesce(t.configuration, '{}'), w.changed_at
        FROM locked w LEFT JOIN timeline t ON t.id = w.timeline_id
        """

    let widgets: [(appID: Int32, id: String)]
    let devices: [(appID: Int32, id: String)]
    let deviceLimit: Int

    /// - Parameter deviceLimit: how many widgets of one device are read at the most.
    package init(widgets: [(appID: Int32, id: String)], devices: [(appID: Int32, id: String)], deviceLimit: Int) {
        self.widgets = widgets
        self.devices = devices
        self.deviceLimit = deviceLimit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: widgets.map(\.appID))
        parameters.append(array: widgets.map(\.id))
        parameters.append(array: devices.map(\.appID))
        parameters.append(array: devices.map(\.id))
        parameters.append(Int64(deviceLimit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> StoredWidget {
        StoredWidget(
            appID: try row.value(0), id: try row.value(1), kindID: try row.value(2),
            family: try row.family(3), timelineID: try row.optional(4, as: PostgresUUID.self).map(TimelineID.init),
            user: try row.value(5), device: try row.value(6),
            environment: WidgetEnvironment(storedLocale: try row.value(7), timeZone: try row.value(8)),
            configuration: try row.value(9), changedAt: Timestamp(try row.value(10, as: PostgresTimestamp.self)))
    }
}
