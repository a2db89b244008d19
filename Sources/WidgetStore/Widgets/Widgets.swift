// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// A stored widget, locked until the transaction ends.
package struct StoredWidget: Sendable {
    package let appID: Int32
    package let id: String
    package let kindID: Int32
    /// Nil for a family of a newer version.
    package let family: WidgetFamily?
    /// The timeline that the widget shows, with the primary key of its row; `nil` once the widget is removed.
    package let timeline: (row: Int64, id: TimelineID)?
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
            var shown: (row: Int64, id: TimelineID)?
            if let timeline = try row.optional("timeline_id", as: Int64.self) {
                // The widget came to the device after the lock and was moved while this statement waited: its timeline
                // is not in the snapshot, so the transaction is retried.
                guard let id: TimelineID = try row.optional("identity") else {
                    throw PostgresError(
                        .server, "a widget was moved while it was read", sqlState: "40001", isRetriable: true)
                }
                shown = (timeline, id)
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

/// The new state of a widget's row.
package struct WidgetWrite: Sendable {
    package var appID: Int32
    package var id: String
    package var kindID: Int32
    package var family: WidgetFamily
    /// Primary key of the shown timeline; nil for a removed widget.
    package var timelineID: Int64?
    package var user: String
    package var device: String
    package var environment: WidgetEnvironment
    /// Canonical configuration; nil for the timeline's.
    package var configuration: String?
    /// Number of values that the kind's definition does not allow.
    package var misfits: Int
    package var changedAt: Timestamp
    /// Whether it is new, or back after a removal (maybe within the batch), and counts as placed anew.
    package var isBack: Bool

    package init(
        appID: Int32, id: String, kindID: Int32, family: WidgetFamily, timelineID: Int64?, user: String, device: String,
        environment: WidgetEnvironment, configuration: String? = nil, misfits: Int = 0,
        changedAt: Timestamp, isBack: Bool = false
    ) {
        (self.appID, self.id, self.kindID, self.family) = (appID, id, kindID, family)
        (self.timelineID, self.user, self.device, self.environment) = (timelineID, user, device, environment)
        (self.configuration, self.misfits, self.changedAt, self.isBack) = (configuration, misfits, changedAt, isBack)
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

/// A widget that comes to another timeline, with a new configuration or environment, brings its relevance along: scores
/// are those of the widget. A timeline that has its own keeps it, since another widget of the person may show it. One
/// that people share gets none of one person.
private let updateWidgetsSQL = """
    WITH input AS MATERIALIZED (SELECT * FROM \(WidgetWrite.input.rows("i"))), moved AS (
        SELECT DISTINCT ON (i.timeline_id) i.timeline_id, r.history, r.points
        FROM input i JOIN widget w ON w.app_id = i.app_id AND w.id = i.id
            AND w.kind_id = i.kind_id AND w.user_id = i.user_id AND w.timeline_id <> i.timeline_id
        JOIN timeline t ON t.id = i.timeline_id AND t.user_id = i.user_id
        JOIN relevance r ON r.timeline_id = w.timeline_id
        ORDER BY i.timeline_id, w.timeline_id
    ), inherited AS (
        INSERT INTO relevance (timeline_id, revision, history, points)
        SELECT m.timeline_id, 0, m.history, m.points FROM moved m ORDER BY m.timeline_id
        ON CONFLICT (timeline_id) DO NOTHING
    )
    UPDATE widget w
    SET kind_id = i.kind_id, family = i.family, timeline_id = i.timeline_id, user_id = i.user_id,
        device_id = i.device_id, locale = i.locale, time_zone = i.time_zone, configuration = i.configuration,
        misfits = i.misfits, changed_at = i.changed_at,
        placed_at = CASE WHEN i.timeline_id IS NOT NULL AND (i.is_back OR w.timeline_id IS NULL) THEN i.changed_at
                         ELSE w.placed_at END
    FROM input i WHERE w.app_id = i.app_id AND w.id = i.id
    """

private let deleteUnplacedWidgetsSQL = """
    \(deletedRows(from: "unplaced_widget", returning: "e.app_id, e.id")), locked AS MATERIALIZED (
        SELECT w.app_id, w.id FROM deleted d JOIN widget w ON w.app_id = d.app_id AND w.id = d.id
        WHERE w.device_id = ''
        ORDER BY w.app_id, w.id
        FOR UPDATE OF w
    ), buried AS (
        DELETE FROM widget w USING locked l WHERE w.app_id = l.app_id AND w.id = l.id AND w.device_id = ''
    )
    SELECT \(deletedChunkColumns)
    """

private let isDeletable = "w.app_id <> ALL (ARRAY(SELECT v.app_id FROM diversion v))"

private let deleteRemovedWidgetsSQL = """
    WITH old AS MATERIALIZED (
        SELECT w.app_id, w.id, w.changed_at FROM widget w
        WHERE w.timeline_id IS NULL
            -- The first chunk begins below all times, such as those before 1970 that events may have.
            AND w.changed_at >= CASE WHEN $2::int8 = 0 THEN '-infinity'
                ELSE timestamptz 'epoch' + $2::int8 * interval '1 microsecond' END
            AND w.changed_at < now() - $1::int8 * interval '1 millisecond'
            AND \(isDeletable)
        ORDER BY w.changed_at LIMIT $3::int8
        FOR UPDATE SKIP LOCKED
    ), ahead AS MATERIALIZED (
        -- The time of a clock that was ahead, which no later event respects.
        SELECT w.app_id, w.id FROM widget w
        WHERE w.timeline_id IS NULL AND w.changed_at > now() + $1::int8 * interval '1 millisecond'
            AND w.app_id <> ALL (ARRAY(SELECT v.app_id FROM diversion v))
        LIMIT $3::int8
        FOR UPDATE SKIP LOCKED
    ), deleted AS (
        DELETE FROM widget w USING (SELECT app_id, id FROM old UNION ALL SELECT app_id, id FROM ahead) o
        WHERE w.app_id = o.app_id AND w.id = o.id RETURNING 1
    )
    SELECT (SELECT count(*) FROM deleted) AS deleted, \(nextPlace(after: "o.changed_at", in: "old o"))
    """

extension PostgresStatement where Self == Statements {
    /// Inserts widgets that the transaction found absent, and tombstones of widgets removed before their placement. If
    /// one exists by now, the transaction fails with a serialization failure (SQLSTATE 40001) and has to be retried.
    package static func insertWidgets(_ writes: [WidgetWrite]) -> PostgresQuery<Void> {
        PostgresQuery(insertWidgetsSQL, binding: WidgetWrite.input.parameters(writes))
    }

    /// Updates widgets that the transaction has read and locked.
    package static func updateWidgets(_ writes: [WidgetWrite]) -> PostgresQuery<Void> {
        PostgresQuery(updateWidgetsSQL, binding: WidgetWrite.input.parameters(writes))
    }

    /// Deletes the tombstones of never placed widgets that are old or exceed an app's limit in the chunk behind a
    /// place.
    package static func deleteUnplacedWidgets(
        olderThan age: Duration, limits: [RowLimit] = [], after place: Int64 = 0, limit: Int,
        function: String = #function
    ) -> PostgresQuery<DeletedChunk> {
        deletionQuery(
            deleteUnplacedWidgetsSQL, olderThan: age, limits: limits, after: place, limit: limit, function: function)
    }

    /// Age of the oldest tombstone of a never placed widget.
    package static func oldestUnplacedWidget() -> PostgresQuery<Duration> {
        ageOfOldest("u.recorded_at", in: "unplaced_widget u", by: "u.seq")
    }

    /// Time since the last change of the removed widget that changed first. Those of diverted apps are left out.
    package static func oldestRemovedWidget() -> PostgresQuery<Duration> {
        ageOfOldest("w.changed_at", in: "widget w WHERE w.timeline_id IS NULL AND \(isDeletable)")
    }

    /// Deletes a chunk of the removed widgets whose last change is older than an age. Those of diverted apps stay,
    /// since older events of these apps wait.
    ///
    /// - Parameter place: time of the first change to look at, in microseconds since 1970; 0: any.
    package static func deleteRemovedWidgets(olderThan age: Duration, after place: Int64 = 0, limit: Int)
        -> PostgresQuery<DeletedChunk>
    {
        PostgresQuery(deleteRemovedWidgetsSQL, age.wholeMilliseconds, place, limit) { row in
            try row.deletedChunk()
        }
    }
}
