// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Events about people", .serialized, .timeLimit(.patience))
struct PersonFoldTests {
    private static let app = SampleKind.appName

    private static func event(_ event: FreshetEvent, offset: Int = 0, at time: Timestamp? = .now) -> BatchEvent {
        BatchEvent(record: offset, position: .at(offset), time: time, event: event)
    }

    private static func donation(_ kind: String, _ configuration: WidgetConfiguration = .empty) -> FreshetEvent {
        .interactionDonated(
            app: app, user: "u1", DonatedInteraction(kind: kind, configuration: configuration, timeZone: "UTC"))
    }

    @Test("Events with an unknown app or kind, or without a time, are rejected with a pointer")
    func rejected() {
        var fold = BatchFold(directory: .sample)
        let shortcuts = ["Purchases", "Nothing"].map {
            RelevantShortcut(content: WidgetContent(app: Self.app, kind: $0))
        }
        fold.add(Self.event(Self.donation("Nothing")))
        fold.add(Self.event(.shortcutsReplaced(app: Self.app, user: "u1", device: nil, shortcuts), offset: 1))
        fold.add(Self.event(.stackTurned(app: "none", user: "u1", device: "d", stack: "s", widget: "w"), offset: 2))
        fold.add(Self.event(Self.donation("Purchases"), offset: 3, at: nil))
        #expect(fold.rejected.map(\.pointer) == ["/kind", "/shortcuts/1/kind", "/app", nil])
        #expect(fold.rejected.map(\.code) == ["unknownKind", "unknownKind", "unknownApp", "missingAttribute"])
        #expect(fold.changes.isEmpty && fold.accepted == 0)
        #expect(!fold.isPlain)
    }

    @Test("Donations and stacks that are repeated, also after a crash behind the COMMIT, count once")
    func exactlyOnce() async throws {
        try await IngestHarness.lend { ingest in
            let stack = StackArrangement(device: "d1", name: "home", widgets: ["w1", "w2"])
            let app = TestKinds.app
            let time = Timestamp.now()
            let interaction = DonatedInteraction(kind: "Purchases", timeZone: "UTC")
            let events: [FreshetEvent] = (0..<20).flatMap { number -> [FreshetEvent] in
                [
                    .interactionDonated(app: app, user: "u\(number % 5)", interaction),
                    .stackChanged(app: app, user: "u\(number % 5)", stack),
                ]
            }
            try await ingest.running([ingest.service(), ingest.service()]) {
                try await ingest.publish(events, at: time)
                try await ingest.waitUntilApplied(events.count)
            }
            var habits = Habits()
            _ = habits.learn(
                HabitKey.keys(kind: "Purchases", configuration: .empty, intent: nil),
                at: HalfHour(at: time, timeZone: "UTC"))
            let appID = try #require(try await ingest.store.directory().apps[app]).id
            let keys = (0..<5).map { PersonKey(appID: appID, user: "u\($0)") }
            let people = try await ingest.store.pool.query(.readPeople(keys))
            #expect(people.count == 5)
            for person in people {
                #expect(person.habits == habits.encoded)
                let record = PersonRecord(app: app, habits: nil, arrangement: person.arrangement)
                #expect(record?.stacks.map(\.arrangement) == [stack])
            }
        }
    }

