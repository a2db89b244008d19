package import PostgresClient
import WidgetModel

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

private let cancelKindSQL = """
    WITH target AS (
        SELECT k.id FROM kind k JOIN app a ON a.id = k.app_id
        WHERE a.name = $1::text AND k.name = $2::text AND k.retired_at IS NULL
        FOR NO KEY UPDATE OF k
    ), changed AS (
        UPDATE kind k SET cancelled_generation = k.generation FROM target t WHERE k.id = t.id
    ), swept AS (
        DELETE FROM sweep s USING target t WHERE s.kind_id = t.id AND s.audience = 0 RETURNING 1
    ), dropped AS (
        DELETE FROM work w USING target t
        WHERE w.kind_id = t.id AND w.lane = \(ReloadLane.bulk.rawValue) AND w.generation IS NOT NULL
            AND w.leases = 0
        RETURNING cardinality(w.timelines) AS timelines
    )
    SELECT (SELECT count(*) FROM swept) AS sweeps,
           (SELECT coalesce(sum(timelines), 0) FROM dropped)::int8 AS timelines
    FROM target
    """

/// Bulk work of a kind that was cancelled.
package struct Cancellation: Hashable, Sendable {
    /// Reloads of everyone under way, and recorded sweeps.
    package var sweeps: Int
    /// Timelines in the lists of reloads of everyone.
    package var timelines: Int
}

extension WidgetStore {
    /// Cancels the bulk work of a kind that is pending: a reload of everyone, and recorded sweeps of everyone. A request
    /// that comes later is swept as usual; requests to a person, a device or a widget stay.
    ///
    /// - Returns: `nil` when there is no such kind.
    /// - Throws: `PostgresError`.
    package func cancelWork(app: String, kind: String) async throws -> Cancellation? {
        try await retryingConflicts {
            try await pool.query(.cancelKind(app: app, kind: kind)).first
        }
    }
}

extension PostgresStatement where Self == Statements {
    /// Retires a kind, ends a move of its widgets and deletes its sweeps; no row: there is no such kind.
    package static func retireKind(app: String, kind: String) -> PostgresQuery<
        (kindID: Int32, isChanged: Bool, isPaused: Bool)
    > {
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
            (kindID: try row.value("id"), isChanged: try row.value("changed"), isPaused: try row.value("paused"))
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

    /// Number of a kind's widgets with values that its definition does not allow any more.
    package static func countMisfits(kindID: Int32) -> PostgresQuery<Int> {
        PostgresQuery("SELECT count(*) AS count FROM widget w WHERE w.kind_id = $1::int4 AND w.misfits > 0", kindID) {
            row in try row.value("count")
        }
    }

    /// Cancels the reloads of everyone of a kind up to the generation of now: its sweeps and the lists that carry a generation
    /// are deleted, and what a walk under way still appends names no timeline. Requests to a person, a device or a widget stay.
    /// So do lists that were leased: their timelines may be stored and not published.
    ///
    /// No row: there is no such kind, or it is retired.
    package static func cancelKind(app: String, kind: String) -> PostgresQuery<Cancellation> {
        PostgresQuery(cancelKindSQL, app, kind) { row in
            Cancellation(sweeps: try row.value("sweeps"), timelines: try row.value("timelines"))
        }
    }
}
