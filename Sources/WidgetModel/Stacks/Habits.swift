// SPDX-License-Identifier: Apache-2.0

internal import Foundation
import JSON

/// The times at which a user of an app views its content, learned from donations.
///
/// For each supported combination there is a bit for each half hour of the last 56 days: whether it was viewed then.
/// Several views within a half hour count as one, and the order of donations does not matter. Views lose weight with
/// their age only when a probability is asked for.
package struct Habits: Hashable, Sendable {
    /// Days that are remembered.
    static let days = 56
    /// Longest encoded form. A model that grows over it forgets its weakest combination.
    package static let maximumBytes = 1_200

    struct Combination: Hashable, Sendable {
        let key: HabitKey
        /// Number of its elements in ``Habits/slots``.
        var count: Int
    }

    /// Views of a combination in a half hour of the day.
    struct Slot: Hashable, Sendable {
        private static let dayBits: UInt64 = (1 << Habits.days) - 1

        /// The half hour in the upper eight bits; bit n below: n days before ``Habits/lastDay``.
        private var bits: UInt64

        init(index: Int, days: UInt64) {
            bits = UInt64(index) << Habits.days | days & Self.dayBits
        }

        var index: Int { Int(bits >> Habits.days) }

        var days: UInt64 {
            get { bits & Self.dayBits }
            set { bits = bits & ~Self.dayBits | newValue & Self.dayBits }
        }
    }

    /// First day with a view, and the last one; local days since 1 January 1970.
    var firstDay = 0
    var lastDay = 0
    /// In ascending order of their keys.
    var combinations: [Combination] = []
    /// For each combination its half hours that have views, in ascending order.
    var slots: [Slot] = []

    package init() {}

    package var isEmpty: Bool { combinations.isEmpty }

    /// Learns a view, given the keys of the widget's kind and configuration
    /// (``HabitKey/keys(kind:configuration:intent:)``).
    ///
    /// - Returns: whether the model changed.
    @discardableResult
    package mutating func learn(_ keys: [HabitKey], at halfHour: HalfHour) -> Bool {
        guard !keys.isEmpty else { return false }
        if isEmpty {
            firstDay = halfHour.day
            lastDay = halfHour.day
        }
        let before = (firstDay, lastDay)
        advance(to: halfHour.day)
        firstDay = max(min(firstDay, halfHour.day), lastDay - Self.days)
        var changed = before != (firstDay, lastDay)
        guard lastDay - halfHour.day < Self.days else { return changed }
        let day: UInt64 = 1 << UInt64(lastDay - halfHour.day)
        for key in keys where add(day, to: halfHour.index, of: key) { changed = true }
        while encodedCount > Self.maximumBytes { dropWeakest() }
        return changed
    }

    /// The combination's half hours; empty if nothing is known about it.
    func slots(of key: HabitKey) -> ArraySlice<Slot> {
        let (position, start) = place(of: key)
        guard position < combinations.count, combinations[position].key == key else { return [] }
        return slots[start..<start + combinations[position].count]
    }

    /// Number of days on which a combination was viewed in a half hour of the day.
    func days(of key: HabitKey, at halfHour: HalfHour) -> Int {
        slots(of: key).first { $0.index == halfHour.index }?.days.nonzeroBitCount ?? 0
    }

    /// Weight of all views of a combination; 0 if nothing is known about it.
    func weight(of key: HabitKey) -> Double { slots(of: key).reduce(0) { $0 + Habits.weight(of: $1.days) } }

    /// Whether a combination was viewed on several days in the same half hour. It is not probable before.
    func recurs(_ key: HabitKey) -> Bool { slots(of: key).contains { $0.days.nonzeroBitCount > 1 } }

    /// Position in ``combinations``, and in ``slots``, at which a combination is or would be.
    private func place(of key: HabitKey) -> (position: Int, start: Int) {
        var start = 0
        for (position, combination) in combinations.enumerated() {
            if combination.key >= key { return (position, start) }
            start += combination.count
        }
        return (combinations.count, start)
    }

    private mutating func add(_ day: UInt64, to index: Int, of key: HabitKey) -> Bool {
        let (position, start) = place(of: key)
        if position == combinations.count || combinations[position].key != key {
            combinations.insert(Combination(key: key, count: 0), at: position)
        }
        let end = start + combinations[position].count
        let slot = slots[start..<end].firstIndex { $0.index >= index } ?? end
        if slot < end, slots[slot].index == index {
            guard slots[slot].days & day == 0 else { return false }
            slots[slot].days |= day
        } else {
            slots.insert(Slot(index: index, days: day), at: slot)
            combinations[position].count += 1
        }
        return true
    }

    /// Moves ``lastDay``, and forgets the days that are then too old.
    private mutating func advance(to day: Int) {
        let passed = day - lastDay
        guard passed > 0 else { return }
        lastDay = day
        for index in slots.indices { slots[index].days = passed < Self.days ? slots[index].days << UInt64(passed) : 0 }
        guard slots.contains(where: { $0.days == 0 }) else { return }
        var start = 0
        for position in combinations.indices {
            let end = start + combinations[position].count
            combinations[position].count = slots[start..<end].count { $0.days != 0 }
            start = end
        }
        slots.removeAll { $0.days == 0 }
        combinations.removeAll { $0.count == 0 }
    }

    private mutating func dropWeakest() {
        var weakest: (key: HabitKey, weight: Double)?
        var start = 0
        for combination in combinations {
            let end = start + combination.count
            let weight = slots[start..<end].reduce(0) { $0 + Habits.weight(of: $1.days) }
            if weight < weakest?.weight ?? .infinity { weakest = (combination.key, weight) }
            start = end
        }
        guard let weakest else { return }
        let (position, first) = place(of: weakest.key)
        slots.removeSubrange(first..<first + combinations[position].count)
        combinations.remove(at: position)
    }
}

