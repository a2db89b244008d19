// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import TestSupport
import Testing

@testable import WidgetModel

/// DESIGN.md, F: donations and the times at which people look.
@Suite("Habits", .timeLimit(.patience))
struct HabitsTests {
    static let kind = "Purchases"
    static let berlin = "Europe/Berlin"

    static func intent(_ combinations: [[String]]) -> IntentDefinition {
        IntentDefinition(
            title: "Recent Purchases",
            parameters: [
                IntentParameter(name: "card", displayName: "Card", type: .custom(typeName: "Card")),
                IntentParameter(name: "category", displayName: "Category", type: .string(.none)),
            ], supportedCombinations: combinations)
    }

    static func configuration(_ card: String, _ category: String) throws -> WidgetConfiguration {
        try WidgetConfiguration(["card": .string(card), "category": .string(category)])
    }

    static func time(_ text: String) throws -> Timestamp { try #require(Timestamp(rfc3339: text)) }

    static func keys(_ card: String, _ category: String, _ intent: IntentDefinition) throws -> [HabitKey] {
        HabitKey.keys(kind: kind, configuration: try configuration(card, category), intent: intent)
    }

    /// Four weeks from Monday, 1 June 2026: AcmeCard groceries daily at noon, SoupPay restaurants daily at 19:00, in
    /// Berlin.
    static func shopper(_ intent: IntentDefinition) throws -> Habits {
        var habits = Habits()
        let start = try time("2026-06-01T00:00:00Z")
        for day in 0..<28 {
            for (hour, card, category) in [(10, "AcmeCard", "groceries"), (17, "SoupPay", "restaurants")] {
                let time = start + .seconds(day * 86_400 + hour * 3_600)
                habits.learn(try keys(card, category, intent), at: HalfHour(at: time, timeZone: berlin))
            }
        }
        return habits
    }

    @Test("F: AcmeCard groceries viewed daily at noon, SoupPay restaurants in the evening")
    func noonAndEvening() throws {
        let intent = Self.intent([["card", "category"]])
        let habits = try Self.shopper(intent)
        let acme = try Self.keys("AcmeCard", "groceries", intent)
        let soup = try Self.keys("SoupPay", "restaurants", intent)
        for (hour, likely, unlikely) in [("12:00", acme, soup), ("19:00", soup, acme)] {
            let time = try Self.time("2026-06-29T\(hour):00+02:00")
            let prediction = habits.probability(ofAny: likely, at: time, timeZone: Self.berlin)
            #expect(prediction.probability > 0.85)
            let other = habits.probability(ofAny: unlikely, at: time, timeZone: Self.berlin)
            #expect(other.probability < 0.05)
        }
        // Nobody looks between the two times.
        let afternoon = try Self.time("2026-06-29T15:30:00+02:00")
        #expect(habits.probability(ofAny: acme, at: afternoon, timeZone: Self.berlin).probability < 0.05)
    }

    @Test("F: {Card}: Friday noon → AcmeCard, whatever the category")
    func cardOnly() throws {
        let intent = Self.intent([["card"]])
        let habits = try Self.shopper(intent)
        let friday = try Self.time("2026-07-03T12:00:00+02:00")
        for category in ["groceries", "restaurants", "all"] {
            let acme = habits.probability(
                ofAny: try Self.keys("AcmeCard", category, intent), at: friday, timeZone: Self.berlin)
            let soup = habits.probability(
                ofAny: try Self.keys("SoupPay", category, intent), at: friday, timeZone: Self.berlin)
            #expect(acme.probability > 0.7 && soup.probability < 0.05)
        }
    }

    @Test("F: {Card, Category}: only widgets set to AcmeCard and Groceries")
    func cardAndCategory() throws {
        let intent = Self.intent([["card", "category"]])
        let habits = try Self.shopper(intent)
        let friday = try Self.time("2026-07-03T12:00:00+02:00")
        func probability(_ card: String, _ category: String) throws -> Double {
            habits.probability(ofAny: try Self.keys(card, category, intent), at: friday, timeZone: Self.berlin)
                .probability
        }
        #expect(try probability("AcmeCard", "groceries") > 0.7)
        #expect(try probability("AcmeCard", "restaurants") == 0)
        #expect(try probability("SoupPay", "groceries") == 0)
    }

    @Test("F: a donation counts once for each supported combination, and a widget uses the best match")
    func bothCombinations() throws {
        let intent = Self.intent([["card"], ["card", "category"]])
        let habits = try Self.shopper(intent)
        let keys = try Self.keys("AcmeCard", "restaurants", intent)
        #expect(keys.count == 2 && habits.combinations.count == 4)
        let noon = try Self.time("2026-06-29T12:00:00+02:00")
        let prediction = habits.probability(ofAny: keys, at: noon, timeZone: Self.berlin)
        #expect(prediction.probability == habits.probability(of: keys[0], at: noon, timeZone: Self.berlin).probability)
        #expect(habits.probability(of: keys[1], at: noon, timeZone: Self.berlin).probability == 0)
    }

    @Test("F: without combinations the key is the whole configuration, without an intent the kind, without values none")
    func keys() throws {
        let whole = Self.intent([])
        #expect(try Self.keys("A", "x", whole) == Self.keys("A", "x", whole))
        #expect(try Self.keys("A", "x", whole) != Self.keys("A", "y", whole))
        let alone = HabitKey.keys(kind: "Weather", configuration: try Self.configuration("A", "x"), intent: nil)
        #expect(alone == HabitKey.keys(kind: "Weather", configuration: .empty, intent: nil))
        #expect(alone != HabitKey.keys(kind: "Weathe", configuration: .empty, intent: nil))
        let card = Self.intent([["card"], ["card", "category"]])
        let onlyCard = try WidgetConfiguration(["card": "A", "category": nil])
        #expect(HabitKey.keys(kind: Self.kind, configuration: onlyCard, intent: card).count == 1)
        #expect(HabitKey.keys(kind: Self.kind, configuration: .empty, intent: card).isEmpty)
        // The value is stored in databases and must not change.
        #expect(alone.map(\.rawValue) == [9_338_574_986_803_615_779])
    }

    @Test("F: the week of the talk: viewed on Fridays at noon only")
    func fridays() throws {
        let key = HabitKey(rawValue: 1)
        var habits = Habits()
        // Day 0 is a Thursday.
        for week in 0..<6 { _ = habits.learn([key], at: HalfHour(day: 7 * week + 1, index: 24)) }
        let friday = habits.probability(ofAny: [key], at: HalfHour(day: 43, index: 24))
        #expect(friday.probability > 0.65)
        #expect(friday.explanation == "viewed on 6 of the last 6 Fridays between 11:45 and 12:15")
        for day in 37...42 {
            let other = habits.probability(ofAny: [key], at: HalfHour(day: day, index: 24))
            #expect(other.probability < 0.05, "\(day)")
        }
    }

    @Test("The explanation counts the days of the half hour")
    func explanation() throws {
        let key = HabitKey(rawValue: 1)
        var habits = Habits()
        // Three weeks from Monday without the Wednesdays and the second Friday.
        for day in 4..<23 where day % 7 != 6 && day != 15 {
            _ = habits.learn([key], at: HalfHour(day: day, index: 24))
        }
        let weekday = habits.probability(ofAny: [key], at: HalfHour(day: 25, index: 24))
        #expect(weekday.explanation == "viewed on 9 of the last 12 weekdays between 11:45 and 12:15")
        let night = habits.probability(ofAny: [key], at: HalfHour(day: 25, index: 0))
        #expect(night.explanation == "viewed on none of the last 12 weekdays between 23:45 and 00:15")
        let saturday = habits.probability(ofAny: [key], at: HalfHour(day: 23, index: 24))
        #expect(saturday.explanation == "viewed on 4 of the last 4 weekend days between 11:45 and 12:15")
        #expect(
            Habits().probability(ofAny: [key], at: HalfHour(day: 25, index: 0)).explanation
                == "no earlier weekdays known")
    }

