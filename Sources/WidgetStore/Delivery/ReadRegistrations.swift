package import PostgresClient
package import WidgetModel

/// A registered device, and what it was told last. Without the token.
package struct Registration: Sendable {
    package let user: String
    package let device: String
    package let channel: String
    package let environment: String?
    package let topic: String?
    package let registeredAt: Timestamp
    /// Changes that the device is still to be told of.
    package let waiting: Int64
    /// When it is told of them; nil: it is not.
    package let nextAt: Timestamp?
    package let changedAt: Timestamp?
    package let triedAt: Timestamp?
    /// When the channel last took a push.
    package let sentAt: Timestamp?
    /// HTTP status of the last attempt; 0: the channel was not reached.
    package let answer: Int?
    package let reason: String?
    package let fetchedAt: Timestamp?

    package var json: JSONValue {
        [
            "device": .string(device), "channel": .string(channel), "environment": .text(environment),
            "topic": .text(topic), "registeredAt": .time(registeredAt), "waiting": .count(waiting),
            "nextAt": nextAt.map(JSONValue.time) ?? .null, "triedAt": triedAt.map(JSONValue.time) ?? .null,
            "sentAt": sentAt.map(JSONValue.time) ?? .null, "answer": answer.map { .count($0) } ?? .null,
            "reason": .text(reason), "fetchedAt": fetchedAt.map(JSONValue.time) ?? .null,
        ]
    }
}

extension PostgresStatement where Self == Statements {
    /// Registered devices of a user.
    ///
    /// - Parameter device: nil: all of them.
    package static func listRegistrations(app: String, user: String, device: String? = nil) -> PostgresQuery<
        Registration
    > {
        PostgresQuery(
            """
            SELECT r.user_id, r.device_id, CASE r.channel WHEN 1 THEN 'apns' ELSE 'webhook' END AS channel,
                   CASE r.environment WHEN 1 THEN 'production' WHEN 2 THEN 'sandbox' END AS environment, r.topic,
                   r.registered_at, r.changed - r.sent AS waiting, nullif(r.listed_at, 'infinity') AS next_at,
                   r.changed_at, r.tried_at, r.sent_at, r.answer, r.reason, r.fetched_at
            FROM app a JOIN registration r ON r.app_id = a.id
            WHERE a.name = $1::text AND r.user_id = $2::text AND r.channel <> 0
                AND ($3::text IS NULL OR r.device_id = $3::text)
            ORDER BY r.device_id LIMIT 1000
            """, app, user, device
        ) { row in
            Registration(
                user: try row.value("user_id"), device: try row.value("device_id"), channel: try row.value("channel"),
                environment: try row.optional("environment"), topic: try row.optional("topic"),
                registeredAt: try row.value("registered_at"), waiting: try row.value("waiting"),
                nextAt: try row.optional("next_at"), changedAt: try row.optional("changed_at"),
                triedAt: try row.optional("tried_at"), sentAt: try row.optional("sent_at"),
                answer: try row.optional("answer", as: Int16.self).map(Int.init), reason: try row.optional("reason"),
                fetchedAt: try row.optional("fetched_at"))
        }
    }

    /// Number of devices that are still to be told of a change from before a time. Reads the whole table.
    package static func waitingDevices(since time: Timestamp) -> PostgresQuery<Int64> {
        PostgresQuery(
            """
            SELECT count(*) AS devices FROM registration r
            WHERE r.channel <> 0 AND r.changed > r.sent AND r.changed_at < $1::timestamptz
            """, time
        ) { row in try row.value("devices") }
    }

    /// Apps and channels of the registered devices, and the keys of their tokens. Reads the whole table.
    package static func registeredRoutes() -> PostgresQuery<
        (app: String, channel: String, tokenKey: String?, devices: Int64)
    > {
        PostgresQuery(
            """
            SELECT a.name AS app, CASE r.channel WHEN 1 THEN 'apns' ELSE 'webhook' END AS channel, r.token_key,
                   count(*) AS devices
            FROM registration r JOIN app a ON a.id = r.app_id WHERE r.channel <> 0
            GROUP BY a.name, r.channel, r.token_key ORDER BY a.name, r.channel, r.token_key
            """
        ) { row in
            (
                app: try row.value("app"), channel: try row.value("channel"), tokenKey: try row.optional("token_key"),
                devices: try row.value("devices")
            )
        }
    }
}
