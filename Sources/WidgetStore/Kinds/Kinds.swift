package import PostgresClient
package import WidgetModel

/// A kind as it is registered.
package struct RegisteredKind: Hashable, Sendable {
    package let id: Int32
    package let appID: Int32
    package let app: String
    package let isDeveloperMode: Bool
    package let definition: KindDefinition
    package var isRetired: Bool = false
    /// Begin of the pause of its reloads; nil without one.
    package var pausedAt: Timestamp?
    /// Begin of the pause of the app.
    package var appPausedAt: Timestamp?

    /// Whether its timelines are neither claimed nor swept.
    package var isPaused: Bool { pausedAt != nil || appPausedAt != nil }
}

/// A kind whose stored definition this version cannot read, such as one that a newer version has written. Its timelines
/// are neither claimed nor swept, and events that need the definition wait as dead letters.
package struct UnreadableKind: Hashable, Sendable {
    package let id: Int32
    package let appID: Int32
    package let app: String
    package let name: String
    package let isRetired: Bool
    package let isPaused: Bool
    /// First error of the definition, with its place.
    package let problem: String

    /// Error message for callers that need the definition.
    package var message: String {
        "this version cannot read the stored definition of kind \(Text.quoted(name)) of app \(Text.quoted(app)): "
            + "\(problem)"
    }
}

/// A kind's row with its stored definition.
package enum StoredKind: Hashable, Sendable {
    case readable(RegisteredKind)
    case unreadable(UnreadableKind)

    package var id: Int32 {
        switch self {
        case .readable(let kind): kind.id
        case .unreadable(let kind): kind.id
        }
    }

    package var app: String {
        switch self {
        case .readable(let kind): kind.app
        case .unreadable(let kind): kind.app
        }
    }

    package var name: String {
        switch self {
        case .readable(let kind): kind.definition.name
        case .unreadable(let kind): kind.name
        }
    }

    package var isPaused: Bool {
        switch self {
        case .readable(let kind): kind.isPaused
        case .unreadable(let kind): kind.isPaused
        }
    }

    package var isRetired: Bool {
        switch self {
        case .readable(let kind): kind.isRetired
        case .unreadable(let kind): kind.isRetired
        }
    }
}

extension Sequence where Element == StoredKind {
    package var readable: [RegisteredKind] {
        compactMap { if case .readable(let kind) = $0 { kind } else { nil } }
    }

    package var unreadable: [UnreadableKind] {
        compactMap { if case .unreadable(let kind) = $0 { kind } else { nil } }
    }
}

/// An app's row, with the secrets that sign its provider calls.
package struct RegisteredApp: Sendable {
    package let id: Int32
    package let name: String
    package let isDeveloperMode: Bool
    /// Never printed or logged.
    package let signingSecret: [UInt8]
    /// The previous secret while it is valid.
    package var previousSecret: [UInt8]?
    /// Whether it ever had a registered device, so that changes of its timelines are noted.
    package var delivers = false

    /// Valid secrets, the newest first.
    package var signingSecrets: [[UInt8]] { [signingSecret] + (previousSecret.map { [$0] } ?? []) }
}

private let names = InputColumns<DirectoryName>([.init("app") { $0.app }, .init("kind") { $0.kind }])

private let anyIsRegisteredSQL = """
    SELECT EXISTS (
        SELECT FROM \(names.rows("i")) JOIN app a ON a.name = i.app
        WHERE i.kind IS NULL
            OR EXISTS (SELECT FROM kind k WHERE k.app_id = a.id AND k.name = i.kind AND k.retired_at IS NULL)
    ) AS registered
    """

extension PostgresStatement where Self == Statements {
    /// Whether one of these apps and kinds is registered and not retired.
    package static func anyIsRegistered(_ some: [DirectoryName]) -> PostgresQuery<Bool> {
        PostgresQuery(anyIsRegisteredSQL, binding: names.parameters(some)) { row in try row.value("registered") }
    }

