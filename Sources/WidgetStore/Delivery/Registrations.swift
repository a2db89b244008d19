package import PostgresClient
package import WidgetModel

/// A device to be registered, or to be registered no longer.
package struct RegistrationWrite: Sendable {
    package let appID: Int32
    package let user: String
    package let device: String
    package let time: Timestamp
    /// Whether it counts as not older than what was registered before.
    package let isOrderedByArrival: Bool
    /// Nil: the device is registered no longer.
    package let channel: DeliveryChannel?
    /// The token of the channel, sealed.
    package let token: DeviceTokenKeys.Sealed?

    package init(
        appID: Int32, user: String, device: String, time: Timestamp, isOrderedByArrival: Bool,
        channel: DeliveryChannel?, token: DeviceTokenKeys.Sealed? = nil
    ) {
        self.appID = appID
        self.user = user
        self.device = device
        self.time = time
        self.isOrderedByArrival = isOrderedByArrival
        self.channel = channel
        self.token = token
    }

    fileprivate var address: APNsAddress? {
        if case .apns(let address) = channel { address } else { nil }
    }

    fileprivate static let input = InputColumns<RegistrationWrite>([
        .init("app_id") { $0.appID }, .init("user_id") { $0.user }, .init("device_id") { $0.device },
        .init("time") { $0.time }, .init("by_arrival") { $0.isOrderedByArrival },
        .init("channel") { DeliveryChannel.stored($0.channel) },
        .init("environment") { $0.address?.environment.stored }, .init("topic") { $0.address?.topic },
        .init("token_key") { $0.token?.keyID }, .init("token") { $0.token?.bytes },
        .init("token_digest") { ($0.address?.token).map(DeviceTokenKeys.digest) },
    ])
}

extension DeliveryChannel {
    static func stored(_ channel: DeliveryChannel?) -> Int16 {
        switch channel {
        case nil: 0
        case .apns: 1
        case .webhook: 2
        }
    }
}

extension APNsAddress.Environment {
    var stored: Int16 { self == .production ? 1 : 2 }

    init(stored: Int16) { self = stored == 2 ? .sandbox : .production }
}

/// Columns of a registration that has no channel any more.
private let cleared = """
    channel = 0, environment = NULL, found_environment = NULL, topic = NULL, token_key = NULL, token = NULL, token_digest = NULL,
    listed_at = 'infinity', first_sent_at = NULL, fetched_timelines = '{}', fetched_revisions = '{}', stale_timelines = '{}',
    stale_revisions = '{}', stale_since = '{}'
    """

