internal import Foundation

/// Weights of the last 56 days, given as bits: bit n is n days ago.
enum DayWeights {
    /// Days in which the weight halves.
    static let halfLife = 27.0
    /// Weight of a day: days are alike, and tell less than independent ones.
    static let ofDay = 0.33

    /// Sum of the weights of some days.
    static func sum(_ days: UInt64) -> Float {
        guard days != 0 else { return 0 }
        return sums.withUnsafeBufferPointer { sums in
            var sum: Float = 0
            for byte in 0..<7 { sum += sums[byte << 8 | Int(truncatingIfNeeded: days >> UInt64(8 * byte)) & 0xFF] }
            return sum
        }
    }

    /// Sums by the position of a byte and its value.
    private static let sums: [Float] = (0..<7 * 256).map { entry in
        let (position, value) = (entry >> 8, entry & 0xFF)
        var sum = 0.0
        for bit in 0..<8 where value >> bit & 1 == 1 { sum += weight(ofAge: Double(position * 8 + bit)) }
        return Float(sum)
    }

    private static func weight(ofAge age: Double) -> Double {
        ofDay * exp2(-age / halfLife)
    }

    /// Days from 1 to `count` ago.
    static func last(_ count: Int) -> UInt64 {
        guard count > 0 else { return 0 }
        let bits: UInt64 = (1 << UInt64(min(count, Habits.days - 1))) - 1
        return bits << 1
    }

    /// Days of the same weekday.
    static let sameWeekday: UInt64 = (0..<8).reduce(0) { days, week in days | 1 << UInt64(week * 7) }

    /// Weekdays, or days of the weekend, as the day is that they are counted back from.
    static func sameClass(as halfHour: HalfHour) -> UInt64 { classes[halfHour.weekday] }

    private static let classes: [UInt64] = (0..<7).map { weekday in
        var days: UInt64 = 0
        for age in 0..<Habits.days where ((weekday - age % 7 + 7) % 7 > 4) == (weekday > 4) { days |= 1 << UInt64(age) }
        return days
    }
}
