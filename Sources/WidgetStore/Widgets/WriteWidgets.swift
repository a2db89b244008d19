package import PostgresClient
package import WidgetModel

/// The new state of a widget's row.
package struct WidgetWrite: Sendable {
    package var appID: Int32
    package var id: String
    package var kindID: Int32
    package var family: WidgetFamily
    /// Primary key of the timeline that it shows; `nil`: removed.
    package var timelineID: Int64?
    package var user: String
    package var device: String
    package var environment: WidgetEnvironment
    /// Canonical configuration; nil: that of the timeline.
    package var configuration: String?
    /// Number of its values that the kind's definition does not allow.
    package var misfits: Int
    package var changedAt: Timestamp
    /// Whether it is new, or back after it had been removed, maybe within the batch: it counts as placed anew.
    package var isBack: Bool

    package init(
        appID: Int32, id: String, kindID: Int32, family: WidgetFamily, timelineID: Int64?, user: String, device: String,
        environment: WidgetEnvironment, configuration: String? = nil, misfits: Int = 0,
        changedAt: Timestamp, isBack: Bool = false
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
        self.misfits = misfits
        self.changedAt = changedAt
        self.isBack = isBack
    }

    fileprivate static let input = InputColumns<WidgetWrite>([
        .init("app_id") { $0.appID }, .init("id") { $0.id }, .init("kind_id") { $0.kindID },
        .init("family") { $0.family }, .init("timeline_id") { $0.timelineID }, .init("user_id") { $0.user },
        .init("device_id") { $0.device }, .init("locale") { $0.environment.locale },
        .init("time_zone") { $0.environment.timeZone }, .init("configuration") { $0.configuration },
        .init("misfits") { Int32($0.misfits) }, .init("changed_at") { $0.changedAt },
        .init("is_back") { $0.isBack },
    ])
}

private let insertWidgetsSQL = """
    WITH input AS MATERIALIZED (SELECT * FROM \(WidgetWrite.input.rows("i"))), written AS (
        INSERT INTO widget (app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone,
                            configuration, misfits, placed_at, changed_at)
        SELECT app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone, configuration, misfits,
               changed_at, changed_at
        FROM input ORDER BY app_id, id
        ON CONFLICT (app_id, id) DO NOTHING
        RETURNING 1
    ), unplaced AS (
        INSERT INTO unplaced_widget (app_id, id)
        SELECT app_id, id FROM input WHERE device_id = '' ORDER BY app_id, id
    )
    SELECT require_widgets((SELECT count(*) FROM written), (SELECT count(*) FROM input))
    """

private let updateWidgetsSQL = """
    WITH input AS MATERIALIZED (SELECT * FROM \(WidgetWrite.input.rows("i")))
    UPDATE widget w
    SET kind_id = i.kind_id, family = i.family, timeline_id = i.timeline_id, user_id = i.user_id,
        device_id = i.device_id, locale = i.locale, time_zone = i.time_zone, configuration = i.configuration,
        misfits = i.misfits, changed_at = i.changed_at,
        placed_at = CASE WHEN i.timeline_id IS NOT NULL AND (i.is_back OR w.timeline_id IS NULL) THEN i.changed_at
                         ELSE w.placed_at END
    FROM input i WHERE w.app_id = i.app_id AND w.id = i.id
    """

private let deleteUnplacedWidgetsSQL = """
    WITH old AS (
        DELETE FROM unplaced_widget u WHERE u.seq IN (\(RowsToForget.sql("unplaced_widget")))
        RETURNING u.app_id, u.id
    ), locked AS (
        SELECT w.app_id, w.id FROM widget w JOIN old o ON w.app_id = o.app_id AND w.id = o.id
        WHERE w.device_id = ''
        ORDER BY w.app_id, w.id
        FOR UPDATE OF w
    )
    DELETE FROM widget w USING locked l WHERE w.app_id = l.app_id AND w.id = l.id AND w.device_id = ''
    """

extension PostgresStatement where Self == Statements {
    /// Writes widgets that the transaction found absent, tombstones of those that were removed before they were placed among
    /// them. If one has appeared since, the transaction fails as a serialization failure (SQLSTATE 40001) and is to be tried
    /// again as a whole.
    package static func insertWidgets(_ writes: [WidgetWrite]) -> PostgresQuery<Void> {
        PostgresQuery(insertWidgetsSQL, binding: WidgetWrite.input.parameters(writes))
    }

    /// Writes widgets whose rows the transaction has read and locked.
    package static func updateWidgets(_ writes: [WidgetWrite]) -> PostgresQuery<Void> {
        PostgresQuery(updateWidgetsSQL, binding: WidgetWrite.input.parameters(writes))
    }

    /// Deletes a chunk of the tombstones of widgets that were never placed and that are old, or more than are kept of an app.
    package static func deleteUnplacedWidgets(olderThan age: Duration, keeping count: Int, limit: Int) -> PostgresQuery<
        Void
    > {
        PostgresQuery(deleteUnplacedWidgetsSQL, age.wholeMilliseconds, count, limit)
    }
}
