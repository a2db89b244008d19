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

private let namedSQL = """
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
    """

/// Locks the widgets that lifecycle events of a batch name, by id or by device, in key order.
///
/// A statement of its own: it may wait for another transaction that moves a widget to a new timeline, which a statement
/// that began before that commit would not see. ``ReadWidgets`` comes behind it, with a later snapshot.
package struct LockWidgets: PostgresStatement {
    package static let sql = """
        WITH named AS (\(namedSQL))
        SELECT 1 FROM named n JOIN widget w ON w.app_id = n.app_id AND w.id = n.id
        ORDER BY w.app_id, w.id
        FOR NO KEY UPDATE OF w
        """

    let scope: WidgetScope

    package init(_ scope: WidgetScope) {
        self.scope = scope
    }

    package func bind(_ parameters: inout PostgresParameters) {
        scope.bind(&parameters)
    }
}

/// The widgets that lifecycle events name.
package struct WidgetScope: Sendable {
    let widgets: [(appID: Int32, id: String)]
    let devices: [(appID: Int32, id: String)]
    let deviceLimit: Int

    /// - Parameter deviceLimit: how many widgets of one device are read at the most.
    package init(widgets: [(appID: Int32, id: String)], devices: [(appID: Int32, id: String)], deviceLimit: Int) {
        self.widgets = widgets
        self.devices = devices
        self.deviceLimit = deviceLimit
    }

    fileprivate func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: widgets.map(\.appID))
        parameters.append(array: widgets.map(\.id))
        parameters.append(array: devices.map(\.appID))
        parameters.append(array: devices.map(\.id))
        parameters.append(Int64(deviceLimit))
    }
}

/// Reads the widgets of a scope whose rows ``LockWidgets`` has locked earlier in the transaction.
package struct ReadWidgets: PostgresStatement {
    package static let sql = """
        WITH named AS (\(namedSQL)), locked AS (
            SELECT w.* FROM named n JOIN widget w ON w.app_id = n.app_id AND w.id = n.id
            ORDER BY w.app_id, w.id
            FOR NO KEY UPDATE OF w
        )
        SELECT w.app_id, w.id, w.kind_id, w.family, w.timeline_id, w.user_id, w.device_id, w.locale, w.time_zone,
               t.configuration, w.changed_at
        FROM locked w LEFT JOIN timeline t ON t.id = w.timeline_id
        """

    let scope: WidgetScope

    package init(_ scope: WidgetScope) {
        self.scope = scope
    }

    package func bind(_ parameters: inout PostgresParameters) {
        scope.bind(&parameters)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> StoredWidget {
        let timelineID = try row.optional(4, as: PostgresUUID.self).map { TimelineID($0) }
        let configuration = try row.optional(9, as: String.self)
        // A widget that came to the device after the lock, and was moved while this statement waited: its timeline is
        // not in the snapshot. Nothing is guessed; the transaction is tried again.
        guard timelineID == nil || configuration != nil else {
            throw PostgresError(
                .server, "a widget was moved while it was read", sqlState: "40001", isRetriable: true)
        }
        return StoredWidget(
            appID: try row.value(0), id: try row.value(1), kindID: try row.value(2),
            family: try row.family(3), timelineID: timelineID,
            user: try row.value(5), device: try row.value(6),
            environment: WidgetEnvironment(storedLocale: try row.value(7), timeZone: try row.value(8)),
            configuration: configuration ?? "{}", changedAt: Timestamp(try row.value(10, as: PostgresTimestamp.self)))
    }
}
