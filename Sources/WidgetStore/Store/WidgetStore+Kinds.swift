import PostgresClient
package import WidgetModel

/// Why a manifest cannot be applied to what is registered.
package struct KindConflict: Error, Hashable, Sendable, CustomStringConvertible {
    package let app: String
    package let kind: String
    package let message: String

    package var description: String {
        "\(app)/\(kind): \(message)"
    }
}

/// What applying a manifest does, kind by kind.
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
}

extension WidgetStore {
    /// What ``apply(_:secrets:freshSecret:)`` would do, without doing it.
    package func difference(_ apps: [AppDefinition]) async throws -> [KindChange] {
        try await difference(apps, registered: pool.query(ListKinds()))
    }

    /// Registers apps and kinds as the manifest says, in one transaction. Kinds that it does not list are left alone.
    ///
    /// - Parameters:
    ///   - secrets: signing secrets that the manifest gives, by app; the others keep theirs.
    ///   - freshSecret: makes the secret of a new app that is given none.
    /// - Throws: ``KindConflict`` when a kind's identity would change; `PostgresError`.
    package func apply(
        _ apps: [AppDefinition], secrets: [String: [UInt8]], freshSecret: @Sendable () -> [UInt8]
    ) async throws -> [KindChange] {
        try await pool.withTransaction { connection in
            _ = try await connection.query(LockManifests())
            let registered = try await connection.query(ListKinds())
            let changes = try difference(apps, registered: registered)
            for app in apps {
                let ids = try await connection.query(
                    UpsertApp(
                        name: app.name, isDeveloperMode: app.developerMode, signingSecret: secrets[app.name],
                        freshSecret: freshSecret()))
                guard let id = ids.first else { continue }
                for kind in app.kinds {
                    _ = try await connection.execute(UpsertKind(appID: id, definition: kind))
                }
                _ = try await connection.execute(RenewPlaceholders(appID: id))
            }
            return changes
        }
    }

    private func difference(
        _ apps: [AppDefinition], registered: [RegisteredKind]
    ) throws(KindConflict) -> [KindChange] {
        var changes: [KindChange] = []
        for app in apps {
            var unlisted = Dictionary(
                registered.filter { $0.app == app.name && !$0.isRetired }.map { ($0.definition.name, $0) },
                uniquingKeysWith: { $1 })
            for kind in app.kinds {
                guard let old = unlisted.removeValue(forKey: kind.name) else {
                    changes.append(KindChange(app: app.name, kind: kind.name, action: .add, fields: []))
                    continue
                }
                // Moving the widgets to timelines of another identity is a sweep of its own, not a side effect of
                // applying a manifest.
                guard old.definition.sharing == kind.sharing, old.definition.variesBy == kind.variesBy else {
                    throw KindConflict(
                        app: app.name, kind: kind.name,
                        message: "sharing and variesBy are part of every timeline's identity and cannot change; "
                            + "register a kind of another name, or restore the old values")
                }
                let fields = differingFields(old.definition, kind)
                changes.append(
                    KindChange(
                        app: app.name, kind: kind.name, action: fields.isEmpty ? .keep : .change, fields: fields))
            }
            for name in unlisted.keys.sorted() {
                changes.append(KindChange(app: app.name, kind: name, action: .unlisted, fields: []))
            }
        }
        return changes
    }

    private func differingFields(_ old: KindDefinition, _ new: KindDefinition) -> [String] {
        guard case .object(let before) = old.json(), case .object(let after) = new.json() else { return [] }
        let names = Set(before.keys).union(after.keys)
        return names.filter { before[$0]?.canonical != after[$0]?.canonical }.sorted()
    }
}
