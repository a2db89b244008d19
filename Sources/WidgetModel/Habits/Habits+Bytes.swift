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
