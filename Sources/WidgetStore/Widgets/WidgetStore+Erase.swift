import PostgresClient
import WidgetModel

/// Result of erasing a user.
package struct Erasure: Hashable, Sendable {
    package let widgets: Int
    /// Timelines that the user's widgets showed. Those that nobody else shows are collected by the workers, which
    /// publish their tombstones.
    package let timelines: Int
    package let deadLetters: Int
}

extension WidgetStore {
    /// Most repetitions for widgets that are placed meanwhile.
    private static let eraseAttempts = 10

    /// Erases a user of an app: widgets, stored timelines and dead letters. Widgets placed meanwhile are erased too; events
    /// that still wait in Kafka are not, so the app must have stopped sending.
    ///
    /// - Returns: `nil` when there is no such app.
    /// - Throws: `PostgresError`.
    package func erase(user: String, of app: String) async throws -> Erasure? {
        guard let registered = try await pool.query(.listApps()).first(where: { $0.name == app }) else { return nil }
        var total = Erasure(widgets: 0, timelines: 0, deadLetters: 0)
        for _ in 1...Self.eraseAttempts {
            let part = try await retryingConflicts { try await eraseOnce(user, registered) }
            total = Erasure(
                widgets: total.widgets + part.widgets, timelines: total.timelines + part.timelines, deadLetters: 0)
            if part.widgets == 0 { break }
        }
        let letters = try await eraseDeadLetters(of: user, app)
        return Erasure(widgets: total.widgets, timelines: total.timelines, deadLetters: letters)
    }

    /// Looks through all dead letters, in chunks with a transaction each.
    private func eraseDeadLetters(of user: String, _ app: String) async throws -> Int {
        var (deleted, previous) = (0, Int64(0))
        while true {
            let chunk = try await retryingConflicts { [previous] in
                try await pool.query(.deleteDeadLettersOfUser(app: app, user: user, after: previous)).first
            }
            guard let chunk, let last = chunk.last else { return deleted }
            deleted += chunk.deleted
            previous = last
        }
    }

    /// Widgets before timelines, as ingest locks them.
    private func eraseOnce(_ user: String, _ app: RegisteredApp) async throws -> Erasure {
        try await pool.withTransaction { connection in
            let deleted = try await connection.query(.deleteWidgetsOfUser(appID: app.id, user: user))
            let timelines = Array(Set(deleted.compactMap { $0 }))
            if !timelines.isEmpty {
                var marks = MarkInput()
                marks.departed = timelines
                var pipeline = PostgresPipeline()
                _ = pipeline.append(.markTimelines(marks, limit: 0))
                _ = pipeline.append(.orphanTimelines(timelines))
                _ = pipeline.append(.deleteContentOfUser(timelines, user: user))
                _ = try await connection.run(pipeline)
            }
            _ = try await connection.execute(.deleteOutcomesOfUser(appID: app.id, user: user))
            return Erasure(widgets: deleted.count, timelines: timelines.count, deadLetters: 0)
        }
    }
}
