package import Logging
package import PostgresClient

/// A database of one test's own, on the server that `FRESHET_TEST_DATABASE` names.
package struct TestDatabase: Sendable {
    package let name: String
    /// For the pool, and for processes that the test starts; holds the password.
    package let connectionString: String
    /// Shut down, and its connections closed, when the test's closure ends.
    package let pool: PostgresPool

    /// The pool's configuration, to make others of.
    package var configuration: PostgresConfiguration { pool.configuration }
}

/// What a database holds from the start. Built once a process for each key; every test that names it gets a copy.
package struct DatabaseTemplate: Sendable {
    package let key: String
    package let prepare: @Sendable (PostgresPool) async throws -> Void

    package init(key: String, prepare: @escaping @Sendable (PostgresPool) async throws -> Void) {
        self.key = key
        self.prepare = prepare
    }
}

/// Creates a database, lends it and a pool on it to `body`, and drops it, whatever happens.
/// - Parameters:
///   - template: What it holds at first; nil is nothing.
///   - configure: Changes the pool's configuration before the pool is made.
/// - Throws: What `body` threw; ``TestDatabaseUnavailable`` when no server is named.
package func withDatabase<Value: Sendable>(
    template: DatabaseTemplate? = nil, logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
    configure: (inout PostgresConfiguration) -> Void = { _ in },
    _ body: (TestDatabase) async throws -> Value
) async throws -> Value {
    let server = try DatabaseServer.shared.get()
    let name = try await server.create(from: template)
    let result: Result<Value, any Error>
    do {
        var configuration = try server.configuration.naming(database: name)
        configuration.applicationName = "freshet-test"
        // Many tests share the machine: a slow start is not what they test.
        configuration.acquireTimeout = Patience.limit
        configure(&configuration)
        let pool = PostgresPool(configuration: configuration, logger: logger)
        let database = TestDatabase(name: name, connectionString: configuration.connectionString, pool: pool)
        do {
            result = .success(try await body(database))
        } catch {
            result = .failure(error)
        }
        await pool.shutdown()
    } catch {
        result = .failure(error)
    }
    // A task of its own: the test's may have been cancelled, by its time limit for one, and the database must go all the
    // same.
    let dropped = await Task { try await server.drop(name) }.result
    let value = try result.get()
    try dropped.get()
    return value
}
