// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import Synchronization
import TestSupport
import WidgetModel

/// A database whose `now()` and `clock_timestamp()` are set by the test: its sessions find functions of these names
/// before PostgreSQL's.
final class VirtualTime: Sendable {
    /// A pool whose sessions use virtual time.
    let pool: PostgresPool
    private let current: Mutex<Timestamp>

    private init(pool: PostgresPool, now: Timestamp) {
        self.pool = pool
        current = Mutex(now)
    }

    /// Passes a store's database with virtual time to the closure.
    static func lend<Value>(
        _ store: TestStore, at now: Timestamp, _ body: (VirtualTime) async throws -> Value
    ) async throws -> Value {
        try await store.sql(
            """
            CREATE SCHEMA virtual;
            CREATE TABLE virtual.clock (now timestamptz NOT NULL);
            INSERT INTO virtual.clock VALUES ('\(now.rfc3339)');
            CREATE FUNCTION virtual.now() RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
            DECLARE t timestamptz;
            BEGIN SELECT c.now INTO t FROM virtual.clock c; RETURN t; END $$;
            CREATE FUNCTION virtual.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS 'SELECT virtual.now()';
            ALTER TABLE timeline ALTER placed_at SET DEFAULT virtual.now();
            ALTER TABLE worker ALTER seen_at SET DEFAULT virtual.now();
            ALTER TABLE stack_schedule ALTER due_at SET DEFAULT virtual.now(), ALTER read_at SET DEFAULT virtual.now();
            DO $$ BEGIN EXECUTE format(
                'ALTER DATABASE %I SET search_path = public, virtual, pg_catalog', current_database());
            END $$
            """)
        let pool = PostgresPool(configuration: store.pool.configuration, logger: .silent)
        do {
            let value = try await body(VirtualTime(pool: pool, now: now))
            await pool.shutdown()
            return value
        } catch {
            await pool.shutdown()
            throw error
        }
    }

    var now: Timestamp { current.withLock { $0 } }

    func advance(to time: Timestamp) async throws {
        current.withLock { $0 = time }
        try await pool.withConnection {
            try await $0.simple("UPDATE virtual.clock SET now = '\(time.rfc3339)'")
        }
    }

    /// Returns the time of the next list or plan of a stack before the given time.
    func nextWork(before end: Timestamp) async throws -> Timestamp? {
        try await pool.query(NextWork()).first.flatMap { $0 }.flatMap { $0 < end ? $0 : nil }
    }

    private struct NextWork: PostgresStatement {
        let sql = """
            SELECT least(
                (SELECT min(ready_at) FROM work),
                (SELECT min(coalesce(leased_until, due_at)) FROM stack_schedule
                 WHERE coalesce(leased_until, due_at) < 'infinity')) AS next
            """

        func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Timestamp? { try row.optional("next") }
    }
}

/// A clock that does not advance: no operation takes time.
struct StandingClock: Clock {
    struct Instant: InstantProtocol {
        func advanced(by duration: Duration) -> Instant { self }
        func duration(to other: Instant) -> Duration { .zero }
        static func < (left: Instant, right: Instant) -> Bool { false }
    }

    var now: Instant { Instant() }
    var minimumResolution: Duration { .zero }

    /// Waits until the task is cancelled.
    func sleep(until deadline: Instant, tolerance: Duration?) async throws {
        let (stream, continuation) = AsyncStream<Never>.makeStream()
        defer { continuation.finish() }
        for await _ in stream {}
        throw CancellationError()
    }
}
