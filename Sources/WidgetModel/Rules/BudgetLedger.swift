// SPDX-License-Identifier: Apache-2.0

/// Tokens of its daily budget that a timeline has spent in the last 24 hours (DESIGN.md, “Rules of reloads”).
///
/// A budget of N reloads a day is a bucket of N tokens, which starts full and never gives more than N in **any** 24
/// hours, not only between two midnights. Two fifths of the tokens are *burst tokens*, which may be spent at any time
/// and come back 24 hours later. The others are *paced tokens*: the next one is available 24 h / (N - 2 N / 5) after
/// the last one was spent. So a burst is served at once, and after a burst an often-viewed widget, with 40 reloads a
/// day or more, waits for an hour at most.
///
/// (An ordinary token bucket, which refills continuously up to N, would allow 2 N within 24 hours after a quiet day.)
package struct BudgetLedger: Hashable, Sendable {
    /// Spent burst tokens are counted by slots of ten minutes, and come back 24 hours after the end of their slot. The
    /// delay of up to ten minutes costs less than one reload a day for budgets up to 360.
    private static let slotMicroseconds: Int64 = 600_000_000
    /// Number of slots after which a spent token is back.
    private static let slots: Int64 = 145
    /// Most tokens within a slot; more than any budget has.
    private static let mostInSlot = 1 << 28 - 1

    /// Burst tokens spent within one slot.
    private struct Spending: Hashable {
        /// In slots since the epoch.
        var slot: Int64
        /// Positive.
        var count: Int
    }

    /// Time at which the last paced token was spent; nil before the first reload.
    package private(set) var lastPaced: Timestamp?
    /// Latest slots first, without those whose tokens had come back at the last reload.
    private var spendings: [Spending] = []

    /// A full bucket.
    package init() {}

    // MARK: Shares

    /// Number of burst tokens.
    package static func atWill(of budget: Int) -> Int {
        let (fifths, rest) = max(0, budget).quotientAndRemainder(dividingBy: 5)
        return 2 * fifths + 2 * rest / 5
    }

    /// Interval between two paced tokens, rounded up to whole microseconds: a microsecond less would allow one reload
    /// too many within 24 hours.
    package static func pace(of budget: Int) -> Duration {
        let shares = Int64(max(1, budget - atWill(of: budget)))
        return Duration(wholeMicroseconds: (86_400_000_000 + shares - 1) / shares)
    }

    // MARK: Reading

    /// Burst tokens that have not come back.
    package func spent(at time: Timestamp) -> Int {
        spentBySlot(at: time).reduce(0) { $0 + $1.count }
    }

    /// Tokens that could be spent at a time, including a paced one. The budget is at least 1.
    package func tokens(of budget: Int, at time: Timestamp) -> Int {
        max(0, Self.atWill(of: budget) - spent(at: time)) + (isPaced(budget, at: time) ? 1 : 0)
    }

    /// Whether a paced token is available at a time.
    package func isPaced(_ budget: Int, at time: Timestamp) -> Bool {
        guard let lastPaced else { return true }
        return time - lastPaced >= Self.pace(of: budget)
    }

    /// The earliest time from `time` on at which there is a token.
    package func available(of budget: Int, from time: Timestamp) -> Timestamp {
        guard let lastPaced, !isPaced(budget, at: time) else { return time }
        let paced = lastPaced + Self.pace(of: budget)
        let atWill = Self.atWill(of: budget)
        guard atWill > 0 else { return paced }
        let bySlot = spentBySlot(at: time)
        var left = bySlot.reduce(0) { $0 + $1.count }
        guard left >= atWill else { return time }
        for (slot, count) in bySlot {
            left -= count
            if left < atWill { return min(paced, max(time, Self.returns(slot))) }
        }
        return paced
    }

    /// Time of the next token, if nothing is spent until then; nil for a full bucket.
    package func nextToken(of budget: Int, after time: Timestamp) -> Timestamp? {
        var next = isPaced(budget, at: time) ? nil : lastPaced.map { $0 + Self.pace(of: budget) }
        let bySlot = spentBySlot(at: time)
        var left = bySlot.reduce(0) { $0 + $1.count }
        for (slot, count) in bySlot {
            left -= count
            // A budget that has become smaller may owe tokens first.
            guard left < Self.atWill(of: budget) else { continue }
            next = min(next ?? .distantFuture, Self.returns(slot))
            break
        }
        return next
    }

    // MARK: Spending

    /// Spends a token at a time and returns the rule that covered it.
    ///
    /// It does not check for one, since a fetch that was allowed is paid for even if the budget has changed since.
    @discardableResult
    package mutating func spend(of budget: Int, at time: Timestamp) -> ReloadRule {
        let rule: ReloadRule = isPaced(budget, at: time) ? .paced : .token
        let slot = currentSlot(at: time)
        spendings.removeAll { slot - $0.slot >= Self.slots }
        if rule == .paced {
            lastPaced = time
        } else if spendings.first?.slot == slot {
            spendings[0].count = min(spendings[0].count + 1, Self.mostInSlot)
        } else {
            spendings.insert(Spending(slot: slot, count: 1), at: 0)
        }
        return rule
    }

    // MARK: Slots

    private static func slot(of time: Timestamp) -> Int64 {
        let (quotient, remainder) = time.microseconds.quotientAndRemainder(dividingBy: slotMicroseconds)
        return remainder < 0 ? quotient - 1 : quotient
    }

    /// Time at which the tokens spent in a slot are back.
    private static func returns(_ slot: Int64) -> Timestamp {
        let (product, overflow) = (slot + slots).multipliedReportingOverflow(by: slotMicroseconds)
        return overflow ? .distantFuture : Timestamp(microseconds: product)
    }

    /// The slot of a time. After a step back of the clock, the latest known slot, so that tokens come back late rather
    /// than early.
    private func currentSlot(at time: Timestamp) -> Int64 {
        max(Self.slot(of: max(time, lastPaced ?? time)), spendings.first?.slot ?? .min)
    }

    /// The slots whose tokens have not come back, oldest first.
    private func spentBySlot(at time: Timestamp) -> [(slot: Int64, count: Int)] {
        guard !spendings.isEmpty else { return [] }
        let now = currentSlot(at: time)
        return spendings.reversed().compactMap { now - $0.slot < Self.slots ? ($0.slot, $0.count) : nil }
    }
}

