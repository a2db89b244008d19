// SPDX-License-Identifier: Apache-2.0

import Foundation
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Old rows are deleted", .timeLimit(.patience))
struct RetentionTests {
    private static func retention(of rows: RowRetention.Rows..., on store: TestStore) -> RowRetention {
        RowRetention(of: rows, pool: store.pool, logger: IngestHarness.quiet)
    }

    /// Inserts outcomes, idempotency keys, and tombstones of unknown widgets, of three apps, with this age in hours.
    static func insert(_ count: Int, from first: Int = 0, hours: Int, into store: TestStore) async throws {
        let (rows, time) = ("generate_series(\(first), \(first + count - 1)) n", "now() - interval '\(hours) hours'")
        try await store.sql(
            """
            INSERT INTO event_outcome (app_id, event_id, source, type, topic, partition, "offset", result, recorded_at)
            SELECT 1 + n % 3, 'event-' || n, '/source', 'type', 'topic', 1, n, 'applied', \(time) FROM \(rows);
            INSERT INTO idempotency_key (app_id, key, request, recorded_at)
            SELECT 1 + n % 3, md5(n::text)::uuid, md5(n::text)::uuid, \(time) FROM \(rows);
            INSERT INTO widget (app_id, id, kind_id, family, user_id, device_id, locale, time_zone, placed_at, changed_at)
            SELECT 1 + n % 3, 'gone-' || n, 0, 0, '', '', '', '', \(time), \(time) FROM \(rows);
            INSERT INTO unplaced_widget (app_id, id, recorded_at) SELECT 1 + n % 3, 'gone-' || n, \(time) FROM \(rows);
            """)
    }

    private func count(_ table: String, _ store: TestStore) async throws -> Int {
        try await store.integer("SELECT count(*) FROM \(table)")
    }

    /// Number of a table's rows that a statement reads.
    private func rowsRead(
        of table: String, by statement: some PostgresStatement, _ store: TestStore
    ) async throws -> Int64 {
        try await store.pool.withTransaction { connection in
            _ = try await connection.query(statement)
            let read = PostgresQuery<Int64>(
                """
                SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) AS rows FROM pg_stat_xact_user_tables
                WHERE relname = $1::text
                """, table
            ) { row in try row.value("rows") }
            return try await connection.query(read).first ?? -1
        }
    }

    @Test("Deleting a chunk reads as many rows as the chunk has, however many the table has")
    func linear() async throws {
        try await withStore { store in
            try await Self.insert(300, hours: 30, into: store)
            try await Self.insert(20_000, from: 300, hours: 0, into: store)
            try await store.sql("ANALYZE")
            let hour = Duration.seconds(3_600)
            let chunk = 100
            func expect(_ table: String, _ statement: PostgresQuery<DeletedChunk>) async throws {
                let read = try await rowsRead(of: table, by: statement, store)
                #expect((1...Int64(chunk * 4)).contains(read), "\(table): \(read)")
                #expect(try await count(table, store) <= 20_200, "\(table)")
            }
            try await expect("event_outcome", Statements.deleteOldEventOutcomes(olderThan: hour, limit: chunk))
            try await expect("idempotency_key", Statements.deleteOldIdempotencyKeys(olderThan: hour, limit: chunk))
            try await expect("unplaced_widget", Statements.deleteUnplacedWidgets(olderThan: hour, limit: chunk))
            try await expect("widget", Statements.deleteRemovedWidgets(olderThan: hour, limit: chunk))
        }
    }

    @Test("A round deletes the old rows of every sort and keeps the others")
    func rounds() async throws {
        try await withStore { store in
            try await Self.insert(25_000, hours: 30, into: store)
            try await Self.insert(5_000, from: 25_000, hours: 0, into: store)
            let retention = Self.retention(of: .eventOutcomes(), .idempotencyKeys(), .unplacedWidgets(), on: store)
            #expect(try await retention.prune() == 75_000)
            for table in ["event_outcome", "idempotency_key", "unplaced_widget", "widget"] {
                #expect(try await count(table, store) == 5_000, "\(table)")
            }
        }
    }

