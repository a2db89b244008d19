import PostgresClient
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
        /// Registered, but not in the manifest: left as it is.
        case unlisted
    }

    package let app: String
    package let kind: String
    package let action: Action
    /// Names of the fields that differ, sorted.
    package let fields: [String]
    /// Timelines whose widgets move because their identity changes, counted up to ``WidgetStore/timelineCountLimit``; nil: it
    /// does not change.
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

    /// Registers apps and kinds as the manifest says, in one transaction. Kinds that it does not list are left alone.
    ///
    /// Where `sharing` or `variesBy` changes, the sweepers move the widgets to timelines of the new identity afterwards.
    ///
    /// - Parameters:
    ///   - secrets: signing secrets that the manifest gives, by app; the others keep theirs. Where one is new, the one
    ///     before stays valid for ``secretOverlap``.
    ///   - freshSecret: makes the secret of a new app that is given none.
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
                    // The one before stays valid for a while, so that providers can follow.
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
                    if let old = old?.definition, old.hasOtherIdentity(than: kind) {
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
        _ apps: [AppDefinition], registered: [RegisteredKind], _ connection: PostgresConnection
    ) async throws -> [KindChange] {
        var changes: [KindChange] = []
        for app in apps {
            var unlisted = Dictionary(
                registered.filter { $0.app == app.name && !$0.isRetired }.map { ($0.definition.name, $0) },
                uniquingKeysWith: { $1 })
            for kind in app.kinds {
                guard let old = unlisted.removeValue(forKey: kind.name) else {
                    if let retired = registered.first(where: { $0.isNamed(kind.name, of: app.name) && $0.isRetired }) {
                        try await requireCollected(retired, connection)
                    }
                    changes.append(KindChange(app: app.name, kind: kind.name, action: .add, fields: []))
                    continue
                }
                let fields = differingFields(old.definition, kind)
                var change = KindChange(
                    app: app.name, kind: kind.name, action: fields.isEmpty ? .keep : .change, fields: fields)
                if old.definition.hasOtherIdentity(than: kind) {
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

    /// Requires that all timelines of a retired kind are collected before it is registered again.
    private func requireCollected(_ kind: RegisteredKind, _ connection: PostgresConnection) async throws {
        let limit = Self.timelineCountLimit
        let left = try await connection.query(Statements.countTimelines(kindID: kind.id, limit: limit)).first ?? 0
        guard left > 0 else { return }
        throw KindConflict(
            app: kind.app, kind: kind.definition.name,
            message: "is being retired: \(left < limit ? "" : "at least ")\(left) timelines left; "
                + (kind.isPaused
                    ? "it is paused, so nothing of it is removed until `freshet resume`"
                    : "apply it again when they are gone, or register a kind of another name"))
    }

    private func differingFields(_ old: KindDefinition, _ new: KindDefinition) -> [String] {
        guard case .object(let before) = old.json(), case .object(let after) = new.json() else { return [] }
        let names = Set(before.keys).union(after.keys)
        return names.filter { before[$0]?.canonical != after[$0]?.canonical }.sorted()
    }
}

extension KindDefinition {
    /// Whether the same widget would show another timeline.
    fileprivate func hasOtherIdentity(than other: KindDefinition) -> Bool {
        sharing != other.sharing || variesBy != other.variesBy || hasOtherConfigurations(than: other)
    }

    /// Whether the same configuration may count for something else.
    fileprivate func hasOtherConfigurations(than other: KindDefinition) -> Bool {
        intent?.parameters != other.intent?.parameters
    }
}

extension RegisteredKind {
    fileprivate func isNamed(_ kind: String, of app: String) -> Bool {
        Text.equal(self.app, app) && Text.equal(definition.name, kind)
    }
}

extension WidgetStore {
    /// Registers one kind of an app, or changes it, as a manifest that lists it would; its other kinds and the app itself
    /// are left as they are.
    ///
    /// - Parameter isDryRun: returns the change without making it.
    /// - Returns: nil when the app is not registered. Only a manifest registers apps, since they have secrets.
    /// - Throws: ``KindConflict`` when the kind is still being retired; `PostgresError`.
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
                    appID: appID, kind: definition.name, configurations: change.fields.contains("intent"))
                _ = try await connection.execute(move)
            }
            _ = try await connection.execute(.renewPlaceholders(appID: appID))
            return change
        }
        if !isDryRun, change?.moving != nil { await notifyWorkers() }
        return change
    }
}
