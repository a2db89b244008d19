// SPDX-License-Identifier: Apache-2.0

package import JSON
package import PostgresClient
package import WidgetModel

/// A kind as it is registered.
///
/// A class, since every timeline under way refers to its kind.
package final class RegisteredKind: Hashable, Sendable {
    package let id: Int32
    package let appID: Int32
    package let app: String
    package let isDeveloperMode: Bool
    package let definition: KindDefinition
    package let isRetired: Bool
    /// Pause of its reloads; nil without one.
    package let pause: OperatorAction?
    /// Pause of the app.
    package let appPause: OperatorAction?

    /// The rules of its reloads.
    package let rules: ReloadRules
    /// ``WidgetModel/KindDefinition/volatilePointers`` of its definition.
    package let volatilePointers: [JSONPointer]

    package init(
        id: Int32, appID: Int32, app: String, isDeveloperMode: Bool, definition: KindDefinition,
        isRetired: Bool = false, pause: OperatorAction? = nil, appPause: OperatorAction? = nil
    ) {
        (self.id, self.appID, self.app, self.isDeveloperMode) = (id, appID, app, isDeveloperMode)
        (self.definition, self.isRetired) = (definition, isRetired)
        (self.pause, self.appPause) = (pause, appPause)
        rules = ReloadRules(definition, developerMode: isDeveloperMode)
        volatilePointers = definition.volatilePointers
    }

    /// Whether its timelines are neither claimed nor swept.
    package var isPaused: Bool { pause != nil || appPause != nil }

    package static func == (left: RegisteredKind, right: RegisteredKind) -> Bool {
        left.id == right.id && left.appID == right.appID && left.app == right.app
            && left.isDeveloperMode == right.isDeveloperMode && left.definition == right.definition
            && left.isRetired == right.isRetired && left.pause == right.pause && left.appPause == right.appPause
    }

    package func hash(into hasher: inout Hasher) { hasher.combine(id) }
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
///
/// A class, since every timeline under way refers to its app.
package final class RegisteredApp: Sendable {
    package let id: Int32
    package let name: String
    package let isDeveloperMode: Bool
    /// Never printed or logged.
    package let signingSecret: [UInt8]
    /// The previous secret while it is valid.
    package let previousSecret: [UInt8]?
    /// Whether it ever had a registered device, so that changes of its timelines are noted.
    package let delivers: Bool

    package init(
        id: Int32, name: String, isDeveloperMode: Bool, signingSecret: [UInt8], previousSecret: [UInt8]? = nil,
        delivers: Bool = false
    ) {
        (self.id, self.name, self.isDeveloperMode) = (id, name, isDeveloperMode)
        (self.signingSecret, self.previousSecret, self.delivers) = (signingSecret, previousSecret, delivers)
    }

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
                   k.retired_at IS NOT NULL AS retired, \(pauseColumns)
            FROM kind k JOIN app a ON a.id = k.app_id JOIN kind_definition d ON d.kind_id = k.id
            \(pauseJoins)
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
                        isRetired: row.value("retired"), pause: row.kindPause(), appPause: row.appPause()))
            case .failure(let error):
                return .unreadable(
                    try UnreadableKind(
                        id: row.value("id"), appID: row.value("app_id"), app: row.value("app"), name: row.value("name"),
                        isRetired: row.value("retired"),
                        isPaused: row.kindPause() != nil || row.appPause() != nil, problem: "\(error)"))
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
            INSERT INTO kind_definition AS d (kind_id, definition) SELECT id, $3::text::jsonb FROM kept
            ON CONFLICT (kind_id) DO UPDATE SET definition = excluded.definition, applied_at = now()
                WHERE d.definition <> excluded.definition
            """, appID, definition.name, definition.json().canonical
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

/// Conflict of a manifest with a registered kind.
package struct KindConflict: Error, Hashable, Sendable, CustomStringConvertible {
    package let app: String
    package let kind: String
    package let message: String

    package var description: String {
        "\(app)/\(kind): \(message)"
    }
}

/// Effect of applying a manifest on one kind.
package struct KindChange: Hashable, Sendable {
    package enum Action: String, Hashable, Sendable {
        case add, change, keep
        /// Registered, but not in the manifest; left unchanged.
        case unlisted
    }

    package let app: String
    package let kind: String
    package let action: Action
    /// Names of the fields that differ, sorted.
    package let fields: [String]
    /// Timelines whose widgets move to another identity, counted up to ``WidgetStore/timelineCountLimit``; nil if the
    /// identity stays.
    package var moving: Int?
    /// Whether more timelines may move than ``moving``, which is 0 if nothing is known: the kind has too many timelines
    /// or widgets to compare their configurations.
    package var movingIsMinimum = false
}

extension WidgetStore {
    /// Changes that ``apply(_:secrets:freshSecret:)`` would make.
    ///
    /// - Throws: ``KindConflict``; `PostgresError`.
    package func difference(_ apps: [AppDefinition]) async throws -> [KindChange] {
        try await pool.withConnection { connection in
            try await difference(apps, registered: connection.query(.listKinds()), connection)
        }
    }

    /// Registers a manifest's apps and kinds in one transaction. Kinds that it does not list stay unchanged.
    ///
    /// If `sharing` or `variesBy` changes, sweepers move the widgets to timelines of the new identity afterwards.
    ///
    /// - Parameters:
    ///   - secrets: signing secrets by app; the other apps keep theirs. A replaced secret stays valid for
    ///     ``secretOverlap``.
    ///   - freshSecret: makes the secret of a new app without one.
    /// - Throws: ``KindConflict`` when a kind is still being retired; ``RotationConflict``; `PostgresError`.
    package func apply(
        _ apps: [AppDefinition], secrets: [String: [UInt8]], freshSecret: @Sendable () -> [UInt8]
    ) async throws -> [KindChange] {
        let changes = try await pool.withTransaction { connection in
            _ = try await connection.query(.lockManifests())
            let registered = try await connection.query(.listKinds())
            let changes = try await difference(apps, registered: registered, connection)
            _ = try await replacedSecrets(secrets, connection)
            for app in apps {
                if let secret = secrets[app.name] {
                    // The old secret stays valid for a while, so that providers can follow.
                    _ = try await connection.execute(
                        .keepSecret(app: app.name, newSecret: secret, keepingOld: Self.secretOverlap))
                }
                let ids = try await connection.query(
                    .upsertApp(
                        name: app.name, isDeveloperMode: app.developerMode, signingSecret: secrets[app.name],
                        freshSecret: freshSecret()))
                guard let id = ids.first else { continue }
                for kind in app.kinds {
                    _ = try await connection.execute(.upsertKind(appID: id, definition: kind))
                    let old = registered.first { $0.isNamed(kind.name, of: app.name) }
                    if let old, old.hasOtherIdentity(than: kind) {
                        let move = Statements.beginMove(
                            appID: id, kind: kind.name, configurations: old.hasOtherConfigurations(than: kind))
                        _ = try await connection.execute(move)
                    }
                }
                _ = try await connection.execute(.renewPlaceholders(appID: id))
            }
            return changes
        }
        if changes.contains(where: { $0.moving != nil }) { await notifyWorkers() }
        return changes
    }

    func difference(
        _ apps: [AppDefinition], registered: [StoredKind], _ connection: PostgresConnection
    ) async throws -> [KindChange] {
        var changes: [KindChange] = []
        for app in apps {
            var unlisted = Dictionary(
                registered.filter { $0.app == app.name && !$0.isRetired }.map { ($0.name, $0) },
                uniquingKeysWith: { $1 })
            for kind in app.kinds {
                guard let old = unlisted.removeValue(forKey: kind.name) else {
                    if let retired = registered.first(where: { $0.isNamed(kind.name, of: app.name) && $0.isRetired }) {
                        try await requireCollected(retired, connection)
                    }
                    changes.append(KindChange(app: app.name, kind: kind.name, action: .add, fields: []))
                    continue
                }
                let fields = old.differingFields(from: kind)
                var change = KindChange(
                    app: app.name, kind: kind.name, action: fields.isEmpty ? .keep : .change, fields: fields)
                if old.hasOtherConfigurations(than: kind) {
                    // One timeline that people share may have millions of widgets.
                    (change.moving, change.movingIsMinimum) =
                        old.isPerUser && kind.sharing == .perUser
                        ? try await countMoving(kindID: old.id, to: kind, connection) : (0, true)
                } else if old.hasOtherIdentity(than: kind) {
                    let strays = Statements.countStrays(
                        kindID: old.id, definition: kind, limit: Self.timelineCountLimit)
                    change.moving = try await connection.query(strays).first ?? 0
                }
                changes.append(change)
            }
            for name in unlisted.keys.sorted() {
                changes.append(KindChange(app: app.name, kind: name, action: .unlisted, fields: []))
            }
        }
        return changes
    }

    /// Throws unless all timelines of a retired kind are collected.
    private func requireCollected(_ kind: StoredKind, _ connection: PostgresConnection) async throws {
        let limit = Self.timelineCountLimit
        let left = try await connection.query(Statements.countTimelines(kindID: kind.id, limit: limit)).first ?? 0
        guard left > 0 else { return }
        throw KindConflict(
            app: kind.app, kind: kind.name,
            message: "is being retired: \(left < limit ? "" : "at least ")\(left) timelines left; "
                + (kind.isPaused
                    ? "it is paused, so nothing of it is removed until `freshet resume`"
                    : "apply it again when they are gone, or register a kind with another name"))
    }

}

extension StoredKind {
    private var definition: KindDefinition? {
        if case .readable(let kind) = self { kind.definition } else { nil }
    }

    fileprivate var isPerUser: Bool { definition?.sharing == .perUser }

    /// Names of the fields that a new definition changes, sorted. Of an unreadable definition all may differ.
    fileprivate func differingFields(from new: KindDefinition) -> [String] {
        guard case .object(let after) = new.json() else { return [] }
        let before = definition?.json().objectValue ?? JSONObject()
        let names = Set(before.keys).union(after.keys)
        return names.filter { before[$0]?.canonical != after[$0]?.canonical }.sorted()
    }

    /// Whether a widget would show another timeline, as after an unreadable definition it may.
    fileprivate func hasOtherIdentity(than new: KindDefinition) -> Bool {
        definition.map { $0.sharing != new.sharing || $0.variesBy != new.variesBy } ?? true
            || hasOtherConfigurations(than: new)
    }

    /// Whether a configuration may have another meaning.
    fileprivate func hasOtherConfigurations(than new: KindDefinition) -> Bool {
        definition.map { $0.intent?.parameters != new.intent?.parameters } ?? true
    }

    fileprivate func isNamed(_ kind: String, of app: String) -> Bool {
        Text.equal(self.app, app) && Text.equal(name, kind)
    }
}

extension WidgetStore {
    /// Registers or changes one kind of an app, like a manifest that lists it. The app and its other kinds stay
    /// unchanged.
    ///
    /// - Parameter isDryRun: returns the change without making it.
    /// - Returns: nil if the app is not registered. Only manifests register apps, since apps have secrets.
    /// - Throws: ``KindConflict`` if the kind is being retired; `PostgresError`.
    package func put(
        _ definition: KindDefinition, of app: String, isDryRun: Bool = false
    ) async throws -> KindChange? {
        let change: KindChange? = try await pool.withTransaction { connection in
            _ = try await connection.query(.lockManifests())
            let apps = try await connection.query(.listApps())
            guard let appID = apps.first(where: { Text.equal($0.name, app) })?.id else { return nil }
            let registered = try await connection.query(.listKinds(app: app))
            let changes = try await difference(
                [AppDefinition(name: app, kinds: [definition])], registered: registered, connection)
            guard let change = changes.first(where: { Text.equal($0.kind, definition.name) }) else { return nil }
            if isDryRun || change.action == .keep { return change }
            _ = try await connection.execute(.upsertKind(appID: appID, definition: definition))
            if change.moving != nil {
                let move = Statements.beginMove(
                    appID: appID, kind: definition.name,
                    configurations: registered.contains {
                        $0.isNamed(definition.name, of: app) && $0.hasOtherConfigurations(than: definition)
                    })
                _ = try await connection.execute(move)
            }
            _ = try await connection.execute(.renewPlaceholders(appID: appID))
            return change
        }
        if !isDryRun, change?.moving != nil { await notifyWorkers() }
        return change
    }
}

extension KindDefinition {
    /// Whether the identity of the kind's timelines has each part: family, locale, time zone, user.
    var identityParts: PostgresArray<Bool> {
        PostgresArray([
            variesBy.contains(.family), variesBy.contains(.locale), variesBy.contains(.timeZone), sharing == .perUser,
        ])
    }
}

/// Condition that the identity of a timeline `t` has other parts than the parameter.
func isStray(_ parameter: String) -> String {
    """
    ARRAY[t.family IS NOT NULL, t.locale IS NOT NULL, t.time_zone IS NOT NULL, t.user_id IS NOT NULL] <> \(parameter)::bool[]
    """
}

private let countStraysSQL = """
    SELECT count(*) FILTER (WHERE counted.is_stray) AS strays FROM (
        SELECT \(isStray("$3")) AS is_stray FROM timeline t WHERE t.kind_id = $1::int4 LIMIT $2::int8
    ) counted
    """

extension PostgresStatement where Self == Statements {
    /// Number of a kind's timelines with another identity than a definition's, among the first up to a limit.
    package static func countStrays(kindID: Int32, definition: KindDefinition, limit: Int) -> PostgresQuery<Int> {
        PostgresQuery(countStraysSQL, kindID, limit, definition.identityParts) { row in try row.value("strays") }
    }

    /// Begins the move of a kind's widgets, or restarts it.
    package static func beginMove(appID: Int32, kind: String, configurations: Bool) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            INSERT INTO kind_change AS c (kind_id, retires, configurations)
            SELECT k.id, false, $3::bool FROM kind k WHERE k.app_id = $1::int4 AND k.name = $2::text
            ON CONFLICT (kind_id) DO UPDATE
                SET retires = false, started_at = now(), pass = 1, pass_begins_at = now(), cursor = 0, changed = 0,
                    changed_in_all = 0, configurations = c.configurations OR excluded.configurations
            """, appID, kind, configurations
        )
    }
}

