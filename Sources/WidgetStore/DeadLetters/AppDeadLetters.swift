package import PostgresClient

private let listAppDeadLettersSQL = """
    SELECT \(DeadLetterSummary.columns)
    FROM dead_letter d
    WHERE \(DeadLetterFilter.waiting) AND d.app = $1::text
        AND (cardinality($2::text[]) = 0 OR d.cause = ANY ($2::text[])) AND d.id < $3::int8
    ORDER BY d.id DESC LIMIT $4::int8
    """

extension PostgresStatement where Self == Statements {
    /// Dead letters of one app that wait, newest first, in pages.
    ///
    /// - Parameters:
    ///   - causes: any if empty.
    ///   - before: those before this id.
    package static func listAppDeadLetters(
        app: String, causes: [DeadLetterCause] = [], before: Int64? = nil, limit: Int
    ) -> PostgresQuery<DeadLetterSummary> {
        PostgresQuery(listAppDeadLettersSQL, app, PostgresArray(causes), before ?? .max, limit) { row in
            try DeadLetterSummary(row)
        }
    }
}