    /// Kinds with their definitions, by app and name. A definition that cannot be read does not affect other kinds.
    ///
    /// - Parameters:
    ///   - app: name of the app; nil for all.
    ///   - id: row of the kind; nil for all.
    package static func listKinds(app: String? = nil, id: Int32? = nil) -> PostgresQuery<StoredKind> {
        PostgresQuery(
            """
            SELECT k.id, k.app_id, a.name AS app, k.name, a.developer_mode, d.definition::text AS definition,
                   k.retired_at IS NOT NULL AS retired, k.paused_at, a.paused_at AS app_paused_at
            FROM kind k JOIN app a ON a.id = k.app_id JOIN kind_definition d ON d.kind_id = k.id
            WHERE ($1::text IS NULL OR a.name = $1::text) AND ($2::int4 IS NULL OR k.id = $2::int4)
            ORDER BY a.name, k.name
            """, app, id
        ) { row in
            switch try row.definition("definition") {
            case .success(let definition):
                return .readable(
                    try RegisteredKind(
                        id: row.value("id"), appID: row.value("app_id"), app: row.value("app"),
                        isDeveloperMode: row.value("developer_mode"), definition: definition,
                        isRetired: row.value("retired"), pausedAt: row.optional("paused_at"),
                        appPausedAt: row.optional("app_paused_at")))
            case .failure(let error):
                return .unreadable(
                    try UnreadableKind(
                        id: row.value("id"), appID: row.value("app_id"), app: row.value("app"), name: row.value("name"),
                        isRetired: row.value("retired"),
                        isPaused: row.optional("paused_at", as: Timestamp.self) != nil
                            || row.optional("app_paused_at", as: Timestamp.self) != nil, problem: "\(error)"))
            }
        }
    }

    package static func listApps() -> PostgresQuery<RegisteredApp> {
        PostgresQuery(
            """
            SELECT a.id, a.name, a.developer_mode, a.signing_secret, a.delivers, p.secret
            FROM app a LEFT JOIN previous_secret p ON p.app_id = a.id AND p.expires_at > now()
            ORDER BY a.name
            """
        ) { row in
            try RegisteredApp(
                id: row.value("id"), name: row.value("name"), isDeveloperMode: row.value("developer_mode"),
                signingSecret: row.value("signing_secret"), previousSecret: row.optional("secret"),
                delivers: row.value("delivers"))
        }
    }

    /// Registers an app, or changes its settings.
    ///
    /// - Parameters:
    ///   - signingSecret: new secret; nil keeps the app's.
    ///   - freshSecret: secret of a new app without one.
    package static func upsertApp(name: String, isDeveloperMode: Bool, signingSecret: [UInt8]?, freshSecret: [UInt8])
        -> PostgresQuery<Int32>
    {
        PostgresQuery(
            """
            INSERT INTO app AS a (name, developer_mode, signing_secret)
            VALUES ($1::text, $2::bool, coalesce($3::bytea, $4::bytea))
            ON CONFLICT (name) DO UPDATE
                SET developer_mode = excluded.developer_mode, signing_secret = coalesce($3::bytea, a.signing_secret)
            RETURNING a.id
            """, name, isDeveloperMode, signingSecret, freshSecret
        ) { row in try row.value("id") }
    }

    /// Registers a kind or changes its definition; a retired kind is restored.
    package static func upsertKind(appID: Int32, definition: KindDefinition) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH kept AS (
                INSERT INTO kind AS k (app_id, name) VALUES ($1::int4, $2::text)
                ON CONFLICT (app_id, name) DO UPDATE SET retired_at = NULL
                RETURNING k.id
            ), revived AS (
                DELETE FROM kind_change c USING kept k WHERE c.kind_id = k.id AND c.retires
            )
            INSERT INTO kind_definition AS d (kind_id, definition) SELECT id, $3::jsonb FROM kept
            ON CONFLICT (kind_id) DO UPDATE SET definition = excluded.definition, applied_at = now()
                WHERE d.definition <> excluded.definition
            """, appID, definition.name, PostgresJSON(definition.json().canonical)
        )
    }

    /// Makes the placeholders of the kinds that this transaction has changed due again. Results of fetches for the old
    /// definition are dropped.
    package static func renewPlaceholders(appID: Int32) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH locked AS (
                SELECT p.kind_id, p.family, p.locale, p.time_zone
                FROM kind k
                JOIN kind_definition d ON d.kind_id = k.id AND d.applied_at = now()
                JOIN placeholder p ON p.kind_id = k.id
                WHERE k.app_id = $1::int4
                ORDER BY p.kind_id, p.family, p.locale, p.time_zone
                FOR NO KEY UPDATE OF p
            )
            UPDATE placeholder p SET due_at = now(), asked_at = now(), claim = p.claim + 1, attempts = 0
            FROM locked l
            WHERE p.kind_id = l.kind_id AND p.family = l.family AND p.locale = l.locale AND p.time_zone = l.time_zone
            """, appID
        )
    }

    /// Serialises applications of manifests until the end of the transaction.
    package static func lockManifests() -> PostgresQuery<Void> {
        PostgresQuery("SELECT pg_advisory_xact_lock(hashtext('freshet manifests'))")
    }
}
