package import PostgresClient

/// The id of the Kafka cluster that the positions are of; no row before a process has started.
package struct ReadCluster: PostgresStatement {
    package static let sql = "SELECT id FROM kafka_cluster"

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("id") }
}

/// Records the cluster's id if none is recorded yet; answers the recorded one, and locks it.
package struct RecordCluster: PostgresStatement {
    package static let sql = """
        INSERT INTO kafka_cluster AS c (id) VALUES ($1::text)
        ON CONFLICT (is_only) DO UPDATE SET id = c.id
        RETURNING id
        """

    package let parameters: PostgresParameters

    package init(_ id: String) {
        parameters = PostgresParameters(id)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("id") }
}

/// Replaces the recorded id.
package struct ReplaceCluster: PostgresStatement {
    package static let sql = "UPDATE kafka_cluster SET id = $1::text"

    package let parameters: PostgresParameters

    package init(_ id: String) {
        parameters = PostgresParameters(id)
    }
}