/// Timelines and widgets of a kind with families that this version does not know.
package struct UnknownFamilies: Hashable, Sendable {
    package let app: String
    package let kind: String
    /// Numbers of those found, in large tables by a sample.
    package let timelines: Int
    package let widgets: Int
}

private let unknownFamiliesSQL = """
    SELECT a.name AS app, k.name AS kind, sum(f.timelines)::int8 AS timelines, sum(f.widgets)::int8 AS widgets
    FROM (
        SELECT t.kind_id, count(*) AS timelines, 0 AS widgets
        FROM timeline t TABLESAMPLE SYSTEM (\(samplePercent(of: "timeline")))
        WHERE t.family <> ALL ($1::int2[]) GROUP BY t.kind_id
        UNION ALL
        SELECT w.kind_id, 0, count(*)
        FROM widget w TABLESAMPLE SYSTEM (\(samplePercent(of: "widget")))
        WHERE w.family <> ALL ($1::int2[]) AND w.timeline_id IS NOT NULL GROUP BY w.kind_id
    ) f JOIN kind k ON k.id = f.kind_id JOIN app a ON a.id = k.app_id
    WHERE $2::text IS NULL OR a.name = $2::text
    GROUP BY a.name, k.name ORDER BY a.name, k.name
    """

extension PostgresStatement where Self == Statements {
    /// Looks for timelines and widgets of unknown families. Reads a bounded part of large tables.
    ///
    /// - Parameters:
    ///   - known: the known families.
    ///   - app: nil: every app.
    package static func unknownFamilies(besides known: [Int16], app: String?) -> PostgresQuery<UnknownFamilies> {
        PostgresQuery(unknownFamiliesSQL, PostgresArray(known), app) { row in
            try UnknownFamilies(
                app: row.value("app"), kind: row.value("kind"), timelines: row.value("timelines"),
                widgets: row.value("widgets"))
        }
    }
}