// MARK: - Days

/// Days, given as bits of the last 56: bit n is n days ago.
extension Habits {
    /// Days in which the weight halves.
    static let halfLife = 33.0

    /// Sum of the weights of some days.
    static func weight(of days: UInt64) -> Double {
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
    static func lastDays(_ count: Int) -> UInt64 {
        guard count > 0 else { return 0 }
        let bits: UInt64 = (1 << UInt64(min(count, Self.days - 1))) - 1
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

// MARK: - Predictions

extension Habits {
    /// Profiles of combinations on a local day, for the predictions of its half hours.
    package func profiles(of keys: [HabitKey], on day: Int) -> [HabitProfile] {
        let calendar = HabitCalendar(of: self, on: day)
        return keys.map { HabitProfile(slots(of: $0), calendar) }
    }

    /// Predicts views of the most probable of some combinations, those of a widget for example.
    func prediction(ofAny profiles: [HabitProfile], at halfHour: HalfHour, from time: Timestamp) -> WidgetPrediction {
        var best = (probability: 0.0, days: profiles.first?.days(at: halfHour.index) ?? 0)
        for profile in profiles {
            let probability = profile.probability(at: halfHour.index)
            if probability > best.probability { best = (probability, profile.days(at: halfHour.index)) }
        }
        let evidence = HabitCalendar(of: self, on: halfHour.day).evidence(best.days, at: halfHour)
        return WidgetPrediction(
            from: time, probability: best.probability, viewed: evidence.viewed, days: evidence.days,
            dayName: evidence.name,
            halfHour: halfHour)
    }

    /// Predictions for a range of time, one for each half hour of the person's, of the most probable of some
    /// combinations.
    package func predictions(
        ofAny keys: [HabitKey], in range: Range<Timestamp>, timeZone: String
    ) -> [WidgetPrediction] {
        var predictions: [WidgetPrediction] = []
        var time = range.lowerBound
        var last: HalfHour?
        var profiles: [HabitProfile] = []
        let zone = TimeZone(identifier: timeZone)
        while time < range.upperBound {
            let halfHour = HalfHour(at: time, in: zone)
            if halfHour != last {
                if halfHour.day != last?.day { profiles = self.profiles(of: keys, on: halfHour.day) }
                predictions.append(prediction(ofAny: profiles, at: halfHour, from: time))
            }
            last = halfHour
            time = HalfHour.nextQuarter(after: time)
        }
        return predictions
    }
}

/// The known days before a local day, and their groups.
struct HabitCalendar {
    /// Number of days from ``Habits/lastDay``; negative if it is later.
    private let passed: Int
    private let weekday: Int
    /// Counted days, as bits by their age.
    private let known: UInt64

    init(of habits: Habits, on day: Int) {
        passed = max(-Habits.days, min(Habits.days, day - habits.lastDay))
        known = habits.isEmpty ? 0 : Habits.lastDays(day - habits.firstDay)
        weekday = HalfHour(day: day, index: 0).weekday
    }

    /// Days with views of a slot, by their age.
    func days(_ slot: Habits.Slot) -> UInt64 {
        (passed >= 0 ? slot.days << UInt64(passed) : slot.days >> UInt64(-passed)) & known
    }

    /// Divisions of the known days into groups with a rate each: none, by class, by weekday. The first group of each is
    /// the day's own.
    var divisions: [[UInt64]] {
        let own = Habits.sameClass(as: weekday)
        return [
            [known], [known & own, known & ~own],
            (0..<7).map { age in known & Habits.sameWeekday(atAge: age) },
        ]
    }

    /// Days of the same name with a view; of the same weekday if they tell more than their class.
    func evidence(_ viewed: UInt64, at halfHour: HalfHour) -> (viewed: Int, days: Int, name: String) {
        func count(_ days: UInt64, _ most: Int) -> (viewed: Int, days: Int) {
            var rest = known & days
            while rest.nonzeroBitCount > most { rest &= ~(1 << UInt64(63 - rest.leadingZeroBitCount)) }
            return ((viewed & rest).nonzeroBitCount, rest.nonzeroBitCount)
        }
        let sameClass = count(Habits.sameClass(as: weekday), 12)
        let sameWeekday = count(Habits.sameWeekday, 6)
        // Twice the rate of the class.
        if sameWeekday.viewed > 1, sameWeekday.viewed * sameClass.days >= 2 * sameClass.viewed * sameWeekday.days {
            return (sameWeekday.viewed, sameWeekday.days, Self.weekdays[weekday])
        }
        return (sameClass.viewed, sameClass.days, halfHour.isWeekend ? "weekend days" : "weekdays")
    }

    private static let weekdays = [
        "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays",
    ]
}

/// Prediction of views of a widget, from a time until the time of the next prediction, with its evidence.
///
/// It is put into words only where it is the reason for a rotation or suggestion: few of a day's predictions are.
package struct WidgetPrediction: Hashable, Sendable {
    package let from: Timestamp
    /// Probability that the combination is viewed at least once in the half hour.
    package let probability: Double
    /// Number of days with a view in this half hour, out of the days that it was counted on.
    package let viewed: Int
    package let days: Int
    /// Name of these days: "weekdays", "weekend days" or "Fridays".
    package let dayName: String
    package let halfHour: HalfHour

    /// The evidence, such as "viewed on 9 of the last 12 weekdays between 11:45 and 12:15".
    package var explanation: String {
        if days == 0 { return "no earlier \(dayName) known" }
        let days = "of the last \(days) \(dayName) \(halfHour.words)"
        return viewed == 0 ? "viewed on none \(days)" : "viewed on \(viewed) \(days)"
    }
}

// MARK: - Identities and half hours

/// A kind with the parameter values of one supported combination, as a stable hash.
///
/// Keys are stored, so the hashed form never changes under the same tag.
package struct HabitKey: Hashable, Comparable, Sendable {
    package let rawValue: UInt64

    package init(rawValue: UInt64) {
        self.rawValue = rawValue
    }

    package static func < (left: HabitKey, right: HabitKey) -> Bool { left.rawValue < right.rawValue }

    /// Keys of the supported combinations that a donation counts for, and that a widget is matched by
    /// (``HabitContent/contents(kind:configuration:intent:)``).
    package static func keys(
        kind: String, configuration: WidgetConfiguration, intent: IntentDefinition?
    ) -> [HabitKey] {
        HabitContent.contents(kind: kind, configuration: configuration, intent: intent).map(\.key)
    }

    init(kind: String, reduced: WidgetConfiguration) {
        // The kind ends with a byte that UTF-8 does not use, so that the form is unambiguous.
        let form = Array("freshet.habit.v1\(kind)".utf8) + [0xFF] + Array(reduced.canonical.utf8)
        rawValue = ContentHash(of: form).high
    }
}

/// A half hour of a local day around a full or half hour: number 24 is from 11:45 to 12:15.
///
/// Habits are usually at a full or half hour, a few minutes early or late; this way both sides count together.
package struct HalfHour: Hashable, Sendable {
    package static let perDay = 48

    /// Local days since 1 January 1970. The half hour around midnight belongs to the day that begins.
    package let day: Int
    /// From 0, around midnight, to 47.
    package let index: Int

    package init(day: Int, index: Int) {
        self.day = day
        self.index = index
    }

    /// - Parameter timeZone: an IANA name; an unknown one is taken for UTC.
    package init(at time: Timestamp, timeZone: String) {
        self.init(at: time, in: TimeZone(identifier: timeZone))
    }

    /// - Parameter zone: nil is UTC.
    init(at time: Timestamp, in zone: TimeZone?) {
        let seconds = time.microseconds / 1_000_000
        let offset = zone?.secondsFromGMT(for: Date(timeIntervalSince1970: Double(seconds))) ?? 0
        let local = Int(seconds) + offset + 900
        let second = ((local % 86_400) + 86_400) % 86_400
        self.init(day: (local - second) / 86_400, index: second / 1_800)
    }

    /// Next full quarter of an hour. Half hours of every time zone begin at one.
    static func nextQuarter(after time: Timestamp) -> Timestamp {
        let quarter: Int64 = 900 * 1_000_000
        return Timestamp(microseconds: (time.microseconds / quarter + 1) * quarter)
    }

    /// From 0, Monday, to 6.
    package var weekday: Int { (((day + 3) % 7) + 7) % 7 }

    var isWeekend: Bool { weekday > 4 }

    /// The half hour in words, such as "between 11:45 and 12:15".
    var words: String {
        func clock(_ minute: Int) -> String {
            let (hours, minutes) = ((minute + 1_440) % 1_440).quotientAndRemainder(dividingBy: 60)
            return "\(hours < 10 ? "0" : "")\(hours):\(minutes < 10 ? "0" : "")\(minutes)"
        }
        return "between \(clock(index * 30 - 15)) and \(clock(index * 30 + 15))"
    }
}

// MARK: - Stored form

/// Stored form: a version byte, the first and the last day, the number of combinations, and each combination with its
/// half hours. All numbers are big-endian.
///
/// A half hour is a byte with its index and, in the upper two bits, the number of days with views. Up to three days
/// follow as a byte each, more days as seven bytes of bits; the number is then 0.
extension Habits {
    private static let version: UInt8 = 2
    private static let headBytes = 10
    private static let combinationBytes = 9

    package var encoded: [UInt8] {
        var bytes: [UInt8] = []
        bytes.reserveCapacity(encodedCount)
        bytes.append(Self.version)
        bytes.append(UInt64(truncatingIfNeeded: firstDay), bytes: 4)
        bytes.append(UInt64(truncatingIfNeeded: lastDay), bytes: 4)
        bytes.append(UInt8(combinations.count))
        var start = 0
        for combination in combinations {
            bytes.append(combination.key.rawValue, bytes: 8)
            bytes.append(UInt8(combination.count))
            for slot in slots[start..<start + combination.count] { slot.append(to: &bytes) }
            start += combination.count
        }
        return bytes
    }

    var encodedCount: Int {
        slots.reduce(Self.headBytes + combinations.count * Self.combinationBytes) { $0 + $1.encodedCount }
    }

    /// Reads the stored form; nil unless it is exactly as ``encoded`` writes it.
    package init?(encoded bytes: [UInt8]) {
        guard bytes.count <= Self.maximumBytes else { return nil }
        var rest = bytes[...]
        guard rest.popFirst() == Self.version,
            let first = Self.take(4, from: &rest), let last = Self.take(4, from: &rest), let count = rest.popFirst()
        else { return nil }
        firstDay = Int(Int32(truncatingIfNeeded: first))
        lastDay = Int(Int32(truncatingIfNeeded: last))
        guard (0...Self.days).contains(lastDay - firstDay) else { return nil }
        combinations.reserveCapacity(Int(count))
        slots.reserveCapacity(bytes.count / 4)
        for _ in 0..<count {
            guard let key = Self.take(8, from: &rest).map(HabitKey.init(rawValue:)),
                let own = rest.popFirst(), own > 0, combinations.last.map({ $0.key < key }) ?? true
            else { return nil }
            combinations.append(Combination(key: key, count: Int(own)))
            var next = 0
            for _ in 0..<own {
                guard let slot = Slot(from: &rest), slot.index >= next else { return nil }
                slots.append(slot)
                next = slot.index + 1
            }
        }
        guard rest.isEmpty else { return nil }
    }

    fileprivate static func take(_ count: Int, from rest: inout ArraySlice<UInt8>) -> UInt64? {
        guard rest.count >= count else { return nil }
        defer { rest.removeFirst(count) }
        return UInt64(bytes: rest.prefix(count))
    }
}

extension Habits.Slot {
    private static let mostSingleDays = 3

    fileprivate var encodedCount: Int {
        let count = days.nonzeroBitCount
        return 1 + (count <= Self.mostSingleDays ? count : Habits.days / 8)
    }

    fileprivate func append(to bytes: inout [UInt8]) {
        let count = days.nonzeroBitCount
        guard count <= Self.mostSingleDays else {
            bytes.append(UInt8(index))
            bytes.append(days, bytes: Habits.days / 8)
            return
        }
        bytes.append(UInt8(count << 6 | index))
        var rest = days
        while rest != 0 {
            bytes.append(UInt8(rest.trailingZeroBitCount))
            rest &= rest - 1
        }
    }

    fileprivate init?(from rest: inout ArraySlice<UInt8>) {
        guard let head = rest.popFirst(), head & 0x3F < HalfHour.perDay else { return nil }
        var days: UInt64 = 0
        if head >> 6 == 0 {
            guard let bits = Habits.take(Habits.days / 8, from: &rest), bits.nonzeroBitCount > Self.mostSingleDays
            else { return nil }
            days = bits
        } else {
            for _ in 0..<head >> 6 {
                guard let day = rest.popFirst(), day < Habits.days, days >> UInt64(day) == 0 else { return nil }
                days |= 1 << UInt64(day)
            }
        }
        self.init(index: Int(head & 0x3F), days: days)
    }
}