    @Test("An app with too many rows keeps the latest ones, and other apps keep theirs")
    func limits() async throws {
        try await withStore { store in
            try await Self.insert(3_000, hours: 0, into: store)
            try await store.sql(
                """
                UPDATE event_outcome SET app_id = 4 WHERE app_id = 1 AND "offset" < 1000
                """)
            let retention = Self.retention(of: .eventOutcomes(most: 700), on: store)
            #expect(try await retention.prune() == 600)
            let kept = "SELECT count(*) FROM event_outcome WHERE"
            #expect(try await store.integer("\(kept) app_id = 2 AND \"offset\" >= 900") == 700)
            #expect(try await store.integer("\(kept) app_id = 3 AND \"offset\" >= 900") == 700)
            #expect(try await store.integer("\(kept) app_id IN (1, 4)") == 1_000)
        }
    }

    @Test("Of several processes, one deletes in an interval")
    func oneProcess() async throws {
        try await withStore { store in
            try await Self.insert(10, hours: 2, into: store)
            let (first, second) = (
                Self.retention(of: .eventOutcomes(), on: store), Self.retention(of: .eventOutcomes(), on: store)
            )
            #expect(try await first.prune() == 10)
            try await Self.insert(10, from: 10, hours: 2, into: store)
            #expect(try await second.prune() == 0)
            #expect(try await first.prune() == 0)
            try await store.sql("UPDATE retention SET active_at = active_at - interval '60 seconds'")
            #expect(try await second.prune() == 10)
        }
    }

