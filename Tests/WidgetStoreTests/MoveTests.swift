// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Moving widgets to timelines with another identity", .timeLimit(.patience))
struct MoveTests {
    /// Places twelve widgets with per-user timelines of two configurations and makes their kind shared.
    private func share(_ store: TestStore) async throws -> (before: [TimelineID], kindID: Int32) {
        let before = try await store.place(
            (0..<12).map { .test("w\($0)", user: "u\($0)", configuration: #"{"card":"c\#($0 % 2)"}"#) })
        try await store.settle()
        let kindID = try await store.change { $0.sharing = .shared }
        try await store.moveAll(kindID, limit: 5)
        return (before, kindID)
    }

    @Test("Per-user timelines become one shared timeline for each configuration")
    func shared() async throws {
        try await withStore { store in
            let (before, _) = try await share(store)
            let details = try await store.pool.query(.listWidgets(WidgetFilter(app: TestKinds.app), limit: 100))
            #expect(details.count == 12 && Set(details.compactMap(\.timelineID)).count == 2)
            for widget in details {
                let timeline = try await store.shown(widget.id)
                let row = timeline.timeline
                #expect(row.user == nil && row.configuration.canonical == widget.configuration)
                #expect(row.configuration.canonical == #"{"card":"c\#((Int(widget.id.dropFirst()) ?? 0) % 2)"}"#)
                #expect(timeline.lane == .bulk && row.listedAt <= timeline.readAt)
                #expect(row.locale == "en-GB" && row.family == .systemSmall)
            }
            for id in before { #expect(try await store.timeline(id)?.timeline.state.isOrphaned == true) }
            #expect(try await store.moves() == 0)
        }
    }

    @Test("A shared timeline is separated into the former per-user timelines")
    func separated() async throws {
        try await withStore { store in
            let (before, kindID) = try await share(store)
            _ = try await store.change { $0.sharing = .perUser }
            try await store.moveAll(kindID, limit: 5)
            let back = try await store.pool.query(.listWidgets(WidgetFilter(app: TestKinds.app), limit: 100))
            #expect(Set(back.compactMap(\.timelineID)) == Set(before))
            for id in before { #expect(try await store.timeline(id)?.timeline.state.isOrphaned == false) }
        }
    }

    @Test(
        "Changing the dimensions of timelines leaves exactly those of the new identity",
        arguments: [
            ([], .all), (.all, []), ([.family], [.locale]), ([.locale, .timeZone], [.family, .timeZone]),
        ] as [(KindVariation, KindVariation)])
    func variations(_ old: KindVariation, _ new: KindVariation) async throws {
        try await withStore { store in
            let kindID = try await store.change { $0.variesBy = old }
            try await store.moveAll(kindID)
            let environments = [("en-GB", "Europe/London"), ("de-DE", "Europe/Berlin"), ("de-DE", "Europe/Vienna")]
            var placements: [WidgetPlacement] = []
            for (index, (locale, timeZone)) in environments.enumerated() {
                for family in [WidgetFamily.systemSmall, .systemMedium] {
                    placements.append(
                        .test(
                            "w\(index)\(family.name)", family: family,
                            environment: WidgetEnvironment(storedLocale: locale, timeZone: timeZone)))
                }
            }
            try await store.place(placements)
            _ = try await store.change { $0.variesBy = new }
            try await store.moveAll(kindID, limit: 4)
            let definition = try #require(try await store.pool.query(.listKinds(id: kindID)).readable.first).definition
            let expected = Set(
                placements.map { placement in
                    TimelineIdentity(
                        app: placement.app, kind: placement.kind, sharing: definition.sharing,
                        variesBy: definition.variesBy, family: placement.family,
                        configuration: placement.configuration, environment: placement.environment,
                        user: placement.user
                    ).id
                })
            let widgets = try await store.pool.query(.listWidgets(WidgetFilter(app: TestKinds.app), limit: 100))
            #expect(widgets.count == 6 && Set(widgets.compactMap(\.timelineID)) == expected)
            #expect(
                try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == expected.count)
        }
    }

    @Test(
        "The widgets of a large shared timeline move in chunks; after a crash another process continues at the cursor"
    )
    func chunks() async throws {
        try await withStore { store in
            try await store.place((0..<25).map { .test("w\($0)", user: "u\($0)", kind: "Weather") })
            let kindID = try await store.change("Weather") { $0.sharing = .perUser }
            var moved = 0
            while moved < 25 {
                let chunk = try #require(
                    try await store.store.changeChunk(kindID: kindID, limit: 10, grace: .zero))
                #expect(chunk.widgets <= 10)
                moved += chunk.widgets
                let old = try await store.integer("SELECT count(*) FROM timeline WHERE orphaned")
                #expect(old == (moved < 25 ? 0 : 1), "the old timeline is read until the last widget has moved")
            }
            try await store.moveAll(kindID)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == 25)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 1)
        }
    }

    @Test("A chunk that is rolled back leaves nothing behind and keeps the cursor")
    func crash() async throws {
        try await withStore { store in
            try await store.place((0..<20).map { .test("w\($0)", user: "u\($0)") })
            let kindID = try await store.change { $0.variesBy = [] }
            _ = try await store.store.changeChunk(kindID: kindID, limit: 5, grace: .zero)
            let before = try await store.pool.query(.listMoves())
            #expect(before[0].moved == 5 && before[0].passProgress > 0)
            // The next chunk waits for a lock and loses its connection.
            try await store.pool.withTransaction { connection in
                try await connection.simple("SELECT 1 FROM timeline FOR UPDATE")
                try await withThrowingTaskGroup(of: Bool.self) { group in
                    group.addTask {
                        do {
                            _ = try await store.store.changeChunk(kindID: kindID, limit: 5, grace: .zero)
                            return true
                        } catch {
                            return false
                        }
                    }
                    try await store.waitUntilBlocked()
                    try await store.sql(
                        """
                        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                        WHERE datname = current_database() AND wait_event_type = 'Lock'
                        """)
                    #expect(try await group.next() == false)
                }
            }
            #expect(try await store.pool.query(.listMoves()) == before)
            try await store.moveAll(kindID, limit: 5)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == 20)
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 20)
        }
    }

    @Test("The move ends after a pass that began when every process knew the definition and moved nothing")
    func settling() async throws {
        try await withStore { store in
            let old = try await store.directory()
            try await store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            let kindID = try await store.change { $0.variesBy = [.family] }
            try await store.moveAll(kindID, grace: .seconds(3_600))
            let waiting = try #require(try await store.pool.query(.listMoves()).first)
            #expect(waiting.movedInAll == 10 && waiting.moved == 0)
            #expect(waiting.passBeginsAt == waiting.startedAt + .seconds(3_600))
            #expect(try await store.pool.query(.kindsToChange(maximumLists: 10)).isEmpty, "no pass is due meanwhile")
            #expect(try await store.store.changeChunk(kindID: kindID, limit: 10, grace: .seconds(3_600)) == nil)

            // This process knows only the old definition.
            try await store.place([.test("late", user: "late")], known: old)
            try await store.sql(
                "UPDATE kind_change SET started_at = started_at - interval '2 h', pass_begins_at = pass_begins_at - interval '2 h'"
            )
            #expect(try await store.pool.query(.kindsToChange(maximumLists: 10)) == [kindID])
            try await store.moveAll(kindID, grace: .seconds(3_600))
            #expect(try await store.shown("late").timeline.locale == nil)
            #expect(try await store.moves() == 0)
        }
    }

    @Test("A further change of the definition restarts the move")
    func changedAgain() async throws {
        try await withStore { store in
            let before = try await store.place((0..<10).map { .test("w\($0)", user: "u\($0)") })
            let kindID = try await store.change { $0.variesBy = [] }
            _ = try await store.store.changeChunk(kindID: kindID, limit: 4, grace: .zero)
            _ = try await store.change { $0.variesBy = .all }
            let move = try #require(try await store.pool.query(.listMoves()).first)
            #expect(move.passProgress == 0 && move.movedInAll == 0)
            try await store.moveAll(kindID)
            let widgets = try await store.pool.query(.listWidgets(WidgetFilter(app: TestKinds.app), limit: 100))
            #expect(Set(widgets.compactMap(\.timelineID)) == Set(before))
        }
    }

    // MARK: Concurrent events

    @Test("A chunk does not overwrite an earlier event of its widget", arguments: [true, false])
    func eventFirst(isConfigured: Bool) async throws {
        try await withStore { store in
            let old = try await store.directory()
            try await store.place([.test("w1"), .test("w2", user: "u2")])
            let kindID = try await store.change { $0.variesBy = [] }
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await store.configure(
                    "w1", isConfigured ? #"{"card":"new"}"# : nil, at: Timestamp(microseconds: 9), known: old
                ) {
                    group.addTask { _ = try await store.store.changeChunk(kindID: kindID, limit: 10, grace: .zero) }
                    try await store.waitUntilBlocked()
                }
                try await group.waitForAll()
            }
            try await store.moveAll(kindID)
            let widget = try #require(try await store.widget("w1"))
            #expect(widget.changedAt == Timestamp(microseconds: 9))
            if isConfigured {
                let timeline = try await store.shown("w1")
                #expect(
                    timeline.timeline.configuration.canonical == #"{"card":"new"}"# && timeline.timeline.locale == nil)
            } else {
                #expect(widget.timelineID == nil)
            }
            #expect(
                try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned")
                    == (isConfigured ? 2 : 1))
        }
    }

    @Test("An event that arrives while the chunk holds the widget finds it moved", arguments: [true, false])
    func chunkFirst(isConfigured: Bool) async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let kindID = try await store.change { $0.variesBy = [] }
            let known = try await store.directory()
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await store.pool.withTransaction { connection in
                    // When the chunk waits for this transaction, it has already locked and read the widget.
                    try await connection.simple("SELECT FROM timeline WHERE identity = '\(id)' FOR NO KEY UPDATE")
                    group.addTask { _ = try await store.store.changeChunk(kindID: kindID, limit: 10, grace: .zero) }
                    try await store.waitUntilBlocked()
                    group.addTask {
                        try await store.configure(
                            "w1", isConfigured ? #"{"card":"new"}"# : nil, at: Timestamp(microseconds: 9),
                            known: known)
                    }
                    try await store.waitUntilBlocked(2)
                }
                try await group.waitForAll()
            }
            try await store.moveAll(kindID)
            if isConfigured {
                let timeline = try await store.shown("w1")
                #expect(
                    timeline.timeline.configuration.canonical == #"{"card":"new"}"# && timeline.timeline.locale == nil)
            } else {
                #expect(try await store.widget("w1")?.timelineID == nil)
            }
            #expect(
                try await store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned")
                    == (isConfigured ? 1 : 0))
            #expect(try await store.moves() == 0)
        }
    }

    @Test("Placing a widget on a timeline that others leave prevents its collection")
    func placedMeanwhile() async throws {
        try await withStore { store in
            let old = try await store.directory()
            let id = try await store.place([.test("w1")])[0]
            let row = try await store.row(of: id)
            let kindID = try await store.change { $0.variesBy = [] }
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await store.pool.withTransaction { connection in
                    try await connection.simple("SELECT FROM timeline WHERE identity = '\(id)' FOR NO KEY UPDATE")
                    group.addTask { _ = try await store.store.changeChunk(kindID: kindID, limit: 10, grace: .zero) }
                    try await store.waitUntilBlocked()
                    // A process with the old definition places another widget of the same timeline in this transaction.
                    let app = try #require(old.apps[TestKinds.app])
                    _ = try await connection.query(
                        .insertWidgets([
                            WidgetWrite(
                                appID: app.id, id: "late", kindID: kindID, family: .systemSmall, timelineID: row,
                                user: "u1", device: "d2",
                                environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"),
                                changedAt: Timestamp(microseconds: 3))
                        ]))
                }
                try await group.waitForAll()
            }
            #expect(try await store.timeline(id)?.timeline.state.isOrphaned == false)
            try await store.moveAll(kindID)
            #expect(try await store.timeline(id)?.timeline.state.isOrphaned == true)
            #expect(try await store.widget("late")?.timelineID == store.widget("w1")?.timelineID)
        }
    }

    @Test("Retiring a kind ends its move; restoring it with another definition moves it")
    func retired() async throws {
        try await withStore { store in
            let kindID = try await store.change { $0.variesBy = [] }
            #expect(try await store.moves() == 1)
            _ = try await store.store.retire(app: TestKinds.app, kind: "Purchases")
            #expect(try await store.moves() == 0)
            #expect(try await store.store.changeChunk(kindID: kindID, limit: 10, grace: .zero)?.isEnd == true)
            #expect(try await store.store.changeChunk(kindID: kindID, limit: 10, grace: .zero) == nil)
            try await store.apply(TestKinds.apps())
            #expect(try await store.moves() == 1, "a process may still place by the old definition")
        }
    }

    @Test("An import that began with the old definition places by the new one")
    func importing() async throws {
        try await withStore { store in
            let old = try await store.directory()
            _ = try await store.change { $0.variesBy = [] }
            let app = try #require(old.apps[TestKinds.app])
            let kind = try #require(old.kind("Purchases", of: app))
            _ = try await store.store.importWidgets([
                ImportedWidget(placement: .test("w1"), kind: kind, time: Timestamp(microseconds: 1))
            ])
            #expect(try await store.shown("w1").timeline.locale == nil)
        }
    }
}
