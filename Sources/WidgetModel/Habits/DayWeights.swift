internal import Foundation

/// Weights of the last 56 days, given as bits: bit n is n days ago.
enum DayWeights {
    /// Days in which the weight halves.
    static let halfLife = 33.0

    /// Sum of the weights of some days.
    static func sum(_ days: UInt64) -> Double {
        guard days != 0 else { return 0 }
        return sums.withUnsafeBufferPointer { sums in
            var sum = 0.0
            for byte in 0..<7 { sum += sums[byte << 8 | Int(truncatingIfNeeded: days >> UInt64(8 * byte)) & 0xFF] }
            return sum
        }
    }

    /// Sums by the position of a byte and its value.
    private static let sums: [Double] = (0..<7 * 256).map { entry in
        let (position, value) = (entry >> 8, entry & 0xFF)
        return (0..<8).reduce(0) { sum, bit in
            value >> bit & 1 == 1 ? sum + exp2(-Double(position * 8 + bit) / halfLife) : sum
        }
    }

    /// Days from 1 to `count` ago.
    static func last(_ count: Int) -> UInt64 {
        guard count > 0 else { return 0 }
        let bits: UInt64 = (1 << UInt64(min(count, Habits.days - 1))) - 1
        return bits << 1
    }

    /// Days of the same weekday.
    static let sameWeekday = sameWeekday(atAge: 0)

    /// Days of the weekday that was some days ago, 0 to 6.
    static func sameWeekday(atAge age: Int) -> UInt64 {
        (0..<8).reduce(0) { days, week in days | 1 << UInt64(week * 7 + age) }
    }

    /// Weekdays, or days of the weekend, as the weekday is that they are counted back from.
    static func sameClass(as weekday: Int) -> UInt64 { classes[weekday] }

    private static let classes: [UInt64] = (0..<7).map { weekday in
        var days: UInt64 = 0
        for age in 0..<Habits.days where ((weekday - age % 7 + 7) % 7 > 4) == (weekday > 4) { days |= 1 << UInt64(age) }
        return days
    }
}
