// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// State of an app's signing secrets, without the secrets.
package struct AppSecrets: Hashable, Sendable {
    package let id: Int32
    package let name: String
    package let isDeveloperMode: Bool
    /// Time at which the present secret replaced one that is still valid.
    package let replacedAt: Timestamp?
    /// Expiry of the previous secret; nil without one.
    package let previousExpiresAt: Timestamp?
}

/// Refusal of a further secret while an app's previous one is valid: its provider may still use that one.
package struct RotationConflict: Error, Hashable, Sendable, CustomStringConvertible {
    package let app: String

    package var description: String {
        "a rotation of the signing secret of \(app) is under way, and its provider may use the previous secret"
    }
}

extension WidgetStore {
    /// Default time for which an app's previous secret stays valid.
    package static var secretOverlap: Duration { .seconds(86_400) }

    /// Result of replacing a secret.
    package struct SecretRotation: Hashable, Sendable {
        /// False if the app had this secret already: nothing was changed.
        package let isChanged: Bool
        package let secrets: AppSecrets
    }

    /// Gives an app a new signing secret. The present one stays valid for a while, in which requests are signed with
    /// both.
    ///
    /// - Returns: nil without such an app.
    /// - Throws: ``RotationConflict``; `PostgresError`.
    package func rotateSecret(
        app: String, to secret: [UInt8], keepingOld overlap: Duration = secretOverlap
    ) async throws -> SecretRotation? {
        try await pool.withTransaction { connection in
            _ = try await connection.query(.lockManifests())
            _ = try await replacedSecrets([app: secret], connection)
            _ = try await connection.execute(.keepSecret(app: app, newSecret: secret, keepingOld: overlap))
            let changed = try await connection.query(.replaceSecret(app: app, secret: secret))
            return try await connection.query(.readSecrets(app: app)).first.map {
                SecretRotation(isChanged: !changed.isEmpty, secrets: $0)
            }
        }
    }

    /// Registered apps that have another signing secret than the given one, sorted.
    ///
    /// - Parameter secrets: secrets by app.
    /// - Throws: ``RotationConflict`` if one of them has a valid previous secret, too; `PostgresError`.
    package func replacedSecrets(_ secrets: [String: [UInt8]]) async throws -> [String] {
        try await pool.withConnection { try await replacedSecrets(secrets, $0) }
    }

    func replacedSecrets(
        _ secrets: [String: [UInt8]], _ connection: PostgresConnection
    ) async throws -> [String] {
        try await connection.query(.listApps()).compactMap { app in
            guard let secret = secrets[app.name], secret != app.signingSecret else { return nil }
            guard app.previousSecret == nil else { throw RotationConflict(app: app.name) }
            return app.name
        }
    }

    /// Ends the validity of an app's previous secret and returns whether it had a valid one.
    package func endSecretRotation(app: String) async throws -> Bool {
        try await pool.query(.forgetSecret(app: app)).first ?? false
    }
}

extension PostgresStatement where Self == Statements {
    /// Apps with the state of their secrets.
    ///
    /// - Parameter app: name of the app; nil for all.
    package static func readSecrets(app: String?) -> PostgresQuery<AppSecrets> {
        PostgresQuery(
            """
            SELECT a.id, a.name, a.developer_mode, p.replaced_at, p.expires_at
            FROM app a LEFT JOIN previous_secret p ON p.app_id = a.id AND p.expires_at > now()
            WHERE $1::text IS NULL OR a.name = $1::text
            ORDER BY a.name
            """, app
        ) { row in
            try AppSecrets(
                id: row.value("id"), name: row.value("name"), isDeveloperMode: row.value("developer_mode"),
                replacedAt: row.optional("replaced_at"), previousExpiresAt: row.optional("expires_at"))
        }
    }

    /// Keeps an app's signing secret valid for a while before its replacement, and drops an earlier one.
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

    /// Ends the validity of an app's previous secret. Returns whether it was valid.
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
