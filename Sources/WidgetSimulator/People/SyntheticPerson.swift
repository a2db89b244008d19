// SPDX-License-Identifier: Apache-2.0

package import WidgetModel

/// A sort of synthetic people.
package enum HabitPopulation: String, CaseIterable, Sendable {
    case weekdays, evenings, weekends, irregular, changing
    case manyApps = "many apps"

    /// Number of widgets in the stack of each person, and of the apps that they are of.
    package var widgets: Int { self == .manyApps ? 12 : 5 }
    package var apps: Int { self == .manyApps ? 4 : 1 }

    /// Views a day that follow no habit.
    package var noise: Double {
        switch self {
        case .weekdays, .evenings, .weekends, .changing: 0.6
        case .irregular: 3
        case .manyApps: 2
        }
    }
}

/// A view of a widget in a stack by a synthetic person.
package struct SyntheticView: Sendable {
    /// From a Monday, whose number is 0.
    package let day: Int
    /// Of the day.
    package let minute: Int
    /// Position in the stack.
    package let widget: Int

    /// The half hour, with day 0 on a certain Monday.
    package var halfHour: HalfHour {
        let minute = (20_003 + day) * 1_440 + minute + 15
        return HalfHour(day: minute / 1_440, index: minute % 1_440 / 30)
    }
}

private struct Habit {
    var widget: Int
    var weekdays: ClosedRange<Int>
    /// Usual minute of the day, and its spread.
    var minute: Int
    var spread: Int
    var probability: Double
}

extension HabitPopulation {
    /// Views of a person who looks at a stack of widgets by habit, and sometimes without, in the order of their time.
    package func views(days: Int = 84, random: inout some RandomNumberGenerator) -> [SyntheticView] {
        var stack = Array(0..<widgets)
        stack.shuffle(using: &random)
        let before = habits(of: stack, &random)
        stack.shuffle(using: &random)
        let after = self == .changing ? habits(of: stack, &random) : before
        // Widgets that are looked at without a habit, the more the earlier in the list.
        let favourites = stack.enumerated().flatMap { [Int](repeating: $0.element, count: 8 >> min($0.offset, 3)) }
        var views: [SyntheticView] = []
        for day in 0..<days {
            // Day 0 is a Monday.
            for habit in day < days / 2 ? before : after
            where habit.weekdays.contains(day % 7) && Double.random(in: 0..<1, using: &random) < habit.probability {
                let spread = (0..<3).reduce(0) { sum, _ in
                    sum + Int.random(in: -habit.spread...habit.spread, using: &random)
                }
                views.append(SyntheticView(day: day, minute: habit.minute + spread / 2, widget: habit.widget))
            }
            for _ in 0..<Self.count(noise, &random) {
                let minute = Int.random(in: 420..<1_380, using: &random)
                let widget = favourites.randomElement(using: &random) ?? 0
                views.append(SyntheticView(day: day, minute: minute, widget: widget))
            }
        }
        return views.sorted { ($0.day, $0.minute, $0.widget) < ($1.day, $1.minute, $1.widget) }
    }

    private func habits(of stack: [Int], _ random: inout some RandomNumberGenerator) -> [Habit] {
        /// A habit of the n-th widget at about an hour, which differs by person.
        func habit(
            _ number: Int, _ weekdays: ClosedRange<Int>, hour: Double, spread: Int, _ probability: ClosedRange<Double>
        ) -> Habit {
            Habit(
                widget: stack[number % stack.count], weekdays: weekdays,
                minute: Int(hour * 60) + Int.random(in: -60...60, using: &random), spread: spread,
                probability: Double.random(in: probability, using: &random))
        }
        switch self {
        case .weekdays, .changing:
            return [
                habit(0, 0...4, hour: 8, spread: 10, 0.7...0.95), habit(1, 0...4, hour: 12, spread: 15, 0.6...0.95),
                habit(2, 0...4, hour: 17.5, spread: 15, 0.5...0.9), habit(3, 5...6, hour: 11, spread: 30, 0.3...0.8),
            ]
        case .evenings:
            return [
                habit(0, 0...6, hour: 18.5, spread: 30, 0.5...0.9), habit(1, 0...6, hour: 20.5, spread: 30, 0.5...0.9),
                habit(2, 4...5, hour: 22, spread: 40, 0.4...0.8),
            ]
        case .weekends:
            return [
                habit(0, 5...5, hour: 10, spread: 20, 0.7...0.95), habit(1, 6...6, hour: 10, spread: 20, 0.7...0.95),
                habit(2, 5...6, hour: 15, spread: 30, 0.5...0.9), habit(3, 6...6, hour: 20, spread: 20, 0.7...0.95),
                habit(4, 0...4, hour: 19, spread: 40, 0.1...0.3),
            ]
        case .irregular:
            return [
                habit(0, 0...6, hour: 9, spread: 120, 0.2...0.6), habit(1, 0...6, hour: 19, spread: 120, 0.2...0.6),
            ]
        case .manyApps:
            return (0..<6).map {
                habit($0, 0...($0 % 2 == 0 ? 6 : 4), hour: 7.5 + 2.5 * Double($0), spread: 15, 0.4...0.9)
            }
        }
    }

    /// A random number with a mean.
    private static func count(_ mean: Double, _ random: inout some RandomNumberGenerator) -> Int {
        let tries = 12
        return (0..<tries).count { _ in Double.random(in: 0..<1, using: &random) < mean / Double(tries) }
    }
}
