package import PostgresClient
package import WidgetModel

/// State of an app's signing secrets, without the secrets.
package struct AppSecrets: Hashable, Sendable {
    package let id: Int32
    package let name: String
    package let isDeveloperMode: Bool
    /// When the present secret replaced another one that is still valid.
    package let replacedAt: Timestamp?
    /// Until when the one before it is valid; nil: there is none.
    package let previousExpiresAt: Timestamp?
}

extension PostgresStatement where Self == Statements {
    /// Apps with the state of their secrets.
    ///
    /// - Parameter app: nil: every app.
    package static func readSecrets(app: String?) -> PostgresQuery<AppSecrets> {
        PostgresQuery(
            """
            SELECT a.id, a.name, a.developer_mode, p.replaced_at, p.expires_at
            FROM app a LEFT JOIN previous_secret p ON p.app_id = a.id AND p.expires_at > now()
            WHERE $1::text IS NULL OR a.name = $1::text
            ORDER BY a.name
            """, app
        ) { row in
            AppSecrets(
                id: try row.value("id"), name: try row.value("name"), isDeveloperMode: try row.value("developer_mode"),
                replacedAt: try row.optional("replaced_at"), previousExpiresAt: try row.optional("expires_at"))
        }
    }

    /// Keeps an app's signing secret valid for a while before it is replaced with another one; an earlier one is dropped.
    package static func keepSecret(app: String, newSecret: [UInt8], keepingOld overlap: Duration) -> PostgresQuery<Void>
    {
        PostgresQuery(
            """
            WITH present AS (
                SELECT id, signing_secret FROM app
                WHERE name = $1::text AND signing_secret <> $2::bytea
                FOR NO KEY UPDATE
            )
            INSERT INTO previous_secret AS p (app_id, secret, expires_at, replaced_at)
            SELECT id, signing_secret, now() + $3::int8 * interval '1 millisecond', now() FROM present
            ON CONFLICT (app_id) DO UPDATE
                SET secret = excluded.secret, expires_at = excluded.expires_at, replaced_at = excluded.replaced_at
            """, app, newSecret, overlap.wholeMilliseconds
        )
    }

    /// Gives an app its next signing secret.
    package static func replaceSecret(app: String, secret: [UInt8]) -> PostgresQuery<Int32> {
        PostgresQuery(
            """
            UPDATE app SET signing_secret = $2::bytea WHERE name = $1::text AND signing_secret <> $2::bytea RETURNING id
            """, app, secret
        ) { row in try row.value("id") }
    }

    /// Ends the validity of an app's previous secret. Answers a row when it was valid until now.
    package static func forgetSecret(app: String) -> PostgresQuery<Bool> {
        PostgresQuery(
            """
            DELETE FROM previous_secret p USING app a
            WHERE a.name = $1::text AND p.app_id = a.id
            RETURNING p.expires_at > now() AS valid
            """, app
        ) { row in try row.value("valid") }
    }
}