    @Test("Events of a person with a damaged row become dead letters; the row stays, and other events are applied")
    func damaged() async throws {
        try await IngestHarness.lend { ingest in
            let appID = try #require(try await ingest.store.directory().apps[TestKinds.app]).id
            try await ingest.store.sql("INSERT INTO person (app_id, user_id, habits) VALUES (\(appID), 'u1', '\\x09')")
            let events = ["u1", "u2"].map { user in
                FreshetEvent.interactionDonated(
                    app: TestKinds.app, user: user, DonatedInteraction(kind: "Purchases", timeZone: "UTC"))
            }
            try await ingest.running([ingest.service()]) {
                try await ingest.publish(events, at: Timestamp.now())
                try await ingest.waitUntilApplied(events.count)
            }
            #expect(
                try await ingest.store.integer("SELECT count(*) FROM dead_letter WHERE code = 'unreadablePerson'") == 1)
            let people = "SELECT count(*) FROM person WHERE user_id || (length(habits) = 1)::text = "
            #expect(try await ingest.store.integer(people + "'u1true'") == 1)
            #expect(try await ingest.store.integer(people + "'u2false'") == 1)
        }
    }

    @Test("Stacks that cannot be read reject events about them, but not donations, and stay as they are")
    func damagedStacks() async throws {
        try await IngestHarness.lend { ingest in
            let appID = try #require(try await ingest.store.directory().apps[TestKinds.app]).id
            try await ingest.store.sql("INSERT INTO person (app_id, user_id, arrangement) VALUES (\(appID), 'u1', '!')")
            let stack = StackArrangement(device: "d1", name: "home", widgets: ["w1"])
            let events: [FreshetEvent] = [
                .interactionDonated(
                    app: TestKinds.app, user: "u1", DonatedInteraction(kind: "Purchases", timeZone: "UTC")),
                .stackChanged(app: TestKinds.app, user: "u1", stack),
            ]
            try await ingest.running([ingest.service()]) {
                try await ingest.publish(events, at: Timestamp.now())
                try await ingest.waitUntilApplied(events.count)
            }
            #expect(
                try await ingest.store.integer("SELECT count(*) FROM dead_letter WHERE code = 'unreadablePerson'") == 1)
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM person WHERE arrangement = '!' AND length(habits) > 1") == 1)
        }
    }

    @Test("Placing, changing or removing a widget replans only the schedules of its person")
    func replanned() async throws {
        try await IngestHarness.lend { ingest in
            for user in ["u1", "u2"] {
                let key = StackPlan.Key(app: TestKinds.app, user: user, device: "d1", stack: "home")
                _ = try await ingest.store.pool.query(.wantSchedule(key))
            }
            let due = "SELECT count(*) FROM stack_schedule WHERE due_at <= now() AND user_id = "
            var applied = 0
            for event in [FreshetEvent.placed(.test("w1")), .removed(app: TestKinds.app, widget: "w1")] {
                try await ingest.store.sql("UPDATE stack_schedule SET due_at = 'infinity'")
                try await ingest.running([ingest.service()]) {
                    try await ingest.publish([event], at: Timestamp.now())
                    applied += 1
                    try await ingest.waitUntilApplied(applied)
                }
                #expect(try await ingest.store.integer(due + "'u1'") == 1)
                #expect(try await ingest.store.integer(due + "'u2'") == 0)
            }
        }
    }

    @Test("F: a turn by hand counts as a view of what the widget shows; a removed widget leaves its stack")
    func turnsAndRemovals() async throws {
        try await IngestHarness.lend { ingest in
            let tokyo = WidgetEnvironment(storedLocale: "en", timeZone: "Asia/Tokyo")
            let stack = StackArrangement(device: "d1", name: "home", widgets: ["w1", "w2"])
            let turn = {
                FreshetEvent.stackTurned(app: TestKinds.app, user: "u1", device: "d1", stack: "home", widget: $0)
            }
            let time = Timestamp.now() - .seconds(60)
            let events: [FreshetEvent] = [
                .placed(.test("w1", environment: tokyo)), .stackChanged(app: TestKinds.app, user: "u1", stack),
                // The second widget is not placed: there is nothing to learn from it.
                turn("w1"), turn("w2"), .removed(app: TestKinds.app, widget: "w1"),
            ]
            for (number, event) in events.enumerated() {
                try await ingest.running([ingest.service()]) {
                    try await ingest.publish([event], at: time + .seconds(number))
                    try await ingest.waitUntilApplied(number + 1)
                }
            }
            let person = try await Self.person("u1", ingest)
            #expect(person.stacks.map(\.arrangement.widgets) == [["w2"]])
            #expect(person.stacks.map(\.turn?.widget) == ["w2"])
            var expected = Habits()
            _ = expected.learn(
                HabitKey.keys(kind: "Purchases", configuration: .empty, intent: nil),
                at: HalfHour(at: time + .seconds(2), timeZone: "Asia/Tokyo"))
            #expect(person.habits == expected)
        }
    }

    private static func person(_ user: String, _ ingest: IngestHarness) async throws -> PersonRecord {
        let appID = try #require(try await ingest.store.directory().apps[TestKinds.app]).id
        let stored = try await ingest.store.pool.query(.readPeople([PersonKey(appID: appID, user: user)]))
        return try #require(stored.first).record(app: TestKinds.app)
    }

    @Test("A widget that is given to another user leaves the stack of the former one, whose schedule is planned again")
    func movedToAnotherUser() async throws {
        try await IngestHarness.lend { ingest in
            let key = StackPlan.Key(app: TestKinds.app, user: "u1", device: "d1", stack: "home")
            _ = try await ingest.store.pool.query(.wantSchedule(key))
            let stack = StackArrangement(device: "d1", name: "home", widgets: ["w1", "w2"])
            let time = Timestamp.now() - .seconds(60)
            let events: [FreshetEvent] = [
                .placed(.test("w1")), .stackChanged(app: TestKinds.app, user: "u1", stack),
                .placed(.test("w1", user: "u2")),
            ]
            for (number, event) in events.enumerated() {
                try await ingest.store.sql("UPDATE stack_schedule SET due_at = 'infinity'")
                try await ingest.running([ingest.service()]) {
                    try await ingest.publish([event], at: time + .seconds(number))
                    try await ingest.waitUntilApplied(number + 1)
                }
            }
            let person = try await Self.person("u1", ingest)
            #expect(person.stacks.map(\.arrangement.widgets) == [["w2"]])
            #expect(try await ingest.store.integer("SELECT count(*) FROM stack_schedule WHERE due_at <= now()") == 1)
        }
    }

    @Test("A donation without a time zone uses that of the person's widgets")
    func timeZone() async throws {
        try await IngestHarness.lend { ingest in
            let tokyo = WidgetEnvironment(storedLocale: "en", timeZone: "Asia/Tokyo")
            try await ingest.store.place([.test("w1", environment: tokyo)])
            let time = try #require(Timestamp(rfc3339: "2026-06-22T03:00:00Z"))
            try await ingest.running([ingest.service()]) {
                try await ingest.publish(
                    [.interactionDonated(app: TestKinds.app, user: "u1", DonatedInteraction(kind: "Purchases"))],
                    at: time)
                try await ingest.waitUntilApplied(1)
            }
            let appID = try #require(try await ingest.store.directory().apps[TestKinds.app]).id
            let stored = try await ingest.store.pool.query(.readPeople([PersonKey(appID: appID, user: "u1")])).first
            var expected = Habits()
            _ = expected.learn(
                HabitKey.keys(kind: "Purchases", configuration: .empty, intent: nil),
                at: HalfHour(at: time, timeZone: "Asia/Tokyo"))
            #expect(stored?.habits == expected.encoded)
        }
    }
}

