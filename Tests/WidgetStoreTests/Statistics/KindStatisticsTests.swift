// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Counts of kinds", .timeLimit(.patience))
struct KindStatisticsTests {
    private func kindID(_ kind: String, app: String = TestKinds.app, _ store: TestStore) async throws -> Int32 {
        let directory = try await store.directory()
        return directory.apps[app].flatMap { directory.kind(kind, of: $0)?.id } ?? -1
    }

    private func counters(_ first: Int) -> KindCounters {
        var counters = KindCounters()
        for (index, field) in KindCounters.fields.enumerated() { counters[keyPath: field.path] = first + index }
        return counters
    }

    @Test("Increments add up, each counter in its column, and only the app's kinds are read")
    func adding() async throws {
        try await withStore { store in
            try await store.stayWithinHour()
            let purchases = try await kindID("Purchases", store)
            let dueDate = try await kindID("DueDate", store)
            let other = try await kindID("Purchases", app: TestKinds.otherApp, store)
            // The input has an unknown kind and is unsorted: the statement sorts.
            for _ in 0..<2 {
                _ = try await store.pool.execute(
                    Statements.addKindStatistics([
                        (other, counters(1_000)), (999_999, counters(5)), (dueDate, counters(100)),
                        (purchases, counters(1)),
                    ]))
            }
            let rows = try await store.pool.query(.readKindStatistics(app: TestKinds.app, days: 1))
            #expect(rows.map(\.kind) == ["DueDate", "Purchases", "Weather"])
            #expect(rows[0].counters == counters(100) + counters(100))
            #expect(rows[1].counters == counters(1) + counters(1))
            #expect(rows[2].counters.isZero && rows[2].day == nil)
            #expect(try await store.pool.query(.readKindStatistics(app: "no.such", days: 1)).isEmpty)
            let today = try await store.integer("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYYMMDD')::bigint")
            #expect(rows[0].day.map { $0.replacing("-", with: "") } == "\(today)")
            for (index, field) in KindCounters.fields.enumerated() {
                // The table's column names, by position.
                let value = try await store.integer(
                    """
                    SELECT (to_jsonb(s) ->> (SELECT column_name FROM information_schema.columns
                        WHERE table_name = 'kind_statistics' AND ordinal_position = \(index + 3)))::bigint
                    FROM kind_statistics s WHERE kind_id = \(purchases)
                    """)
                #expect(value == 2 * (1 + index), "\(field.name)")
            }
        }
    }

    @Test("The number of days includes today; older ones are pruned")
    func days() async throws {
        try await withStore { store in
            try await store.stayWithinHour()
            let id = try await kindID("Purchases", store)
            for age in [0, 1, 6, 7, 400, 401] {
                try await store.sql(
                    """
                    INSERT INTO kind_statistics (kind_id, day, reloaded)
                    VALUES (\(id), (now() AT TIME ZONE 'UTC')::date - \(age), 1)
                    """)
            }
            func reloaded(_ days: Int) async throws -> Int {
                try await store.pool.query(.readKindStatistics(app: TestKinds.app, days: days))
                    .reduce(0) { $0 + $1.counters.reloaded }
            }
            #expect(try await reloaded(1) == 1)
            #expect(try await reloaded(2) == 2)
            #expect(try await reloaded(7) == 3)
            #expect(try await reloaded(8) == 4)
            #expect(try await store.pool.execute(.pruneKindStatistics(olderThan: 400)) == 1)
            #expect(try await store.integer("SELECT count(*) FROM kind_statistics") == 5)
        }
    }

    @Test("Processes that add at once wait for one another and lose nothing")
    func concurrent() async throws {
        try await withStore { store in
            let ids = try await [kindID("Purchases", store), kindID("DueDate", store), kindID("Weather", store)]
            try await withThrowingTaskGroup(of: Void.self) { group in
                for task in 0..<8 {
                    group.addTask {
                        for round in 0..<10 {
                            let order = (task + round) % 2 == 0 ? ids : ids.reversed()
                            _ = try await store.pool.execute(.addKindStatistics(order.map { ($0, counters(1)) }))
                        }
                    }
                }
                try await group.waitForAll()
            }
            let rows = try await store.pool.query(.readKindStatistics(app: TestKinds.app, days: 2))
            #expect(rows.reduce(0) { $0 + $1.counters.requests } == 3 * 80)
        }
    }

    @Test("Adding updates no index, since half of each page is left free")
    func hot() async throws {
        try await withStore { store in
            try await store.stayWithinHour()
            let id = try await kindID("Purchases", store)
            try await store.pool.withConnection { connection in
                for _ in 0..<20 { _ = try await connection.execute(.addKindStatistics([(id, counters(1))])) }
                try await connection.simple("SELECT pg_stat_force_next_flush()")
            }
            let table = "FROM pg_stat_user_tables WHERE relname = 'kind_statistics'"
            try await eventually("the updates are counted") {
                try await store.integer("SELECT n_tup_upd \(table)") == 19
            }
            #expect(try await store.integer("SELECT n_tup_hot_upd \(table)") == 19)
        }
    }
}