    @Test("A new habit replaces one of 40 days within three weeks")
    func change() {
        let (old, new) = (HabitKey(rawValue: 1), HabitKey(rawValue: 2))
        var habits = Habits()
        for day in 0..<40 { _ = habits.learn([old], at: HalfHour(day: day, index: 16)) }
        for day in 40..<70 {
            _ = habits.learn([new], at: HalfHour(day: day, index: 16))
            guard day >= 60 else { continue }
            let next = HalfHour(day: day + 1, index: 16)
            #expect(
                habits.probability(ofAny: [new], at: next).probability
                    > habits.probability(ofAny: [old], at: next).probability, "\(day)")
        }
    }
}

extension Habits {
    func probability(of key: HabitKey, at time: Timestamp, timeZone: String) -> WidgetPrediction {
        probability(ofAny: [key], at: time, timeZone: timeZone)
    }

    func probability(ofAny keys: [HabitKey], at time: Timestamp, timeZone: String) -> WidgetPrediction {
        probability(ofAny: keys, at: HalfHour(at: time, timeZone: timeZone))
    }

    func probability(ofAny keys: [HabitKey], at halfHour: HalfHour) -> WidgetPrediction {
        prediction(ofAny: profiles(of: keys, on: halfHour.day), at: halfHour, from: .distantPast)
    }
}
