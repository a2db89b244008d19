// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Placing widgets and collecting orphaned timelines", .timeLimit(.patience))
struct PlacementTests {
    @Test("Removing the last widget orphans once, in the bulk lane, also when two are removed at once")
    func twoRemovals() async throws {
        try await withStore { store in
            let ids = try await store.place([.test("w1"), .test("w2")])
            #expect(ids[0] == ids[1])
            try await store.settle()
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await store.pool.withTransaction { first in
                    try await store.remove(["w1"], on: first)
                    #expect(try await store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 0)
                    group.addTask { try await store.remove(["w2"]) }
                    try await store.waitUntilBlocked()
                }
                try await group.waitForAll()
            }
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 1)
            #expect(try await store.lists("lane = 3") == 1)
            let list = try #require(try await store.claim(.bulk).first)
            #expect(list.timelines.map(\.state.isOrphaned) == [true])
            #expect(try await store.collect(list).isEmpty)
            #expect(try await store.integer("SELECT count(*) FROM timeline") == 0)
            #expect(try await store.end(list) == .ended)
        }
    }

    @Test("A timeline that is placed again before its collection stays, is requested and keeps its content")
    func revived() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            let first = try #require(try await store.claim(.interactive).first)
            _ = try await store.complete(first, content: "kept")
            try await store.end(first)
            try await store.remove(["w1"])
            let list = try #require(try await store.claim(.bulk).first)
            // Between the claim and the collection.
            try await store.place([.test("w2")])
            let timeline = try #require(try await store.timeline(id))
            #expect(!timeline.timeline.state.isOrphaned && timeline.requested == 2 && timeline.isStale)
            #expect(try await store.collect(list).isEmpty, "the timeline was revived after it was read")
            #expect(try await store.timeline(id)?.content.map { String(decoding: $0, as: UTF8.self) } == "kept")
            try await store.end(list)
            #expect(try await store.unappointed() == 0)
            #expect(try await store.claimAll().flatMap(\.timelines).map(\.id) == [id])
        }
    }

    @Test("Locked rows and rows with a new widget are not collected")
    func locked() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.settle()
            try await store.remove(["w1"])
            let list = try #require(try await store.claim(.bulk).first)
            let kind = try await store.kind()
            let identity = kind.identity(
                family: .systemSmall, configuration: .empty,
                environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"), user: "u1")
            #expect(identity.id == id)
            let orphans = try await store.bury(list)
            try await store.pool.withTransaction { placing in
                let placed = try await placing.place([
                    TimelinePlacement(
                        id: id, kindID: kind.id, identity: identity, lane: .interactive, cause: nil, reason: .placed)
                ])
                #expect(placed.inserted == 0 && placed.stale == [list.timelines[0].row])
                let locked = try await store.pool.query(.lockOrphans(orphans))
                #expect(locked.isEmpty)
            }
        }
    }

    @Test("Placing a widget on a timeline that is being collected fails with a transient error")
    func gone() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.settle()
            try await store.remove(["w1"])
            let list = try #require(try await store.claim(.bulk).first)
            let orphans = try await store.bury(list)
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await store.pool.withTransaction { collecting in
                    let rows = try await collecting.query(.lockOrphans(orphans))
                    group.addTask {
                        let error = await #expect(throws: PostgresError.self) { try await store.place([.test("w2")]) }
                        #expect(error?.isRetriable == true && error?.sqlState == "40001")
                    }
                    try await store.waitUntilBlocked()
                    _ = try await collecting.query(.collectTimelines(rows))
                }
                try await group.waitForAll()
            }
            try await store.place([.test("w2")])
            #expect(try await store.claim(.interactive).first?.timelines.count == 1)
        }
    }

    @Test("Erasing a user removes widgets and content at once, fences fetches, and leaves the rows to the collection")
    func erased() async throws {
        try await withStore { store in
            let ids = try await store.place([
                .test("w1", user: "me"), .test("w2", user: "you"), .test("w3", user: "me", kind: "Weather"),
                .test("w4", user: "you", kind: "Weather"),
            ])
            let lists = try await store.claim(.interactive)
            for list in lists { _ = try await store.complete(list) }
            try await store.apply([try await store.mark(.user, "me")])
            let fetching = try await store.claim(.push)
            let erasure = try #require(try await store.store.erase(user: "me", of: TestKinds.app))
            #expect(erasure.widgets == 2 && erasure.timelines == 2)
            for list in fetching { _ = try await store.complete(list, content: "late", hash: 9) }
            let mine = try #require(try await store.timeline(ids[0]))
            #expect(mine.content == nil && mine.timeline.state.isOrphaned)
            #expect(try await store.timeline(ids[1])?.content != nil)
            let shared = try #require(try await store.timeline(ids[2]))
            #expect(shared.content != nil && !shared.timeline.state.isOrphaned, "another person's widget shows it")
            try await store.sql("UPDATE work SET ready_at = now()")
            #expect(try await store.claimAll().flatMap(\.timelines).map(\.id) == [ids[0]])
        }
    }

    @Test("Erasing a user locks in the order of all transactions: person, widgets, schedules, timelines, registrations")
    func erasureLocks() async throws {
        try await withStore { store in
            try await store.place([.test("w1", user: "me")])
            try await store.sql(
                """
                INSERT INTO person (app_id, user_id) VALUES (1, 'me');
                INSERT INTO stack_schedule (id, app_id, user_id, device_id, stack)
                VALUES (gen_random_uuid(), 1, 'me', 'd', 's');
                INSERT INTO registration (app_id, user_id, device_id, registered_at, channel)
                VALUES (1, 'me', 'd', now(), 2)
                """)
            let order = ["person", "widget", "stack_schedule", "timeline", "registration"]
            for (index, table) in order.enumerated() {
                try await store.pool.withTransaction { holder in
                    try await holder.simple("SELECT 1 FROM \(table) FOR UPDATE")
                    let erasure = Task { try await store.store.erase(user: "me", of: TestKinds.app) }
                    try await store.waitUntilBlocked(1)
                    for later in order[(index + 1)...] {
                        try await holder.simple("SELECT 1 FROM \(later) FOR UPDATE NOWAIT")
                    }
                    erasure.cancel()
                    _ = await erasure.result
                }
            }
        }
    }

    @Test("Erasing a user also removes the API's placements among dead letters, tombstones and outcomes")
    func erasedTraces() async throws {
        try await withStore { store in
            let kind = try await store.kind()
            func letter(_ offset: Int64, _ user: String, publisher: String? = nil) -> DeadLetter {
                let headers: [(name: String, value: [UInt8]?)] =
                    publisher.map { [(name: "freshet-user", value: Optional(Array($0.utf8)))] } ?? []
                let data = #"{"widget":"w","user":"\#(user)"}"#
                return DeadLetter(
                    topic: "t", partition: 0, offset: offset, app: TestKinds.app, code: "invalidValue", error: "e",
                    key: Array("w\(offset)".utf8), headers: headers, payload: Array(data.utf8))
            }
            // More than one statement examines.
            try await store.sql(
                """
                INSERT INTO dead_letter (topic, partition, "offset", app, code, error, header_names, header_values)
                SELECT 'u', 0, n, '\(TestKinds.app)', 'c', 'e', '{}', '{}' FROM generate_series(1, 1500) n
                """)
            let letters = [
                letter(0, "me"), letter(1, "me too"), letter(2, "you", publisher: "me"),
                letter(3, "you", publisher: "me too"),
            ]
            for letter in letters { _ = try await store.pool.execute(.insertDeadLetter(letter)) }
            let outcome = EventOutcome(
                appID: kind.appID, event: "e1", source: "s", type: "t", topic: "t", partition: 0, offset: 0,
                user: "me")
            _ = try await store.pool.execute(.insertEventOutcomes([outcome]))
            let tombstone = WidgetWrite(
                appID: kind.appID, id: "w9", kindID: kind.id, family: .systemSmall, timelineID: nil, user: "me",
                device: "", environment: WidgetPlacement.test("w9").environment, changedAt: Timestamp(microseconds: 1))
            _ = try await store.pool.query(.insertWidgets([tombstone]))
            let erasure = try #require(try await store.store.erase(user: "me", of: TestKinds.app))
            #expect(erasure.deadLetters == 2)
            #expect(try await store.integer("SELECT count(*) FROM dead_letter") == 1_502)
            for table in ["widget", "event_outcome"] {
                #expect(try await store.integer("SELECT count(*) FROM \(table)") == 0)
            }
        }
    }

    @Test("An import places and moves widgets in the bulk lane, and ignores older events")
    func imported() async throws {
        try await withStore { store in
            let kind = try await store.kind()
            func widget(_ id: String, _ configuration: String = "{}", at time: Int64) -> ImportedWidget {
                ImportedWidget(
                    placement: .test(id, configuration: configuration), kind: kind, time: Timestamp(microseconds: time))
            }
            var counts = try await store.store.importWidgets([
                widget("w1", at: 5), widget("w2", at: 5), widget("w2", #"{"n":1}"#, at: 6), widget("w2", at: 4),
            ])
            #expect(counts.widgets == 2 && counts.timelines == 2 && counts.older == 2)
            #expect(try await store.claim(.bulk).flatMap(\.timelines).count == 2)
            counts = try await store.store.importWidgets([widget("w1", #"{"n":1}"#, at: 7), widget("w2", at: 3)])
            #expect(counts.widgets == 1 && counts.timelines == 0 && counts.older == 1)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 1)
            #expect(try await store.widget("w1")?.configuration == #"{"n":1}"#)
        }
    }
}
