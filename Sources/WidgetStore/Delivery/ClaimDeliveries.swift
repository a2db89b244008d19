package import PostgresClient
package import WidgetModel

/// A device that is to be notified, on a list that this process has leased.
package struct DueDevice: Sendable {
    package let id: Int64
    package let list: ListHold
    package let dueAt: Timestamp
    package let appID: Int32
    package let app: String
    package let isDeveloperMode: Bool
    package let user: String
    package let device: String
    package let channel: Channel
    /// Number of changes so far, all of which a notification covers.
    package let changed: Int64
    package let changedAt: Timestamp?
    /// Whether a person waits for a change.
    package let isUrgent: Bool
    package let registeredAt: Timestamp
    package let attempts: Int
    /// Whether the push service did not know the token at the last attempt.
    package let hasBadToken: Bool
    package let budget: BudgetLedger
    /// Whether the device has fetched everything that its widgets show.
    package let hasFetched: Bool
    /// The database's time of the claim.
    package let claimedAt: Timestamp

    package enum Channel: Sendable {
        case apns(token: DeviceTokenKeys.Sealed, APNsAddress.Environment, topic: String)
        case webhook(WebhookState)
    }

    package enum WebhookState: Sendable {
        case works
        /// Its last request was not accepted.
        case fails
        /// It has failed for so long that nothing is sent any more.
        case isDisabled
    }
}

/// A leased list with the devices that are still to be notified.
package struct LeasedDelivery: Sendable {
    package typealias Row = (hold: ListHold, appID: Int32, device: DueDevice?)

    package let hold: ListHold
    package let appID: Int32
    package let devices: [DueDevice]

    /// - Parameter rows: of one claim, which leases one list; nil without any.
    package init?(_ rows: [Row]) {
        guard let first = rows.first else { return nil }
        hold = first.hold
        appID = first.appID
        devices = rows.compactMap(\.device)
    }
}

extension DueDevice {
    /// Environment and topic of its pushes; nil with a webhook.
    package var pushTopic: (environment: APNsAddress.Environment, topic: String)? {
        guard case .apns(_, let environment, let topic) = channel else { return nil }
        return (environment, topic)
    }
}

/// SQL: whether the push service did not know the token of a row of `registration` at the last attempt.
func hasBadToken(_ row: String, reason: String) -> String {
    "(\(row).attempts > 0 AND coalesce(\(row).reason, '') = \(reason)::text)"
}

private let claimSQL = """
    WITH picked AS (
        SELECT d.id FROM delivery d WHERE d.ready_at <= now() AND d.app_id <> ALL ($2::int4[])
        ORDER BY d.ready_at LIMIT 1 FOR UPDATE SKIP LOCKED
    ), leased AS (
        UPDATE delivery d SET ready_at = now() + $1::int8 * interval '1 millisecond', lease = nextval('token')
        FROM picked p WHERE d.id = p.id
        RETURNING d.id, d.app_id, d.due_at, d.lease, d.registrations
    )
    SELECT l.id AS list, l.app_id AS list_app, l.lease, l.due_at, now() AS claimed_at, live.*
    FROM leased l LEFT JOIN LATERAL (
        SELECT r.id, r.app_id, a.name AS app, a.developer_mode, r.user_id, r.device_id, r.channel,
               coalesce(r.found_environment, r.environment) AS environment, r.topic, r.token_key, r.token, r.changed,
               r.changed_at, r.urgent > r.sent AS is_urgent, r.registered_at, r.attempts,
               \(hasBadToken("r", reason: "$3")) AS has_bad_token, r.budget, h.app_id IS NOT NULL AS fails,
               h.disabled_at IS NOT NULL AS disabled,
               cardinality(r.stale_timelines) = 0 AND NOT r.replays AS fetched
        FROM unnest(l.registrations) i (id) JOIN registration r ON r.id = i.id JOIN app a ON a.id = r.app_id
        LEFT JOIN webhook h ON h.app_id = r.app_id
        WHERE r.listed_at = l.due_at AND r.channel <> 0
    ) live ON true
    """

