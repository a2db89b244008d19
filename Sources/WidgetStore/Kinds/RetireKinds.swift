package import PostgresClient
import WidgetModel

package struct RetiredKind: Hashable, Sendable {
    package let kindID: Int32
    /// Whether it was not retired before.
    package let isChanged: Bool
    package let isPaused: Bool
}

extension PostgresStatement where Self == Statements {
    /// Retires a kind, ends a move of its widgets and deletes its sweeps; no row: there is no such kind.
    package static func retireKind(app: String, kind: String) -> PostgresQuery<RetiredKind> {
        PostgresQuery(
            """
            WITH locked AS (
                SELECT k.id, k.retired_at, k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL AS paused
                FROM kind k JOIN app a ON a.id = k.app_id
                WHERE a.name = $1::text AND k.name = $2::text
                FOR NO KEY UPDATE OF k
            ), changed AS (
                UPDATE kind k SET retired_at = now() FROM locked l WHERE k.id = l.id AND l.retired_at IS NULL
            ), begun AS (
                INSERT INTO kind_change AS c (kind_id, retires) SELECT id, true FROM locked WHERE retired_at IS NULL
                ON CONFLICT (kind_id) DO UPDATE
                    SET retires = true, started_at = now(), pass = 1, pass_begins_at = now(), cursor = 0, changed = 0,
                        changed_in_all = 0
            ), swept AS (
                DELETE FROM sweep s USING locked l WHERE s.kind_id = l.id
            )
            SELECT id, retired_at IS NULL AS changed, paused FROM locked
            """, app, kind
        ) { row in
            RetiredKind(
                kindID: try row.value("id"), isChanged: try row.value("changed"), isPaused: try row.value("paused"))
        }
    }

    /// Number of timelines of a kind, counted up to a limit.
    package static func countTimelines(kindID: Int32, limit: Int) -> PostgresQuery<Int> {
        PostgresQuery(
            """
            SELECT count(*) AS count FROM (SELECT FROM timeline t WHERE t.kind_id = $1::int4 LIMIT $2::int8) counted
            """, kindID, limit
        ) { row in try row.value("count") }
    }
}

/// Result of retiring a kind.
package struct Retirement: Hashable, Sendable {
    /// Whether it was not retired before.
    package let isChanged: Bool
    /// Remaining timelines, counted up to ``WidgetStore/timelineCountLimit``.
    package let timelines: Int
    /// Whether it or its app is paused: the timelines stay until it is resumed.
    package let isPaused: Bool
}

extension WidgetStore {
    /// Number up to which the timelines of a kind are counted for people.
    package static let timelineCountLimit = 1_000_000

    /// Retires a kind: its timelines are only collected, and cannot be read any more. Sweepers take the widgets off its
    /// timelines, and workers publish their tombstones. Events that name it become dead letters.
    ///
    /// - Returns: `nil` when there is no such kind.
    /// - Throws: `PostgresError`.
    package func retire(app: String, kind: String) async throws -> Retirement? {
        let retirement: Retirement? = try await pool.withTransaction { connection in
            // Not while a manifest that may list the kind is applied.
            _ = try await connection.query(.lockManifests())
            guard let row = try await connection.query(.retireKind(app: app, kind: kind)).first else { return nil }
            let count = Statements.countTimelines(kindID: row.kindID, limit: Self.timelineCountLimit)
            let timelines = try await connection.query(count).first ?? 0
            return Retirement(isChanged: row.isChanged, timelines: timelines, isPaused: row.isPaused)
        }
        if retirement != nil { await notifyWorkers() }
        return retirement
    }
}
