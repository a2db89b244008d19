package import PostgresClient
import WidgetModel

/// Cancels the reloads of everyone of a kind up to the generation of now: its sweeps and the lists that carry a generation
/// are deleted, and what a walk under way still appends names no timeline. Requests to a person, a device or a widget stay.
/// So do lists that were leased: their timelines may be stored and not published.
///
/// No row: there is no such kind, or it is retired.
package struct CancelKind: PostgresStatement {
    package static let sql = """
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

    let app: String
    let kind: String

    package init(app: String, kind: String) {
        self.app = app
        self.kind = kind
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(kind)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Cancellation {
        Cancellation(sweeps: try row.count("sweeps"), timelines: try row.count("timelines"))
    }
}

/// Bulk work of a kind that was cancelled.
package struct Cancellation: Hashable, Sendable {
    /// Reloads of everyone under way, and recorded sweeps.
    package var sweeps: Int
    /// Timelines in the lists of reloads of everyone.
    package var timelines: Int

    package init(sweeps: Int, timelines: Int) {
        self.sweeps = sweeps
        self.timelines = timelines
    }
}

extension WidgetStore {
    private static let cancelAttempts = 10

    /// Cancels the bulk work of a kind that is pending: a reload of everyone, and recorded sweeps of everyone. A request
    /// that comes later is swept as usual; requests to a person, a device or a widget stay.
    ///
    /// - Returns: `nil` when there is no such kind.
    /// - Throws: `PostgresError`.
    package func cancelWork(app: String, kind: String) async throws -> Cancellation? {
        try await retryingConflicts(attempts: Self.cancelAttempts) {
            try await pool.query(CancelKind(app: app, kind: kind)).first
        }
    }

    /// Runs what does no harm when it is run again, whatever became of it, and again after a conflict with others.
    func retryingConflicts<Value: Sendable>(
        attempts: Int, _ body: () async throws -> Value
    ) async throws -> Value {
        var attempt = 1
        while true {
            do {
                return try await body()
            } catch let error as PostgresError where error.isRetriable && attempt < attempts {
                var generator = SystemRandomNumberGenerator()
                let backoff = Backoff(base: .milliseconds(20), cap: .seconds(1))
                try await Task.sleep(for: backoff.delay(attempt: attempt, using: &generator))
                attempt += 1
            }
        }
    }
}
