// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Statements of the metrics", .timeLimit(.patience))
struct MetricStatementTests {
    /// Forty timelines of one kind, rendered one to forty hours ago.
    private static let timelines = """
        INSERT INTO timeline (identity, configuration, kind_id, rendered_at)
        SELECT gen_random_uuid(), '{}', k.id, now() - n * interval '1 hour'
        FROM kind k JOIN app a ON a.id = k.app_id, generate_series(1, 40) n
        WHERE k.name = 'Purchases' AND a.name = '\(TestKinds.app)'
        """

    @Test("Timelines in ready lists are counted up to the limit, with the age of the oldest")
    func queues() async throws {
        try await withStore { store in
            func depths(limit: Int, overdueAfter: Duration = .seconds(73_800)) async throws -> [QueueDepth] {
                try await store.pool.query(.queueDepths(limit: limit, overdueAfter: overdueAfter))
            }
            #expect(try await depths(limit: 100).isEmpty)
            // Ten lists in each lane, due one to forty hours ago, and one in the future.
            try await store.sql(
                """
                INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                SELECT k.id, n % 4, t, t, '{1,2,3}' FROM kind k JOIN app a ON a.id = k.app_id,
                    generate_series(1, 40) n, LATERAL (SELECT now() - n * interval '1 hour' AS t) x
                WHERE k.name = 'Purchases' AND a.name = '\(TestKinds.app)';
                INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                SELECT min(kind_id), 0, now() + interval '1 hour', now() + interval '1 hour', '{9}' FROM work
                """)
            let all = try await depths(limit: 10_000)
            #expect(all.count == 4 && all.allSatisfy { $0.due == 30 })
            #expect(all.map(\.overdue).reduce(0, +) == 60)
            let oldest = try #require(all.first { $0.queue.lane == .interactive }?.oldest)
            #expect((144_000..<144_600).contains(oldest))
            // The oldest lists come first, so that a bounded count includes the overdue ones: two lists.
            #expect(try await depths(limit: 400).allSatisfy { $0.due == 6 && $0.overdue == 6 })
            try await store.sql("UPDATE kind SET paused_at = now()")
            #expect(try await depths(limit: 100).isEmpty)
        }
    }

    @Test("Ages are percentiles of rendered timelines without orphaned ones")
    func ages() async throws {
        try await withStore { store in
            try await store.sql(Self.timelines)
            try await store.sql(
                """
                INSERT INTO timeline (identity, configuration, kind_id, rendered_at, orphaned)
                SELECT gen_random_uuid(), '{}', min(kind_id), now() - interval '1 year', true FROM timeline
                """)
            let rows = try await store.pool.query(.timelineAges(rows: 20_000, of: 41))
            #expect(rows.count == 1)
            #expect(rows.first.map { (72_000..<72_600).contains($0.median) } == true)
            #expect(rows.first.map { (144_000..<144_600).contains($0.late) } == true)
            let estimate = try #require(try await store.pool.query(.timelineEstimate()).first)
            #expect(estimate >= 0)
            // A sample of such a small table may be empty.
            _ = try await store.pool.query(.timelineAges(rows: 1, of: 1_000_000_000))
        }
    }

    @Test("Waiting work is counted by cause, each up to the limit")
    func waiting() async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO dead_letter (topic, partition, "offset", code, error, header_names, header_values, cause)
                SELECT 't', 0, n, 'x', 'x', '{}', '{}', 'invalid' FROM generate_series(1, 9) n;
                UPDATE dead_letter SET replayed_at = now() WHERE "offset" = 9;
                """)
            func count(_ limit: Int, _ cause: String) async throws -> Int64? {
                try await store.pool.query(Statements.waitingWork(limit: limit)).first { $0.cause == cause }?.count
            }
            #expect(try await count(100, "invalid") == 8)
            #expect(try await count(5, "invalid") == 5)
            #expect(try await count(100, "malformed") == 0)
            #expect(try await count(100, WaitingWork.sweeps) == 0)
            #expect(try await count(100, WaitingWork.diversions) == 0)
        }
    }

    @Test("An old transaction and an additional index are reported")
    func health() async throws {
        try await withStore { store in
            let oldest = try await store.pool.withConnection { holder in
                _ = try await holder.simple("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT txid_current()")
                for _ in 0..<3 { try await store.sql("SELECT txid_current()") }
                let found = try await store.pool.query(.oldestSnapshot()).first
                _ = try await holder.simple("ROLLBACK")
                return found
            }
            #expect(oldest.map { $0.transactions >= 3 && $0.seconds > 0 } == true)
            #expect(try await store.pool.query(.oddIndexes()).isEmpty)
            try await store.sql("CREATE INDEX one_too_many ON timeline (rendered_at)")
            let odd = try await store.pool.query(.oddIndexes())
            #expect(odd.map(\.index) == ["one_too_many"])
            #expect(odd.map(\.isValid) == [true])
        }
    }

    @Test("Trace contexts are kept by position, and old ones are deleted")
    func traces() async throws {
        try await withStore { store in
            let places = (0..<3).map { EventPosition(topic: 0, partition: 7, offset: Int64($0)) }
            #expect(try await store.pool.query(.eventTracesExist()) == [false])
            _ = try await store.pool.execute(
                .insertEventTraces(places.map { (position: $0, traceparent: "trace \($0.offset)") }))
            // The same offset of a recreated topic.
            _ = try await store.pool.execute(.insertEventTraces([(position: places[1], traceparent: "another")]))
            #expect(try await store.pool.query(.eventTracesExist()) == [true])
            let unknown = EventPosition(topic: 1, partition: 7, offset: 0)
            let found = try await store.pool.query(.readEventTraces([places[0], places[1], unknown]))
            #expect(Set(found.map(\.traceparent)) == ["trace 0", "another"])
            try await store.sql(
                "UPDATE event_trace SET received_at = now() - interval '2 hours' WHERE \"offset\" < 2")
            for limit in [1, 10] {
                let deletion = Statements.deleteOldEventTraces(olderThan: .seconds(3_600), limit: limit)
                #expect(try await store.pool.query(deletion).map(\.deleted) == [1])
            }
            #expect(try await store.integer("SELECT count(*) FROM event_trace") == 1)
        }
    }
}
