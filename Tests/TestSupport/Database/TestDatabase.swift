// SPDX-License-Identifier: Apache-2.0

package import Logging
package import PostgresClient

/// A database for a single test, on the server that `FRESHET_TEST_DATABASE` names.
package struct TestDatabase: Sendable {
    package let name: String
    /// Connection string for the pool and for child processes; contains the password.
    package let connectionString: String
    /// Pool on the database; shut down when the test's closure returns.
    package let pool: PostgresPool

    /// Configuration of `pool`, for tests that open further pools.
    package var configuration: PostgresConfiguration { pool.configuration }
}

/// Initial content of a database. Each process builds a template once per key; tests get copies.
package struct DatabaseTemplate: Sendable {
    package let key: String
    package let prepare: @Sendable (PostgresPool) async throws -> Void

    package init(key: String, prepare: @escaping @Sendable (PostgresPool) async throws -> Void) {
        self.key = key
        self.prepare = prepare
    }
}

/// Creates a database, passes it to `body` with a pool, and drops it afterwards, also on errors.
/// - Parameters:
///   - template: Initial content; nil for an empty database.
///   - configure: Adjusts the configuration before the pool is created.
/// - Throws: Errors of `body`; ``TestDatabaseUnavailable`` if no server is configured.
package func withDatabase<Value: Sendable>(
    template: DatabaseTemplate? = nil, logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
    configure: (inout PostgresConfiguration) -> Void = { _ in },
    _ body: (TestDatabase) async throws -> Value
) async throws -> Value {
    let server = try DatabaseServer.shared.get()
    let name = try await server.create(from: template)
    var configuration = server.configuration.naming(database: name)
    configuration.applicationName = "freshet-test"
    // Tests share the machine, so connecting may be slow.
    configuration.acquireTimeout = Patience.limit
    configure(&configuration)
    let pool = PostgresPool(configuration: configuration, logger: logger)
    let database = TestDatabase(name: name, connectionString: configuration.connectionString, pool: pool)
    let result: Result<Value, any Error>
    do {
        result = .success(try await body(database))
    } catch {
        result = .failure(error)
    }
    await pool.shutdown()
    // Runs in its own task, so that the database is dropped even if the test is cancelled, for instance by its time
    // limit.
    let dropped = await Task { try await server.drop(name) }.result
    let value = try result.get()
    try dropped.get()
    return value
}