extension PersonFoldTests {
    @Test("F: a shortcut whose values are no supported combination is refused, whether it has ranges or not")
    func unsupportedShortcuts() throws {
        var intent = IntentDefinition.sample
        intent.supportedCombinations = [["card", "category"], ["count"]]
        var fold = BatchFold(directory: .sample(configured: intent))
        let range = Timestamp(microseconds: 0)..<Timestamp(microseconds: 1)
        let card = try WidgetConfiguration(["card": "acme"])
        for (offset, (values, ranges)) in [(card, [range]), (.empty, [range]), (.empty, [])].enumerated() {
            let content = WidgetContent(app: Self.app, kind: "Configured", configuration: values)
            let shortcuts = [
                RelevantShortcut(content: WidgetContent(app: Self.app, kind: "Purchases")),
                RelevantShortcut(content: content, ranges: ranges),
            ]
            fold.add(
                Self.event(.shortcutsReplaced(app: Self.app, user: "u1", device: nil, shortcuts), offset: offset))
        }
        // The category has a default.
        #expect(fold.accepted == 1)
        #expect(fold.rejected.map(\.pointer) == Array(repeating: "/shortcuts/1/configuration", count: 2))
        #expect(fold.rejected.first?.message.hasSuffix("expected values for {card, category} or {count}") == true)
    }