// MARK: - Stored form

extension BudgetLedger {
    private static let form: UInt8 = 1

    /// Stored form; nil for a full bucket.
    ///
    /// One byte for the version; the time of the last paced token in microseconds (8 bytes, big-endian); and, if burst
    /// tokens were spent, the number of slots from that time to the ledger's latest slot (1 byte). For each slot,
    /// latest first, follow its distance to the latest slot (1 byte) and its count as a varint (7 bits a byte, lowest
    /// first, high bit set if more follow).
    package var stored: [UInt8]? {
        guard let lastPaced else { return nil }
        var bytes: [UInt8] = []
        bytes.reserveCapacity(10 + 2 * spendings.count)
        let time = UInt64(bitPattern: lastPaced.microseconds)
        bytes.append(addingCapacity: 9) { head in
            head.append(Self.form)
            for shift in stride(from: 56, through: 0, by: -8) { head.append(UInt8(truncatingIfNeeded: time >> shift)) }
        }
        guard !spendings.isEmpty else { return bytes }
        let latest = currentSlot(at: lastPaced)
        // Burst tokens are spent only until the next paced one is available, after a day at most.
        bytes.append(UInt8(clamping: latest - Self.slot(of: lastPaced)))
        for spending in spendings {
            bytes.append(UInt8(clamping: latest - spending.slot))
            var count = spending.count
            while count > 0x7F {
                bytes.append(UInt8(truncatingIfNeeded: count) | 0x80)
                count >>= 7
            }
            bytes.append(UInt8(truncatingIfNeeded: count))
        }
        return bytes
    }

    /// Reads the stored form, or returns nil for invalid bytes. Without bytes, the bucket is full.
    package init?(stored bytes: [UInt8]?) {
        guard let bytes else {
            self.init()
            return
        }
        self.init(stored: bytes.span)
    }

    /// Reads the stored form, or returns nil for invalid bytes.
    package init?(stored bytes: Span<UInt8>) {
        guard bytes.count >= 9, bytes[0] == Self.form else { return nil }
        var microseconds: UInt64 = 0
        for index in 1..<9 { microseconds = microseconds << 8 | UInt64(bytes[index]) }
        let last = Timestamp(microseconds: Int64(bitPattern: microseconds))
        guard last > .distantPast, last < .distantFuture else { return nil }
        lastPaced = last
        guard bytes.count > 9 else { return }
        let later = bytes[9]
        // If nothing was spent after the last paced token, its slot is the latest.
        guard Int64(later) < Self.slots, bytes.count > 10, later == 0 || bytes[10] == 0 else { return nil }
        let latest = Self.slot(of: last) + Int64(later)
        var youngest: Int64 = 0
        var index = 10
        while index < bytes.count {
            let age = Int64(bytes[index])
            index += 1
            guard age >= youngest, age < Self.slots, let count = Self.takeCount(bytes, &index) else { return nil }
            youngest = age + 1
            spendings.append(Spending(slot: latest - age, count: count))
        }
    }

    /// Takes a varint in its shortest form; nil for anything else.
    private static func takeCount(_ bytes: Span<UInt8>, _ index: inout Int) -> Int? {
        var count = 0
        for shift in stride(from: 0, to: 28, by: 7) {
            guard index < bytes.count else { return nil }
            let byte = bytes[index]
            index += 1
            count |= Int(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return byte > 0 ? count : nil }
        }
        return nil
    }
}
