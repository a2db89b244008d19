// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport

/// Returns its parameter.
struct SelectOne: PostgresStatement {
    let sql = "SELECT $1::int8 AS value"

    var value: Int

    var parameters: PostgresParameters { PostgresParameters(value) }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("value") }
}

/// Inserts rows into the table `item` of a test.
struct Insert: PostgresStatement {
    let sql = "INSERT INTO item (id) SELECT unnest($1::int8[])"

    var ids: [Int]

    var parameters: PostgresParameters { PostgresParameters(PostgresArray(ids)) }
}

/// IDs of the rows of the table `item`.
struct Ids: PostgresStatement {
    let sql = "SELECT id FROM item ORDER BY id"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("id") }
}

/// Number of rows of the table `item`.
struct Count: PostgresStatement {
    let sql = "SELECT count(*) AS count FROM item"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("count") }
}

struct BackendPID: PostgresStatement {
    let sql = "SELECT pg_backend_pid() AS pid"

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int32 { try row.value("pid") }
}

/// Waits until the process has ended.
struct Terminate: PostgresStatement {
    let sql = "SELECT pg_terminate_backend($1::int4, $2::int8) AS done"

    var pid: Int32

    var parameters: PostgresParameters { PostgresParameters(pid, Int64(Patience.limit / .milliseconds(1))) }

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("done") }
}

/// Sleeps on the server with an advisory lock that shows others that it runs.
struct Sleep: PostgresStatement {
    let sql = "SELECT pg_sleep($1::float8)"

    var seconds: Double

    var parameters: PostgresParameters { PostgresParameters(seconds) }
}

/// Waits for an advisory lock and holds it until the transaction ends.
struct TakeLock: PostgresStatement {
    let sql = "SELECT pg_advisory_xact_lock($1::int8)"

    var key: Int

    var parameters: PostgresParameters { PostgresParameters(key) }
}

/// Waits, by polling the server, until another session waits for a lock.
struct AwaitLockWaiter: PostgresStatement {
    let sql = """
        SELECT await_lock_waiter($1::int8)
        """

    static let define = """
        CREATE FUNCTION await_lock_waiter(number int8) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
            FOR i IN 1..\(Int(Patience.limit / .milliseconds(5))) LOOP
                PERFORM pg_stat_clear_snapshot();
                IF (SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
                    WHERE NOT l.granted AND a.datname = current_database()) >= number THEN RETURN; END IF;
                PERFORM pg_sleep(0.005);
            END LOOP;
            RAISE EXCEPTION 'nobody waits';
        END $$
        """

    var number = 1

    var parameters: PostgresParameters { PostgresParameters(number) }
}

/// Repeats `body` after errors of a time limit that a busy machine exceeds.
///
/// - Parameter isExpected: whether an error may come from the limit; by default the server's `statement_timeout`.
func retrying<Value>(
    where isExpected: (PostgresError) -> Bool = { $0.sqlState == "57014" }, _ body: () async throws -> Value
) async throws -> Value {
    while true {
        do { return try await body() } catch let error as PostgresError where isExpected(error) {}
        try Task.checkCancellation()
    }
}

/// Returns the error of `body` if it is a ``PostgresError``.
func postgresError<Value>(_ body: () async throws -> Value) async -> PostgresError? {
    do {
        _ = try await body()
        return nil
    } catch {
        return error as? PostgresError
    }
}
