package import PostgresClient

/// Waiting work by cause, each counted up to a limit: for metrics.
package struct WaitingWork: PostgresStatement {
    package struct Row: Hashable, Sendable {
        /// Dead letters that were neither replayed nor discarded, by the raw value of their cause.
        package let cause: String
        package let count: Int64
    }

    /// Names of the rows for sweeps and diverted apps; no cause of a dead letter has such a name.
    package static let sweeps = "=sweeps"
    package static let diversions = "=diversions"

    package static let sql = """
        SELECT c.cause, d.n AS count
        FROM unnest($2::text[]) AS c (cause)
        CROSS JOIN LATERAL (
            SELECT count(*) AS n FROM (
                SELECT FROM dead_letter d
                WHERE d.cause = c.cause AND \(DeadLetterFilter.waiting)
                LIMIT $1::int8) waiting
        ) d
        UNION ALL
        SELECT '\(sweeps)', count(*) FROM (SELECT FROM sweep LIMIT $1::int8) waiting
        UNION ALL
        SELECT '\(diversions)', count(*) FROM diversion
        """

    package var parameters = PostgresParameters()

    package init(limit: Int) {
        parameters.append(limit)
        parameters.append(array: DeadLetterCause.allCases)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(cause: try row.value("cause"), count: try row.value("count"))
    }
}
