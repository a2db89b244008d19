import PostgresClient

/// What was erased of a user.
package struct Erasure: Hashable, Sendable {
    package let widgets: Int
    /// Timelines that the user's widgets showed. Those that nobody else shows are collected by the workers, which
    /// publish their tombstones.
    package let timelines: Int
    package let deadLetters: Int

    package init(widgets: Int, timelines: Int, deadLetters: Int) {
        self.widgets = widgets
        self.timelines = timelines
        self.deadLetters = deadLetters
    }
}

extension WidgetStore {
    /// Erases a user of an app: widgets, stored timelines and dead letters, in one transaction.
    ///
    /// - Returns: `nil` when there is no such app.
    /// - Throws: `PostgresError`.
    package func erase(user: String, of app: String) async throws -> Erasure? {
        guard let registered = try await pool.query(ListApps()).first(where: { $0.name == app }) else { return nil }
        return try await pool.withTransaction { connection in
            let timelines = try await connection.query(TimelinesOfUser(appID: registered.id, user: user))
            _ = try await connection.query(LockTimelines(timelines))
            let widgets = try await connection.execute(DeleteWidgetsOfUser(appID: registered.id, user: user))
            _ = try await connection.execute(OrphanTimelines(timelines))
            _ = try await connection.execute(DeleteContentOfUser(timelines, user: user))
            let letters = try await connection.execute(DeleteDeadLettersOfUser(app: app, user: user))
            return Erasure(widgets: widgets, timelines: timelines.count, deadLetters: letters)
        }
    }
}
