package import PostgresClient

/// What waits for somebody, each counted up to a limit: for metrics.
package struct WaitingWork: PostgresStatement {
    package struct Row: Hashable, Sendable {
        /// Dead letters that were neither replayed nor discarded, by the raw value of their cause.
        package let cause: String
        package let count: Int64

        package init(cause: String, count: Int64) {
            self.cause = cause
            self.count = count
        }
    }

    /// What is no dead letter's cause: sweeps, and apps that are diverted.
    package static let sweeps = "=sweeps"
    package static let diversions = "=diversions"

    package static let sql = """
        SELECT c.cause, d.n AS count
        FROM unnest($2::text[]) AS c (cause)
        CROSS JOIN LATERAL (
            SELECT count(*) AS n FROM (
                SELECT FROM dead_letter d
                WHERE d.cause = c.cause AND d.replayed_at IS NULL AND d.discarded_at IS NULL
                LIMIT $1::int8) waiting
        ) d
        UNION ALL
        SELECT '\(sweeps)', count(*) FROM (SELECT FROM sweep LIMIT $1::int8) waiting
        UNION ALL
        SELECT '\(diversions)', count(*) FROM diversion
        """

    let limit: Int

    package init(limit: Int) {
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(limit))
        parameters.append(array: DeadLetterCause.allCases.map(\.rawValue))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(cause: try row.value("cause"), count: try row.value("count"))
    }
}
