// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel

@Suite("Commands on databases that Freshet refuses", .tags(.process), .timeLimit(.patience))
struct RefusedDatabaseTests {
    /// Expects that `freshet doctor` reports a problem of the database with a text.
    private func expectProblem(_ text: String, _ environment: [String: String]) async throws {
        let doctor = try await FreshetProcess.run(
            ["doctor", "--json", "--time-limit", "300", "--set", "kafka.embedded=true"], environment: environment)
        let findings = try #require(JSONValue.parse(doctor.out)["findings"]?.arrayValue)
        #expect(
            findings.contains {
                $0["check"] == "postgres" && $0["severity"] == "problem"
                    && $0["message"]?.stringValue?.contains(text) == true
            }, "\(doctor.out)")
    }

    @Test("Through a pooler in transaction mode no process starts, nothing is set, and doctor names the pooler")
    func pooler() async throws {
        try await withDatabase { database in
            let pooler = try TransactionPooler(to: database.configuration)
            defer { pooler.stop() }
            let environment = ["FRESHET_POSTGRES_URL": pooler.connectionString]
            for arguments in [
                ["run", "--migrate", "--set", "kafka.embedded=true"], ["migrate"], ["migrate", "--check"],
                ["apps", "list"],
            ] {
                let refused = try await FreshetProcess.run(arguments, environment: environment)
                #expect(refused.status == 78, "\(arguments): \(refused.err)")
                #expect(refused.err.contains("a connection pooler in transaction or statement mode"), "\(arguments)")
                #expect(refused.err.contains("in session mode"), "\(arguments)")
            }
            let tables = try await database.pool.query(TableCount())
            #expect(tables == [0])
            try await expectProblem("a connection pooler in transaction", environment)
            #expect(pooler.statements.allSatisfy { !$0.contains("set_config") }, "\(pooler.statements)")
        }
    }

    @Test("On a database that is not UTF-8 no process starts, nothing is migrated, and doctor names the encoding")
    func encoding() async throws {
        try await withDatabase { database in
            let name = "\(database.name)_latin1"
            try await database.pool.withConnection {
                try await $0.simple(
                    "CREATE DATABASE \(name) ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
            }
            let environment = ["FRESHET_POSTGRES_URL": database.connectionString.replacing(database.name, with: name)]
            for arguments in [
                ["run", "--migrate", "--set", "kafka.embedded=true"], ["migrate"], ["migrate", "--check"],
            ] {
                let refused = try await FreshetProcess.run(arguments, environment: environment)
                #expect(refused.status == 78, "\(arguments): \(refused.err)")
                #expect(refused.err.contains("LATIN1"), "\(arguments): \(refused.err)")
            }
            try await expectProblem("LATIN1", environment)
            try await database.pool.withConnection { try await $0.simple("DROP DATABASE \(name) WITH (FORCE)") }
        }
    }
}

private struct TableCount: PostgresStatement {
    let sql = "SELECT count(*) AS tables FROM pg_catalog.pg_tables WHERE schemaname = 'public'"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value("tables") }
}
