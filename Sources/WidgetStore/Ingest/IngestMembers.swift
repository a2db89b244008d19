package import PostgresClient

/// Registers an ingest process, at its start and every second after it, and answers its place among those that are alive.
package struct RegisterIngest: PostgresStatement {
    package struct Row: Hashable, Sendable {
        /// Number of processes, this one included.
        package let count: Int
        /// This process's place in the order of the ids, from 0.
        package let rank: Int
    }

    package static let sql = """
        WITH gone AS (
            DELETE FROM ingest_member WHERE seen_at < now() - interval '1 hour' AND id <> $1::uuid
        ), mine AS (
            INSERT INTO ingest_member (id) VALUES ($1::uuid) ON CONFLICT (id) DO UPDATE SET seen_at = now()
        )
        SELECT count(*)::int4 + 1 AS members, count(*) FILTER (WHERE m.id < $1::uuid)::int4 AS rank
        FROM ingest_member m WHERE m.id <> $1::uuid AND m.seen_at > now() - $2::int8 * interval '1 ms'
        """

    package let parameters: PostgresParameters

    /// - Parameter timeout: time after which a silent process counts as gone.
    package init(_ id: PostgresUUID, timeout: Duration) {
        parameters = PostgresParameters(id, timeout.wholeMilliseconds)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(count: Int(try row.value("members", as: Int32.self)), rank: Int(try row.value("rank", as: Int32.self)))
    }
}

/// Removes an ingest process that has stopped, so that the others take its partitions at their next look.
package struct LeaveIngest: PostgresStatement {
    package static let sql = "DELETE FROM ingest_member WHERE id = $1::uuid"

    package let parameters: PostgresParameters

    package init(_ id: PostgresUUID) {
        parameters = PostgresParameters(id)
    }
}
