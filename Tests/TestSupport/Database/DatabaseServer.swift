// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import PostgresClient

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// Error when no test server is configured.
package struct TestDatabaseUnavailable: Error, CustomStringConvertible {
    package let description = """
        FRESHET_TEST_DATABASE names no PostgreSQL server: run ./deploy/local/test, \
        or deploy/local/postgres run -- swift test
        """
}

/// Server on which tests create their databases.
actor DatabaseServer {
    static let shared = Result { try DatabaseServer() }

    nonisolated let configuration: PostgresConfiguration
    private let pool: PostgresPool
    /// Template names by key; callers share the task that builds a template.
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
        // Concurrent CREATE DATABASE statements wait for each other's checkpoints.
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
        var patient = configuration.naming(database: name)
        // All tests of the process need the template.
        patient.acquireTimeout = Patience.limit
        patient.statementTimeout = Patience.limit
        let own = PostgresPool(
            configuration: patient,
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        do {
            try await template.prepare(own)
        } catch {
            await own.shutdown()
            try await drop(name)
            throw error
        }
        // CREATE DATABASE refuses a template that has connections.
        await own.shutdown()
        return name
    }

    private func create(copying template: String) async throws -> String {
        let name = "freshet_test_\(time(nil))_\(String(UInt64.random(in: 0 ... .max), radix: 36))"
        try await simple("CREATE DATABASE \(name) TEMPLATE \(template)")
        return name
    }

    /// Drops templates and test databases that killed processes left on a long-lived server.
    private func sweep() async throws {
        for name in try await pool.query(Leftovers()) { try await drop(name) }
    }

    private func simple(_ sql: String) async throws {
        try await pool.withConnection { connection in try await connection.simple(sql) }
    }
}

/// Names of test databases that are at least six hours old.
private struct Leftovers: PostgresStatement {
    let sql = """
        SELECT datname::text AS name FROM pg_database
        WHERE datname ~ '^freshet_test_[0-9]+_' AND split_part(datname, '_', 3)::int8 < extract(epoch FROM now()) - 21600
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> String { try row.value("name") }
}

extension PostgresConfiguration {
    /// The same server, user and settings, and another database, as `keyword=value` pairs without quotes.
    func naming(database: String) -> PostgresConfiguration {
        var pairs = connectionString
        if pairs.contains("://"), let url = URLComponents(string: pairs) {
            let address: [URLQueryItem] = [
                URLQueryItem(name: "host", value: url.host),
                URLQueryItem(name: "port", value: url.port.map { String($0) }),
                URLQueryItem(name: "user", value: url.user),
                URLQueryItem(name: "password", value: url.password),
            ]
            let given = (address + (url.queryItems ?? [])).filter { $0.value != nil }
            pairs = given.map { item in "\(item.name)=\(item.value ?? "")" }.joined(separator: " ")
        }
        var configuration = self
        configuration.connectionString = "\(pairs) dbname=\(database)"
        return configuration
    }
}
