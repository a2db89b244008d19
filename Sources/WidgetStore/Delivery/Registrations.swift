// SPDX-License-Identifier: Apache-2.0

package import JSON
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
            write.address.map { "\(write.appID) \(String(hexadecimal: DeviceTokenKeys.digest(of: $0.token)))" }
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

/// A registered device, and its last notification. Without the token.
package struct Registration: Sendable {
    package let user: String
    package let device: String
    package let channel: String
    package let environment: String?
    package let topic: String?
    package let registeredAt: Timestamp
    /// Number of changes that the device is still to be notified of.
    package let waiting: Int64
    /// When it is notified of them; nil: it is not.
    package let nextAt: Timestamp?
    package let changedAt: Timestamp?
    package let triedAt: Timestamp?
    /// When the channel last took a push.
    package let sentAt: Timestamp?
    /// HTTP status of the last attempt; 0: the channel was not reached.
    package let answer: Int?
    package let reason: String?
    /// The push service's id (`apns-id`) of the last attempt.
    package let apnsID: String?
    package let fetchedAt: Timestamp?
    /// Revision of the asked timeline that the device was served last; nil: none, or no timeline was asked for.
    package let fetchedRevision: Int64?
    /// Number of pushes that the channel has taken, and of those that a fetch followed before the next push.
    package let pushes: Int64
    package let answeredPushes: Int64
    /// Times from a push to the fetch of a changed timeline, of the last ones, the latest first.
    package let pushLatencies: [(kind: String, time: Duration)]

    /// Most times in ``pushLatencies``.
    static let latencyLimit = 40

    /// A quantile of the times from a push to the fetch; nil: there are none.
    ///
    /// - Parameter kind: nil: of all kinds.
    package func pushLatency(_ quantile: Double, kind: String? = nil) -> Duration? {
        let sorted = pushLatencies.filter { kind == nil || $0.kind == kind }.map(\.time).sorted()
        return sorted.isEmpty ? nil : sorted[min(sorted.count - 1, Int(quantile * Double(sorted.count)))]
    }

    private func quantiles(_ kind: String? = nil) -> [JSONObject.Member] {
        [("p50Milliseconds", 0.5), ("p99Milliseconds", 0.99)].map { name, quantile in
            (name, .count(pushLatency(quantile, kind: kind)?.wholeMilliseconds))
        }
    }

    private var kindsJSON: JSONValue {
        .array(
            Set(pushLatencies.map(\.kind)).sorted().map { kind -> JSONValue in
                let object: JSONObject = [
                    "kind": .string(kind), "fetches": .count(pushLatencies.count { $0.kind == kind }),
                ]
                return .object(JSONObject(object.members + quantiles(kind)))
            })
    }

    package var json: JSONValue {
        var object: JSONObject = [
            "device": .string(device), "channel": .string(channel), "environment": .text(environment),
            "topic": .text(topic), "registeredAt": .time(registeredAt), "waiting": .count(waiting),
            "nextAt": nextAt.map(JSONValue.time) ?? .null, "triedAt": triedAt.map(JSONValue.time) ?? .null,
            "sentAt": sentAt.map(JSONValue.time) ?? .null, "answer": answer.map { .count($0) } ?? .null,
            "reason": .text(reason), "apnsID": .text(apnsID),
            "fetchedAt": fetchedAt.map(JSONValue.time) ?? .null,
            "pushes": .count(pushes), "answeredPushes": .count(answeredPushes), "kinds": kindsJSON,
        ]
        object["fetchedRevision"] = fetchedRevision.map { .count($0) }
        return .object(JSONObject(object.members + quantiles()))
    }
}

