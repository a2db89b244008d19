package import PostgresClient
package import WidgetModel

/// What to write for one widget.
package struct WidgetWrite: Sendable {
    package var appID: Int32
    package var id: String
    package var kindID: Int32
    package var family: WidgetFamily
    /// `nil`: removed.
    package var timelineID: TimelineID?
    package var user: String
    package var device: String
    package var environment: WidgetEnvironment
    package var changedAt: Timestamp
    /// It is new, or back after it had been removed, maybe within the batch: it is learnt anew how often it is viewed.
    package var isBack: Bool

    package init(
        appID: Int32, id: String, kindID: Int32, family: WidgetFamily, timelineID: TimelineID?, user: String,
        device: String, environment: WidgetEnvironment, changedAt: Timestamp, isBack: Bool = false
    ) {
        self.appID = appID
        self.id = id
        self.kindID = kindID
        self.family = family
        self.timelineID = timelineID
        self.user = user
        self.device = device
        self.environment = environment
        self.changedAt = changedAt
        self.isBack = isBack
    }
}

private let inputSQL = """
    SELECT * FROM unnest($1::int4[], $2::text[], $3::int4[], $4::int2[], $5::uuid[], $6::text[], $7::text[],
                         $8::text[], $9::text[], $10::timestamptz[], $11::bool[])
        AS i (app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone, changed_at, is_back)
    """

extension PostgresParameters {
    fileprivate mutating func append(writes: [WidgetWrite]) {
        append(array: writes.map(\.appID))
        append(array: writes.map(\.id))
        append(array: writes.map(\.kindID))
        append(array: writes.map(\.family.rawValue))
        append(array: writes.map { $0.timelineID.map { PostgresUUID($0) } })
        append(array: writes.map(\.user))
        append(array: writes.map(\.device))
        append(array: writes.map(\.environment.locale))
        append(array: writes.map(\.environment.timeZone))
        append(array: writes.map { PostgresTimestamp($0.changedAt) })
        append(array: writes.map(\.isBack))
    }
}

/// Writes widgets that the transaction found absent. If one has appeared since, the transaction fails as a
/// serialization failure (SQLSTATE 40001) and is to be tried again as a whole.
package struct InsertWidgets: PostgresStatement {
    package static let sql = """
        WITH input AS (\(inputSQL)), written AS (
            INSERT INTO widget (app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone,
                                placed_at, changed_at)
            SELECT app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone,
                   changed_at, changed_at
            FROM input ORDER BY app_id, id
            ON CONFLICT (app_id, id) DO NOTHING
            RETURNING 1
        )
        SELECT require_widgets((SELECT count(*) FROM written), cardinality($1::int4[])::int8)
        """

    let writes: [WidgetWrite]

    package init(_ writes: [WidgetWrite]) {
        self.writes = writes
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(writes: writes)
    }
}

/// Writes widgets whose rows the transaction has read and locked.
package struct UpdateWidgets: PostgresStatement {
    package static let sql = """
        WITH input AS (\(inputSQL))
        UPDATE widget w
        SET kind_id = i.kind_id, family = i.family, timeline_id = i.timeline_id, user_id = i.user_id,
            device_id = i.device_id, locale = i.locale, time_zone = i.time_zone, changed_at = i.changed_at,
            placed_at = CASE WHEN i.timeline_id IS NOT NULL AND (i.is_back OR w.timeline_id IS NULL) THEN i.changed_at
                             ELSE w.placed_at END
        FROM input i WHERE w.app_id = i.app_id AND w.id = i.id
        """

    let writes: [WidgetWrite]

    package init(_ writes: [WidgetWrite]) {
        self.writes = writes
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(writes: writes)
    }
}
