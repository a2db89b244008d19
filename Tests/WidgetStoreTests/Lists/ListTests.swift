// SPDX-License-Identifier: Apache-2.0

import Logging
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Work lists are leased, returned and ended by their holders", .timeLimit(.patience))
struct ListTests {
    @Test("A claim leases a list once, with its rows")
    func claim() async throws {
        try await withStore { store in
            let ids = try await store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            let lists = try await store.claim(.interactive)
            #expect(lists.count == 1 && !lists[0].wasLeasedBefore && lists[0].generation == nil)
            #expect(Set(lists[0].timelines.map(\.id)) == Set(ids))
            #expect(try await store.claim(.interactive).isEmpty, "leased")
            #expect(try await store.claim(.push).isEmpty, "another lane")
        }
    }

    @Test("A list has at most 200 timelines")
    func length() async throws {
        try await withStore { store in
            try await store.place((0..<450).map { .test("w\($0)", user: "u\($0)") })
            let lists = try await store.claim(.interactive)
            #expect(lists.map(\.timelines.count).sorted() == [50, 200, 200])
        }
    }

    @Test("A claim ends with the list that reaches its number of timelines")
    func claimBounds() async throws {
        try await withStore { store in
            let kind = try await store.kind().id
            let sizes: [Int] = [1, 3, 2, 5, 1]
            for (place, size) in sizes.enumerated() {
                let ids = (1...size).map(String.init).joined(separator: ",")
                try await store.sql(
                    """
                    INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                    SELECT \(kind), \(ReloadLane.push.rawValue), t, t, '{\(ids)}'
                    FROM (SELECT now() - interval '\(60 - place) s') x (t)
                    """)
            }
            let ready = try await store.pool.query(
                .readyLists([ClaimRequest(KindLane(kindID: kind, lane: .push), lists: 0)], limit: 4))
            #expect(ready.map(\.sizes) == [[1, 3, 2, 5]], "the oldest lists")
            for (timelines, lists) in [(4, 2), (3, 2), (1, 1), (1, 0)] {
                let request = ClaimRequest(KindLane(kindID: kind, lane: .push), lists: 10, timelines: timelines)
                let rows = try await store.pool.query(.claimLists([request], lease: .seconds(30)))
                #expect(Set(rows.map(\.list.id)).count == lists)
            }
        }
    }

