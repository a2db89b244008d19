package import PostgresClient
package import WidgetModel

/// Result of an attempt to notify a device.
package struct DeliverySettlement: Sendable {
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

private let input = InputColumns<DeliverySettlement>([
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
private let settleSQL = """
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
    ), settled AS (
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
        FROM settled WHERE listed_at < 'infinity'
    ), appended AS (
        INSERT INTO delivery (app_id, due_at, ready_at, registrations)
        SELECT app_id, listed_at, listed_at, array_agg(id ORDER BY id) FROM numbered GROUP BY app_id, listed_at, part
    )
    SELECT id FROM settled
    """

extension PostgresStatement where Self == Statements {
    /// Stores the results of attempts of lists that are still held, and appends lists for the devices that are to be
    /// notified again. Answers the rows that were written.
    ///
    /// - Parameter window: time for which further changes are gathered, of devices that have changed meanwhile.
    package static func settleDeliveries(_ settlements: [DeliverySettlement], window: Duration) -> PostgresQuery<Int64>
    {
        PostgresQuery(settleSQL, binding: input.parameters(settlements, window.wholeMilliseconds)) {
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

    /// Puts a list back until a time, if it is still held: those of its devices that were not settled are notified
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
