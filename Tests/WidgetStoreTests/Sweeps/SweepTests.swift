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

    private func walk(_ store: TestStore, limit: Int, lists: Int = 100) async throws -> SweepChunk? {
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
            let ids = try await store.place((0..<5).map { .test("w\($0)", user: "u\($0)") })
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
            let lists = try await store.claim(.bulk)
            #expect(lists.allSatisfy { $0.generation == 1 && $0.via == .sweep(generation: 1) })
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

    @Test("Cancelling deletes sweeps and their lists; targeted requests stay, and a later bump is swept")
    func cancelled() async throws {
        try await withStore { store in
            let ids = try await store.place((0..<5).map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            let kind = try await bump(store)
            for _ in 0..<2 { _ = try await walk(store, limit: 2) }
            let leased = try #require(try await store.claim(.bulk, lists: 1).first)
            try await store.apply([try await store.mark(.user, "u4")])
            let matching = EveryoneReload(
                appID: kind.appID, kindID: kind.id, matching: "{}", events: 1, urgency: .budgeted,
                cause: EventPosition(topic: 0, partition: 0, offset: 0), reason: .push)
            _ = try await store.pool.execute(.recordSweep([matching, matching]))
            #expect(
                try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")
                    == Cancellation(sweeps: 2, timelines: 2))
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 0)
            #expect(try await store.end(leased) == .ended, "its timelines may be stored but not published")
            #expect(try await store.pool.query(Statements.overview()).first?.stale == 1)
            #expect(try await store.timeline(ids[4])?.isStale == true)
            // A list that a sweep appends later names no timeline.
            try await store.sql(
                """
                INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
                SELECT kind_id, 3, now(), now(), 1, array_agg(id) FROM timeline GROUP BY kind_id
                """)
            #expect(try await store.claim(.bulk).flatMap(\.timelines).isEmpty)
            #expect(
                try await store.store.cancelWork(app: TestKinds.app, kind: "Purchases")?.sweeps == 0, "it is repeatable"
            )
            #expect(try await store.store.cancelWork(app: TestKinds.app, kind: "Nothing") == nil)

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
}

@Suite("Audit of appointments", .timeLimit(.patience))
struct AuditTests {
    @Test("The audit appoints and counts only rows with work and no list")
    func found() async throws {
        try await withStore { store in
            let ids = try await store.place((0..<4).map { .test("w\($0)", user: "u\($0)") })
            #expect(try await store.unappointed() == 0)
            try await store.sql("DELETE FROM work")
            // Within the slack the appointment is trusted.
            let trusting = Statements.auditTimelines(after: 0, limit: 100, slack: .seconds(3_600))
            #expect(try await store.pool.query(trusting).map(\.appointed) == [0])
            #expect(try await store.unappointed() == 4)
            #expect(try await store.unappointed() == 0)
            // The appointment is never although a request is pending.
            try await store.settle()
            try await store.sql(
                "UPDATE timeline SET requested = requested + 1 WHERE id = (SELECT min(id) FROM timeline)")
            let page = Statements.auditTimelines(after: 0, limit: 2, slack: .seconds(3_600))
            let first = try #require(try await store.pool.query(page).first)
            #expect(first.appointed == 1 && first.last != nil)
            let next = Statements.auditTimelines(after: try #require(first.last), limit: 3, slack: .zero)
            let second = try #require(try await store.pool.query(next).first)
            #expect(second.appointed == 0 && second.last == nil)
            let found = try await store.claimAll().flatMap(\.timelines)
            #expect(found.count == 1 && ids.contains(found[0].id))
        }
    }

    @Test("A generation ahead is a finding only without a sweep and lists")
    func everyone() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.settle()
            let kind = try await store.kind()
            _ = try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id)]))
            #expect(try await store.unappointed() == 0)
            let sweep = try #require(try await store.pool.query(.listSweeps(limit: 1, maximumLists: 100)).first)
            _ = try await store.pool.query(.walkKind(sweep.id, limit: 10, maximumLists: 10))
            #expect(try await store.unappointed() == 0)
            try await store.sql("DELETE FROM work; DELETE FROM sweep")
            #expect(try await store.unappointed() == 1)
        }
    }
}
