package import PostgresClient

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
    /// Compares the server's identity and WAL timeline with those under which tokens were last issued. If they differ, after a
    /// failover or a restore, the sequence of tokens jumps by 2^32, so that revisions published by lost history are never used
    /// again. For each new connection that claims.
    /// The row lock lets one connection jump; the others find the new origin. `setval` runs after it, so that no connection
    /// continues with an earlier token.
    package static func checkTokenOrigin() -> PostgresQuery<Bool> {
        PostgresQuery(checkTokenOriginSQL) { row in try row.value("changed") }
    }
}