/// Existing rows, those with the same tokens included, are locked in id order before anything is written, as all
/// statements on registrations do. A device that is registered again is notified of changes that were not sent; with
/// the same token not before its back-off is over. The environment in which that token was found stays, too, unless the
/// registration names another one than before.
private let writeRegistrationsSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(RegistrationWrite.input.rows("i"))
    ), held AS MATERIALIZED (
        SELECT r.id, r.app_id, r.user_id, r.device_id, r.registered_at, r.listed_at FROM registration r
        WHERE r.id = ANY (ARRAY(
            SELECT o.id FROM input i JOIN registration o USING (app_id, user_id, device_id)
            UNION
            SELECT o.id FROM input i JOIN registration o ON o.app_id = i.app_id AND o.token_digest = i.token_digest))
        ORDER BY r.id FOR NO KEY UPDATE
    ), stamped AS (
        SELECT i.*, CASE WHEN i.by_arrival THEN greatest(i.time, \(usableTime("h.registered_at")))
            ELSE i.time END AS registered_at
        FROM input i LEFT JOIN held h USING (app_id, user_id, device_id)
    ), written AS (
        INSERT INTO registration AS r (app_id, user_id, device_id, registered_at, channel, environment, topic, token_key,
            token, token_digest)
        SELECT i.app_id, i.user_id, i.device_id, i.registered_at, i.channel, i.environment, i.topic, i.token_key,
            i.token, i.token_digest
        FROM stamped i ORDER BY i.app_id, i.user_id, i.device_id
        ON CONFLICT (app_id, user_id, device_id) DO UPDATE
        SET registered_at = excluded.registered_at, channel = excluded.channel, environment = excluded.environment,
            found_environment = CASE WHEN r.token_digest = excluded.token_digest
                AND r.environment = excluded.environment THEN r.found_environment END,
            topic = excluded.topic, token_key = excluded.token_key, token = excluded.token,
            token_digest = excluded.token_digest,
            retry_at = CASE WHEN r.token_digest = excluded.token_digest THEN r.retry_at ELSE '-infinity' END,
            attempts = CASE WHEN r.token_digest = excluded.token_digest THEN r.attempts ELSE 0 END,
            first_sent_at = CASE WHEN r.channel = excluded.channel
                AND r.token_digest IS NOT DISTINCT FROM excluded.token_digest THEN r.first_sent_at END,
            fetched_timelines = CASE WHEN excluded.channel = 0 THEN '{}' ELSE r.fetched_timelines END,
            fetched_revisions = CASE WHEN excluded.channel = 0 THEN '{}' ELSE r.fetched_revisions END,
            stale_timelines = CASE WHEN excluded.channel = 0 THEN '{}' ELSE r.stale_timelines END,
            stale_revisions = CASE WHEN excluded.channel = 0 THEN '{}' ELSE r.stale_revisions END,
            stale_since = CASE WHEN excluded.channel = 0 THEN '{}' ELSE r.stale_since END,
            listed_at = CASE WHEN excluded.channel = 0 THEN 'infinity'
                WHEN r.changed > r.sent THEN least(r.listed_at, greatest(now(), r.eligible_at,
                    CASE WHEN r.token_digest = excluded.token_digest THEN r.retry_at END))
                ELSE r.listed_at END
        WHERE r.registered_at <= excluded.registered_at OR r.registered_at > clock_timestamp()
        RETURNING r.id, r.app_id, r.user_id, r.device_id, r.listed_at, r.channel
    ), flagged AS (
        UPDATE app a SET delivers = true
        FROM (SELECT DISTINCT app_id FROM written WHERE channel <> 0) w WHERE a.id = w.app_id AND NOT a.delivers
    ), appended AS (
        INSERT INTO delivery (app_id, due_at, ready_at, registrations)
        SELECT w.app_id, w.listed_at, w.listed_at, array_agg(w.id ORDER BY w.id)
        FROM written w JOIN held h ON h.id = w.id WHERE w.listed_at < h.listed_at
        GROUP BY w.app_id, w.listed_at
    )
    SELECT app_id, user_id, device_id FROM written
    """

/// Class of the advisory locks on tokens.
private let tokenLocks = 9

private let releaseTokensSQL = """
    WITH stale AS (
        SELECT r.id FROM unnest($1::int4[], $2::bytea[]) i (app_id, digest)
        JOIN registration r ON r.app_id = i.app_id AND r.token_digest = i.digest
        WHERE EXISTS (
            SELECT FROM registration o
            WHERE o.app_id = r.app_id AND o.token_digest = r.token_digest
                AND (coalesce(\(usableTime("o.registered_at")), '-infinity'), o.id)
                    > (coalesce(\(usableTime("r.registered_at")), '-infinity'), r.id))
        ORDER BY r.id FOR NO KEY UPDATE OF r
    )
    UPDATE registration r SET \(cleared) FROM stale s WHERE r.id = s.id
    """

package typealias RegisteredDevice = (appID: Int32, user: String, device: String)

extension PostgresStatement where Self == Statements {
    /// Registered devices of users.
    package static func registeredDevices(of users: [(appID: Int32, user: String)]) -> PostgresQuery<RegisteredDevice> {
        PostgresQuery(
            """
            SELECT r.app_id, r.user_id, r.device_id
            FROM unnest($1::int4[], $2::text[]) i (app_id, user_id) JOIN registration r USING (app_id, user_id)
            WHERE r.channel <> 0
            """, PostgresArray(users.map(\.appID)), PostgresArray(users.map(\.user))
        ) { row in
            try (appID: row.value("app_id"), user: row.value("user_id"), device: row.value("device_id"))
        }
    }

    /// Waits for the transactions that register devices with the same tokens. Of two that cannot see each other's rows,
    /// neither would take the token from the other's device. There are 1,024 locks, since a batch's must fit into the
    /// server's lock table.
    package static func lockTokens(of writes: [RegistrationWrite]) -> PostgresQuery<Void> {
        let tokens = writes.compactMap { write in
            write.address.map { "\(write.appID) \(Hex.text(DeviceTokenKeys.digest(of: $0.token)))" }
        }
        return PostgresQuery(
            """
            SELECT pg_advisory_xact_lock(\(tokenLocks), t.hash)
            FROM (SELECT DISTINCT hashtext(i.token) & 1023 AS hash FROM unnest($1::text[]) i (token) ORDER BY hash) t
            """, PostgresArray(tokens))
    }

    /// Registers devices, at most one write for each, unless a later event has been applied; answers those that were
    /// written.
    package static func writeRegistrations(_ writes: [RegistrationWrite]) -> PostgresQuery<RegisteredDevice> {
        PostgresQuery(writeRegistrationsSQL, binding: RegistrationWrite.input.parameters(writes)) { row in
            try (appID: row.value("app_id"), user: row.value("user_id"), device: row.value("device_id"))
        }
    }

    /// Takes the tokens from all registrations but the latest one of each: a device that another user signs in on must
    /// not be notified of the first one's widgets.
    package static func releaseTokens(of writes: [RegistrationWrite]) -> PostgresQuery<Void> {
        let tokens = writes.compactMap { write in
            write.address.map { (write.appID, DeviceTokenKeys.digest(of: $0.token)) }
        }
        return PostgresQuery(releaseTokensSQL, PostgresArray(tokens.map(\.0)), PostgresArray(tokens.map(\.1)))
    }

    package static func deleteRegistrations(appID: Int32, user: String) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH held AS (
                SELECT r.id FROM registration r WHERE r.app_id = $1::int4 AND r.user_id = $2::text
                ORDER BY r.id FOR UPDATE
            )
            DELETE FROM registration r USING held h WHERE r.id = h.id
            """, appID, user)
    }
}
