// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel

@testable import WidgetStore

@Suite("Reloads of everyone", .timeLimit(.patience))
struct SweepTests {
    private func bump(_ store: TestStore, _ reason: ReloadReason = .push) async throws -> RegisteredKind {
        let kind = try await store.kind()
        #expect(
            try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id, reason: reason)]))
                == [1])
        return kind
    }

    private func walk(_ store: TestStore, limit: Int, lists: Int = 100) async throws -> (timelines: Int, isDone: Bool)?
    {
        guard let sweep = try await store.pool.query(.listSweeps(limit: 1, maximumLists: 100)).first else { return nil }
        #expect(sweep.isWalk)
        return try await store.pool.query(.walkKind(sweep.id, limit: limit, maximumLists: lists)).first
    }

    @Test("A bump writes the kind and a sweep, regardless of the number of timelines")
    func constant() async throws {
        try await withStore { store in
            try await store.place((0..<50).map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            let kind = try await store.kind()
            // The server's count of written rows includes the connection's previous transactions.
            let written = "SELECT sum(n_tup_upd + n_tup_ins + n_tup_del) FROM pg_stat_xact_user_tables"
            try await store.pool.withTransaction { connection in
                try await connection.simple("SELECT set_config('test.written', (\(written))::text, true)")
                _ = try await connection.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id)]))
                try await connection.simple(
                    """
                    DO $$ BEGIN
                        IF (\(written)) - current_setting('test.written')::numeric <> 2 THEN
                            RAISE EXCEPTION 'the reload wrote other than two rows';
                        END IF;
                    END $$
                    """)
            }
            #expect(try await store.pool.query(Statements.overview()).first?.stale == 50)
        }
    }

    @Test("All kinds of an app that are not retired are bumped in ID order, with a sweep each")
    func allKinds() async throws {
        try await withStore { store in
            _ = try await store.store.retire(app: TestKinds.app, kind: "DueDate")
            let kind = try await store.kind()
            #expect(
                try await store.pool.query(
                    .bumpKinds([
                        EveryoneReload(appID: kind.appID, kindID: nil, events: 2),
                        EveryoneReload(appID: kind.appID, kindID: kind.id, reason: .operator),
                    ])) == [2])
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM sweep s JOIN kind k ON k.id = s.kind_id WHERE s.generation > 1") == 2)
            #expect(
                try await store.integer("SELECT generation * 100 + forced_generation FROM kind WHERE id = \(kind.id)")
                    == 303)
        }
    }

    @Test("A sweep lists outdated timelines in chunks while the backlog is below its limit, and writes no row")
    func walked() async throws {
        try await withStore { store in
            try await store.place((0..<5).map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            let versions = try await store.integer("SELECT max(xmin::text::bigint) FROM timeline")
            _ = try await bump(store)
            try await store.sql("UPDATE timeline SET generation = 1 WHERE id = (SELECT min(id) FROM timeline)")
            let first = try #require(try await walk(store, limit: 2))
            #expect(first.timelines == 1 && !first.isDone)
            #expect(try await walk(store, limit: 2, lists: 1) == nil, "the backlog is full")
            #expect(try await walk(store, limit: 2)?.timelines == 2)
            let last = try #require(try await walk(store, limit: 2))
            #expect(last.timelines == 1 && last.isDone)
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 0)
            #expect(
                try await store.integer("SELECT max(xmin::text::bigint) FROM timeline WHERE generation = 0") == versions
            )
        }
    }

    @Test("A sweep's lists have its generation and only outdated timelines; storing them leaves nothing stale")
    func sweepLists() async throws {
        try await withStore { store in
            let ids = try await store.place((0..<5).map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            _ = try await bump(store)
            try await store.sql("UPDATE timeline SET generation = 1 WHERE id = (SELECT min(id) FROM timeline)")
            while try await walk(store, limit: 2)?.isDone == false {}
            let lists = try await store.claim(.bulk)
            #expect(lists.allSatisfy { $0.generation == 1 })
            let listed = lists.flatMap(\.timelines)
            #expect(listed.count == 4 && Set(listed.map(\.id)).isSubset(of: ids))
            for list in lists {
                #expect(try await store.complete(list).allSatisfy { $0.nextLook == nil })
                try await store.end(list)
            }
            #expect(try await store.pool.query(Statements.overview()).first?.stale == 0)
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("A bump in the middle of a sweep makes it wrap around to the place of the bump")
    func raised() async throws {
        try await withStore { store in
            try await store.place((0..<6).map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            _ = try await bump(store)
            _ = try await walk(store, limit: 2)
            // The first two are rendered at the first generation.
            for list in try await store.claim(.bulk) {
                _ = try await store.complete(list)
                try await store.end(list)
            }
            _ = try await bump(store)
            var listed = 0
            for _ in 0..<20 {
                guard let chunk = try await walk(store, limit: 2) else { break }
                listed += chunk.timelines
            }
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 0)
            #expect(listed == 6)
            for list in try await store.claim(.bulk) {
                _ = try await store.complete(list)
                try await store.end(list)
            }
            #expect(try await store.pool.query(Statements.overview()).first?.stale == 0)
        }
    }

    @Test("A bump during the fetch causes one more reload, which the sweep finds")
    func captured() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let list = try #require(try await store.claim(.interactive).first)
            _ = try await bump(store)
            #expect(try await store.complete(list).count == 1)
            try await store.end(list)
            #expect(try await store.timeline(id)?.isStale == true)
            // Both the store and the sweep have listed the timeline: one of the two lists finds it done.
            _ = try await walk(store, limit: 10)
            let bulk = try await store.claim(.bulk)
            #expect(bulk.count == 2)
            _ = try await store.complete(bulk[0])
            #expect(try await store.timeline(id)?.isStale == false)
            #expect(try await store.complete(bulk[1]).isEmpty, "the revision has changed")
        }
    }

    /// Five timelines, four of them in the lists of a sweep.
    private func swept(_ store: TestStore) async throws -> (ids: [TimelineID], kind: RegisteredKind) {
        let ids = try await store.place((0..<5).map { .test("w\($0)", user: "u\($0)") })
        try await store.settle()
        let kind = try await bump(store)
        for _ in 0..<2 { _ = try await walk(store, limit: 2) }
        return (ids, kind)
    }

    @Test("Cancelling deletes sweeps and their lists; targeted requests stay")
    func cancelled() async throws {
        try await withStore { store in
            let (ids, kind) = try await swept(store)
            let leased = try #require(try await store.claim(.bulk, lists: 1).first)
            try await store.apply([try await store.mark(.user, "u4")])
            let matching = EveryoneReload(
                appID: kind.appID, kindID: kind.id, matching: "{}", events: 1, urgency: .budgeted,
                cause: EventPosition(topic: 0, partition: 0, offset: 0), reason: .push)
            _ = try await store.pool.execute(.recordSweep([matching, matching]))
            let cancelled = try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")
            #expect(cancelled?.sweeps == 2 && cancelled?.timelines == 2)
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 0)
            #expect(try await store.end(leased) == .ended, "its timelines may be stored but not published")
            #expect(try await store.pool.query(Statements.overview()).first?.stale == 1)
            #expect(try await store.timeline(ids[4])?.isStale == true)
        }
    }

    @Test("Cancelling is repeatable, and reports a missing kind")
    func cancelledAgain() async throws {
        try await withStore { store in
            _ = try await swept(store)
            #expect(try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")?.sweeps == 1)
            #expect(try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")?.sweeps == 0)
            #expect(try await store.store.cancelWork(app: TestKinds.app, kind: "Nothing") == nil)
        }
    }

    @Test("After a cancellation a list that a sweep appends late has no timelines, and a later bump is swept")
    func afterCancelling() async throws {
        try await withStore { store in
            _ = try await swept(store)
            _ = try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")
            try await store.sql(
                """
                INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
                SELECT kind_id, 3, now(), now(), 1, array_agg(id) FROM timeline GROUP BY kind_id
                """)
            #expect(try await store.claim(.bulk).flatMap(\.timelines).isEmpty)
            _ = try await bump(store)
            #expect(try await walk(store, limit: 10)?.timelines == 5)
            #expect(try await store.claim(.bulk).flatMap(\.timelines).count == 5)
        }
    }

    @Test("A matching reload of everyone is marked in chunks, and equal waiting ones only once")
    func matching() async throws {
        try await withStore { store in
            let ids = try await store.place(
                (0..<6).map { .test("w\($0)", user: "u\($0)", configuration: #"{"card":"c\#($0 % 2)"}"#) })
            try await store.settle()
            let kind = try await store.kind()
            let sweep = EveryoneReload(
                appID: kind.appID, kindID: nil, matching: #"{"card":"c1"}"#, events: 2, urgency: .free,
                cause: EventPosition(topic: 0, partition: 0, offset: 7), reason: .foreground)
            for _ in 0..<2 { _ = try await store.pool.execute(.recordSweep([sweep])) }
            let sweeps = try await store.pool.query(.listSweeps(limit: 10, maximumLists: 100))
            #expect(sweeps.count == 3, "one for each kind")
            for sweep in sweeps {
                while try await store.pool.query(.sweepMarks(sweep.id, limit: 4, maximumLists: 100)).first?.isDone
                    == false
                {}
            }
            for (index, id) in ids.enumerated() {
                #expect(try await store.timeline(id)?.requested == (index % 2 == 1 ? 5 : 1))
            }
            #expect(try await store.claim(.bulk).flatMap(\.timelines).count == 3)
        }
    }

    @Test("Apps take turns, and of a kind's sweeps the first ones run; those behind merge with equal requests")
    func turns() async throws {
        try await withStore { store in
            let kind = try await store.kind()
            let other = try await store.kind(app: TestKinds.otherApp)
            func everyone(_ kind: RegisteredKind, matching: String) -> EveryoneReload {
                EveryoneReload(
                    appID: kind.appID, kindID: kind.id, matching: matching, events: 1, urgency: .free,
                    cause: EventPosition(topic: 0, partition: 0, offset: 7), reason: .foreground)
            }
            _ = try await store.pool.execute(.recordSweep((0..<20).map { everyone(kind, matching: "{\"n\":\($0)}") }))
            _ = try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id)]))
            _ = try await store.pool.execute(.recordSweep([everyone(other, matching: "{}")]))
            let list = Statements.listSweeps(limit: 100, maximumLists: 100)
            let sweeps = try await store.pool.query(list)
            let walk = try await store.integer("SELECT id FROM sweep WHERE generation IS NOT NULL")
            let foreign = try await store.integer("SELECT id FROM sweep WHERE app_id = \(other.appID)")
            #expect(sweeps.count == 10, "eight of the kind's, its walk, and that of the other app")
            #expect(sweeps.prefix(2).map { Int($0.id) }.contains(foreign))
            #expect(sweeps.filter(\.isWalk).map { Int($0.id) } == [walk])
            // The sweeps of an app come in the order of their latest chunks.
            let first = try #require(sweeps.first { Int($0.id) != foreign })
            _ = try await store.pool.execute(.postponeSweep(first.id))
            let next = try await store.pool.query(list)
            #expect(next.last?.id == first.id && Set(next.map(\.id)) == Set(sweeps.map(\.id)))
        }
    }

    @Test("Sweeps of paused kinds and apps, and of kinds without room, are left out, whatever their number")
    func blocked() async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO sweep (app_id, kind_id, matching)
                SELECT k.app_id, k.id, '{"n":' || n || '}'
                FROM kind k JOIN app a ON a.id = k.app_id, generate_series(1, 1001) n
                WHERE a.name = '\(TestKinds.app)' AND k.name IN ('Purchases', 'Weather');
                INSERT INTO sweep (app_id, kind_id, matching)
                SELECT k.app_id, k.id, '{}' FROM kind k WHERE k.name <> 'Weather';
                INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                SELECT k.id, 3, now() + interval '1 hour', now() + interval '1 hour', '{1}'
                FROM kind k, generate_series(1, 10) n WHERE k.name = 'DueDate';
                INSERT INTO work (kind_id, lane, due_at, ready_at, timelines)
                SELECT k.id, 3, now(), now(), '{1}' FROM kind k, generate_series(1, 5) n WHERE k.name = 'Weather'
                """)
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            func kinds() async throws -> Set<Int> {
                var kinds: Set<Int> = []
                for sweep in try await store.pool.query(.listSweeps(limit: 1_000, maximumLists: 5)) {
                    kinds.insert(try await store.integer("SELECT kind_id FROM sweep WHERE id = \(sweep.id)"))
                }
                return kinds
            }
            let free: Set<Int> = [
                Int(try await store.kind("DueDate").id), Int(try await store.kind(app: TestKinds.otherApp).id),
            ]
            #expect(try await kinds() == free, "lists that lie ahead are no backlog")
            _ = try await store.store.pause(app: TestKinds.otherApp)
            #expect(try await kinds() == [Int(try await store.kind("DueDate").id)])
        }
    }

    @Test("A mark that adds to a sweep waits for the sweep's chunk before it locks timelines")
    func lockOrder() async throws {
        try await withStore { store in
            try await store.place((0..<5).map { .test("w\($0)", user: "crowd", configuration: #"{"n":\#($0)}"#) })
            try await store.settle()
            try await store.apply([try await store.mark(.user, "crowd")], limit: 4)
            let sweep = try await store.integer("SELECT id FROM sweep")
            // Of the audience that is swept, one widget is marked as well.
            let marks = [try await store.mark(.user, "crowd"), try await store.mark(.widget, "w0")]
            let waiting = """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'
                """
            let mark = try await store.pool.withTransaction { connection in
                // A chunk of the sweep holds it first.
                try await connection.simple("SELECT FROM sweep FOR NO KEY UPDATE")
                let mark = Task { try await store.apply(marks, limit: 4) }
                try await eventually("the mark waits") { try await store.integer(waiting) == 1 }
                let chunk = Statements.sweepMarks(Int64(sweep), limit: 10, maximumLists: 100)
                #expect(try await connection.query(chunk).first?.timelines == 5, "without a deadlock")
                return mark
            }
            #expect(try await mark.value.marked == 1)
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 1, "the mark's own")
            #expect(try await store.unappointed() == 0)
        }
    }
}
