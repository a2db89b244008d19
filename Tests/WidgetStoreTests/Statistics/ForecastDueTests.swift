// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Forecast of scheduled reloads", .timeLimit(.patience))
struct ForecastDueTests {
    /// Places a widget with a timeline listed in a lane at a time (an SQL expression).
    private func schedule(
        _ widget: String, _ due: String, lane: Int = 2, kind: String = "Purchases", app: String = TestKinds.app,
        set: String? = nil, _ store: TestStore
    ) async throws {
        let id = try await store.place([.test(widget, app: app, user: widget, kind: kind)])[0]
        try await store.sql(
            """
            UPDATE timeline SET listed_at = \(due), listed_lane = \(lane) WHERE identity = '\(id)';
            INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
            SELECT kind_id, listed_lane, listed_at, listed_at, ARRAY[id] FROM timeline
            WHERE identity = '\(id)' AND listed_at < 'infinity';
            """)
        if let set { try await store.sql("UPDATE \(set) = (SELECT id FROM timeline WHERE identity = '\(id)')") }
    }

    @Test("Due timelines are counted by kind and hour, in all lanes; overdue ones count as due now")
    func hours() async throws {
        try await withStore { store in
            try await store.stayWithinHour()
            let hour = "date_trunc('hour', now(), 'UTC')"
            try await schedule("a", "now() - interval '1 day'", lane: 0, store)
            try await schedule("b", "now() - interval '1 second'", lane: 3, store)
            for (index, minutes) in [1, 30, 59].enumerated() {
                try await schedule("c\(index)", "\(hour) + interval '3 hours \(minutes) minutes'", lane: index, store)
            }
            try await schedule("d", "\(hour) + interval '23 hours 59 minutes'", store)
            try await schedule("e", "\(hour) + interval '24 hours'", store)
            try await schedule("f", "'infinity'", store)
            try await schedule("g", "\(hour) + interval '1 hour 1 second'", kind: "DueDate", store)
            try await schedule("o", "now()", app: TestKinds.otherApp, store)

            let rows = try await store.pool.query(.forecastDue(app: TestKinds.app, hours: 24))
            var counts: [String: Int] = [:]
            for row in rows { counts["\(row.kind) \(row.hour.map { "\($0)" } ?? "none")"] = row.scheduled }
            #expect(
                counts == [
                    "Purchases -1": 2, "Purchases 3": 3, "Purchases 23": 1, "DueDate 1": 1, "Weather none": 0,
                ])
            #expect(rows.allSatisfy { !$0.isPaused && !$0.isRetired && $0.leased == 0 })
            #expect(try await store.pool.query(.forecastDue(app: nil, hours: 2)).map(\.scheduled).reduce(0, +) == 4)
            // The expected counts by brute force: the lists of the placements are superseded.
            let all = try await store.pool.query(.forecastDue(app: nil, hours: 168)).map(\.scheduled).reduce(0, +)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE listed_at < 'infinity'") == all)
            #expect(try await store.lists() > all)
        }
    }

    /// Gives all timelines random appointments, which many other lists name too: superseded ones on the same grid, ids
    /// that are listed twice, and lists of a sweep, which one kind has cancelled.
    private func shuffle(seed: Double, _ store: TestStore) async throws {
        let hour = "date_trunc('hour', now(), 'UTC')"
        try await store.sql(
            """
            SELECT setseed(\(seed));
            TRUNCATE work;
            UPDATE kind SET generation = 5, cancelled_generation = CASE name WHEN 'DueDate' THEN 5 ELSE 0 END;
            UPDATE timeline SET orphaned = random() < 0.1, listed_lane = floor(random() * 4),
                generation = CASE WHEN random() < 0.3 THEN 4 ELSE 5 END,
                listed_at = CASE WHEN random() < 0.2 THEN 'infinity'
                                 ELSE \(hour) + floor(random() * 6 - 1) * interval '1 hour' END;
            INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
            SELECT kind_id, listed_lane, listed_at, listed_at, ARRAY[id] FROM timeline WHERE listed_at < 'infinity';
            INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
            SELECT t.kind_id, n % 4, g.at, g.at, array_agg(t.id) || array_agg(t.id)
            FROM generate_series(0, 17) n CROSS JOIN LATERAL (SELECT \(hour) + (n % 6 - 1) * interval '1 hour' AS at) g
            CROSS JOIN timeline t WHERE random() < 0.5 GROUP BY t.kind_id, n, g.at;
            INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
            SELECT kind_id, 3, now(), now(), 5, array_agg(id) FROM timeline GROUP BY kind_id;
            """)
    }

    @Test("A timeline counts once, however many lists name it: forecast and work agree with a walk over the rows")
    func walk() async throws {
        try await withStore { store in
            try await store.stayWithinHour()
            let kinds = ["Purchases", "DueDate"]
            try await store.place((0..<120).map { .test("w\($0)", user: "u\($0)", kind: kinds[$0 % 3 / 2]) })
            let isSwept = "t.generation < 5 AND k.cancelled_generation < 5"
            for seed in [0.1, 0.2, 0.3] {
                try await shuffle(seed: seed, store)
                let (forecast, work) = (
                    try await store.pool.query(.forecastDue(app: TestKinds.app, hours: 24)),
                    try await store.pool.query(.readWorkLists(app: TestKinds.app))
                )
                for kind in kinds {
                    func walked(_ condition: String) async throws -> Int {
                        try await store.integer(
                            """
                            SELECT count(*) FROM timeline t JOIN kind k ON k.id = t.kind_id AND k.name = '\(kind)'
                            WHERE (\(isSwept) OR t.listed_at < 'infinity') AND \(condition)
                            """)
                    }
                    let hours = "extract(epoch FROM t.listed_at - date_trunc('hour', now(), 'UTC')) / 3600"
                    let due = "(\(isSwept) OR t.listed_at <= now())"
                    for hour in -1...5 {
                        let scheduled = forecast.filter { $0.kind == kind && $0.hour == hour }.map(\.scheduled)
                        let condition = hour < 0 ? due : "NOT \(due) AND \(hours) = \(hour)"
                        #expect(
                            try await walked("NOT t.orphaned AND \(condition)") == scheduled.first ?? 0,
                            "\(kind), hour \(hour), seed \(seed)")
                    }
                    let lanes = work.filter { $0.kind == kind }
                    #expect(try await walked(due) == lanes.map(\.ready.timelines).reduce(0, +))
                    #expect(try await walked("NOT \(due)") == lanes.map(\.later.timelines).reduce(0, +))
                }
            }
        }
    }

    @Test("Every row has its app, its provider and the start of the current hour; an unknown app has no rows")
    func rows() async throws {
        try await withStore { store in
            try await schedule("a", "now()", store)
            try await schedule("o", "now()", app: TestKinds.otherApp, store)
            let rows = try await store.pool.query(.forecastDue(app: TestKinds.app, hours: 24))
            #expect(Set(rows.map(\.app)) == [TestKinds.app])
            #expect(rows.allSatisfy { $0.provider == "http://127.0.0.1:1/bank" })
            let readAt = rows[0].readAt
            #expect(rows[0].start <= readAt && readAt - rows[0].start < .seconds(3_600))
            #expect(rows[0].start.microseconds % 3_600_000_000 == 0)
            #expect(try await store.pool.query(.forecastDue(app: "no.such", hours: 24)).isEmpty)
        }
    }

    @Test("Leased timelines count separately until the lease ends, as do orphaned, paused and retired ones")
    func apart() async throws {
        try await withStore { store in
            func lease(_ end: String) -> String {
                "work SET lease = 1, ready_at = now() + interval '\(end)' WHERE timelines[1]"
            }
            try await schedule("a", "now()", set: lease("1 hour"), store)
            try await schedule("b", "now() - interval '1 second'", set: lease("-1 s"), store)
            try await schedule("c", "now()", set: "timeline SET orphaned = true WHERE id", store)
            let rows = try await store.pool.query(.forecastDue(app: TestKinds.app, hours: 24))
            let purchases = rows.filter { $0.kind == "Purchases" }
            #expect(purchases.map(\.leased).reduce(0, +) == 1)
            #expect(purchases.map(\.scheduled).reduce(0, +) == 1)
            #expect(purchases.first { $0.hour == -1 }?.scheduled == 1)

            try await store.sql("UPDATE kind SET paused_at = now() WHERE name = 'Purchases'")
            try await store.sql("UPDATE kind SET retired_at = now() WHERE name = 'DueDate'")
            let marked = try await store.pool.query(.forecastDue(app: TestKinds.app, hours: 24))
            #expect(Set(marked.filter(\.isPaused).map(\.kind)) == ["Purchases"])
            #expect(Set(marked.filter(\.isRetired).map(\.kind)) == ["DueDate"])
            try await store.sql("UPDATE app SET paused_at = now()")
            #expect(try await store.pool.query(.forecastDue(app: nil, hours: 24)).allSatisfy { $0.isPaused })
        }
    }
}
