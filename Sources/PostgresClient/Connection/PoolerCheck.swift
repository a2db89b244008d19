package import Logging

/// Check that connections are sessions of their own, which nothing between Freshet and the server shares with others.
///
/// A pooler in transaction mode gives each transaction any of its server connections. Settings and prepared statements
/// would then be those of other clients.
package struct PoolerCheck: Sendable {
    private let configuration: PostgresConfiguration
    private let logger: Logger

    package init(_ configuration: PostgresConfiguration, logger: Logger) {
        (self.configuration, self.logger) = (configuration, logger)
    }

    /// Compares the server processes behind three connections, of which two hold a transaction. A pooler has to give
    /// the process of the first one away, or the first one another. The connections get no settings and prepare nothing.
    ///
    /// - Throws: `.configuration` for a pooler in transaction mode; the error of a connection.
    package func requireSessions() async throws(PostgresError) {
        let first = try open()
        defer { first.stop() }
        let process = try await first.backend(begins: false)
        for _ in 1...2 {
            let other = try open()
            // Ends the transaction too.
            defer { other.stop() }
            let taken = try await other.backend(begins: true)
            guard taken != process, try await first.backend(begins: false) == process else {
                throw PostgresError(
                    .configuration,
                    "a connection pooler in transaction or statement mode is before PostgreSQL: statements of one "
                        + "connection run in several sessions, which other clients share",
                    hint: "connect to PostgreSQL itself, or to a pooler in session mode")
            }
        }
    }

    private func open() throws(PostgresError) -> ConnectionThread {
        let thread = try ConnectionThread()
        thread.start(
            configuration: configuration, logger: logger, isPlain: true, events: ConnectionThread.Events())
        return thread
    }
}

extension ConnectionThread {
    /// Server process that runs a statement of this connection.
    ///
    /// - Parameter begins: leaves a transaction open.
    fileprivate func backend(begins: Bool) async throws(PostgresError) -> String {
        try await perform { driver throws(PostgresError) in try driver.backend(begins: begins) }
    }
}
