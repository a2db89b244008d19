package import PostgresClient

/// Number of dead letters of a cause that were neither replayed nor discarded, of sweeps, or of diverted apps.
package struct WaitingWork: Hashable, Sendable {
    /// Causes of the rows for sweeps and diverted apps; no dead letter has such a one.
    package static let sweeps = "=sweeps"
    package static let diversions = "=diversions"

    package let cause: String
    package let count: Int64
}

private let waitingWorkSQL = """
    SELECT c.cause, d.n AS count
    FROM unnest($2::text[]) AS c (cause)
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM dead_letter d
            WHERE d.cause = c.cause AND \(DeadLetterFilter.waiting)
            LIMIT $1::int8) waiting
    ) d
    UNION ALL
    SELECT '\(WaitingWork.sweeps)', count(*) FROM (SELECT FROM sweep LIMIT $1::int8) waiting
    UNION ALL
    SELECT '\(WaitingWork.diversions)', count(*) FROM diversion
    """

extension PostgresStatement where Self == Statements {
    /// Waiting work by cause, each counted up to a limit: for metrics.
    package static func waitingWork(limit: Int) -> PostgresQuery<WaitingWork> {
        PostgresQuery(waitingWorkSQL, limit, PostgresArray(DeadLetterCause.allCases)) { row in
            WaitingWork(cause: try row.value("cause"), count: try row.value("count"))
        }
    }
}
