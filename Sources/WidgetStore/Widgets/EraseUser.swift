// SPDX-License-Identifier: Apache-2.0

import JSON
package import PostgresClient
import WidgetModel

/// Result of erasing a user.
package struct Erasure: Hashable, Sendable {
    package var widgets: Int
    /// Number of timelines that the user's widgets showed. Workers collect those without other widgets and publish
    /// tombstones.
    package var timelines: Int
    package var deadLetters: Int
}

extension WidgetStore {
    /// Most attempts, for widgets that are placed during the erasure.
    private static let eraseAttempts = 10

    /// Erases a user of an app: stacks, shortcuts and habits, registered devices, widgets, stored timelines and dead
    /// letters. Events that wait in Kafka are not erased, so the app must stop sending first.
    ///
    /// - Returns: `nil` without such an app.
    /// - Throws: `PostgresError`.
    package func erase(user: String, of app: String) async throws -> Erasure? {
        guard let registered = try await pool.query(.listApps()).first(where: { $0.name == app }) else { return nil }
        var total = Erasure(widgets: 0, timelines: 0, deadLetters: 0)
        for _ in 1...Self.eraseAttempts {
            let part = try await retryingConflicts { try await eraseOnce(user, registered) }
            total.widgets += part.widgets
            total.timelines += part.timelines
            if part.widgets == 0 { break }
        }
        total.deadLetters = try await eraseDeadLetters(of: user, app)
        return total
    }

    /// Scans the dead letters of the app, in chunks with a transaction each.
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

    /// Deletes in ingest's order of locks: the person, widgets, schedules, timelines, registrations.
    private func eraseOnce(_ user: String, _ app: RegisteredApp) async throws -> Erasure {
        try await pool.withTransaction { connection in
            // A command's pool does not watch the history, and the statements take tokens.
            _ = try await connection.query(.checkTokenOrigin())
            _ = try await connection.execute(.deletePerson(appID: app.id, user: user))
            let deleted = try await connection.query(.deleteWidgetsOfUser(appID: app.id, user: user))
            _ = try await connection.execute(.emptySchedules(appID: app.id, user: user))
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
            _ = try await connection.execute(.deleteRegistrations(appID: app.id, user: user))
            _ = try await connection.execute(.deleteOutcomesOfUser(appID: app.id, user: user))
            return Erasure(widgets: deleted.count, timelines: timelines.count, deadLetters: 0)
        }
    }
}

extension PostgresStatement where Self == Statements {
    package static func deletePerson(appID: Int32, user: String) -> PostgresQuery<Void> {
        PostgresQuery("DELETE FROM person WHERE app_id = $1::int4 AND user_id = $2::text", appID, user)
    }

    /// Takes the content from the schedules of a person's stacks. Their new revisions invalidate plans under way;
    /// workers delete them after publishing their tombstones.
    package static func emptySchedules(appID: Int32, user: String) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH locked AS MATERIALIZED (
                SELECT s.id FROM stack_schedule s WHERE s.app_id = $1::int4 AND s.user_id = $2::text
                ORDER BY s.id FOR NO KEY UPDATE
            )
            UPDATE stack_schedule s
            SET revision = nextval('token'), schedule = NULL, suggests = false, published = false, due_at = now(),
                read_at = '-infinity'
            FROM locked l WHERE s.id = l.id
            """, appID, user
        )
    }

    /// Deletes the user's widgets, removed ones included, in key order, and returns the timelines that they showed.
    package static func deleteWidgetsOfUser(appID: Int32, user: String) -> PostgresQuery<Int64?> {
        PostgresQuery(
            """
            WITH owned AS MATERIALIZED (
                SELECT w.id FROM widget w
                WHERE w.app_id = $1::int4 AND w.user_id = $2::text AND w.timeline_id IS NOT NULL
                UNION ALL
                SELECT w.id FROM widget w
                WHERE w.app_id = $1::int4 AND w.user_id = $2::text AND w.timeline_id IS NULL
            ), locked AS MATERIALIZED (
                SELECT w.id FROM widget w
                WHERE w.app_id = $1::int4 AND w.id = ANY (ARRAY(SELECT o.id FROM owned o)) AND w.user_id = $2::text
                ORDER BY w.id
                FOR UPDATE
            )
            DELETE FROM widget w
            WHERE w.app_id = $1::int4 AND w.id = ANY (ARRAY(SELECT l.id FROM locked l))
            RETURNING w.timeline_id
            """, appID, user
        ) { row in try row.optional("timeline_id") }
    }

    /// Deletes the content and the snapshots of the user's own timelines. The new revision invalidates fetches under
    /// way; tombstones follow when the orphaned rows are collected. The transaction must have locked the rows.
    package static func deleteContentOfUser(_ rows: [Int64], user: String) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH fenced AS (
                UPDATE timeline t
                SET revision = nextval('token'), content_revision = 0, content = NULL, hash = NULL, stored_at = NULL,
                    rendered_at = NULL
                WHERE t.id = ANY ($1::int8[]) AND t.user_id = $2::text
                RETURNING t.id
            )
            DELETE FROM snapshot p USING fenced f WHERE p.timeline_id = f.id
            """, PostgresArray(rows), user
        )
    }

    /// Deletes the user's letters in the next chunk of the app's dead letters: those with the user as key, as header
    /// `freshet-user`, or in the data like the API's placements. The last id is nil at the end.
    ///
    /// - Parameter previous: last id of the chunk before.
    package static func deleteDeadLettersOfUser(app: String, user: String, after previous: Int64) -> PostgresQuery<
        (last: Int64?, deleted: Int)
    > {
        let member = Array(#""user":"#.utf8) + JSONValue.string(user).encoded
        return PostgresQuery(
            """
            WITH chunk AS MATERIALIZED (
                SELECT d.id FROM dead_letter d WHERE d.app = $1::text AND d.id > $4::int8 ORDER BY d.id LIMIT 1000
            ), deleted AS (
                DELETE FROM dead_letter d
                WHERE d.id = ANY (ARRAY(SELECT c.id FROM chunk c))
                  AND (d.key = $2::bytea OR position($3::bytea IN d.payload) > 0
                       OR EXISTS (SELECT 1 FROM unnest(d.header_names, d.header_values) h (name, value)
                                  WHERE lower(h.name) = 'freshet-user' AND h.value = $2::bytea))
                RETURNING 1
            )
            SELECT (SELECT max(c.id) FROM chunk c) AS last, (SELECT count(*) FROM deleted) AS deleted
            """, app, Array(user.utf8), member, previous
        ) { row in try (last: row.optional("last"), deleted: row.value("deleted")) }
    }

    /// Deletes the outcomes of events published with a user's tokens.
    package static func deleteOutcomesOfUser(appID: Int32, user: String) -> PostgresQuery<Void> {
        PostgresQuery("DELETE FROM event_outcome WHERE app_id = $1::int4 AND user_id = $2::text", appID, user)
    }
}
