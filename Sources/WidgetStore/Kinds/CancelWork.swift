package import PostgresClient
import WidgetModel

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

extension PostgresStatement where Self == Statements {
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