extension PostgresStatement where Self == Statements {
    /// Registered devices of a user.
    ///
    /// - Parameters:
    ///   - device: nil: all of them.
    ///   - timeline: the timeline of ``Registration/fetchedRevision``.
    package static func listRegistrations(
        app: String, user: String, device: String? = nil, timeline: TimelineID? = nil
    ) -> PostgresQuery<Registration> {
        PostgresQuery(
            """
            SELECT r.user_id, r.device_id, CASE r.channel WHEN 1 THEN 'apns' ELSE 'webhook' END AS channel,
                   CASE coalesce(r.found_environment, r.environment) WHEN 1 THEN 'production' WHEN 2 THEN 'sandbox' END
                       AS environment, r.topic,
                   r.registered_at, r.changed - r.sent AS waiting, nullif(r.listed_at, 'infinity') AS next_at,
                   r.changed_at, r.tried_at, r.sent_at, r.answer, r.reason, r.apns_id, r.fetched_at, r.pushes, r.answered_pushes,
                   (SELECT r.fetched_revisions[array_position(r.fetched_timelines, t.id)] FROM timeline t
                    WHERE t.identity = $4::uuid) AS fetched_revision,
                   (SELECT string_agg(concat(p.milliseconds, ' ', k.name), E'\\n' ORDER BY p.place)
                    FROM unnest(r.push_latencies, r.push_kinds) WITH ORDINALITY p (milliseconds, kind_id, place)
                    JOIN kind k ON k.id = p.kind_id) AS push_latencies
            FROM app a JOIN registration r ON r.app_id = a.id
            WHERE a.name = $1::text AND r.user_id = $2::text AND r.channel <> 0
                AND ($3::text IS NULL OR r.device_id = $3::text)
            ORDER BY r.device_id LIMIT 1000
            """, app, user, device, timeline
        ) { row in
            try Registration(
                user: row.value("user_id"), device: row.value("device_id"), channel: row.value("channel"),
                environment: row.optional("environment"), topic: row.optional("topic"),
                registeredAt: row.value("registered_at"), waiting: row.value("waiting"),
                nextAt: row.optional("next_at"), changedAt: row.optional("changed_at"),
                triedAt: row.optional("tried_at"), sentAt: row.optional("sent_at"),
                answer: row.optional("answer", as: Int16.self).map(Int.init), reason: row.optional("reason"),
                apnsID: row.optional("apns_id"), fetchedAt: row.optional("fetched_at"),
                fetchedRevision: row.optional("fetched_revision"),
                pushes: Int64(row.value("pushes", as: Int32.self)),
                answeredPushes: Int64(row.value("answered_pushes", as: Int32.self)),
                pushLatencies: row.pushLatencies("push_latencies"))
        }
    }

    /// Number of devices that are still to be notified of a change from before a time. Reads the whole table.
    package static func waitingDevices(since time: Timestamp) -> PostgresQuery<Int64> {
        PostgresQuery(
            """
            SELECT count(*) AS devices FROM registration r
            WHERE r.channel <> 0 AND r.changed > r.sent AND r.changed_at < $1::timestamptz
            """, time
        ) { row in try row.value("devices") }
    }

    /// Channels of the registered devices, with their topics, the keys of their tokens and the number of tokens that
    /// the push service did not know at the last attempt. Reads the whole table.
    package static func registeredRoutes() -> PostgresQuery<RegisteredRoute> {
        PostgresQuery(
            """
            SELECT a.name AS app, r.topic, e.environment, r.token_key, count(*) AS devices,
                   count(*) FILTER (WHERE \(hasBadToken("r", reason: "$1"))) AS bad_tokens
            FROM registration r JOIN app a ON a.id = r.app_id,
                LATERAL (SELECT coalesce(r.found_environment, r.environment) AS environment) e
            WHERE r.channel <> 0
            GROUP BY a.name, r.topic, e.environment, r.token_key
            ORDER BY a.name, r.topic, e.environment, r.token_key
            """, APNsAnswer.badDeviceToken
        ) { row in
            try RegisteredRoute(
                app: row.value("app"), topic: row.optional("topic"),
                environment: row.optional("environment", as: Int16.self).map {
                    APNsAddress.Environment(stored: $0)
                }, tokenKey: row.optional("token_key"), devices: Int(row.value("devices", as: Int64.self)),
                badTokens: Int(row.value("bad_tokens", as: Int64.self)))
        }
    }
}

