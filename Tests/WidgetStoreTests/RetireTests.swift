// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Retiring kinds", .timeLimit(.patience))
struct RetireTests {
    private func retire(_ store: TestStore, _ kind: String = "Purchases") async throws -> Int32 {
        let directory = try await store.directory()
        let id = try #require(directory.apps[TestKinds.app].flatMap { directory.kind(kind, of: $0) }).id
        #expect(try await store.store.retire(app: TestKinds.app, kind: kind)?.isChanged == true)
        return id
    }

    /// Runs a chunk; returns nil when no work is due.
    private func chunk(
        _ kindID: Int32, _ store: TestStore, limit: Int = 100, grace: Duration = .zero
    ) async throws -> KindChunk? {
        try await store.store.changeChunk(kindID: kindID, limit: limit, grace: grace)
    }

    /// Runs chunks until no work is due.
    private func chunks(
        _ kindID: Int32, _ store: TestStore, limit: Int = 100, grace: Duration = .zero
    ) async throws -> [KindChunk] {
        var chunks: [KindChunk] = []
        while let chunk = try await chunk(kindID, store, limit: limit, grace: grace) {
            chunks.append(chunk)
            try #require(chunks.count < 1_000, "it ends")
        }
        return chunks
    }

    @Test("A kind is retired once; its widgets and timelines are no longer found, and its sweeps are deleted")
    func retired() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1"), .test("w2", user: "u2"), .test("w3", kind: "DueDate")])[0]
            let kind = try await store.kind()
            _ = try await store.pool.query(.bumpKinds([EveryoneReload(appID: kind.appID, kindID: kind.id)]))
            let kindID = try await retire(store)
            let again = try #require(try await store.store.retire(app: TestKinds.app, kind: "Purchases"))
            #expect(!again.isChanged && again.timelines == 2)
            #expect(try await store.store.retire(app: TestKinds.app, kind: "Nothing") == nil)

