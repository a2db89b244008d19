package import PostgresClient
package import WidgetModel

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
    package let pushLatencies: [PushLatency]

    package struct PushLatency: Hashable, Sendable {
        package let kind: String
        package let time: Duration

        /// Reads milliseconds and the name of a kind, separated by a space.
        fileprivate init?(stored line: Substring) {
            let parts = line.split(separator: " ", maxSplits: 1)
            guard parts.count == 2, let milliseconds = Int64(parts[0]) else { return nil }
            (kind, time) = (String(parts[1]), .milliseconds(milliseconds))
        }
    }

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
            JSONObject.Member(
                key: name, value: pushLatency(quantile, kind: kind).map { .count($0.wholeMilliseconds) } ?? .null)
        }
    }

    private var kindsJSON: JSONValue {
        .array(
            Set(pushLatencies.map(\.kind)).sorted().map { kind in
                .object(
                    JSONObject(
                        [
                            .init(key: "kind", value: .string(kind)),
                            .init(key: "fetches", value: .count(pushLatencies.count { $0.kind == kind })),
                        ] + quantiles(kind)))
            })
    }

    package var json: JSONValue {
        let object: JSONObject = [
            "device": .string(device), "channel": .string(channel), "environment": .text(environment),
            "topic": .text(topic), "registeredAt": .time(registeredAt), "waiting": .count(waiting),
            "nextAt": nextAt.map(JSONValue.time) ?? .null, "triedAt": triedAt.map(JSONValue.time) ?? .null,
            "sentAt": sentAt.map(JSONValue.time) ?? .null, "answer": answer.map { .count($0) } ?? .null,
            "reason": .text(reason), "apnsID": .text(apnsID),
            "fetchedAt": fetchedAt.map(JSONValue.time) ?? .null,
            "pushes": .count(pushes), "answeredPushes": .count(answeredPushes), "kinds": kindsJSON,
        ]
        let revision = fetchedRevision.map { [JSONObject.Member(key: "fetchedRevision", value: .count($0))] } ?? []
        return .object(JSONObject(object.members + revision + quantiles()))
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
                pushLatencies: (row.optional("push_latencies", as: String.self) ?? "").split(separator: "\n")
                    .compactMap(Registration.PushLatency.init(stored:)))
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

    /// Channels of the registered devices, with their topics, the keys of their tokens and the number of tokens that the
    /// push service did not know at the last attempt. Reads the whole table.
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