    @Test("An outcome that is replaced is kept for its whole time, and holds up no other")
    func replaced() async throws {
        try await withStore { store in
            let outcome = EventOutcome(
                appID: 1, event: "a", source: "/s", type: "t", topic: "t", partition: 0, offset: 1)
            _ = try await store.pool.execute(.insertEventOutcomes([outcome]))
            try await Self.insert(10, hours: 2, into: store)
            try await store.sql(
                "UPDATE event_outcome SET recorded_at = now() - interval '3 hours' WHERE event_id = 'a'")
            _ = try await store.pool.execute(.insertEventOutcomes([outcome]))
            let deletion = Statements.deleteOldEventOutcomes(olderThan: .seconds(3_600), limit: 1)
            for _ in 1...10 { #expect(try await store.pool.query(deletion).map(\.deleted) == [1]) }
            #expect(try await store.pool.query(deletion).map(\.deleted) == [0])
            #expect(try await store.integer("SELECT count(*) FROM event_outcome WHERE event_id = 'a'") == 1)
        }
    }

    @Test("A removed widget's row stays while an older event may come, then goes with the user's id")
    func removed() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let store = ingest.store
            let window = Duration.seconds(37 * 86_400)
            let retention = Self.retention(of: .removedWidgets(olderThan: window), on: store)
            let now = Timestamp.now()
            func placed(_ widget: String) -> FreshetEvent { .placed(.test(widget)) }
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([placed("w1"), placed("w2"), placed("w3")], at: now - .seconds(100))
                try await ingest.publish([.removed(app: TestKinds.app, widget: "w1")], at: now)
                try await ingest.publish([.removed(app: TestKinds.app, widget: "w2")], at: now)
                try await ingest.waitUntilApplied(5)
                try await store.sql(
                    "UPDATE widget SET changed_at = changed_at - interval '38 days' WHERE id IN ('w1', 'w3')")
                // Older events of a diverted app may wait for longer.
                try await store.sql("INSERT INTO diversion (app_id, letters, events) SELECT id, 1, 1 FROM app")
                #expect(try await retention.prune() == 0)
                try await store.sql("DELETE FROM diversion; DELETE FROM retention")
                #expect(try await retention.prune() == 1)
                #expect(try await count("widget WHERE id IN ('w2', 'w3')", store) == 2)
                #expect(try await count("widget", store) == 2)
                // The placement is older than the removal of a widget within the window.
                try await ingest.publish([placed("w2")], at: now - .seconds(50))
                try await ingest.waitUntilApplied(6)
            }
            #expect(try await count("widget WHERE timeline_id IS NOT NULL", store) == 1)
            // A time of a clock that was ahead counts as none, so that no event would respect it.
            try await store.sql("UPDATE widget SET changed_at = 'infinity'; DELETE FROM retention")
            #expect(try await store.pool.query(.oldestRemovedWidget()) == [.zero])
            #expect(try await retention.prune() == 1)
            #expect(try await count("widget", store) == 1)
        }
    }

    @Test("Removed widgets are deleted though their events had times before 1970, such as the zero time of Go")
    func zeroTime() async throws {
        try await withStore { store in
            try await Self.insert(25_000, hours: 30, into: store)
            let times = "timestamptz '0001-01-01T00:00:00Z' + split_part(id, '-', 2)::int / 2 * interval '1 day'"
            try await store.sql("UPDATE widget SET changed_at = \(times)")
            try await Self.insert(1, from: 25_000, hours: 0, into: store)
            let retention = Self.retention(of: .removedWidgets(olderThan: .seconds(3_600)), on: store)
            #expect(try await retention.prune() == 25_000)
            let oldest = try await store.pool.query(.oldestRemovedWidget())
            #expect(oldest.count == 1 && oldest.allSatisfy { $0 < .seconds(3_600) }, "\(oldest)")
        }
    }

    @Test("Erasing a user reads no rows of other users")
    func erase() async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO widget (app_id, id, kind_id, family, timeline_id, user_id, device_id, locale, time_zone,
                                    placed_at, changed_at)
                SELECT 1, 'w' || n, 1, 0, CASE WHEN n % 2 = 0 THEN n END, 'u' || n % 1000, 'd', 'en', 'UTC', now(), now()
                FROM generate_series(1, 20000) n;
                INSERT INTO event_outcome (app_id, event_id, source, type, topic, partition, "offset", result, user_id)
                SELECT 1, 'e' || n, '/s', 't', 't', 1, n, 'applied', 'u' || n % 1000 FROM generate_series(1, 20000) n;
                INSERT INTO dead_letter (topic, partition, "offset", app, code, error, key, header_names, header_values)
                SELECT 't', 1, n, CASE WHEN n % 1000 = 7 THEN '\(TestKinds.app)' ELSE 'b' || n % 3 END, 'c', 'e',
                       convert_to('u7', 'UTF8'), '{}', '{}'
                FROM generate_series(1, 20000) n
                """)
            // The plans depend on what is known to be visible.
            try await store.sql("VACUUM ANALYZE")
            let widgets = Statements.deleteWidgetsOfUser(appID: 1, user: "u7")
            let outcomes = Statements.deleteOutcomesOfUser(appID: 1, user: "u7")
            let letters = Statements.deleteDeadLettersOfUser(app: TestKinds.app, user: "u7", after: 0)
            #expect(try await rowsRead(of: "widget", by: widgets, store) <= 200)
            #expect(try await rowsRead(of: "event_outcome", by: outcomes, store) <= 100)
            let read = try await rowsRead(of: "dead_letter", by: letters, store)
            #expect(read <= 100)
            for table in ["widget", "event_outcome", "dead_letter"] {
                #expect(try await count(table, store) == 19_980, "\(table)")
            }
        }
    }

    @Test(
        "Measures how many rows a process deletes in a second",
        .enabled(if: ProcessInfo.processInfo.environment["FRESHET_RETENTION_ROWS"] != nil))
    func rate() async throws {
        let rows = ProcessInfo.processInfo.environment["FRESHET_RETENTION_ROWS"].flatMap { Int($0) } ?? 0
        try await withStore { store in
            for first in stride(from: 0, to: rows, by: 100_000) {
                try await Self.insert(100_000, from: first, hours: 30, into: store)
            }
            for first in stride(from: rows, to: 2 * rows, by: 100_000) {
                try await Self.insert(100_000, from: first, hours: 0, into: store)
            }
            try await store.sql("ANALYZE")
            for sort in [
                RowRetention.Rows.eventOutcomes(most: .max), .idempotencyKeys(most: .max), .unplacedWidgets(most: .max),
            ] {
                let begun = ContinuousClock.now
                let deleted = try await Self.retention(of: sort, on: store).prune()
                let seconds = begun.duration(to: .now) / .seconds(1)
                print("\(sort.name): \(deleted) of \(2 * rows) deleted, \(Int(Double(deleted) / seconds))/s")
                #expect(deleted == rows)
            }
        }
    }
}
