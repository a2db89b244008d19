import PostgresClient
import TestSupport
import Testing
import WidgetModel

@Suite("Commands through a connection pooler in transaction mode", .tags(.process), .timeLimit(.patience))
struct PoolerProcessTests {
    @Test("No process starts, nothing is migrated, no command sets anything, and doctor names the pooler")
    func refused() async throws {
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
            let doctor = try await FreshetProcess.run(
                ["doctor", "--json", "--time-limit", "300", "--set", "kafka.embedded=true"], environment: environment)
            let findings = try #require(JSONValue.parse(doctor.out)["findings"]?.arrayValue)
            #expect(
                findings.contains {
                    $0["check"] == "postgres" && $0["severity"] == "problem"
                        && $0["message"]?.stringValue?.contains("a connection pooler in transaction") == true
                }, "\(doctor.out)")
            #expect(pooler.statements.allSatisfy { !$0.contains("set_config") }, "\(pooler.statements)")
        }
    }
}

private struct TableCount: PostgresStatement {
    let sql = "SELECT count(*) AS tables FROM pg_catalog.pg_tables WHERE schemaname = 'public'"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value("tables") }
}
