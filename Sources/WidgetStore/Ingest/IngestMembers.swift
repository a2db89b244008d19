package import PostgresClient

extension PostgresStatement where Self == Statements {
    /// Registers an ingest process, at its start and every second after it. Returns the number of live processes and
    /// this one's place among them in the order of ids, from 0.
    ///
    /// - Parameter timeout: time after which a silent process counts as dead.
    package static func registerIngest(_ id: PostgresUUID, timeout: Duration) -> PostgresQuery<(count: Int, rank: Int)>
    {
        PostgresQuery(
            """
            WITH gone AS (
                DELETE FROM ingest_member WHERE seen_at < now() - interval '1 hour' AND id <> $1::uuid
            ), mine AS (
                INSERT INTO ingest_member (id) VALUES ($1::uuid) ON CONFLICT (id) DO UPDATE SET seen_at = now()
            )
            SELECT count(*)::int4 + 1 AS members, count(*) FILTER (WHERE m.id < $1::uuid)::int4 AS rank
            FROM ingest_member m WHERE m.id <> $1::uuid AND m.seen_at > now() - $2::int8 * interval '1 ms'
            """, id, timeout.wholeMilliseconds
        ) { row in
            try (count: Int(row.value("members", as: Int32.self)), rank: Int(row.value("rank", as: Int32.self)))
        }
    }

    /// Removes a stopped ingest process, so that the others take its partitions.
    package static func leaveIngest(_ id: PostgresUUID) -> PostgresQuery<Void> {
        PostgresQuery("DELETE FROM ingest_member WHERE id = $1::uuid", id)
    }
}
