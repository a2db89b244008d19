// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// `deploy/postgres/roles.sql`: the rights of the owner, the service and readers suffice, and are minimal.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct RoleTests {
    private static let roles = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().appendingPathComponent("deploy/postgres/roles.sql")

    /// A login for a single test with a role's rights.
    private struct Login: Sendable {
        let name: String
        let connectionString: String

        /// Runs a statement with this login; returns its SQLSTATE, or nil on success.
        func refusal(of sql: String) async throws -> String? {
            var configuration = PostgresConfiguration(connectionString: connectionString)
            configuration.acquireTimeout = Patience.limit
            let pool = PostgresPool(configuration: configuration, logger: quietLogger)
            let refusal: String?
            do {
                try await pool.withConnection { connection in
                    connection.discardAfterUse()
                    try await connection.simple(sql)
                }
                refusal = nil
            } catch let error as PostgresError {
                refusal = error.sqlState ?? "\(error)"
            }
            await pool.shutdown()
            return refusal
        }
    }

    /// Creates a database with the roles, tables from `freshet migrate` as the owner, and logins.
    private func withRoles(
        _ body: (TestDatabase, _ owner: Login, _ service: Login, _ reader: Login) async throws -> Void
    ) async throws {
        let script = try String(contentsOf: Self.roles, encoding: .utf8)
        try await withDatabase { database in
            let suffix = String(UInt64.random(in: 0 ... .max), radix: 36)
            func login(_ role: String) async throws -> Login {
                let name = "freshet_test_\(role)_\(suffix)"
                try await database.pool.withConnection {
                    try await $0.simple(
                        """
                        CREATE ROLE \(name) LOGIN PASSWORD '\(suffix)' IN ROLE freshet_\(role);
                        \(role == "owner" ? "ALTER ROLE \(name) SET role = 'freshet_owner'" : "")
                        """)
                }
                return Login(
                    name: name,
                    connectionString: database.connectionString + " user=\(name) password=\(suffix)")
            }
            try await database.pool.withConnection { try await $0.simple(script) }
            let (owner, service, reader) = (
                try await login("owner"), try await login("service"), try await login("reader")
            )
            let result: Result<Void, any Error>
            do {
                let migrate = try await FreshetProcess.run(
                    ["migrate"], environment: ["FRESHET_POSTGRES_URL": owner.connectionString])
                #expect(migrate.status == 0, "\(migrate.err)")
                // Creates the readers, and shows that the script can be run again.
                try await database.pool.withConnection { try await $0.simple(script) }
                result = .success(try await body(database, owner, service, reader))
            } catch {
                result = .failure(error)
            }
            // Roles belong to the whole server. The script's roles stay, since tests in other processes use them.
            try await database.pool.withConnection {
                try await $0.simple("DROP ROLE \(owner.name), \(service.name), \(reader.name)")
            }
            try result.get()
        }
    }

    @Test("A drain by the service role loses nothing")
    func drain() async throws {
        try await withRoles { _, _, service, _ in
            let process = try FreshetProcess(
                [
                    "drain", "--users", "100", "--widgets-per-user", "2", "--kinds", "3", "--events", "1000",
                    "--passes", "1", "--json", "--set", "kafka.deliveryTimeout=5m", "--set", "workers.lease=15m",
                ], program: "freshet-load", environment: ["FRESHET_POSTGRES_URL": service.connectionString])
            let exit = try await process.end()
            #expect(exit == FreshetProcess.Exit(status: 0, isSignal: false), "\(process.standardError.suffix(2_000))")
            let report = try JSONValue.parse(process.standardOutput)
            #expect(report["lost"] == 0 && report["events"] == 1_000, "\(report)")
        }
    }

    @Test("The service role cannot create, alter or drop objects, or change the record of migrations")
    func service() async throws {
        try await withRoles { _, _, service, _ in
            let denied = "42501"
            for statement in [
                "CREATE TABLE mine (id int)", "DROP TABLE widget", "ALTER TABLE widget ADD COLUMN mine int",
                "CREATE INDEX mine ON widget (id)", "TRUNCATE widget",
                "DROP FUNCTION require_positions(bigint, bigint)",
                "CREATE FUNCTION mine() RETURNS int LANGUAGE sql AS 'SELECT 1'",
                "INSERT INTO freshet_migration (version, name, checksum) VALUES (99, 'mine', '')",
                "DELETE FROM freshet_migration", "CREATE ROLE mine", "SET ROLE freshet_owner",
            ] {
                let refusal = try await service.refusal(of: statement)
                #expect(refusal == denied, "\(statement): \(refusal ?? "was done")")
            }
            #expect(try await service.refusal(of: "CREATE TEMPORARY TABLE mine (id int)") == nil)
            let failover = "UPDATE token_origin SET wal_timeline = wal_timeline + 1; SELECT setval('token', 99)"
            #expect(try await service.refusal(of: failover) == nil, "tokens jump after a failover")
            let migrate = try await FreshetProcess.run(
                ["migrate"], environment: ["FRESHET_POSTGRES_URL": service.connectionString])
            #expect(migrate.status != 0 || migrate.out == "nothing to do\n", "\(migrate)")
        }
    }

    @Test("A reader cannot write or see secrets; the service can write to tables of later migrations")
    func reader() async throws {
        try await withRoles { _, owner, service, reader in
            #expect(try await reader.refusal(of: "SELECT id, name FROM app; SELECT * FROM timeline") == nil)
            for statement in [
                "SELECT signing_secret FROM app", "SELECT * FROM previous_secret", "DELETE FROM widget",
                "UPDATE app SET developer_mode = true", "INSERT INTO widget DEFAULT VALUES",
                "CREATE TABLE mine (id int)",
                "CREATE TEMPORARY TABLE mine (id int)", "SELECT nextval('token')",
                "SELECT * FROM widget FOR UPDATE",
            ] {
                let refusal = try await reader.refusal(of: statement)
                #expect(refusal == "42501", "\(statement): \(refusal ?? "was done")")
            }
            #expect(
                try await owner.refusal(of: "CREATE TABLE tomorrow (id int GENERATED ALWAYS AS IDENTITY, v int)") == nil
            )
            #expect(try await service.refusal(of: "INSERT INTO tomorrow (v) VALUES (1); DELETE FROM tomorrow") == nil)
            #expect(try await reader.refusal(of: "SELECT * FROM tomorrow") == "42501")
        }
    }

    @Test("Readers can run look.sql, and only the owner and the service after-restore.sql")
    func look() async throws {
        let folder = Self.roles.deletingLastPathComponent()
        let script = try String(contentsOf: folder.appendingPathComponent("look.sql"), encoding: .utf8)
        let restored = try String(contentsOf: folder.appendingPathComponent("after-restore.sql"), encoding: .utf8)
        try await withRoles { _, owner, service, reader in
            let looking = try await reader.refusal(of: script)
            #expect(looking == nil)
            let byReader = try await reader.refusal(of: restored)
            #expect(byReader == "42501")
            // The service sets the sequence itself after a failover.
            for login in [service, owner] {
                let refusal = try await login.refusal(of: restored)
                #expect(refusal == nil)
            }
        }
    }

    @Test("An installation created by a single login is taken over")
    func adoption() async throws {
        let script = try String(contentsOf: Self.roles, encoding: .utf8)
        try await withStore { store in
            try await store.sql(script)
            #expect(
                try await store.integer(
                    """
                    SELECT count(*) FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'S')
                    AND relowner <> 'freshet_owner'::regrole
                    """) == 0)
            #expect(try await store.integer("SELECT count(*) FROM app") > 0)
        }
    }
}