/// A widget of a device, for a webhook.
package struct DeliveredWidget: Sendable {
    package let registration: Int64
    package let widget: String
    package let kind: String
    package let timeline: TimelineID
    package let revision: Int64
}

private let widgetsSQL = """
    SELECT r.id AS registration, w.id AS widget, k.name AS kind, t.identity, t.content_revision
    FROM registration r
    JOIN widget w ON w.app_id = r.app_id AND w.device_id = r.device_id AND w.user_id = r.user_id
    JOIN timeline t ON t.id = w.timeline_id JOIN kind k ON k.id = w.kind_id
    WHERE r.id = ANY ($1::int8[]) AND (r.replays OR t.id = ANY (r.stale_timelines))
    ORDER BY r.id, w.id
    """

extension PostgresStatement where Self == Statements {
    /// Leases the list that is due for the longest time; see ``LeasedDelivery``.
    ///
    /// - Parameter apps: apps whose lists are left out.
    package static func claimDelivery(lease: Duration, except apps: [Int32]) -> PostgresQuery<LeasedDelivery.Row> {
        PostgresQuery(claimSQL, lease.wholeMilliseconds, PostgresArray(apps), APNsAnswer.badDeviceToken) { row in
            let list = try ListHold(id: row.value("list"), lease: row.value("lease"))
            let app: Int32 = try row.value("list_app")
            guard let id = try row.optional("id", as: Int64.self) else { return (list, app, nil) }
            let channel: DueDevice.Channel
            if try row.value("channel", as: Int16.self) == 1 {
                channel = try .apns(
                    token: DeviceTokenKeys.Sealed(keyID: row.value("token_key"), bytes: row.value("token")),
                    APNsAddress.Environment(stored: row.value("environment")), topic: row.value("topic"))
            } else if try row.value("disabled") {
                channel = .webhook(.isDisabled)
            } else {
                channel = .webhook(try row.value("fails") ? .fails : .works)
            }
            let device = try DueDevice(
                id: id, list: list, dueAt: row.value("due_at"), appID: row.value("app_id"), app: row.value("app"),
                isDeveloperMode: row.value("developer_mode"), user: row.value("user_id"),
                device: row.value("device_id"), channel: channel, changed: row.value("changed"),
                changedAt: row.optional("changed_at"), isUrgent: row.value("is_urgent"),
                registeredAt: row.value("registered_at"), attempts: Int(row.value("attempts", as: Int16.self)),
                hasBadToken: row.value("has_bad_token"),
                budget: BudgetLedger(stored: row.optional("budget")) ?? BudgetLedger(),
                hasFetched: row.value("fetched"), claimedAt: row.value("claimed_at"))
            return (list, app, device)
        }
    }

    /// Widgets of devices whose content the devices have not fetched; those of a replay are all named.
    package static func readDeliveredWidgets(of registrations: [Int64]) -> PostgresQuery<DeliveredWidget> {
        PostgresQuery(widgetsSQL, PostgresArray(registrations)) { row in
            try DeliveredWidget(
                registration: row.value("registration"), widget: row.value("widget"), kind: row.value("kind"),
                timeline: row.value("identity"), revision: row.value("content_revision"))
        }
    }

    /// Age of the oldest change whose devices are not marked, and time since the earliest list was due, in seconds; 0
    /// without any.
    package static func deliveryLag() -> PostgresQuery<(changes: Double, lists: Double)> {
        PostgresQuery(
            """
            SELECT coalesce(extract(epoch FROM now() - (
                       SELECT c.since FROM delivery_change c ORDER BY c.id LIMIT 1)), 0)::float8 AS changes,
                   greatest(coalesce(extract(epoch FROM now() - (
                       SELECT d.ready_at FROM delivery d ORDER BY d.ready_at LIMIT 1)), 0), 0)::float8 AS lists
            """
        ) { row in try (changes: row.value("changes"), lists: row.value("lists")) }
    }
}
