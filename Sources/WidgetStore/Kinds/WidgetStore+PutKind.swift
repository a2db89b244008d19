package import PostgresClient
package import WidgetModel

extension PostgresStatement where Self == Statements {
    /// The row of a registered app.
    package static func findApp(app: String) -> PostgresQuery<Int32> {
        PostgresQuery("SELECT a.id FROM app a WHERE a.name = $1::text", app) { row in try row.value("id") }
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
            guard let appID = try await connection.query(.findApp(app: app)).first else { return nil }
            let registered = try await connection.query(.listKinds(app: app))
            let changes = try await difference(
                [AppDefinition(name: app, kinds: [definition])], registered: registered, connection)
            guard let change = changes.first(where: { Text.equal($0.kind, definition.name) }) else { return nil }
            if isDryRun || change.action == .keep { return change }
            _ = try await connection.execute(.upsertKind(appID: appID, definition: definition))
            if change.moving != nil {
                _ = try await connection.execute(.beginMove(appID: appID, kind: definition.name))
            }
            _ = try await connection.execute(.renewPlaceholders(appID: appID))
            return change
        }
        if !isDryRun, change?.moving != nil { await notifyWorkers() }
        return change
    }
}
