// SPDX-License-Identifier: Apache-2.0

import PostgresClient

/// Errors that the server raises at a test's request.
extension TestStore {
    /// Makes statements that write rows of a table fail with an SQLSTATE.
    ///
    /// - Parameters:
    ///   - rows: Largest number of rows that still succeeds.
    ///   - times: Number of failures; nil until ``healFaults()``.
    ///   - marker: Text that a written row must contain for the statement to fail.
    package func fail(
        writesTo table: String, with state: String, above rows: Int = 0, times: Int? = nil, marker: String? = nil
    ) async throws {
        try await sql(
            """
            CREATE TABLE IF NOT EXISTS test_fault
                (name text PRIMARY KEY, state text NOT NULL, least int NOT NULL, times int, marker text);
            CREATE SEQUENCE IF NOT EXISTS test_fault_count;
            CREATE OR REPLACE FUNCTION test_fault() RETURNS trigger LANGUAGE plpgsql AS $$
            DECLARE
                fault test_fault;
            BEGIN
                SELECT * INTO fault FROM test_fault WHERE name = TG_TABLE_NAME;
                IF NOT FOUND THEN RETURN NULL; END IF;
                IF (SELECT count(*) FROM new_rows n
                    WHERE fault.marker IS NULL OR strpos(n::text, fault.marker) > 0) <= fault.least THEN RETURN NULL; END IF;
                IF fault.times IS NOT NULL AND nextval('test_fault_count') > fault.times THEN RETURN NULL; END IF;
                RAISE EXCEPTION USING ERRCODE = fault.state, MESSAGE = 'a fault of the test';
            END $$;
            CREATE OR REPLACE TRIGGER test_fault_insert AFTER INSERT ON \(table)
                REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION test_fault();
            CREATE OR REPLACE TRIGGER test_fault_update AFTER UPDATE ON \(table)
                REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION test_fault();
            SELECT setval('test_fault_count', 1, false);
            INSERT INTO test_fault VALUES
                ('\(table)', '\(state)', \(rows), \(times.map { "\($0)" } ?? "NULL"), \(marker.map { "'\($0)'" } ?? "NULL"))
                ON CONFLICT (name) DO UPDATE
                SET state = excluded.state, least = excluded.least, times = excluded.times, marker = excluded.marker
            """)
    }

    package func healFaults() async throws {
        try await sql("DELETE FROM test_fault")
    }

    /// Locks rows in a separate session while `body` runs.
    package func locking<Result: Sendable>(
        _ rows: String, _ body: () async throws -> Result
    ) async throws -> Result {
        try await pool.withTransaction { connection in
            // The session stays idle in its transaction for as long as `body` runs.
            try await connection.simple("SET LOCAL idle_in_transaction_session_timeout = 0")
            try await connection.simple("SELECT 1 FROM \(rows) FOR UPDATE")
            return try await body()
        }
    }
}
