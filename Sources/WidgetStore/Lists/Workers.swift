package import PostgresClient

/// Registers a worker process, before its first claim and every few seconds after it, and forgets those that have long been
/// silent.
///
/// A killed process stays registered until it is forgotten, and one that stops in order leaves the latest token. So a
/// process that is alone knows that no other one has published since it leased its lists.
package struct RegisterWorker: PostgresStatement {
    /// Time after which a silent process is forgotten; longer than any lease.
    package static let memory = "interval '10 minutes'"

    /// Answers whether other workers are registered.
    package static let sql = """
        WITH gone AS (
            DELETE FROM worker WHERE seen_at < now() - 2 * \(memory) AND id <> $1::uuid
        ), mine AS (
            INSERT INTO worker (id) VALUES ($1::uuid) ON CONFLICT (id) DO UPDATE SET seen_at = now(), left_token = NULL
        )
        SELECT EXISTS (
            SELECT FROM worker o WHERE o.id <> $1::uuid AND o.left_token IS NULL AND o.seen_at > now() - \(memory)
        ) AS others
        """

    package let parameters: PostgresParameters

    package init(_ id: PostgresUUID) {
        parameters = PostgresParameters(id)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("others") }
}

/// Notes that a worker process has stopped in order: all its messages are acknowledged or given up.
package struct LeaveWorkers: PostgresStatement {
    package static let sql = "UPDATE worker SET left_token = (SELECT last_value FROM token) WHERE id = $1::uuid"

    package let parameters: PostgresParameters

    package init(_ id: PostgresUUID) {
        parameters = PostgresParameters(id)
    }
}

/// Answers whether workers besides this process's own are registered.
package struct OtherWorkers: PostgresStatement {
    package static let sql = """
        SELECT EXISTS (
            SELECT FROM worker o
            WHERE o.id IS DISTINCT FROM $1::uuid AND o.left_token IS NULL
                AND o.seen_at > now() - \(RegisterWorker.memory)) AS others
        """

    package let parameters: PostgresParameters

    /// - Parameter id: this process's worker; nil: it has none.
    package init(than id: PostgresUUID?) {
        parameters = PostgresParameters(id)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("others") }
}

/// The next token: lease and revision of handed-over timelines. Taken after COMMIT, so that it is above every revision that
/// the mark has read.
package struct NextToken: PostgresStatement {
    package static let sql = "SELECT nextval('token') AS token"

    package init() {}

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value("token") }
}
