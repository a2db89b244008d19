// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Times of events from clocks and in units that are wrong", .timeLimit(.patience))
struct EventTimeTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)

    @Test(
        "A timestamp of a message that is not in milliseconds counts as none", arguments: [1_000, 1_000_000] as [Int64])
    func unusableTimestamp(factor: Int64) async throws {
        let timestamp = 1_700_000_000_000 * factor
        try await IngestHarness.lend(partitions: 1) { ingest in
            let viewed = FreshetEvent.viewed(app: TestKinds.app, widget: "w1")
            let donated = FreshetEvent.interactionDonated(
                app: TestKinds.app, user: "u1",
                DonatedInteraction(kind: "Purchases", timeZone: "Europe/London"))
            let untimed = [
                .placed(.test("w2")), viewed, donated,
                .configured(app: TestKinds.app, widget: "w1", configuration: .empty),
            ]
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([.placed(.test("w1"))], at: at, timestamp: timestamp)
                try await ingest.publish(untimed, timestamp: timestamp)
                try await ingest.publish([ingest.push("u1")], timestamp: timestamp)
                try await ingest.waitUntilApplied(6)
                #expect(try await ingest.letters("code = 'missingAttribute' AND message_time = \(timestamp)") == 4)
                #expect(try await ingest.store.widget("w1")?.changedAt == at)
                // A later change has its effect.
                try await ingest.publish([.removed(app: TestKinds.app, widget: "w1")], at: at + .seconds(1))
                try await ingest.waitUntilApplied(7)
                #expect(try await ingest.store.widget("w1")?.timelineID == nil)
            }
            // A replay takes the time at which the letter was kept.
            let filter = DeadLetterFilter(owner: .app(TestKinds.app), causes: [.invalid])
            #expect(try await ingest.replayer.replay(filter).failures == [:])
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM widget WHERE id = 'w2' AND changed_at BETWEEN now() - interval '1 hour' AND now()"
                ) == 1)
        }
    }

    private static func sql(_ time: Timestamp) -> String {
        "timestamptz 'epoch' + \(time.microseconds) * interval '1 microsecond'"
    }

    /// Publishes events from a clock that is a day ahead, as are the timestamps of its messages.
    private func publishAhead(_ events: [FreshetEvent], _ ingest: IngestHarness) async throws {
        let ahead = Timestamp.now() + .seconds(86_400)
        try await ingest.publish(events, at: ahead, timestamp: ahead.microseconds / 1_000)
    }

    @Test("A change from a clock that is a day ahead does not make later correct ones outdated")
    func ahead() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let berlin = try WidgetEnvironment(locale: "de-DE", timeZone: "Europe/Berlin")
            func moved(_ environment: WidgetEnvironment) -> FreshetEvent {
                .environmentChanged(
                    app: TestKinds.app, device: "d1", environment: environment, significantTimeChange: false)
            }
            func registered(_ channel: DeliveryChannel) -> FreshetEvent {
                .deviceRegistered(
                    app: TestKinds.app, user: "u1", device: "d1", channel: channel)
            }
            func arranged(_ widgets: [String]) -> FreshetEvent {
                .stackChanged(
                    app: TestKinds.app, user: "u1", StackArrangement(device: "d1", name: "s", widgets: widgets))
            }
            func shortcuts(_ shortcuts: [RelevantShortcut]) -> FreshetEvent {
                .shortcutsReplaced(app: TestKinds.app, user: "u1", device: nil, shortcuts)
            }
            let content = WidgetContent(app: TestKinds.app, kind: "Purchases", configuration: .empty)
            let service = ingest.service()
            try await ingest.running([service]) {
                let wrong: [FreshetEvent] = [
                    .placed(.test("w1")), .placed(.test("w2")), moved(WidgetPlacement.test("w1").environment),
                    registered(.webhook), arranged(["w1", "w2"]),
                    shortcuts([RelevantShortcut(content: content, role: "", ranges: [])]),
                ]
                try await publishAhead(wrong, ingest)
                try await ingest.waitUntilApplied(6)
                #expect(
                    try await ingest.store.integer(
                        "SELECT count(*) FROM widget WHERE changed_at <= now() AND placed_at <= now()") == 2)
                let unregistered = FreshetEvent.deviceUnregistered(app: TestKinds.app, user: "u1", device: "d1")
                try await ingest.publish(
                    [
                        moved(berlin), .removed(app: TestKinds.app, widget: "w2"), unregistered, arranged(["w1"]),
                        shortcuts([]),
                    ], at: Timestamp.now())
                try await ingest.waitUntilApplied(11)
            }
            #expect(service.metrics.ingestDeadLetters.total() == 0)
            #expect(try await ingest.store.widget("w1")?.environment == berlin)
            #expect(try await ingest.store.widget("w2")?.timelineID == nil)
            #expect(try await ingest.store.integer("SELECT count(*) FROM registration WHERE channel <> 0") == 0)
            let people = try await ingest.store.pool.withTransaction { connection in
                let app = try #require(try await ingest.store.directory().apps[TestKinds.app])
                return try await connection.query(.readPeople([PersonKey(appID: app.id, user: "u1")]))
            }
            let person = try #require(try people.first?.record(app: TestKinds.app))
            #expect(person.stacks.map(\.arrangement.widgets) == [["w1"]] && person.sets.map(\.shortcuts) == [[]])
        }
    }

    private func arranged(_ user: String, _ widgets: [String]) -> FreshetEvent {
        .stackChanged(app: TestKinds.app, user: user, StackArrangement(device: "d1", name: "s", widgets: widgets))
    }

    private func shortcuts(_ shortcuts: [RelevantShortcut]) -> FreshetEvent {
        .shortcutsReplaced(app: TestKinds.app, user: "u1", device: nil, shortcuts)
    }

    private func registered(_ user: String, _ device: String) -> FreshetEvent {
        .deviceRegistered(app: TestKinds.app, user: user, device: device, channel: .webhook)
    }

    private func people(_ store: TestStore) async throws -> [String: PersonRecord] {
        let app = try #require(try await store.directory().apps[TestKinds.app])
        let stored = try await store.pool.withTransaction { connection in
            try await connection.query(.readPeople(["u1", "u2"].map { PersonKey(appID: app.id, user: $0) }))
        }
        return try Dictionary(stored.map { ($0.user, try $0.record(app: TestKinds.app)) }) { $1 }
    }

    /// Widgets, devices, views, stacks and shortcuts of two people, all stored with times a day ahead.
    private func withTimesAhead(_ body: (IngestHarness, IngestService) async throws -> Void) async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let store = ingest.store
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let content = WidgetContent(app: TestKinds.app, kind: "Purchases", configuration: .empty)
            let ahead = Timestamp.now() + .seconds(86_400)
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish(
                    [
                        .placed(.test("w1")), .placed(.test("w2", user: "u2", device: "d2")),
                        registered("u1", "d1"), registered("u2", "d2"), arranged("u1", ["w1"]), arranged("u2", ["w2"]),
                        shortcuts([RelevantShortcut(content: content, role: "", ranges: [])]),
                    ], at: Timestamp.now())
                try await ingest.waitUntilApplied(7)
                try await store.sql(
                    """
                    UPDATE widget SET changed_at = now() + interval '1 day';
                    UPDATE registration SET registered_at = now() + interval '1 day';
                    UPDATE timeline SET viewed_at = now() + interval '1 day'
                    """)
                var writes: [PersonWrite] = []
                for (user, record) in try await people(store) {
                    var record = record
                    for index in record.stacks.indices { record.stacks[index].changedAt = ahead }
                    for index in record.sets.indices { record.sets[index].changedAt = ahead }
                    writes.append(
                        PersonWrite(
                            appID: app.id, user: user, arrangement: record.storedArrangement, planning: .never))
                }
                _ = try await store.pool.query(.writePeople(writes))
                try await body(ingest, service)
            }
        }
    }

    @Test("A time that an earlier version stored a day ahead counts as none for events")
    func storedAhead() async throws {
        try await withTimesAhead { ingest, service in
            let store = ingest.store
            let berlin = try WidgetEnvironment(locale: "de-DE", timeZone: "Europe/Berlin")
            try await ingest.publish(
                [
                    .environmentChanged(
                        app: TestKinds.app, device: "d1", environment: berlin, significantTimeChange: false),
                    .deviceUnregistered(app: TestKinds.app, user: "u1", device: "d1"), arranged("u1", []),
                    shortcuts([]), .viewed(app: TestKinds.app, widget: "w2"),
                ], at: at)
            try await ingest.waitUntilApplied(12)
            // A change ordered by arrival keeps its own time, although the stored one lies ahead.
            try await ingest.publish(
                [registered("u2", "d2")], at: Timestamp.now(), handling: EventHandling(isOrderedByArrival: true))
            try await ingest.waitUntilApplied(13)
            #expect(service.metrics.ingestDeadLetters.total() == 0)
            #expect(
                try await store.integer("SELECT count(*) FROM registration WHERE registered_at <= now()") == 2)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE viewed_at = \(Self.sql(at))") == 1)
            #expect(try await store.widget("w1")?.environment == berlin)
            #expect(try await store.integer("SELECT count(*) FROM registration WHERE channel = 0") == 1)
            let changed = try #require(try await people(store)["u1"])
            #expect(changed.stacks.map(\.arrangement.widgets) == [[]] && changed.sets.map(\.shortcuts) == [[]])
        }
    }

    @Test("A time that an earlier version stored a day ahead counts as none for imports")
    func storedAheadOfImports() async throws {
        try await withTimesAhead { ingest, _ in
            let store = ingest.store
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let kind = try #require(try await store.directory().kind("Purchases", of: app))
            let placement = WidgetPlacement.test("w2", user: "u2", device: "d2", configuration: #"{"n":1}"#)
            let widget = ImportedWidget(placement: placement, kind: kind, time: at)
            #expect(try await store.store.importWidgets([widget]).widgets == 1)
            #expect(try await store.widget("w2")?.configuration == #"{"n":1}"#)
            let arrangement = StackArrangement(device: "d1", name: "s", widgets: ["w1"])
            let imported = (app: app, user: "u2", arrangement: arrangement, time: at)
            #expect(try await store.store.importStacks([imported]).stacks == 1)
        }
    }

    @Test("An interaction from a clock that is ahead is learned for the present")
    func learnedAhead() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            func donated(_ user: String) -> FreshetEvent {
                .interactionDonated(
                    app: TestKinds.app, user: user, DonatedInteraction(kind: "Purchases", timeZone: "Europe/London"))
            }
            // Another time of another day.
            let ahead = Timestamp.now() + .seconds(30 * 3_600)
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([donated("u1")], at: ahead, timestamp: ahead.microseconds / 1_000)
                try await ingest.publish([donated("u2")], at: Timestamp.now())
                try await ingest.waitUntilApplied(2)
            }
            let app = try #require(try await ingest.store.directory().apps[TestKinds.app])
            let people = try await ingest.store.pool.withTransaction { connection in
                try await connection.query(.readPeople(["u1", "u2"].map { PersonKey(appID: app.id, user: $0) }))
            }
            let habits = try people.map { try $0.record(app: TestKinds.app).habits }
            #expect(habits.count == 2 && habits[0] == habits[1] && habits[0] != Habits())
        }
    }

    @Test("An event's own time counts as no later than the timestamp of its message")
    func afterItsMessage() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let sent = Timestamp(microseconds: 1_700_000_000_000_000)
            try await ingest.running([ingest.service()]) {
                try await ingest.publish(
                    [.placed(.test("w1"))], at: sent + .seconds(200), timestamp: sent.microseconds / 1_000)
                try await ingest.waitUntilApplied(1)
            }
            #expect(try await ingest.store.widget("w1")?.changedAt == sent)
        }
    }

    @Test("An import with times that are a day ahead does not make later correct changes outdated")
    func importedAhead() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let store = ingest.store
            let ahead = Timestamp.now() + .seconds(86_400)
            let directory = try await store.directory()
            let app = try #require(directory.apps[TestKinds.app])
            let kind = try #require(directory.kind("Purchases", of: app))
            func widget(_ configuration: String, at time: Timestamp) -> ImportedWidget {
                ImportedWidget(placement: .test("w1", configuration: configuration), kind: kind, time: time)
            }
            // The later line of one chunk counts, although the earlier one has another time of the future.
            let lines = [widget(#"{"n":1}"#, at: ahead + .seconds(60)), widget(#"{"n":2}"#, at: ahead)]
            #expect(try await store.store.importWidgets(lines).widgets == 1)
            #expect(try await store.widget("w1")?.configuration == #"{"n":2}"#)
            func stack(_ widgets: [String], at time: Timestamp) -> ImportedStack {
                (
                    app: app, user: "u1", arrangement: StackArrangement(device: "d1", name: "s", widgets: widgets),
                    time: time
                )
            }
            #expect(try await store.store.importStacks([stack(["w1"], at: ahead)]).stacks == 1)
            #expect(try await store.store.importStacks([stack(["w2"], at: Timestamp.now())]).stacks == 1)
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([.removed(app: TestKinds.app, widget: "w1")], at: Timestamp.now())
                try await ingest.waitUntilApplied(1)
            }
            #expect(try await store.widget("w1")?.timelineID == nil)
        }
    }
}
