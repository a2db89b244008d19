// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite("Habits in local time", .timeLimit(.patience))
struct HabitsTimeTests {
    private static let key = HabitKey.keys(kind: "Weather", configuration: .empty, intent: nil)[0]

    private static func learn(_ habits: inout Habits, _ text: String, _ zone: String) throws {
        let time = try HabitsTests.time(text)
        habits.learn([key], at: HalfHour(at: time, timeZone: zone))
    }

    @Test("Half hours are centred on full and half hours; the one around midnight belongs to the new day")
    func halfHours() throws {
        func halfHour(_ text: String, _ zone: String) throws -> HalfHour {
            HalfHour(at: try HabitsTests.time(text), timeZone: zone)
        }
        #expect(try halfHour("1970-01-01T11:45:00Z", "UTC") == HalfHour(day: 0, index: 24))
        #expect(try halfHour("1970-01-01T12:14:59.999Z", "UTC") == HalfHour(day: 0, index: 24))
        #expect(try halfHour("1970-01-01T23:45:00Z", "UTC") == HalfHour(day: 1, index: 0))
        #expect(try halfHour("1969-12-31T23:44:00Z", "UTC") == HalfHour(day: -1, index: 47))
        #expect(try halfHour("2026-06-22T20:00:00Z", "Asia/Kolkata").index == 3)
        #expect(try halfHour("2026-06-22T20:00:00Z", "No/Zone").index == 40)
        // 22 June 2026 is a Monday.
        #expect(try halfHour("2026-06-22T20:00:00Z", "UTC").weekday == 0)
        for time in [Timestamp.distantPast, .distantFuture] {
            #expect((0..<48).contains(HalfHour(at: time, timeZone: "UTC").index))
        }
    }

    @Test("Habits keep their local time when daylight saving begins")
    func daylightSaving() throws {
        var habits = Habits()
        // At 08:00 in Berlin; summer time begins on 29 March.
        for day in 9...28 { try Self.learn(&habits, "2026-03-\(day < 10 ? "0" : "")\(day)T07:00:00Z", "Europe/Berlin") }
        let after = try HabitsTests.time("2026-03-31T06:00:00Z")
        #expect(habits.probability(of: Self.key, at: after, timeZone: "Europe/Berlin").probability > 0.75)
        let hourLater = after + .seconds(3_600)
        #expect(habits.probability(of: Self.key, at: hourLater, timeZone: "Europe/Berlin").probability < 0.05)
    }

    @Test("Habits travel with the person to another time zone")
    func travel() throws {
        var habits = Habits()
        for day in 10...28 { try Self.learn(&habits, "2026-06-\(day)T06:00:00Z", "Europe/Berlin") }
        let morning = try HabitsTests.time("2026-06-29T12:00:00Z")
        #expect(habits.probability(of: Self.key, at: morning, timeZone: "America/New_York").probability > 0.75)
        #expect(habits.probability(of: Self.key, at: morning, timeZone: "Europe/Berlin").probability < 0.1)
    }

    @Test("A late donation counts for its day; one for a forgotten day is not learned")
    func late() throws {
        var habits = Habits()
        try Self.learn(&habits, "2026-06-20T12:00:00Z", "UTC")
        try Self.learn(&habits, "2026-06-10T12:00:00Z", "UTC")
        try Self.learn(&habits, "2026-03-10T12:00:00Z", "UTC")
        let noon = try HabitsTests.time("2026-06-21T12:00:00Z")
        let prediction = habits.probability(of: Self.key, at: noon, timeZone: "UTC")
        #expect(prediction.viewed == 1 && prediction.days == 12)
        let before = habits
        let forgotten = HalfHour(day: habits.lastDay - Habits.days, index: 24)
        #expect(!habits.learn([Self.key], at: forgotten) && habits == before)
    }

    @Test("Views are forgotten after eight weeks")
    func forgetting() throws {
        var habits = Habits()
        try Self.learn(&habits, "2026-01-01T12:00:00Z", "UTC")
        let news = HabitKey.keys(kind: "News", configuration: .empty, intent: nil)
        let later = HalfHour(at: try HabitsTests.time("2026-03-01T12:00:00Z"), timeZone: "UTC")
        habits.learn(news, at: later)
        #expect(habits.combinations.count == 1)
        #expect(habits.slots(of: Self.key).isEmpty)
    }
}
