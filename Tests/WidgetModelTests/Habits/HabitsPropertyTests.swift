// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import WidgetModel

@Suite("Properties of habits", .timeLimit(.patience), .tags(.property))
struct HabitsPropertyTests {
    private struct View {
        let key: HabitKey
        let halfHour: HalfHour
    }

    private static func views(_ count: Int, seed: UInt64, keys: Int, days: Int) -> [View] {
        var random = SeededGenerator(seed: seed)
        return (0..<count).map { _ in
            View(
                key: HabitKey(rawValue: UInt64(random.below(keys)) &* 0x9E37_79B9_7F4A_7C15),
                halfHour: HalfHour(day: 20_000 + random.below(days), index: random.below(HalfHour.perDay)))
        }
    }

    private static func habits(_ views: [View]) -> Habits {
        var habits = Habits()
        for view in views { _ = habits.learn([view.key], at: view.halfHour) }
        return habits
    }

    @Test("The model is bounded under 10,000 random donations, and the strongest habit is kept")
    func bounded() {
        var habits = Habits()
        let strong = HabitKey(rawValue: 7)
        for (number, view) in Self.views(10_000, seed: 1, keys: 2_000, days: 1).enumerated() {
            let day = 20_000 + number / 100
            _ = habits.learn([view.key], at: HalfHour(day: day, index: view.halfHour.index))
            if number % 100 == 0 { _ = habits.learn([strong], at: HalfHour(day: day, index: 24)) }
            #expect(habits.encodedCount <= Habits.maximumBytes)
        }
        #expect(habits.encoded.count == habits.encodedCount && habits.combinations.count > 20)
        #expect(habits.probability(ofAny: [strong], at: HalfHour(day: 20_100, index: 24)).probability > 0.8)
    }

    @Test("The stored form is read back unchanged", arguments: UInt64(0)..<40)
    func roundTrip(seed: UInt64) throws {
        let habits = Self.habits(Self.views(Int(seed) * 20, seed: seed, keys: 1 + Int(seed) % 9, days: 70))
        #expect(Habits(encoded: habits.encoded) == habits)
        #expect(habits.encoded.count <= Habits.maximumBytes)
    }

    @Test("The order of donations does not matter", arguments: UInt64(0)..<20)
    func order(seed: UInt64) {
        let views = Self.views(60, seed: seed, keys: 4, days: 80)
        var random = SeededGenerator(seed: seed)
        #expect(Self.habits(views) == Self.habits(views.shuffled(using: &random)))
        #expect(Self.habits(views) == Self.habits(views + views))
    }

    @Test("Damaged bytes are refused or are another valid model, and never trap")
    func damage() throws {
        let bytes = Self.habits(Self.views(80, seed: 3, keys: 6, days: 50)).encoded
        for count in 0..<bytes.count { #expect(Habits(encoded: Array(bytes.prefix(count))) == nil) }
        #expect(Habits(encoded: bytes + [0]) == nil)
        #expect(Habits(encoded: [3] + bytes.dropFirst()) == nil)
        #expect(Habits(encoded: [UInt8](repeating: 1, count: Habits.maximumBytes + 1)) == nil)
        var random = SeededGenerator(seed: 4)
        for _ in 0..<5_000 {
            var damaged = bytes
            for _ in 0...random.below(3) { damaged[random.below(damaged.count)] = random.byte() }
            guard var habits = Habits(encoded: damaged) else { continue }
            #expect(habits.encoded == damaged)
            let next = HalfHour(day: 20_060, index: random.below(HalfHour.perDay))
            let probability = habits.probability(ofAny: habits.combinations.map(\.key), at: next).probability
            #expect((0...1).contains(probability))
            _ = habits.learn([HabitKey(rawValue: 1)], at: next)
        }
    }
}
