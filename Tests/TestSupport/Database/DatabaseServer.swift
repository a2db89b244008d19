import Logging
import PostgresClient

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// No server to test on.
package struct TestDatabaseUnavailable: Error, CustomStringConvertible {
    package let description = """
        FRESHET_TEST_DATABASE names no PostgreSQL server: run ./deploy/local/test, \
        or deploy/local/postgres run -- swift test
        """
}

/// The server that tests make their databases on.
actor DatabaseServer {
    static let shared = Result { try DatabaseServer() }

    nonisolated let configuration: PostgresConfiguration
    private let pool: PostgresPool
    /// Names of the templates, by key; a template under way is awaited by all who want it.
    private var templates: [String: Task<String, any Error>] = [:]
    private var hasSwept = false

    private init() throws {
        guard let address = getenv("FRESHET_TEST_DATABASE"), address.pointee != 0 else {
            throw TestDatabaseUnavailable()
        }
        self.configuration = PostgresConfiguration(connectionString: String(cString: address))
        try configuration.validate()
        var administration = configuration
        administration.maximumConnections = 8
        // Many tests at once wait for one another's checkpoints.
        administration.acquireTimeout = Patience.limit
        administration.statementTimeout = Patience.limit
        self.pool = PostgresPool(
            configuration: administration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
    }

    func create(from template: DatabaseTemplate?) async throws -> String {
        if !hasSwept {
            hasSwept = true
            try await sweep()
        }
        guard let template else { return try await create(copying: "template0") }
        return try await create(copying: name(of: template))
    }

    func drop(_ name: String) async throws {
        try await simple("DROP DATABASE IF EXISTS \(name) WITH (FORCE)")
    }

    private func name(of template: DatabaseTemplate) async throws -> String {
        if let building = templates[template.key] { return try await building.value }
        let building = Task { try await build(template) }
        templates[template.key] = building
        return try await building.value
    }

    private func build(_ template: DatabaseTemplate) async throws -> String {
        let name = try await create(copying: "template0")
        let own = PostgresPool(
            configuration: try configuration.naming(database: name),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        do {
            try await template.prepare(own)
        } catch {
            await own.shutdown()
            try await drop(name)
            throw error
        }
        // A database that is copied must have no connections.
        await own.shutdown()
        return name
    }

    private func create(copying template: String) async throws -> String {
        let name = "freshet_test_\(time(nil))_\(String(UInt64.random(in: 0 ... .max), radix: 36))"
        try await simple("CREATE DATABASE \(name) TEMPLATE \(template)")
        return name
    }

    /// Drops what processes that were killed left on a server that outlives them: templates, and databases under test.
    private func sweep() async throws {
        for name in try await pool.query(Leftovers()) { try await drop(name) }
    }

    private func simple(_ sql: String) async throws {
        try await pool.withConnection { connection in try await connection.simple(sql) }
    }
}

/// Databases of tests that began six hours ago or earlier.
private struct Leftovers: PostgresStatement {
    let sql = """
        SELECT datname::text AS name FROM pg_database
        WHERE datname ~ '^freshet_test_[0-9]+_' AND split_part(datname, '_', 3)::int8 < extract(epoch FROM now()) - 21600
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("name") }
}
