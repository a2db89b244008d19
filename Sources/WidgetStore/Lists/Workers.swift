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

/// Distance of the jump: more tokens than lost history can have issued.
private let jump: Int64 = 1 << 32

private let checkTokenOriginSQL = """
    WITH present AS MATERIALIZED (
        SELECT s.system_identifier, wal_timeline() AS wal_timeline FROM pg_control_system() s
    ), changed AS (
        UPDATE token_origin o SET system_identifier = p.system_identifier, wal_timeline = p.wal_timeline
        FROM present p
        WHERE (o.system_identifier, o.wal_timeline) IS DISTINCT FROM (p.system_identifier, p.wal_timeline)
        RETURNING setval('token', nextval('token') + \(jump)) AS token
    )
    SELECT EXISTS (SELECT FROM changed) AS changed
    """

extension PostgresStatement where Self == Statements {
    /// Registers a worker process, before its first claim and every few seconds after it, and forgets those that have
    /// long been silent.
    ///
    /// A killed process stays registered until it is forgotten, and one that stops in order leaves the latest token. So
    /// a process that is alone knows that no other one has published since it leased its lists. Answers whether other
    /// workers are registered.
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

    /// The next token: lease and revision of handed-over timelines. Taken after COMMIT, so that it is above every
    /// revision that the mark has read.
    package static func nextToken() -> PostgresQuery<Int64> {
        PostgresQuery("SELECT nextval('token') AS token") { row in try row.value("token") }
    }

    /// Compares the server's identity and WAL timeline with those under which tokens were last issued. If they differ,
    /// after a failover or a restore, the sequence of tokens jumps by 2^32, so that revisions published by lost history
    /// are never used again. For each new connection that claims. The row lock lets one connection jump; the others
    /// find the new origin. `setval` runs after it, so that no connection continues with an earlier token.
    package static func checkTokenOrigin() -> PostgresQuery<Bool> {
        PostgresQuery(checkTokenOriginSQL) { row in try row.value("changed") }
    }
}
