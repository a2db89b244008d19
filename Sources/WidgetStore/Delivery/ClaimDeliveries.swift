// SPDX-License-Identifier: Apache-2.0

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
        case webhook
        /// A webhook that did not accept its last request.
        case failingWebhook
        /// A webhook that has failed for so long that nothing is sent any more.
        case disabledWebhook
    }
}

/// A leased list with the devices that are still to be notified.
package struct LeasedDelivery: Sendable {
    package let hold: ListHold
    package let appID: Int32
    package let devices: [DueDevice]
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
    /// Leases the list that is due for the longest time, with one of its devices in each row; nil for a list without
    /// any.
    ///
    /// - Parameter apps: apps whose lists are left out.
    package static func claimDelivery(lease: Duration, except apps: [Int32]) -> PostgresQuery<
        (hold: ListHold, appID: Int32, device: DueDevice?)
    > {
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
                channel = .disabledWebhook
            } else {
                channel = try row.value("fails") ? .failingWebhook : .webhook
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

extension WidgetStore {
    /// Leases the list of devices that is due for the longest time; nil without any.
    ///
    /// - Parameter apps: apps whose lists are left out.
    package func claimDelivery(
        lease: Duration, except apps: [Int32]
    ) async throws(PostgresError) -> LeasedDelivery? {
        let rows = try await query(.claimDelivery(lease: lease, except: apps))
        return rows.first.map {
            LeasedDelivery(hold: $0.hold, appID: $0.appID, devices: rows.compactMap(\.device))
        }
    }
}

/// Result of an attempt to notify a device.
package struct DeliveryResult: Sendable {
    package let device: DueDevice
    /// Whether the changes up to the claim count as sent.
    package let isDone: Bool
    /// Whether something was sent.
    package let isTried: Bool
    /// HTTP status; 0: the channel was not reached.
    package let answer: Int
    package let reason: String?
    /// The push service's id of the push.
    package let apnsID: String?
    /// Environment in which the token was found to be valid; nil: the one that was assumed.
    package let environment: APNsAddress.Environment?
    /// Whether the token is dead.
    package let forgets: Bool
    /// Whether the device waits until its channel is enabled again.
    package let parks: Bool
    package let eligibleAt: Timestamp?
    package let budget: BudgetLedger
    /// When the device is tried again, unless it is done.
    package let retryAt: Timestamp?

    package init(
        device: DueDevice, isDone: Bool, isTried: Bool, answer: Int, reason: String?, apnsID: String?,
        environment: APNsAddress.Environment?, forgets: Bool, parks: Bool, eligibleAt: Timestamp?, budget: BudgetLedger,
        retryAt: Timestamp?
    ) {
        self.device = device
        self.isDone = isDone
        self.isTried = isTried
        self.answer = answer
        self.reason = reason
        self.apnsID = apnsID
        self.environment = environment
        self.forgets = forgets
        self.parks = parks
        self.eligibleAt = eligibleAt
        self.budget = budget
        self.retryAt = retryAt
    }
}

private let input = InputColumns<DeliveryResult>([
    .init("id") { $0.device.id }, .init("list") { $0.device.list.id }, .init("lease") { $0.device.list.lease },
    .init("due_at") { $0.device.dueAt }, .init("registered_at") { $0.device.registeredAt },
    .init("changed") { $0.device.changed }, .init("done") { $0.isDone }, .init("tried") { $0.isTried },
    .init("answer") { Int16(clamping: $0.answer) }, .init("reason") { $0.reason },
    .init("apns_id") { $0.apnsID }, .init("environment") { $0.environment?.stored }, .init("forgets") { $0.forgets },
    .init("parks") { $0.parks },
    .init("eligible_at") { $0.eligibleAt }, .init("budget") { $0.budget.stored }, .init("retry_at") { $0.retryAt },
])

/// Earliest time of the next attempt for a device that has changed meanwhile, or was not reached. A change that a
/// person waits for is exempt from spacing and budget.
private let earliest = """
    greatest(now() + $\(input.count + 1)::int8 * interval '1 millisecond', l.retry_at,
        CASE WHEN l.done AND r.urgent <= l.sent THEN l.eligible_at END)
    """

/// The planner cannot estimate the number of inputs, and would compare each with each locked row if they were joined
/// twice.
///
/// A row that was registered anew meanwhile keeps its new token, and is notified again: the old token took the push.
private let recordSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(input.rows("i"))
    ), held AS MATERIALIZED (
        SELECT d.id FROM (SELECT DISTINCT list, lease FROM input) i
        JOIN delivery d ON d.id = i.list AND d.lease = i.lease
        ORDER BY d.id FOR SHARE OF d
    ), locked AS MATERIALIZED (
        SELECT i.*, i.forgets AND i.registered_at = r.registered_at AS is_forgotten,
               CASE WHEN i.done AND i.registered_at = r.registered_at THEN greatest(r.sent, i.changed) ELSE r.sent END
                   AS sent
        FROM input i JOIN held h ON h.id = i.list JOIN registration r ON r.id = i.id
        WHERE r.listed_at = i.due_at
        ORDER BY r.id FOR NO KEY UPDATE OF r
    ), recorded AS (
        UPDATE registration r
        SET sent = l.sent, answer = CASE WHEN l.tried THEN l.answer ELSE r.answer END,
            reason = CASE WHEN l.tried THEN l.reason ELSE r.reason END,
            apns_id = CASE WHEN l.tried THEN l.apns_id ELSE r.apns_id END,
            found_environment = CASE WHEN l.is_forgotten THEN NULL
                WHEN l.registered_at = r.registered_at THEN coalesce(l.environment, r.found_environment)
                ELSE r.found_environment END,
            tried_at = CASE WHEN l.tried THEN now() ELSE r.tried_at END,
            sent_at = CASE WHEN l.tried AND l.done THEN now() ELSE r.sent_at END,
            first_sent_at = CASE WHEN l.is_forgotten THEN NULL
                WHEN l.tried AND l.done THEN coalesce(r.first_sent_at, now()) ELSE r.first_sent_at END,
            pushes = r.pushes + (l.tried AND l.done)::int, replays = r.replays AND l.sent < r.changed,
            attempts = CASE WHEN l.done THEN 0 WHEN l.tried THEN least(r.attempts + 1, 32767) ELSE r.attempts END,
            eligible_at = coalesce(l.eligible_at, r.eligible_at), budget = l.budget,
            retry_at = coalesce(l.retry_at, '-infinity'),
            changed_at = CASE WHEN l.done AND r.changed > l.sent THEN now() ELSE r.changed_at END,
            channel = CASE WHEN l.is_forgotten THEN 0 ELSE r.channel END,
            token = CASE WHEN l.is_forgotten THEN NULL ELSE r.token END,
            token_key = CASE WHEN l.is_forgotten THEN NULL ELSE r.token_key END,
            token_digest = CASE WHEN l.is_forgotten THEN NULL ELSE r.token_digest END,
            listed_at = CASE WHEN l.is_forgotten OR r.changed <= l.sent OR l.parks AND EXISTS (
                    SELECT FROM webhook h WHERE h.app_id = r.app_id AND h.disabled_at IS NOT NULL) THEN 'infinity'
                ELSE \(onDeliveryGrid(earliest, width: "interval '100 milliseconds'")) END
        FROM locked l
        WHERE r.id = l.id
        RETURNING r.id, r.app_id, r.listed_at
    ), numbered AS (
        SELECT id, app_id, listed_at,
               (row_number() OVER (PARTITION BY app_id, listed_at ORDER BY id) - 1) / \(deliveryListLimit) AS part
        FROM recorded WHERE listed_at < 'infinity'
    ), appended AS (
        INSERT INTO delivery (app_id, due_at, ready_at, registrations)
        SELECT app_id, listed_at, listed_at, array_agg(id ORDER BY id) FROM numbered GROUP BY app_id, listed_at, part
    )
    SELECT id FROM recorded
    """

extension PostgresStatement where Self == Statements {
    /// Stores the results of attempts of lists that are still held, and appends lists for the devices that are to be
    /// notified again. Answers the rows that were written.
    ///
    /// - Parameter window: time for which further changes are gathered, of devices that have changed meanwhile.
    package static func recordDeliveries(_ results: [DeliveryResult], window: Duration) -> PostgresQuery<Int64> {
        PostgresQuery(recordSQL, binding: input.parameters(results, window.wholeMilliseconds)) {
            row in try row.value("id")
        }
    }

    /// Whether the push service has accepted a push for the topic of a device since its last answer for the device, and
    /// knows at least as many tokens of the topic as not, by its last answers. No row: the device was registered anew.
    ///
    /// - Parameter devices: most devices of the topic to look at.
    package static func knowsMostTokens(like device: Int64, devices: Int = 1_000) -> PostgresQuery<Bool> {
        PostgresQuery(
            """
            SELECT count(*) FILTER (WHERE o.answer = 200) >= count(*) FILTER (WHERE o.has_bad_token)
                       AND max(o.tried_at) FILTER (WHERE o.answer = 200) >= r.tried_at AS most
            FROM registration r CROSS JOIN LATERAL (
                SELECT o.answer, \(hasBadToken("o", reason: "$2")) AS has_bad_token, o.tried_at FROM registration o
                WHERE o.channel = 1 AND o.app_id = r.app_id AND o.topic = r.topic
                    AND coalesce(o.found_environment, o.environment) = coalesce(r.found_environment, r.environment)
                LIMIT $3::int8) o
            WHERE r.id = $1::int8 AND r.channel = 1
            GROUP BY r.id
            """, device, APNsAnswer.badDeviceToken, devices
        ) { row in try row.optional("most") ?? false }
    }

    /// Puts a list back until a time, if it is still held: those of its devices that were not recorded are notified
    /// then.
    package static func postponeDelivery(_ list: ListHold, until time: Timestamp) -> PostgresQuery<Void> {
        PostgresQuery(
            "UPDATE delivery d SET ready_at = $3::timestamptz WHERE d.id = $1::int8 AND d.lease = $2::int8", list.id,
            list.lease, time)
    }

    /// Deletes a list that is done, if it is still held.
    package static func endDelivery(_ list: ListHold) -> PostgresQuery<Void> {
        PostgresQuery(
            "DELETE FROM delivery d WHERE d.id = $1::int8 AND d.lease = $2::int8", list.id, list.lease)
    }
}

private let noteSQL = """
    WITH stored AS (
        UPDATE timeline t SET content_revision = nextval('token'), stored_at = now()
        FROM unnest($1::int8[]) i (id) WHERE t.id = i.id AND t.id = ANY ($1::int8[])
        RETURNING t.id, t.kind_id, t.user_id, t.content_revision AS revision, t.content_revision,
            \(ReloadReason.push.rawValue)::int2 AS reason
    ), \(notedDeliveryChanges(of: "stored"))
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