            #expect(try await store.timeline(id) == nil)
            #expect(try await store.widget("w1") == nil)
            #expect(try await store.widget("w3") != nil)
            let filter = WidgetFilter(app: TestKinds.app)
            #expect(try await store.pool.query(.listWidgets(filter, limit: 10)).map(\.id) == ["w3"])
            let depths = Statements.queueDepths(limit: 10, overdueAfter: .zero)
            #expect(try await store.pool.query(depths).allSatisfy { $0.queue.kindID != kindID })
            #expect(try await store.integer("SELECT count(*) FROM sweep") == 0)
        }
    }

    @Test("A retired kind's widgets are removed in chunks, across large timelines, and leave tombstones")
    func chunks() async throws {
        try await withStore { store in
            // One shared timeline with 25 widgets, and a separate one.
            try await store.place((0..<25).map { .test("w\($0)", user: "u\($0)", kind: "Weather") })
            try await store.place([.test("x", kind: "Weather", configuration: #"{"city":"x"}"#)])
            let kindID = try await retire(store, "Weather")
            #expect(try await store.pool.query(.kindsToChange(maximumLists: 10)) == [kindID])
            let chunks = try await chunks(kindID, store, limit: 10)
            #expect(chunks.allSatisfy { $0.widgets <= 10 } && chunks.count >= 3 && chunks.last?.isEnd == true)
            #expect(chunks.map(\.widgets).reduce(0, +) == 26)
            #expect(chunks.map(\.orphans).reduce(0, +) == 2)
            #expect(try await store.pool.query(.kindsToChange(maximumLists: 10)).isEmpty)
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NULL") == 26)
            let claimed = try await store.claimAll().flatMap(\.timelines)
            #expect(claimed.count == 2 && claimed.allSatisfy(\.state.isOrphaned))
        }
    }

    @Test("A retired kind's widgets leave their owners' stacks, whose schedules are due; other stacks stay")
    func stacks() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate"), .test("w3", user: "u2", kind: "DueDate")])
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let time = Timestamp.now() - .seconds(60)
            let arranged = [("u1", ["w1", "w2"]), ("u2", ["w3"])].map { user, widgets in
                (
                    app: app, user: user, arrangement: StackArrangement(device: "d1", name: "home", widgets: widgets),
                    time: time
                )
            }
            _ = try await store.store.importStacks(arranged)
            for user in ["u1", "u2"] {
                _ = try await store.pool.query(
                    .wantSchedule(StackPlan.Key(app: TestKinds.app, user: user, device: "d1", stack: "home")))
            }
            try await store.sql("UPDATE stack_schedule SET due_at = 'infinity'")
            _ = try await chunks(try await retire(store), store)

            let people = try await store.pool.query(
                .readPeople(["u1", "u2"].map { PersonKey(appID: app.id, user: $0) }))
            let stacks = try people.map { try $0.record(app: app.name).stacks }
            #expect(stacks.map { $0.map(\.arrangement.widgets) } == [[["w2"]], [["w3"]]])
            #expect(stacks.joined().allSatisfy { $0.changedAt == time })
            let due = "SELECT count(*) FROM stack_schedule WHERE due_at <= now() AND user_id = "
            #expect(try await store.integer(due + "'u1'") == 1)
            #expect(try await store.integer(due + "'u2'") == 0)
        }
    }

    @Test("A retired kind is restored only without remaining timelines; its generations continue")
    func again() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.sql("UPDATE kind SET generation = 7 WHERE name = 'Purchases'")
            let kindID = try await retire(store)
            var apps = TestKinds.apps()
            apps[0].kinds[0].maxBatch = 7
            await #expect {
                _ = try await store.apply(apps)
            } throws: { error in
                (error as? KindConflict)?.message.hasPrefix("is being retired: 1 timelines left") == true
            }
            await #expect(throws: KindConflict.self) { _ = try await store.store.difference(apps) }
            _ = try await chunks(kindID, store)
            await #expect(throws: KindConflict.self) { _ = try await store.apply(apps) }
            for list in try await store.claimAll() { _ = try await store.collect(list) }
            let changes = try await store.apply(apps)
            #expect(changes.first { $0.app == TestKinds.app && $0.kind == "Purchases" }?.action == .add)
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let kind = try #require(try await store.directory().kind("Purchases", of: app))
            #expect(kind.id == kindID && kind.definition.maxBatch == 7)
            #expect(try await store.integer("SELECT generation FROM kind WHERE id = \(kindID)") == 7)
            // The tombstone does not hide a new placement.
            #expect(try await store.widget("w1")?.timelineID == nil)
            try await store.sql("DELETE FROM widget WHERE id = 'w1'")
            try await store.place([.test("w1")])
            #expect(try await store.timeline(id)?.isStale == true)
        }
    }

    @Test("Widgets placed by a process with a stale directory are found and removed")
    func stragglers() async throws {
        try await withStore { store in
            let old = try await store.directory()
            try await store.place([.test("w1"), .test("w2", user: "u2")])
            let kindID = try await retire(store)
            _ = try await chunks(kindID, store, grace: .seconds(60))
            #expect(
                try await store.pool.query(.kindsToChange(maximumLists: 10)).isEmpty,
                "the kind waits for the other processes")

            // A new timeline, an orphaned timeline, and a new configuration of an existing widget.
            try await store.place([.test("w3", user: "u3"), .test("w4")], known: old)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == 2)
            try await store.configure(
                "w3", #"{"card":"x"}"#, at: Timestamp(microseconds: 5), known: old)
            try await store.sql(
                """
                UPDATE kind_change
                SET started_at = started_at - interval '2 min', pass_begins_at = pass_begins_at - interval '2 min'
                """)
            let chunks = try await chunks(kindID, store, grace: .seconds(60))
            #expect(chunks.map(\.widgets).reduce(0, +) == 2 && chunks.last?.isEnd == true)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == 0)
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 0)
        }
    }

    @Test("A widget that is placed while a chunk runs does not keep a timeline that is removed")
    func race() async throws {
        try await withStore { store in
            let old = try await store.directory()
            try await store.place([.test("w1", kind: "Weather"), .test("w2", user: "u2", kind: "Weather")])
            let kindID = try await retire(store, "Weather")
            try await withThrowingTaskGroup(of: Void.self) { group in
                // This transaction has read w1 and is about to configure it; the chunk has to wait.
                try await store.configure(
                    "w1", #"{"city":"x"}"#, at: Timestamp(microseconds: 5), known: old
                ) {
                    group.addTask { _ = try await chunk(kindID, store) }
                    try await store.waitUntilBlocked()
                }
                try await group.waitForAll()
            }
            // The widget moved, before the chunk could lock it, to a timeline that another chunk finds.
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 1)
            #expect(try await chunks(kindID, store).map(\.widgets).reduce(0, +) == 1)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == 0)
        }
    }

    /// Numbers of widgets with a timeline, of orphaned timelines, and of those that are not.
    private func counts(_ store: TestStore) async throws -> [Int] {
        try await [
            store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL"),
            store.integer("SELECT count(*) FROM timeline WHERE orphaned"),
            store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned"),
        ]
    }

    @Test(
        "A widget whose placement was not visible to a chunk is removed by the next chunk", arguments: [true, false])
    func unseen(isCollected: Bool) async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1", kind: "Weather")])[0]
            let kind = try await store.kind("Weather")
            let kindID = try await retire(store, "Weather")
            try await store.pool.withTransaction { connection in
                let placement = WidgetPlacement.test("late", kind: "Weather")
                let identity = kind.identity(
                    family: placement.family, configuration: placement.configuration,
                    environment: placement.environment, user: placement.user)
                let placed = try await connection.place([
                    TimelinePlacement(
                        id: identity.id, kindID: kindID, identity: identity, lane: .interactive, cause: nil,
                        reason: .placed)
                ])
                #expect(identity.id == id && placed.inserted == 0 && placed.stale.isEmpty)
                _ = try await connection.query(
                    .insertWidgets([
                        WidgetWrite(
                            appID: kind.appID, id: "late", kindID: kindID, family: placement.family,
                            timelineID: placed.rows[id], user: placement.user, device: placement.device,
                            environment: placement.environment, changedAt: Timestamp(microseconds: 3))
                    ]))
                let chunk = try #require(try await chunk(kindID, store, grace: .seconds(60)))
                #expect(chunk.widgets == 1 && chunk.orphans == 1)
            }
            // The timeline is orphaned although a widget shows it, until a worker tries to collect it.
            #expect(try await counts(store) == [1, 1, 0])
            if isCollected {
                for list in try await store.claimAll() { #expect(try await store.collect(list).count == 1) }
                #expect(try await counts(store) == [1, 0, 1])
            }
            #expect(try await chunks(kindID, store).map(\.widgets).reduce(0, +) == 1)
            #expect(try await counts(store) == [0, 1, 0])
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("Two processes never change one kind at a time, and a paused kind is not changed")
    func exclusive() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let kindID = try await retire(store)
            try await store.pool.withTransaction { connection in
                _ = try await connection.query(.lockKindChange(kindID: kindID))
                #expect(try await chunk(kindID, store) == nil)
            }
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            #expect(try await store.pool.query(.kindsToChange(maximumLists: 10)).isEmpty)
            #expect(try await store.store.retire(app: TestKinds.app, kind: "Purchases")?.isPaused == true)
            await #expect {
                _ = try await store.apply(TestKinds.apps())
            } throws: { error in
                (error as? KindConflict)?.message.contains("freshet resume") == true
            }
            _ = try await store.store.resume(app: TestKinds.app, kind: "Purchases")
            #expect(try await store.pool.query(.kindsToChange(maximumLists: 10)).count == 1)
        }
    }
}
