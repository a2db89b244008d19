package import PostgresClient

/// Time after which a silent worker process is forgotten; longer than any lease.
let workerMemory = "interval '10 minutes'"

private let registerWorkerSQL = """
    WITH gone AS (
        DELETE FROM worker WHERE seen_at < now() - 2 * \(workerMemory) AND id <> $1::uuid
    ), mine AS (
        INSERT INTO worker (id) VALUES ($1::uuid) ON CONFLICT (id) DO UPDATE SET seen_at = now(), left_token = NULL
    )
    SELECT EXISTS (
        SELECT FROM worker o WHERE o.id <> $1::uuid AND o.left_token IS NULL AND o.seen_at > now() - \(workerMemory)
    ) AS others
    """

private let otherWorkersSQL = """
    SELECT EXISTS (
        SELECT FROM worker o
        WHERE o.id IS DISTINCT FROM $1::uuid AND o.left_token IS NULL
            AND o.seen_at > now() - \(workerMemory)) AS others
    """

extension PostgresStatement where Self == Statements {
    /// Registers a worker process, before its first claim and every few seconds after it, and forgets those that have long been
    /// silent.
    ///
    /// A killed process stays registered until it is forgotten, and one that stops in order leaves the latest token. So a
    /// process that is alone knows that no other one has published since it leased its lists. Answers whether other workers are registered.
    package static func registerWorker(_ id: PostgresUUID) -> PostgresQuery<Bool> {
        PostgresQuery(registerWorkerSQL, id) { row in try row.value("others") }
    }

    /// Notes that a worker process has stopped in order: all its messages are acknowledged or given up.
    package static func leaveWorkers(_ id: PostgresUUID) -> PostgresQuery<Void> {
        PostgresQuery("UPDATE worker SET left_token = (SELECT last_value FROM token) WHERE id = $1::uuid", id)
    }

    /// Answers whether workers besides this process's own are registered.
    ///
    /// - Parameter id: this process's worker; nil: it has none.
    package static func otherWorkers(than id: PostgresUUID?) -> PostgresQuery<Bool> {
        PostgresQuery(otherWorkersSQL, id) { row in try row.value("others") }
    }

    /// The next token: lease and revision of handed-over timelines. Taken after COMMIT, so that it is above every revision that
    /// the mark has read.
    package static func nextToken() -> PostgresQuery<Int64> {
        PostgresQuery("SELECT nextval('token') AS token") { row in try row.value("token") }
    }
}
