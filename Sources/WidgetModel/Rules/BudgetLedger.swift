/// Tokens of its daily budget that a timeline has spent in the last 24 hours (design, section 6, rule 3).
///
/// A budget of N reloads a day is a bucket of N tokens, which starts full and never gives more than N in **any** 24
/// hours, not only between two midnights. Two fifths of the tokens may be spent at any time, one after the other: each
/// of these comes back 24 hours after it was spent. The others come evenly: one is there 24 h / (N - 2 N / 5) after the
/// last one of them. So a burst is served at once, and a widget whose burst is spent is never stale for long: an
/// often-viewed one, which has 40 reloads a day or more, waits for an hour at most.
///
/// (A bucket that refills while it is full of what a quiet day left over would allow 2 N within 24 hours.)
package struct BudgetLedger: Hashable, Sendable {
    /// Tokens spent at will are counted by the ten minutes in which they were spent, and come back when 24 hours have
    /// passed since the end of these. Ten minutes late is less than a reload a day of any budget up to 360.
    private static let slotMicroseconds: Int64 = 600_000_000
    /// Number of slots after which a spent token is back.
    private static let slots: Int64 = 145
    /// Most tokens within a slot; more than any budget has.
    private static let mostInSlot = 1 << 28 - 1

    /// Tokens spent at will within one slot.
    private struct Spending: Hashable {
        /// In slots since the epoch.
        var slot: Int64
        /// Positive.
        var count: Int
    }

    /// Time at which the last of the evenly coming tokens was spent; nil before the first reload.
    package private(set) var lastPaced: Timestamp?
    /// The latest first; only what was not back at the time of the last reload.
    private var spendings: [Spending] = []

    /// A full bucket.
    package init() {}

    // MARK: Shares

    /// Tokens that may be spent at any time.
    package static func atWill(of budget: Int) -> Int {
        let (fifths, rest) = max(0, budget).quotientAndRemainder(dividingBy: 5)
        return 2 * fifths + 2 * rest / 5
    }

    /// Interval between two evenly coming tokens. In whole microseconds, as all times are,
    /// rounded up: a microsecond less would be one reload too many within 24 hours.
    package static func pace(of budget: Int) -> Duration {
        let shares = Int64(max(1, budget - atWill(of: budget)))
        return .microseconds((86_400_000_000 + shares - 1) / shares)
    }

    // MARK: Reading

    /// Tokens of those that may be spent at any time that are not back yet.
    package func spent(at time: Timestamp) -> Int {
        spentBySlot(at: time).reduce(0) { $0 + $1.count }
    }

    /// Tokens that could be spent at a time, the evenly coming one included. The budget is at least 1.
    package func tokens(of budget: Int, at time: Timestamp) -> Int {
        max(0, Self.atWill(of: budget) - spent(at: time)) + (isPaced(budget, at: time) ? 1 : 0)
    }

    /// Whether a reload at a time needs no token of those that may be spent at will.
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

    /// Time at which there are more tokens than at `time`, if nothing is spent meanwhile; nil when all are there.
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
    /// It does not ask whether there is one: a fetch that was allowed is paid for, whatever has changed since.
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

    /// The slot of a time; to a clock that went back, the latest that there was: a token is back late rather than
    /// early.
    private func currentSlot(at time: Timestamp) -> Int64 {
        max(Self.slot(of: max(time, lastPaced ?? time)), spendings.first?.slot ?? .min)
    }

    /// The slots whose tokens are not back, the oldest first.
    private func spentBySlot(at time: Timestamp) -> [(slot: Int64, count: Int)] {
        guard !spendings.isEmpty else { return [] }
        let now = currentSlot(at: time)
        return spendings.reversed().compactMap { now - $0.slot < Self.slots ? ($0.slot, $0.count) : nil }
    }
}

// MARK: - Stored form

extension BudgetLedger {
    private static let form: UInt8 = 1

    /// As the hot row keeps it; nil for a full bucket.
    ///
    /// A byte for the form; eight bytes, big-endian, of the last evenly coming token's time in microseconds; and, if
    /// tokens were spent at will, a byte that tells how many slots the ledger's latest is after that of this time, and
    /// for each slot, the latest first, a byte that tells how many slots before the ledger's latest it is, and the
    /// count in groups of seven bits, the lowest first, a set high bit telling that more follow.
    package var stored: [UInt8]? {
        guard let lastPaced else { return nil }
        var bytes: [UInt8] = [Self.form]
        bytes.reserveCapacity(10 + 2 * spendings.count)
        let word = UInt64(bitPattern: lastPaced.microseconds)
        for shift in (0..<8).reversed() { bytes.append(UInt8(truncatingIfNeeded: word >> UInt64(8 * shift))) }
        guard !spendings.isEmpty else { return bytes }
        let latest = currentSlot(at: lastPaced)
        // Tokens are spent at will only while the next evenly coming one, after a day at most, is not there yet.
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

    /// Reads the stored form; nil when it is none. No form at all is a full bucket.
    package init?(stored bytes: [UInt8]?) {
        guard let bytes else { return }
        guard bytes.count >= 9, bytes[0] == Self.form else { return nil }
        let last = Timestamp(microseconds: Int64(bitPattern: bytes[1..<9].reduce(0) { $0 << 8 | UInt64($1) }))
        guard last > .distantPast, last < .distantFuture else { return nil }
        lastPaced = last
        var rest = bytes[9...]
        guard let later = rest.popFirst() else { return }
        // Where nothing was spent later than the last evenly coming token, that one's slot is the latest.
        guard Int64(later) < Self.slots, let first = rest.first, later == 0 || first == 0 else { return nil }
        let latest = Self.slot(of: last) + Int64(later)
        var youngest: Int64 = 0
        while let age = rest.popFirst() {
            guard Int64(age) >= youngest, Int64(age) < Self.slots, let count = Self.takeCount(&rest) else { return nil }
            youngest = Int64(age) + 1
            spendings.append(Spending(slot: latest - Int64(age), count: count))
        }
    }

    /// Takes a count in its shortest form; nil when there is none.
    private static func takeCount(_ bytes: inout ArraySlice<UInt8>) -> Int? {
        var count = 0
        for shift in stride(from: 0, to: 28, by: 7) {
            guard let byte = bytes.popFirst() else { return nil }
            count |= Int(byte & 0x7F) << shift
            if byte & 0x80 == 0 { return byte > 0 ? count : nil }
        }
        return nil
    }
}
