// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Order and outcomes of lifecycle events", .timeLimit(.patience))
struct OrderTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)
    private let api = EventHandling(isOrderedByArrival: true, keepsOutcome: true)
    private let removal = FreshetEvent.removed(app: TestKinds.app, widget: "w1")

    private func outcome(_ id: String, _ ingest: IngestHarness, user: String? = nil) async throws -> EventOutcome? {
        let event = EventName(app: TestKinds.app, id: id, user: user, isOfAnyUser: user == nil)
        return try await ingest.store.pool.query(.readEventOutcome(event)).first
    }

    private func shown(_ ingest: IngestHarness) async throws -> Int {
        try await ingest.store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL")
    }

    @Test("A removal under another key is remembered, so that an older placement does not restore the widget")
    func removedFirst() async throws {
        try await IngestHarness.lend { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish([removal], at: at + .seconds(5), key: "other")
                try await ingest.waitUntilApplied(1)
                try await ingest.publish([.placed(.test("w1"))], at: at, key: "u1")
                try await ingest.waitUntilApplied(2)
                #expect(try await shown(ingest) == 0)
                // The placement is reported as outdated and the removal as one without a widget; readers see no widget.
                let ignored = try await ingest.store.pool.query(.ignoredEvents(app: TestKinds.app, widget: "w1"))
                #expect(ignored.map(\.result) == [.outdated, .ignored])
                let filter = WidgetFilter(app: TestKinds.app, widget: "w1")
                #expect(try await ingest.store.pool.query(.listWidgets(filter, limit: 1)).isEmpty)
                try await ingest.publish([.placed(.test("w1"))], at: at + .seconds(6), key: "u1")
                try await ingest.waitUntilApplied(3)
            }
            #expect(try await shown(ingest) == 1)
            #expect(try await ingest.store.integer("SELECT count(*) FROM unplaced_widget") == 1)
            #expect(service.metrics.ingestDeadLetters.total() == 0)
        }
    }

    @Test("Tombstones of unknown widgets and outcomes are limited by age, and by number per app")
    func collected() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.running([ingest.service()]) {
                let other = FreshetEvent.removed(app: TestKinds.otherApp, widget: "a")
                try await ingest.publish([other], handling: api, id: "a")
                for widget in ["a", "b", "c"] {
                    try await ingest.publish([.removed(app: TestKinds.app, widget: widget)], handling: api, id: widget)
                }
                try await ingest.waitUntilApplied(4)
            }
            func count(_ table: String) async throws -> Int {
                try await ingest.store.integer("SELECT count(*) FROM \(table)")
            }
            func pruned(_ rows: RowRetention.Rows) async throws -> Int {
                var rows = rows
                (rows.interval, rows.chunk) = (.zero, 2)
                let retention = RowRetention(of: [rows], pool: ingest.store.pool, logger: IngestHarness.quiet)
                return try await retention.prune()
            }
            let day = Duration.seconds(86_400)
            #expect(try await pruned(.unplacedWidgets(olderThan: day, most: 3)) == 0)
            #expect(try await pruned(.eventOutcomes(olderThan: day, most: 3)) == 0)
            #expect(try await pruned(.unplacedWidgets(olderThan: day, most: 2)) == 1)
            #expect(try await pruned(.eventOutcomes(olderThan: day, most: 2)) == 1)
            try await ingest.store.sql(
                """
                UPDATE unplaced_widget SET recorded_at = recorded_at - interval '25 hours';
                UPDATE event_outcome SET recorded_at = recorded_at - interval '25 hours'
                """)
            #expect(try await pruned(.unplacedWidgets(olderThan: day)) == 3)
            #expect(try await pruned(.eventOutcomes(olderThan: day)) == 3)
            for table in ["widget", "unplaced_widget", "event_outcome"] { #expect(try await count(table) == 0) }
        }
    }

    @Test("An event ordered by arrival overrides earlier arrivals, regardless of clocks")
    func arrival() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                // The time comes from a clock four minutes ahead.
                try await ingest.publish([.placed(.test("w1"))], at: Timestamp.now() + .seconds(240))
                try await ingest.waitUntilApplied(1)
                try await ingest.publish([removal], at: Timestamp.now() - .seconds(60))
                try await ingest.waitUntilApplied(2)
                #expect(try await shown(ingest) == 1)
                try await ingest.publish([removal], at: Timestamp.now(), handling: api, id: "gone")
                try await ingest.waitUntilApplied(3)
                #expect(try await shown(ingest) == 0)
                #expect(try await outcome("gone", ingest)?.result == .applied)
                // One of the API's processes has a slow clock: placement and removal arrive in one batch or two.
                let early = Timestamp.now() - .seconds(600)
                try await ingest.publish([.placed(.test("w1"))], at: early, handling: api)
                try await ingest.publish([removal], at: early - .seconds(60), handling: api)
                try await ingest.publish([.placed(.test("w1"))], at: early - .seconds(120), handling: api, id: "back")
                try await ingest.waitUntilApplied(6)
            }
            #expect(try await shown(ingest) == 1)
            #expect(try await outcome("back", ingest)?.result == .applied)
            // The stored time does not go back, and is not ahead of the database's clock.
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM widget WHERE changed_at BETWEEN now() - interval '500 s' AND now()") == 1)
        }
    }

    @Test("Configuring, viewing or removing an unknown widget causes no dead letters")
    func unknown() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let service = ingest.service()
            let configured = FreshetEvent.configured(app: TestKinds.app, widget: "w1", configuration: .empty)
            let viewed = FreshetEvent.viewed(app: TestKinds.app, widget: "w1")
            let environment = FreshetEvent.environmentChanged(
                app: TestKinds.app, device: "d1", environment: WidgetPlacement.test("w1").environment,
                significantTimeChange: false)
            try await ingest.running([service]) {
                for (id, event) in [("c", configured), ("v", viewed), ("e", environment), ("r", removal)] {
                    try await ingest.publish([event], at: at, handling: api, id: id)
                    try await ingest.publish([event], at: at)
                }
                try await ingest.waitUntilApplied(8)
                for id in ["c", "v", "r"] {
                    let outcome = try #require(try await outcome(id, ingest))
                    #expect(outcome.result == .ignored && outcome.code == "unknownWidget")
                }
                #expect(try await outcome("e", ingest)?.result == .ignored)
                #expect(
                    try await ingest.store.integer("SELECT count(*) FROM event_outcome WHERE widget IS NULL") == 1,
                    "only the requester sees the outcome of an event without a widget")
                try await ingest.publish([configured], at: at + .seconds(1), handling: api, id: "late")
                try await ingest.waitUntilApplied(9)
                #expect(try await outcome("late", ingest)?.code == "unknownWidget")
            }
            #expect(service.metrics.ingestDeadLetters.total() == 0)
        }
    }

    @Test("An event limited to a user treats other users' widgets as unknown")
    func limited() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([.placed(.test("w1", user: "u1"))], at: at)
                try await ingest.waitUntilApplied(1)
                var handling = api
                handling.user = "u2"
                let events: [FreshetEvent] = [
                    .placed(.test("w1", user: "u2")), removal, .viewed(app: TestKinds.app, widget: "w1"),
                    .configured(app: TestKinds.app, widget: "w1", configuration: .empty),
                ]
                for (index, event) in events.enumerated() {
                    try await ingest.publish([event], handling: handling, id: "\(index)")
                }
                try await ingest.waitUntilApplied(5)
                try await ingest.publish(
                    [.removed(app: TestKinds.app, widget: "never")], handling: handling, id: "never")
                try await ingest.waitUntilApplied(6)
                #expect(try await ingest.store.integer("SELECT count(*) FROM unplaced_widget") == 1)
                let never = try #require(try await outcome("never", ingest, user: "u2"))
                for index in events.indices {
                    let outcome = try #require(try await outcome("\(index)", ingest, user: "u2"))
                    #expect(outcome.result == .ignored && outcome.code == "unknownWidget")
                    #expect(outcome.detail == never.detail && never.result == .ignored && never.code == outcome.code)
                    #expect(try await self.outcome("\(index)", ingest, user: "u1") == nil)
                }
            }
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM widget WHERE user_id = 'u1' AND timeline_id IS NOT NULL") == 1)
            #expect(try await ingest.store.integer("SELECT count(*) FROM timeline WHERE views > 0") == 0)
        }
    }

    @Test("Requests, dead letters and diverted events have outcomes; a replay replaces the outcome")
    func outcomes() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.store.place([.test("w1")])
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([ingest.push("u1")], handling: api, id: "push")
                try await ingest.publish([ingest.push("u1", kinds: ["Nothing"])], handling: api, id: "refused")
                try await ingest.waitUntilApplied(2)
                let push = try #require(try await outcome("push", ingest))
                #expect(push.result == .applied && push.type == "freshet.push.received.v1")
                #expect(push.topic == ingest.configuration.topics.pushes && push.offset == 0)
                let refused = try #require(try await outcome("refused", ingest))
                #expect(refused.result == .deadLetter && refused.code == "unknownKind" && refused.pointer == "/kinds")
                // Halving the batch isolates the refused event.
                try await ingest.store.sql("ALTER TABLE widget ADD CONSTRAINT no_poison CHECK (id <> 'poison')")
                try await ingest.publish([.placed(.test("poison"))], handling: api, id: "poison")
                try await ingest.waitUntilApplied(3)
                #expect(try await outcome("poison", ingest)?.code == "databaseRefused")
                try await ingest.store.sql("ALTER TABLE widget DROP CONSTRAINT no_poison")
                var filter = DeadLetterFilter(owner: .app(TestKinds.app))
                filter.causes = [.refused]
                #expect(try await ingest.replayer.replay(filter).replayed == 1)
                #expect(try await outcome("poison", ingest)?.result == .applied)
            }
        }
    }

    @Test(
        "An event with an invalid user ID becomes a dead letter and blocks nothing",
        arguments: [[0x61, 0], [0xFF], Array(repeating: 0x61, count: 257)])
    func badUser(_ user: [UInt8]) async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let event = ingest.push("u1")
            let encoded = event.encode(id: "bad", source: "/tests", time: nil, key: nil)
            let headers = encoded.headers + [("freshet-outcome", Array("kept".utf8)), ("freshet-user", user)]
            _ = try await ingest.producer.send(
                KafkaMessage(
                    topic: ingest.configuration.topics.pushes, key: encoded.key, value: encoded.value,
                    headers: headers.map { KafkaHeader(name: $0.0, value: $0.1) }))
            try await ingest.publish([event])
            try await ingest.running([ingest.service()]) { try await ingest.waitUntilApplied(2) }
            #expect(try await ingest.letters("code = 'invalidAttribute' AND app = '\(TestKinds.app)'") == 1)
            #expect(try await ingest.letters("true") == 1)
        }
    }

    @Test("An event whose outcome the database refuses becomes a dead letter without an outcome and blocks nothing")
    func refusedOutcome() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.store.sql("ALTER TABLE event_outcome ADD CHECK (event_id <> 'poison')")
            try await ingest.publish([ingest.push("u1")], handling: api, id: "poison")
            try await ingest.publish([ingest.push("u1")], handling: api, id: "next")
            try await ingest.running([ingest.service()]) { try await ingest.waitUntilApplied(2) }
            #expect(try await ingest.letters("code = 'databaseRefused'") == 1)
            #expect(try await outcome("next", ingest)?.result == .applied)
        }
    }

    @Test(
        "A repeated event takes effect once, in one batch or two; events after a position that was set back count again"
    )
    func repeated() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.store.place([.test("w1")])
            func requested() async throws -> Int {
                try await ingest.store.integer("SELECT sum(requested) FROM timeline")
            }
            let before = try await requested()
            // Two in the first batch, one in another.
            for _ in 0..<2 { try await ingest.publish([ingest.push("u1")], handling: api, id: "a") }
            try await ingest.running([ingest.service()]) {
                try await ingest.waitUntilApplied(2)
                try await ingest.publish([ingest.push("u1")], handling: api, id: "a")
                try await ingest.waitUntilApplied(3)
                #expect(try await requested() == before + 1)
                #expect(try await outcome("a", ingest)?.offset == 0)
                // By another user's token, by a producer on Kafka, and with another ID.
                var own = api
                own.user = "u1"
                try await ingest.publish([ingest.push("u1")], handling: own, id: "a")
                try await ingest.publish([ingest.push("u1")], id: "a")
                try await ingest.publish([ingest.push("u1")], handling: api, id: "b")
                try await ingest.waitUntilApplied(6)
                #expect(try await requested() == before + 4)
            }
            let topic = ingest.configuration.topics.pushes
            try await ingest.store.sql("UPDATE consumer_position SET next_offset = 0 WHERE topic = '\(topic)'")
            try await ingest.running([ingest.service()]) {
                try await ingest.waitUntilApplied(6)
                #expect(try await requested() == before + 8)
            }
        }
    }

    @Test("Events with one ID by several users' tokens keep an outcome each, in one batch or two")
    func ofSeveralUsers() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.store.place([.test("w1")])
            func publish(_ user: String?) async throws {
                var handling = api
                handling.user = user
                try await ingest.publish([ingest.push("u1")], handling: handling, id: "a")
            }
            func offset(_ user: String?) async throws -> Int64? {
                let event = EventName(app: TestKinds.app, id: "a", user: user)
                return try await ingest.store.pool.query(.readEventOutcome(event)).first?.offset
            }
            let before = try await ingest.store.integer("SELECT sum(requested) FROM timeline")
            for user in ["u1", nil] { try await publish(user) }
            try await ingest.running([ingest.service()]) {
                try await ingest.waitUntilApplied(2)
                for user in ["u2", "u1", nil] { try await publish(user) }
                try await ingest.waitUntilApplied(5)
            }
            #expect(try await ingest.store.integer("SELECT sum(requested) FROM timeline") == before + 3)
            for (user, expected) in [("u1", 0), (nil, 1), ("u2", 2), ("u3", nil)] as [(String?, Int64?)] {
                #expect(try await offset(user) == expected)
            }
        }
    }

    @Test(
        "A diverted event that earlier ones would override is not replayed alone; a resumed diversion keeps the order")
    func replayedAlone() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let app = try #require(try await ingest.store.directory().apps[TestKinds.app])
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([.placed(.test("w1"))], at: at, handling: api)
                try await ingest.waitUntilApplied(1)
                _ = try await ingest.store.pool.execute(.beginDiversion(appID: app.id, letters: 0))
                try await ingest.publish([.placed(.test("w1"))], at: at + .seconds(2), handling: api)
                try await ingest.publish([removal], at: at + .seconds(1), handling: api)
                try await ingest.waitUntilApplied(3)
                // First only the later event, then all of them.
                var filter = DeadLetterFilter()
                for ids in [[Int64(try await ingest.store.integer("SELECT max(id) FROM dead_letter"))], []] {
                    filter.ids = ids
                    let outcome = try await ingest.replayer.replay(filter)
                    #expect(outcome.replayed == 0 && outcome.isHeldBack)
                }
                #expect(try await shown(ingest) == 1)
                #expect(try await ingest.replayer.resume(app: TestKinds.app).outcome.replayed == 2)
                #expect(try await shown(ingest) == 0)
                #expect(try await ingest.replayer.replay(filter).isHeldBack == false)
            }
        }
    }

    @Test("A replayed dead letter is ordered by its time, because newer events may have overtaken it")
    func replayed() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            try await ingest.store.sql("ALTER TABLE widget ADD CONSTRAINT no_d9 CHECK (device_id <> 'd9')")
            try await ingest.running([ingest.service()]) {
                try await ingest.publish(
                    [.placed(.test("w1", device: "d9"))], at: Timestamp.now() - .seconds(60), handling: api)
                try await ingest.waitUntilApplied(1)
                try await ingest.publish([.placed(.test("w1"))], handling: api)
                try await ingest.waitUntilApplied(2)
            }
            try await ingest.store.sql("ALTER TABLE widget DROP CONSTRAINT no_d9")
            var filter = DeadLetterFilter(owner: .app(TestKinds.app))
            filter.causes = [.refused]
            #expect(try await ingest.replayer.replay(filter).replayed == 1)
            #expect(try await ingest.store.integer("SELECT count(*) FROM widget WHERE device_id = 'd1'") == 1)
        }
    }
}
