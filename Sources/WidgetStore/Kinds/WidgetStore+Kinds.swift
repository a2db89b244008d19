package import PostgresClient
package import WidgetModel

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
    /// - Throws: ``KindConflict`` when a kind is still being retired; `PostgresError`.
    package func apply(
        _ apps: [AppDefinition], secrets: [String: [UInt8]], freshSecret: @Sendable () -> [UInt8]
    ) async throws -> [KindChange] {
        let changes = try await pool.withTransaction { connection in
            _ = try await connection.query(.lockManifests())
            let registered = try await connection.query(.listKinds())
            let changes = try await difference(apps, registered: registered, connection)
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
                if old.hasOtherIdentity(than: kind) {
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
