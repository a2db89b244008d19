/// Check that a connection is a session of its own, which nothing between Freshet and the server shares with others.
///
/// A pooler in transaction mode gives each transaction any of its server connections. Settings and prepared statements
/// would then be those of other clients.
extension ConnectionDriver {
    /// Servers that were reached through a pooler in session mode, by connection string. They are not checked again: the
    /// second connection of a check might be one more than the pooler grants.
    private static let checked = Locked<Set<String>>([])

    /// Most comparisons. A pooler that uses its server connections in turn may give the same one again by chance.
    private static let comparisons = 3

    /// Checks the connection before it gets settings. Prepares nothing.
    ///
    /// - Throws: `.configuration` for a pooler in transaction mode; the error of a connection.
    func requireSession() throws(PostgresError) {
        let server = configuration.connectionString
        let process = try backend()
        // The server itself names the process at the login. A pooler names a client of its own.
        let isDirect = process == String(connection.namedProcess)
        guard !isDirect, !Self.checked.withLock({ $0.contains(server) }) else { return }
        let other = try ConnectionDriver(
            connecting: configuration, logger: logger, thread: thread, isPlain: true, notified: { _, _ in })
        for _ in 1...Self.comparisons {
            // A pooler has to give the process of this connection away, or this connection another one.
            let taken = try other.backend(after: "BEGIN")
            guard taken != process, try backend() == process else {
                throw PostgresError(
                    .configuration,
                    "a connection pooler in transaction or statement mode is before PostgreSQL: statements of one "
                        + "connection run in several sessions, which other clients share",
                    hint: "connect to PostgreSQL itself, or to a pooler in session mode")
            }
            _ = try other.backend(after: "ROLLBACK")
        }
        Self.checked.withLock { _ = $0.insert(server) }
    }
}
