package import PostgresClient
package import WidgetModel

/// What is to be known of an app's signing secrets; the secrets themselves are not.
package struct AppSecrets: Hashable, Sendable {
    package let id: Int32
    package let name: String
    package let isDeveloperMode: Bool
    /// When the present secret replaced another one that is still valid.
    package let replacedAt: Timestamp?
    /// Until when the one before it is valid; nil: there is none.
    package let previousExpiresAt: Timestamp?
}

/// Apps with what is known of their secrets.
package struct ReadSecrets: PostgresStatement {
    package static let sql = """
        SELECT a.id, a.name, a.developer_mode, p.replaced_at, p.expires_at
        FROM app a LEFT JOIN previous_secret p ON p.app_id = a.id AND p.expires_at > now()
        WHERE $1::text IS NULL OR a.name = $1::text
        ORDER BY a.name
        """

    let app: String?

    /// - Parameter app: nil: every app.
    package init(app: String?) {
        self.app = app
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> AppSecrets {
        AppSecrets(
            id: try row.value(0), name: try row.value(1), isDeveloperMode: try row.value(2),
            replacedAt: try row.optional(3, as: PostgresTimestamp.self).map { Timestamp($0) },
            previousExpiresAt: try row.optional(4, as: PostgresTimestamp.self).map { Timestamp($0) })
    }
}

/// An app's signing secret is about to be replaced: the present one stays valid for a while. Nothing is kept when it is the
/// same secret; what was kept before is, at most, replaced.
package struct KeepSecret: PostgresStatement {
    package static let sql = """
        WITH present AS (
            SELECT id, signing_secret FROM app
            WHERE name = $1::text AND signing_secret <> $2::bytea
            FOR NO KEY UPDATE
        )
        INSERT INTO previous_secret AS p (app_id, secret, expires_at, replaced_at)
        SELECT id, signing_secret, now() + $3::int8 * interval '1 millisecond', now() FROM present
        ON CONFLICT (app_id) DO UPDATE
            SET secret = excluded.secret, expires_at = excluded.expires_at, replaced_at = excluded.replaced_at
        """

    let app: String
    let newSecret: [UInt8]
    let overlap: Duration

    package init(app: String, newSecret: [UInt8], keepingOld overlap: Duration) {
        self.app = app
        self.newSecret = newSecret
        self.overlap = overlap
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(PostgresBytes(newSecret))
        parameters.append(overlap.wholeMilliseconds)
    }
}

/// Gives an app its next signing secret.
package struct ReplaceSecret: PostgresStatement {
    package static let sql = """
        UPDATE app SET signing_secret = $2::bytea WHERE name = $1::text AND signing_secret <> $2::bytea RETURNING id
        """

    let app: String
    let secret: [UInt8]

    package init(app: String, secret: [UInt8]) {
        self.app = app
        self.secret = secret
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(PostgresBytes(secret))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int32 {
        try row.value(0)
    }
}

/// Ends the validity of an app's previous secret. Answers a row when it was valid until now.
package struct ForgetSecret: PostgresStatement {
    package static let sql = """
        DELETE FROM previous_secret p USING app a
        WHERE a.name = $1::text AND p.app_id = a.id
        RETURNING p.expires_at > now()
        """

    let app: String

    package init(app: String) {
        self.app = app
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool {
        try row.value(0)
    }
}
