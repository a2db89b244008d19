// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// State of a webhook that fails.
package struct FailingWebhook: Hashable, Sendable {
    package let app: String
    package let failingSince: Timestamp
    /// When it was disabled; nil: it is still tried.
    package let disabledAt: Timestamp?
    package let error: String
}

private let relistSQL = """
    WITH picked AS MATERIALIZED (
        SELECT r.id FROM registration r JOIN app a ON a.id = r.app_id
        WHERE a.name = $1::text AND r.id > $2::int8
            AND r.channel = 2 AND r.listed_at = 'infinity'
            AND (CASE WHEN $3::timestamptz IS NULL THEN r.changed > r.sent ELSE r.sent_at >= $3::timestamptz END)
        ORDER BY r.id LIMIT \(deliveryListLimit) FOR NO KEY UPDATE OF r
    ), listed AS (
        UPDATE registration r
        SET listed_at = now() + $4::int8 * interval '1 millisecond', changed = greatest(r.changed, r.sent + 1), retry_at = '-infinity', attempts = 0,
            changed_at = now(), replays = $3::timestamptz IS NOT NULL
        FROM picked p WHERE r.id = p.id
        RETURNING r.id, r.app_id, r.listed_at
    ), appended AS (
        INSERT INTO delivery (app_id, due_at, ready_at, registrations)
        SELECT app_id, listed_at, listed_at, array_agg(id ORDER BY id) FROM listed GROUP BY app_id, listed_at
    )
    SELECT count(*) AS devices, max(id) AS last FROM listed
    """

extension PostgresStatement where Self == Statements {
    /// Records that an app's webhook has failed, and disables it once it has failed for too long. Answers whether it is
    /// disabled.
    ///
    /// Devices that wait are tried every hour at least. After a longer pause, in which no request was sent, the time
    /// counts anew.
    ///
    /// - Parameter patience: time after which a webhook that fails is disabled; nil: at once.
    package static func recordWebhookFailure(appID: Int32, error: String, patience: Duration?) -> PostgresQuery<Bool> {
        PostgresQuery(
            """
            INSERT INTO webhook AS h (app_id, failing_since, failed_at, disabled_at, error)
            VALUES ($1::int4, now(), now(), CASE WHEN $3::int8 IS NULL THEN now() END, $2::text)
            ON CONFLICT (app_id) DO UPDATE
                SET failing_since = CASE WHEN h.failed_at < now() - interval '3 hours' THEN now()
                        ELSE h.failing_since END,
                    disabled_at = CASE
                        WHEN $3::int8 IS NULL THEN coalesce(h.disabled_at, now())
                        WHEN h.disabled_at IS NULL AND h.failed_at >= now() - interval '3 hours'
                            AND h.failing_since < now() - $3::int8 * interval '1 millisecond' THEN now()
                        ELSE h.disabled_at END,
                    failed_at = now(), error = excluded.error
            RETURNING h.disabled_at IS NOT NULL AS disabled
            """, appID, error, patience?.wholeMilliseconds
        ) { row in try row.value("disabled") }
    }

    /// Records that an app's webhook works.
    package static func recordWebhookSuccess(appID: Int32) -> PostgresQuery<Void> {
        PostgresQuery("DELETE FROM webhook WHERE app_id = $1::int4", appID)
    }

    /// Enables an app's webhook again. Answers a row if it had failed.
    package static func enableWebhook(app: String) -> PostgresQuery<Int32> {
        PostgresQuery(
            "DELETE FROM webhook h USING app a WHERE a.id = h.app_id AND a.name = $1::text RETURNING h.app_id", app
        ) { row in try row.value("app_id") }
    }

    /// Webhooks that fail.
    package static func failingWebhooks() -> PostgresQuery<FailingWebhook> {
        PostgresQuery(
            """
            SELECT a.name AS app, h.failing_since, h.disabled_at, h.error FROM webhook h JOIN app a ON a.id = h.app_id
            ORDER BY a.name
            """
        ) { row in
            try FailingWebhook(
                app: row.value("app"), failingSince: row.value("failing_since"),
                disabledAt: row.optional("disabled_at"), error: row.value("error"))
        }
    }

    /// Lists devices with a webhook again, in chunks by id: those that wait for it to be enabled, or, with a time,
    /// those that were notified since then. Answers the number of devices and the last id; nil: there are no more.
    ///
    /// - Parameter delay: time until they are notified.
    package static func relistDevices(
        app: String, after: Int64, notifiedSince time: Timestamp?, delay: Duration
    ) -> PostgresQuery<(devices: Int64, last: Int64?)> {
        PostgresQuery(relistSQL, app, after, time, delay.wholeMilliseconds) { row in
            try (devices: row.value("devices"), last: row.optional("last"))
        }
    }

    /// Number of stored tokens by the key that they are sealed with.
    package static func tokenKeysInUse() -> PostgresQuery<(key: String, devices: Int64)> {
        PostgresQuery(
            """
            SELECT r.token_key, count(*) AS devices FROM registration r WHERE r.token_key IS NOT NULL
            GROUP BY r.token_key ORDER BY r.token_key
            """
        ) { row in try (key: row.value("token_key"), devices: row.value("devices")) }
    }
}

extension WidgetStore {
    /// Time between the lists of 500 devices that are listed again: 2,000 devices a second.
    package static var relistInterval: Duration { .milliseconds(250) }

    /// Lists devices of an app again, one list after the other; see
    /// ``PostgresStatement/relistDevices(app:after:notifiedSince:delay:)``.
    ///
    /// - Returns: the number of devices.
    package func relistDevices(
        app: String, notifiedSince time: Timestamp?, every interval: Duration = relistInterval
    ) async throws -> Int {
        var (count, previous, delay) = (0, Int64(0), Duration.zero)
        while let chunk = try await query(
            .relistDevices(app: app, after: previous, notifiedSince: time, delay: delay)
        ).first, let last = chunk.last {
            count += Int(chunk.devices)
            previous = last
            delay += interval
        }
        return count
    }
}
