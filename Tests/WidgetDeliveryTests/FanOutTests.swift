// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import SampleProvider
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Fan-out of shared timelines", .timeLimit(.patience))
struct FanOutTests {
    /// Devices 0 to 29 show one shared timeline, devices 30 and 31 another one.
    private func withFanOut(
        _ configuration: DeliveryConfiguration, _ body: (DeliveryHarness) async throws -> Void
    ) async throws {
        try await withDelivery(configuration) { delivery in
            try await delivery.store.place(
                (0..<32).map { index in
                    let city = index < 30 ? "Berlin" : "Rome"
                    return .test(
                        "w\(index)", user: "u\(index)", device: "d\(index)", kind: "Weather",
                        configuration: #"{"city":"\#(city)"}"#)
                })
            for index in 0..<32 {
                try await delivery.register(
                    "u\(index)", "d\(index)", token: "00000000000000" + String(hexadecimal: [UInt8(index)]))
            }
            try await body(delivery)
        }
    }

    private func marked(_ delivery: DeliveryHarness, from first: Int, to last: Int) async throws -> Int {
        try await delivery.store.integer(
            """
            SELECT count(*) FROM registration
            WHERE changed > 0 AND substr(device_id, 2)::int BETWEEN \(first) AND \(last)
            """)
    }

    @Test("Changes take turns by chunks, so that a large one does not delay the others")
    func turns() async throws {
        try await withFanOut(.test { $0.chunk = 5 }) { delivery in
            try await delivery.store.sql(
                """
                INSERT INTO delivery_change (app_id, shared, urgent, timelines)
                SELECT app_id, timeline_id, false, ARRAY[timeline_id] FROM widget
                WHERE id IN ('w0', 'w31') ORDER BY length(id), id
                """)
            for _ in 0..<2 { #expect(try await delivery.service.markShared()) }
            #expect(try await marked(delivery, from: 0, to: 29) == 5)
            #expect(try await marked(delivery, from: 30, to: 31) == 2)
            while try await delivery.service.markShared() {}
            #expect(try await marked(delivery, from: 0, to: 31) == 32)
        }
    }

    @Test("A fan-out pauses while many lists wait; personal changes continue")
    func paced() async throws {
        try await withFanOut(
            .test {
                $0.chunk = 5
                $0.backlog = 2
            }
        ) { delivery in
            try await delivery.store.place([.test("mine", user: "u0", device: "d0")])
            try await delivery.change(.push)
            while try await delivery.service.markShared() {}
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery") == 2)
            #expect(try await delivery.service.mark())
            #expect(try await delivery.service.notify())
            while try await delivery.service.markShared() {}
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery") >= 2)
            for _ in 0..<40 { try await delivery.deliver() }
            #expect(delivery.apns.statistics.byToken.count == 32)
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery_change") == 0)
        }
    }

    @Test(
        "Changes of a timeline during its fan-out are merged into it, and it wraps around to the devices already marked"
    )
    func coalesced() async throws {
        try await withFanOut(.test { $0.chunk = 5 }) { delivery in
            let berlin = try await delivery.store.integer("SELECT timeline_id FROM widget WHERE id = 'w0'")
            func change() async throws { _ = try await delivery.store.pool.query(.noteChanges(of: [Int64(berlin)])) }
            try await change()
            #expect(try await delivery.service.markShared())
            for _ in 0..<3 { try await change() }
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery_change") == 1)
            #expect(try await delivery.service.markShared())
            try await change()
            while try await delivery.service.markShared() {}
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery_change") == 0)
            // Thirty devices, and again the ten that were marked before the last change.
            #expect(try await delivery.store.integer("SELECT sum(changed) FROM registration") == 40)
            #expect(try await marked(delivery, from: 0, to: 29) == 30)
            #expect(try await marked(delivery, from: 30, to: 31) == 0)
            let stale = "SELECT count(*) FROM registration WHERE stale_timelines = ARRAY[\(berlin)]::int8[]"
            #expect(try await delivery.store.integer(stale) == 30)
        }
    }

    /// The view makes the statement wait between its snapshot and the lock on the change.
    @Test("A change that is raised after the snapshot of a walk is marked with its own revision")
    func raisedDuringMark() async throws {
        try await withFanOut(.test()) { delivery in
            let pool = delivery.store.pool
            let berlin = Int64(try await delivery.store.integer("SELECT timeline_id FROM widget WHERE id = 'w0'"))
            _ = try await pool.query(.noteChanges(of: [berlin]))
            try await delivery.store.sql(
                """
                CREATE FUNCTION pass() RETURNS boolean LANGUAGE sql VOLATILE AS
                    $$ SELECT pg_advisory_xact_lock_shared(77) IS NOT NULL $$;
                CREATE SEQUENCE change_id START 1000;
                ALTER TABLE delivery_change ALTER id DROP IDENTITY;
                ALTER TABLE delivery_change RENAME TO delivery_change_rows;
                CREATE VIEW delivery_change AS SELECT * FROM delivery_change_rows WHERE pass();
                ALTER VIEW delivery_change ALTER id SET DEFAULT nextval('change_id')
                """)
            try await pool.withConnection { connection in
                try await connection.simple("SELECT pg_advisory_lock(77)")
                async let marking = delivery.service.markShared()
                try await delivery.store.waitUntilBlocked(1)
                try await connection.simple(
                    """
                    UPDATE timeline SET content_revision = nextval('token'), stored_at = now() WHERE id = \(berlin);
                    UPDATE delivery_change_rows SET changed_at = clock_timestamp()
                    """)
                try await connection.simple("SELECT pg_advisory_unlock(77)")
                #expect(try await marking)
            }
            #expect(try await marked(delivery, from: 0, to: 29) == 0)
            while try await delivery.service.markShared() {}
            #expect(
                try await delivery.store.integer(
                    """
                    SELECT count(*) FROM registration r JOIN timeline t ON t.id = \(berlin)
                    WHERE r.stale_revisions = ARRAY[t.content_revision]
                    """) == 30)
        }
    }

    @Test("Waiting lists of one app do not delay the fan-out of another")
    func fairness() async throws {
        try await withFanOut(.test { $0.backlog = 2 }) { delivery in
            try await delivery.store.sql(
                """
                INSERT INTO delivery (app_id, due_at, ready_at, registrations)
                SELECT 2, now(), now(), '{}' FROM generate_series(1, 5);
                INSERT INTO delivery_change (app_id, shared, urgent, timelines) VALUES (2, 1000000, false, '{1000000}')
                """)
            try await delivery.change(.push)
            #expect(try await delivery.service.markShared())
            #expect(try await marked(delivery, from: 0, to: 29) == 30)
        }
    }

    @Test("An index finds the next change of either type, regardless of the number of others")
    func indexes() async throws {
        try await withFanOut(.test()) { delivery in
            try await delivery.store.sql(
                """
                INSERT INTO delivery_change (app_id, shared, urgent, timelines)
                SELECT 1, n, false, ARRAY[n] FROM generate_series(1, 20000) n;
                INSERT INTO delivery_change (app_id, urgent, timelines) VALUES (1, false, ARRAY[1]);
                ANALYZE delivery_change
                """)
            // Fails if PostgreSQL chooses another plan.
            try await delivery.store.sql(
                """
                DO $$ DECLARE line text; uses boolean := false; BEGIN
                    FOR line IN EXPLAIN SELECT c.id FROM delivery_change c WHERE c.shared IS NULL ORDER BY c.id LIMIT 1
                    LOOP uses := uses OR line LIKE '%delivery_change_owned%'; END LOOP;
                    ASSERT uses;
                END $$
                """)
        }
    }
}
