package import Logging

/// A bounded number of connections, lent in the order in which they were asked for.
///
/// Connections are made when needed. While the server is away, attempts follow one another with exponential back-off;
/// a caller waits at most `acquireTimeout` and then gets the latest attempt's error.
package final class PostgresPool: Sendable {
    package struct Statistics: Sendable, Hashable {
        /// Connections that are made, idle and lent.
        package var open: Int
        package var idle: Int
        package var lent: Int
        /// Attempts to connect under way.
        package var connecting: Int
        /// Callers that wait for a connection.
        package var waiting: Int
        /// Since the pool was made.
        package var waits = Waits()
    }

    /// Callers that did not get a connection at once.
    package struct Waits: Sendable, Hashable {
        package var count = 0
        /// How long they waited, added up.
        package var time = Duration.zero
        /// Those that waited in vain.
        package var timeouts = 0
    }

    private let core: PoolCore

    /// Opens no connection yet. An invalid configuration is the error of the first use; check it at the start with
    /// ``PostgresConfiguration/validate()``.
    package init(configuration: PostgresConfiguration, logger: Logger) {
        self.core = PoolCore(configuration: configuration, logger: logger)
    }

    deinit {
        core.requestShutdown()
    }

    package var configuration: PostgresConfiguration { core.configuration }

    package var statistics: Statistics { core.statistics }

    /// Lends a connection to `body`.
    /// - Throws: The error of `body`, or a ``PostgresError`` when no connection could be lent.
    package func withConnection<Value: Sendable>(
        _ body: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        let lease = try await core.acquire()
        defer { core.release(lease) }
        return try await body(PostgresConnection(lease.loan))
    }

    /// As ``withConnection(_:)``, for a body that throws nothing else.
    func lending<Value: Sendable>(
        _ body: (PostgresConnection) async throws(PostgresError) -> Value
    ) async throws(PostgresError) -> Value {
        let lease = try await core.acquire()
        defer { core.release(lease) }
        return try await body(PostgresConnection(lease.loan))
    }

    /// Lends a connection in a transaction: see ``PostgresConnection/withTransaction(_:)``.
    package func withTransaction<Value: Sendable>(
        _ body: (PostgresConnection) async throws -> Value
    ) async throws -> Value {
        try await withConnection { connection in try await connection.withTransaction(body) }
    }

    /// BEGIN, the statements, COMMIT, in one round trip: see ``PostgresConnection/transaction(_:)``.
    package func transaction(_ pipeline: PostgresPipeline) async throws(PostgresError) -> PostgresPipelineResults {
        try await lending { connection throws(PostgresError) in try await connection.transaction(pipeline) }
    }

    /// One statement on a lent connection: see ``PostgresConnection/query(_:)``.
    package func query<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> [Statement.Row] {
        try await lending { connection throws(PostgresError) in try await connection.query(statement) }
    }

    /// One statement on a lent connection: see ``PostgresConnection/execute(_:)``.
    package func execute<Statement: PostgresStatement>(
        _ statement: Statement
    ) async throws(PostgresError) -> Int {
        try await lending { connection throws(PostgresError) in try await connection.execute(statement) }
    }

    /// Several statements on a lent connection, all or nothing: see ``PostgresConnection/run(_:)``.
    package func run(_ pipeline: PostgresPipeline) async throws(PostgresError) -> PostgresPipelineResults {
        try await lending { connection throws(PostgresError) in try await connection.run(pipeline) }
    }

    /// Refuses new callers and those that wait, waits until every lent connection is given back, and closes all.
    package func shutdown() async {
        await core.shutdown()
    }
}