    @Test("F: donations and shortcuts may have the values of a widget of any family")
    func anyFamily() throws {
        let items = IntentParameter(
            name: "items", displayName: "Items", type: .string(.words),
            count: .fixed([.systemSmall: 1, .systemMedium: 3]))
        var fold = BatchFold(directory: .sample(configured: IntentDefinition(title: "Items", parameters: [items])))
        let values = try WidgetConfiguration(["items": ["a", "b", "c"]])
        let shortcut = RelevantShortcut(
            content: WidgetContent(app: Self.app, kind: "Configured", configuration: values))
        fold.add(Self.event(Self.donation("Configured", values)))
        fold.add(Self.event(.shortcutsReplaced(app: Self.app, user: "u1", device: nil, [shortcut]), offset: 1))
        #expect(fold.rejected.map(\.message) == [] && fold.accepted == 2)
        let four = try WidgetConfiguration(["items": ["a", "b", "c", "d"]])
        fold.add(Self.event(Self.donation("Configured", four), offset: 2))
        #expect(fold.rejected.map(\.pointer) == ["/configuration/items"])
    }

    @Test("F: a turn to an unknown stack or widget, and a donation that cannot be counted, are ignored with the reason")
    func ignored() async throws {
        try await IngestHarness.lend { ingest in
            let turn = { FreshetEvent.stackTurned(app: TestKinds.app, user: "u1", device: "d1", stack: $0, widget: $1) }
            let donation = { (zone: String?) in
                FreshetEvent.interactionDonated(
                    app: TestKinds.app, user: "u1", DonatedInteraction(kind: "Purchases", timeZone: zone))
            }
            let arrangement = StackArrangement(device: "d1", name: "home", widgets: ["w1"])
            let outcomes = try await Self.outcomes(
                of: [
                    turn("home", "w1"), .stackChanged(app: TestKinds.app, user: "u1", arrangement), turn("home", "w2"),
                    turn("home", "w1"), donation(nil), donation("UTC"), .placed(.test("w1")), donation(nil),
                ], ingest)
            #expect(
                outcomes == [
                    "ignored unknownStack", "applied", "ignored notInStack", "applied", "ignored unknownTimeZone",
                    "applied", "applied", "applied",
                ])
        }
    }

    @Test("F: what a person has donated on several days is named in the record, and cleared with the habits")
    func named() async throws {
        try await IngestHarness.lend { ingest in
            let stack = StackArrangement(device: "d1", name: "home", widgets: ["w1"])
            let donations = ["Purchases", "DueDate", "Purchases"].map {
                FreshetEvent.interactionDonated(
                    app: TestKinds.app, user: "u1", DonatedInteraction(kind: $0, timeZone: "UTC"))
            }
            _ = try await Self.outcomes(
                of: [.stackChanged(app: TestKinds.app, user: "u1", stack)] + donations, ages: [1: .seconds(86_400)],
                ingest)
            let person = try await Self.person("u1", ingest)
            #expect(person.viewed == [HabitContent(kind: "Purchases", values: .empty)])
            #expect(try await ingest.store.store.clearHabits(of: "u1", app: TestKinds.app))
            let cleared = try await Self.person("u1", ingest)
            #expect(cleared.viewed.isEmpty && cleared.habits.isEmpty && cleared.stacks == person.stacks)
        }
    }

    /// Publishes events one after the other, and returns their results with their codes.
    ///
    /// - Parameter ages: ages of events, by their places.
    private static func outcomes(
        of events: [FreshetEvent], ages: [Int: Duration] = [:], _ ingest: IngestHarness
    ) async throws -> [String] {
        let now = Timestamp.now()
        let handling = EventHandling(isOrderedByArrival: true, keepsOutcome: true)
        var outcomes: [String] = []
        try await ingest.running([ingest.service()]) {
            for (number, event) in events.enumerated() {
                let time = now - (ages[number] ?? .zero)
                try await ingest.publish([event], at: time, handling: handling, id: "e\(number)")
                try await ingest.waitUntilApplied(number + 1)
                let name = EventName(app: TestKinds.app, id: "e\(number)")
                let outcome = try #require(try await ingest.store.pool.query(.readEventOutcome(name)).first)
                outcomes.append([outcome.result.rawValue, outcome.code].compactMap(\.self).joined(separator: " "))
            }
        }
        return outcomes
    }
}

extension Timestamp {
    fileprivate static var now: Timestamp { Timestamp.now() }
}
