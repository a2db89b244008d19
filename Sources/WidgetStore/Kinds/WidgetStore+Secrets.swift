import PostgresClient

extension WidgetStore {
    /// Default time for which an app's previous secret stays valid.
    package static var secretOverlap: Duration { .seconds(86_400) }

    /// Result of replacing a secret.
    package struct SecretRotation: Hashable, Sendable {
        /// False: the app has this secret already, or is not to lose its previous one. Nothing was changed.
        package let isChanged: Bool
        package let secrets: AppSecrets
    }

    /// Gives an app a new signing secret, beside which the present one stays valid for a while. Requests are signed with
    /// both meanwhile.
    ///
    /// - Parameter unlessRotating: whether a rotation under way goes on instead; otherwise its previous secret is dropped.
    /// - Returns: nil when there is no such app.
    package func rotateSecret(
        app: String, to secret: [UInt8], keepingOld overlap: Duration = secretOverlap, unlessRotating: Bool = false
    ) async throws -> SecretRotation? {
        try await pool.withTransaction { connection in
            _ = try await connection.query(.lockManifests())
            if unlessRotating, let secrets = try await connection.query(.readSecrets(app: app)).first,
                secrets.previousExpiresAt != nil
            {
                return SecretRotation(isChanged: false, secrets: secrets)
            }
            _ = try await connection.execute(.keepSecret(app: app, newSecret: secret, keepingOld: overlap))
            let changed = try await connection.query(.replaceSecret(app: app, secret: secret))
            return try await connection.query(.readSecrets(app: app)).first.map {
                SecretRotation(isChanged: !changed.isEmpty, secrets: $0)
            }
        }
    }

    /// Ends the validity of an app's previous secret at once.
    ///
    /// - Returns: whether there was one that was valid.
    package func endSecretRotation(app: String) async throws -> Bool {
        try await pool.query(.forgetSecret(app: app)).first ?? false
    }
}