    @Test("Timelines with an appointment in another list are left out; a list of only such timelines is empty")
    func superseded() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.settle()
            try await store.sql(
                "UPDATE timeline SET eligible_at = now() + interval '1 hour', policy_at = now() + interval '2 hours'")
            // Due in an hour.
            try await store.apply([try await store.mark(.user, "u1")])
            #expect(try await store.claim(.push).isEmpty)
            // Now due: the earlier list is superseded.
            try await store.apply([try await store.mark(.user, "u1", urgency: .free, lane: .interactive)])
            #expect(try await store.lists() == 2)
            try await store.sql("UPDATE work SET ready_at = now() - interval '1 s'")
            #expect(try await store.claim(.push).map(\.timelines.count) == [0])
            #expect(try await store.claim(.interactive).map(\.timelines.count) == [1])
        }
    }

    @Test("After its lease has expired a list is claimed again, and all its rows are suspects")
    func expired() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let row = try #require(try await store.row(of: id))
            let first = try #require(try await store.claim(.interactive, lease: .zero).first)
            let second = try #require(try await store.claim(.interactive).first)
            #expect(second.id == first.id && second.lease > first.lease)
            #expect(second.wasLeasedBefore && second.suspects == [row])
            #expect(try await store.end(first) == .lost)
            #expect(try await store.lists() == 1)
            #expect(try await store.end(second) == .ended)
            #expect(try await store.lists() == 0)
        }
    }

    @Test("A list that was leased before a failover does not end, since what its holder stored may be lost")
    func leasedBeforeFailover() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let list = try #require(try await store.claim(.interactive).first)
            try await store.sql("SELECT setval('token', (SELECT last_value FROM token) + (1::int8 << 32))")
            #expect(try await store.end(list) == .lost)
            #expect(try await store.lists() == 1)
        }
    }

    /// Moves the registration of every worker but one into the past.
    private func silence(others mine: UInt128, _ time: String, _ store: TestStore) async throws {
        try await store.sql(
            """
            UPDATE worker SET seen_at = now() - interval '\(time)'
            WHERE id <> '00000000-0000-0001-0000-00000000000\(mine)'
            """)
    }

    @Test("A list ends without a comparison only while no other worker is registered")
    func alone() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            let lists = try await store.claim(.interactive)
            #expect(lists.count == 2)
            let mine: UInt128 = 1
            #expect(try await store.pool.query(.registerWorker(mine)) == [false])
            #expect(try await store.pool.query(.registerWorker(2)) == [true])
            #expect(try await store.end(lists[0], isCompared: false) == .uncompared)
            try await silence(others: mine, "11 minutes", store)
            #expect(try await store.end(lists[0], isCompared: false) == .ended)
            #expect(try await store.end(lists[1]) == .ended)
        }
    }

    @Test("A silent worker is deleted long after it stops to count as registered")
    func silent() async throws {
        try await withStore { store in
            let mine: UInt128 = 1
            for worker in [mine, 2] { _ = try await store.pool.query(.registerWorker(worker)) }
            try await silence(others: mine, "11 minutes", store)
            #expect(try await store.pool.query(.registerWorker(mine)) == [false])
            #expect(try await store.integer("SELECT count(*) FROM worker") == 2)
            try await silence(others: mine, "21 minutes", store)
            _ = try await store.pool.query(.registerWorker(mine))
            #expect(try await store.integer("SELECT count(*) FROM worker") == 1)
        }
    }

    @Test("A returned list is ready after its delay; a lease that does not count leaves no suspects")
    func givenBack() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let first = try #require(try await store.claim(.interactive).first)
            func giveBack(_ list: LeasedList, delay: Duration, counts: Bool) async throws {
                _ = try await store.pool.execute(
                    .giveBackLists([(hold: list.hold, delay: delay, counts: counts)]))
            }
            try await giveBack(first, delay: .zero, counts: false)
            let second = try #require(try await store.claim(.interactive).first)
            #expect(!second.wasLeasedBefore)
            try await giveBack(first, delay: .zero, counts: false)
            #expect(try await store.claim(.interactive).isEmpty, "the first worker is no longer the holder")
            try await giveBack(second, delay: .seconds(600), counts: true)
            #expect(try await store.claim(.interactive).isEmpty)
            try await store.sql("UPDATE work SET ready_at = now()")
            #expect(try await store.claim(.interactive).first?.wasLeasedBefore == true)
        }
    }

    @Test("Lists of paused kinds and apps are not claimed, and stay")
    func paused() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            let lists = try await store.claim(.interactive)
            let dueDate = try await store.kind("DueDate").id
            #expect(lists.map(\.kindID) == [dueDate])
            _ = try await store.store.resume(app: TestKinds.app, kind: "Purchases")
            _ = try await store.store.pause(app: TestKinds.app)
            #expect(try await store.claim(.interactive).isEmpty)
            _ = try await store.store.resume(app: TestKinds.app)
            #expect(try await store.claim(.interactive).count == 1)
        }
    }

    @Test("Rows that were published under a lost lease come back as suspects")
    func suspects() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.settle()
            let row = try #require(try await store.row(of: id))
            #expect(try await store.pool.query(.appendSuspects([id, TimelineID(high: 7, low: 7)])) == [id])
            let list = try #require(try await store.claim(.push).first)
            #expect(list.suspects == [row])
        }
    }

    @Test("The token sequence jumps once when the server has a different history")
    func origin() async throws {
        try await withStore { store in
            #expect(try await store.pool.query(.checkTokenOrigin()).map(\.hasJumped) == [false])
            let before = try #require(try await store.pool.query(.nextToken()).first)
            try await store.sql("UPDATE token_origin SET wal_timeline = wal_timeline + 1")
            let jumped = try #require(try await store.pool.query(.checkTokenOrigin()).first)
            #expect(jumped.hasJumped && jumped.latestToken > before + (1 << 32))
            #expect(try await store.pool.query(.checkTokenOrigin()).map(\.hasJumped) == [false])
            let after = try #require(try await store.pool.query(.nextToken()).first)
            #expect(after > jumped.latestToken && after < before + (1 << 32) + 10)
        }
    }

    @Test("After a crash, the token sequence jumps within its history, since the last tokens may be lost")
    func crash() async throws {
        try await withStore { store in
            let sql = "SELECT relpersistence::text AS kept FROM pg_class WHERE oid = 'server_run'::regclass"
            let kept = try await store.pool.query(PostgresQuery<String>(sql) { row in try row.value("kept") })
            #expect(kept == ["u"], "a crash empties only an unlogged table")
            let before = try #require(try await store.pool.query(.nextToken()).first)
            try await store.sql("TRUNCATE server_run")
            let found = try #require(try await store.pool.query(.checkTokenOrigin()).first)
            #expect(!found.hasJumped, "what was stored before is of the same history")
            #expect(found.latestToken > before + (1 << 20))
            #expect(try await store.pool.query(.checkTokenOrigin()).map(\.latestToken) == [found.latestToken])
        }
    }

    @Test("Positions and ended lists do not wait for the disk, only in their own transaction")
    func asynchronousCommit() async throws {
        try await withStore { store in
            let setting = PostgresQuery<String>("SELECT current_setting('synchronous_commit') AS setting") { row in
                try row.value("setting")
            }
            _ = try await store.place([.test("w1")])
            let list = try #require(try await store.claim(.interactive).first)
            try await store.pool.withConnection { connection in
                try await connection.simple("SET synchronous_commit = on")
                try await connection.simple("BEGIN")
                _ = try await connection.query(.advancePositions([]))
                #expect(try await connection.query(setting) == ["off"])
                try await connection.simple("COMMIT; BEGIN")
                #expect(try await connection.query(setting) == ["on"])
                let ended = try await connection.query(.endLists([(hold: list.hold, isCompared: true)], worker: 1))
                #expect(ended.map(\.outcome) == [.ended])
                #expect(try await connection.query(setting) == ["off"])
                try await connection.simple("COMMIT; RESET synchronous_commit")
            }
        }
    }

    @Test("After a failover, the first statement of each new connection takes no token of lost history")
    func firstToken() async throws {
        try await withStore { store in
            let pool = PostgresPool(
                configuration: PostgresConfiguration(connectionString: store.connectionString),
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let history = DatabaseHistory(of: pool)
            let lost = Mutex<[Int64]>([])
            history.observe { token in lost.withLock { $0.append(token) } }
            let before = try #require(try await pool.query(.nextToken()).first)
            try await store.failOver()
            // Four connections at once, each with its first statement.
            let after = try await withThrowingTaskGroup(of: Int64?.self) { group in
                for _ in 0..<4 {
                    group.addTask { try await pool.withConnection { try await $0.query(.nextToken()).first } }
                }
                return try await group.reduce(into: []) { $0.append($1) }.compactMap { $0 }
            }
            #expect(after.count == 4 && after.allSatisfy { $0 > 1 << 32 })
            // The claims of this process are dropped once, and none of the new ones.
            let floors = lost.withLock { $0 }
            #expect(floors.count == 1 && floors.allSatisfy { $0 >= before && $0 < after.min() ?? 0 })
            await pool.shutdown()
        }
    }
}
