package import PostgresClient
package import WidgetModel

/// A stored widget, locked until the transaction ends.
package struct StoredWidget: Sendable {
    /// The timeline that a widget shows.
    package struct Shown: Hashable, Sendable {
        /// Primary key of the row.
        package let row: Int64
        package let id: TimelineID
    }

    package let appID: Int32
    package let id: String
    package let kindID: Int32
    /// Nil for a family of a newer version.
    package let family: WidgetFamily?
    /// `nil` once the widget is removed.
    package let timeline: Shown?
    package let user: String
    package let device: String
    package let environment: WidgetEnvironment
    /// Canonical JSON of the configuration set by the person; `{}` once the widget is removed.
    package let configuration: String
    /// Number of values that the kind's definition did not allow when the widget was written.
    package let misfits: Int
    package let changedAt: Timestamp

    /// The widget as it was placed; nil for one of a family of a newer version.
    ///
    /// - Parameters:
    ///   - app: name of its app.
    ///   - kind: name of its kind.
    package func placement(app: String, kind: String) -> WidgetPlacement? {
        guard let family else { return nil }
        return WidgetPlacement(
            app: app, widget: id, user: user, device: device, kind: kind, family: family,
            configuration: WidgetConfiguration(storedCanonical: configuration), environment: environment)
    }
}

/// The widgets that lifecycle events name.
package struct WidgetScope: Sendable {
    package typealias Name = (appID: Int32, id: String)

    static let widgets = InputColumns<Name>([.init("app_id") { $0.appID }, .init("id") { $0.id }])
    fileprivate static let devices = InputColumns<Name>([.init("app_id") { $0.appID }, .init("device_id") { $0.id }])

    fileprivate static let named = """
        SELECT w.app_id, w.id
        FROM \(widgets.rows("i")) JOIN widget w ON w.app_id = i.app_id AND w.id = i.id
        UNION
        SELECT d.app_id, d.id
        FROM \(devices.rows("i", first: widgets.count + 1))
        CROSS JOIN LATERAL (
            SELECT w.app_id, w.id FROM widget w
            WHERE w.app_id = i.app_id AND w.device_id = i.device_id AND w.timeline_id IS NOT NULL
            ORDER BY w.id
            LIMIT $\(widgets.count + devices.count + 1)::int8
        ) d
        """

    fileprivate var parameters = PostgresParameters()

    /// - Parameter deviceLimit: most widgets read of one device.
    package init(widgets: [Name], devices: [Name] = [], deviceLimit: Int = 0) {
        Self.widgets.bind(widgets, to: &parameters)
        Self.devices.bind(devices, to: &parameters)
        parameters.append(deviceLimit)
    }
}

private let lockWidgetsSQL = """
    WITH named AS (\(WidgetScope.named))
    SELECT 1 FROM named n JOIN widget w ON w.app_id = n.app_id AND w.id = n.id
    ORDER BY w.app_id, w.id
    FOR NO KEY UPDATE OF w
    """

private let readWidgetsSQL = """
    WITH named AS (\(WidgetScope.named)), locked AS (
        SELECT w.* FROM named n JOIN widget w ON w.app_id = n.app_id AND w.id = n.id
        ORDER BY w.app_id, w.id
        FOR NO KEY UPDATE OF w
    )
    SELECT w.app_id, w.id, w.kind_id, w.family, w.timeline_id, t.identity, w.user_id, w.device_id, w.locale,
           w.time_zone, coalesce(w.configuration, t.configuration) AS configuration, w.misfits, w.changed_at
    FROM locked w LEFT JOIN timeline t ON t.id = w.timeline_id
    """

extension PostgresStatement where Self == Statements {
    /// Locks the widgets that lifecycle events of a batch name, by id or by device, in key order.
    ///
    /// May wait for a transaction that moves a widget to a new timeline, which is not in the statement's snapshot.
    /// Therefore ``PostgresStatement/readWidgets`` follows as a statement of its own, with a later snapshot.
    package static func lockWidgets(_ scope: WidgetScope) -> PostgresQuery<Void> {
        PostgresQuery(lockWidgetsSQL, binding: scope.parameters)
    }

    /// Reads the widgets of a scope whose rows ``PostgresStatement/lockWidgets`` has locked earlier in the transaction.
    package static func readWidgets(_ scope: WidgetScope) -> PostgresQuery<StoredWidget> {
        PostgresQuery(readWidgetsSQL, binding: scope.parameters) { row in
            var shown: StoredWidget.Shown?
            if let timeline = try row.optional("timeline_id", as: Int64.self) {
                // The widget came to the device after the lock and was moved while this statement waited: its timeline
                // is not in the snapshot, so the transaction is retried.
                guard let id: TimelineID = try row.optional("identity") else {
                    throw PostgresError(
                        .server, "a widget was moved while it was read", sqlState: "40001", isRetriable: true)
                }
                shown = StoredWidget.Shown(row: timeline, id: id)
            }
            return try StoredWidget(
                appID: row.value("app_id"), id: row.value("id"), kindID: row.value("kind_id"),
                family: row.family("family"), timeline: shown, user: row.value("user_id"),
                device: row.value("device_id"),
                environment: WidgetEnvironment(storedLocale: row.value("locale"), timeZone: row.value("time_zone")),
                configuration: row.optional("configuration") ?? "{}", misfits: row.value("misfits"),
                changedAt: row.value("changed_at"))
        }
    }
}
