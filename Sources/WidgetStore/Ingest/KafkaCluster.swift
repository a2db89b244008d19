package import PostgresClient

extension PostgresStatement where Self == Statements {
    /// The id of the Kafka cluster that the positions are of; no row before a process has started.
    package static func readCluster() -> PostgresQuery<String> {
        PostgresQuery("SELECT id FROM kafka_cluster") { row in try row.value("id") }
    }

    /// Records the cluster's id if none is recorded yet; answers the recorded one, and locks it.
    package static func recordCluster(_ id: String) -> PostgresQuery<String> {
        PostgresQuery(
            """
            INSERT INTO kafka_cluster AS c (id) VALUES ($1::text)
            ON CONFLICT (is_only) DO UPDATE SET id = c.id
            RETURNING id
            """, id
        ) { row in try row.value("id") }
    }

    /// Replaces the recorded id.
    package static func replaceCluster(_ id: String) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE kafka_cluster SET id = $1::text", id)
    }
}
