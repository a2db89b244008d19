/// The times at which a user of an app views its content, learned from donations.
///
/// For each supported combination there is a bit for each half hour of the last 56 days: whether it was viewed then.
/// Several views within a half hour count as one, and the order of donations does not matter. Views lose weight with
/// their age only when a probability is asked for (``DayWeights``).
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
            let weight = slots[start..<end].reduce(0) { $0 + DayWeights.sum($1.days) }
            if weight < weakest?.weight ?? .infinity { weakest = (combination.key, weight) }
            start = end
        }
        guard let weakest else { return }
        let (position, first) = place(of: weakest.key)
        slots.removeSubrange(first..<first + combinations[position].count)
        combinations.remove(at: position)
    }
}