extension PostgresRow {
    /// Lines of milliseconds and the name of a kind, separated by a space.
    fileprivate func pushLatencies(_ name: StaticString) throws(PostgresError) -> [(kind: String, time: Duration)] {
        (try optional(name, as: String.self) ?? "").split(separator: "\n").compactMap { line in
            let parts = line.split(separator: " ", maxSplits: 1)
            guard parts.count == 2, let milliseconds = Int64(parts[0]) else { return nil }
            return (String(parts[1]), .milliseconds(milliseconds))
        }
    }
}

/// Devices of an app with the same channel.
package struct RegisteredRoute: Hashable, Sendable {
    package let app: String
    /// Topic at Apple's push service; nil for a webhook.
    package let topic: String?
    package let environment: APNsAddress.Environment?
    package let tokenKey: String?
    package let devices: Int
    /// Devices whose token the push service did not know at the last attempt.
    package let badTokens: Int
}

/// A stored token with the device that it belongs to.
package typealias StoredToken = (id: Int64, owner: DeviceTokenKeys.Owner, sealed: DeviceTokenKeys.Sealed)

/// A token that is to be stored in place of another one.
package typealias ResealedToken = (id: Int64, old: DeviceTokenKeys.Sealed, new: DeviceTokenKeys.Sealed)

private let input = InputColumns<ResealedToken>([
    .init("id") { $0.id }, .init("old") { $0.old.bytes }, .init("token_key") { $0.new.keyID },
    .init("token") { $0.new.bytes },
])

/// A token that a registration has replaced meanwhile stays.
private let resealSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(input.rows("i"))
    ), held AS (
        SELECT r.id, i.token_key, i.token FROM input i JOIN registration r ON r.id = i.id AND r.token = i.old
        ORDER BY r.id FOR NO KEY UPDATE OF r
    )
    UPDATE registration r SET token_key = h.token_key, token = h.token FROM held h WHERE r.id = h.id RETURNING r.id
    """

extension PostgresStatement where Self == Statements {
    /// Tokens behind an id that are sealed with another key than the given one.
    package static func tokensToReseal(except key: String, after id: Int64) -> PostgresQuery<StoredToken> {
        PostgresQuery(
            """
            SELECT r.id, r.app_id, r.user_id, r.device_id, r.token_key, r.token FROM registration r
            WHERE r.id > $2::int8 AND r.token_key <> $1::text ORDER BY r.id LIMIT 500
            """, key, id
        ) { row in
            try StoredToken(
                id: row.value("id"),
                owner: DeviceTokenKeys.Owner(
                    appID: row.value("app_id"), user: row.value("user_id"), device: row.value("device_id")),
                sealed: DeviceTokenKeys.Sealed(keyID: row.value("token_key"), bytes: row.value("token")))
        }
    }

    /// Replaces tokens. Answers the rows that were written.
    package static func resealTokens(_ tokens: [ResealedToken]) -> PostgresQuery<Int64> {
        PostgresQuery(resealSQL, binding: input.parameters(tokens)) { row in try row.value("id") }
    }
}

extension WidgetStore {
    /// Seals every stored token that is sealed with an earlier key with the current one.
    ///
    /// - Returns: the number of those tokens, and the numbers of others by the id of the key that does not open them.
    package func resealTokens(
        with keys: DeviceTokenKeys
    ) async throws -> (resealed: Int, unreadable: [String: Int]) {
        var result: (resealed: Int, unreadable: [String: Int]) = (0, [:])
        var last = Int64(0)
        while true {
            let tokens = try await query(.tokensToReseal(except: keys.current, after: last))
            guard let end = tokens.last?.id else { return result }
            last = end
            var resealed: [ResealedToken] = []
            for token in tokens {
                do throws(DeviceTokenKeys.Unreadable) {
                    let new = try keys.seal(try keys.open(token.sealed, for: token.owner), for: token.owner)
                    resealed.append((id: token.id, old: token.sealed, new: new))
                } catch {
                    result.unreadable[token.sealed.keyID, default: 0] += 1
                }
            }
            result.resealed += try await query(.resealTokens(resealed)).count
        }
    }
}
