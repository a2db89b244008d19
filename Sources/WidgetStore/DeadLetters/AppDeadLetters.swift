package import PostgresClient

/// Dead letters of one app that wait, newest first, in pages.
package struct ListAppDeadLetters: PostgresStatement {
    package static let sql = """
        SELECT \(DeadLetterSummary.columns)
        FROM dead_letter d
        WHERE \(DeadLetterFilter.waiting) AND d.app = $1::text
            AND (cardinality($2::text[]) = 0 OR d.cause = ANY ($2::text[])) AND d.id < $3::int8
        ORDER BY d.id DESC LIMIT $4::int8
        """

    package var parameters = PostgresParameters()

    /// - Parameters:
    ///   - causes: any if empty.
    ///   - before: those before this id.
    package init(app: String, causes: [DeadLetterCause] = [], before: Int64? = nil, limit: Int) {
        parameters.append(app)
        parameters.append(array: causes)
        parameters.append(before ?? .max)
        parameters.append(limit)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> DeadLetterSummary {
        try DeadLetterSummary(row)
    }
}

/// One dead letter of an app, whole.
package struct ReadAppDeadLetter: PostgresStatement {
    package static let sql = ReadDeadLetter.sql + " AND d.app = $2::text"

    package let parameters: PostgresParameters

    package init(app: String, id: Int64) {
        parameters = PostgresParameters(id, app)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> ReadDeadLetter.Row {
        try ReadDeadLetter.decode(row)
    }
}
