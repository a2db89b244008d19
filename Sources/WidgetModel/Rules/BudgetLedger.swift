/// What a timeline has spent of its daily budget in the last 24 hours (design, section 6, rule 3).
///
/// A budget of N reloads a day is a bucket of N tokens, which starts full and never gives more than N in **any** 24 hours,
/// not only between two midnights. Half of the tokens may be spent at any time, one after the other: each of these comes
/// back 24 hours after it was spent. The other half comes evenly, one each 24 h / (N - N/2) since the last budgeted
/// reload. So a burst is served at once, and a widget whose burst is spent is never stale for long.
///
/// (A bucket that refills while it is full of what a quiet day left over would allow 2 N within 24 hours.)
package struct BudgetLedger: Hashable, Sendable {
    /// Tokens are counted by the hour in which they were spent, and come back when 24 hours have passed since its end.
    private static let slotMicroseconds: Int64 = 3_600_000_000
    private static let slots = 25

    /// When the last budgeted reload was; nil before the first.
    package private(set) var lastSpent: Timestamp?
    /// The hour of `counts[0]`, in hours since the epoch.
    private var newest: Int64 = 0
    /// Tokens spent at will, by hour, the newest first; no zeros at the end.
    private var counts: [UInt16] = []

    /// A full bucket.
    package init() {}

    private static func slot(of time: Timestamp) -> Int64 {
        var (quotient, remainder) = time.microseconds.quotientAndRemainder(dividingBy: slotMicroseconds)
        if remainder < 0 {
            quotient -= 1
            remainder += slotMicroseconds
        }
        return quotient
    }

    /// When what was spent in an hour is back.
    private static func returns(_ slot: Int64) -> Timestamp {
        let (product, overflow) = (slot + Int64(slots)).multipliedReportingOverflow(by: slotMicroseconds)
        return overflow ? .distantFuture : Timestamp(microseconds: product)
    }

    /// Tokens that may be spent at any time.
    package static func atWill(of budget: Int) -> Int { max(0, budget) / 2 }

    /// How long after the last budgeted reload the next needs no token.
    package static func pace(of budget: Int) -> Duration {
        .seconds(86_400) / max(1, budget - atWill(of: budget))
    }

    /// Tokens of those that may be spent at any time that are not back yet.
    package func spent(at time: Timestamp) -> Int {
        spentBySlot(at: time).reduce(0) { $0 + $1.count }
    }

    /// The hours whose tokens are not back, the oldest first.
    private func spentBySlot(at time: Timestamp) -> [(slot: Int64, count: Int)] {
        guard !counts.isEmpty else { return [] }
        let now = max(Self.slot(of: time), newest)
        return counts.indices.reversed().compactMap { index in
            let slot = newest - Int64(index)
            guard counts[index] > 0, now - slot < Int64(Self.slots) else { return nil }
            return (slot, Int(counts[index]))
        }
    }

    /// Tokens that could be spent at a time, the evenly coming one included. The budget is at least 1.
    package func tokens(of budget: Int, at time: Timestamp) -> Int {
        max(0, Self.atWill(of: budget) - spent(at: time)) + (isPaced(budget, at: time) ? 1 : 0)
    }

    /// Whether a reload at a time needs no token of those that may be spent at will.
    package func isPaced(_ budget: Int, at time: Timestamp) -> Bool {
        guard let lastSpent else { return true }
        return time - lastSpent >= Self.pace(of: budget)
    }

    /// The earliest time from `time` on at which there is a token.
    package func available(of budget: Int, from time: Timestamp) -> Timestamp {
        guard let lastSpent, !isPaced(budget, at: time) else { return time }
        let paced = lastSpent + Self.pace(of: budget)
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

    /// When there are more tokens than at a time, if nothing is spent meanwhile; nil when all are there.
    package func nextToken(of budget: Int, after time: Timestamp) -> Timestamp? {
        var next = isPaced(budget, at: time) ? nil : lastSpent.map { $0 + Self.pace(of: budget) }
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

    /// Spends a token at a time; answers which rule covered it.
    ///
    /// It does not ask whether there is one: a fetch that was allowed is paid for, whatever has changed since.
    @discardableResult
    package mutating func spend(of budget: Int, at time: Timestamp) -> ReloadRule {
        let rule: ReloadRule = isPaced(budget, at: time) ? .paced : .token
        if rule == .token { count(at: time) }
        lastSpent = max(lastSpent ?? time, time)
        return rule
    }

    private mutating func count(at time: Timestamp) {
        let slot = Self.slot(of: time)
        if counts.isEmpty {
            newest = slot
            counts = [0]
        }
        // A clock that went back spends in the newest hour: a token is back late rather than early.
        if slot > newest {
            let gap = min(slot - newest, Int64(Self.slots))
            counts.insert(contentsOf: repeatElement(0, count: Int(gap)), at: 0)
            newest = slot
        }
        counts[0] = counts[0] == .max ? .max : counts[0] + 1
        if counts.count > Self.slots { counts.removeLast(counts.count - Self.slots) }
        while counts.last == 0 { counts.removeLast() }
    }
}

// MARK: - Stored form

extension BudgetLedger {
    /// As the hot row keeps it; nil for a full bucket.
    ///
    /// A byte that is the width of a count (1 or 2), eight bytes of the last time in microseconds, and, if tokens are
    /// out, four bytes of the newest hour and the counts from there back; all big-endian.
    package var stored: [UInt8]? {
        guard let lastSpent else { return nil }
        let width = counts.contains { $0 > UInt16(UInt8.max) } ? 2 : 1
        var bytes: [UInt8] = [UInt8(width)]
        Self.append(UInt64(bitPattern: lastSpent.microseconds), bytes: 8, to: &bytes)
        guard !counts.isEmpty else { return bytes }
        Self.append(UInt64(UInt32(clamping: newest)), bytes: 4, to: &bytes)
        for count in counts { Self.append(UInt64(count), bytes: width, to: &bytes) }
        return bytes
    }

    /// Reads the stored form; nil when it is none. No form at all is a full bucket.
    package init?(stored bytes: [UInt8]?) {
        guard let bytes else { return }
        guard bytes.count >= 9, bytes[0] == 1 || bytes[0] == 2 else { return nil }
        let width = Int(bytes[0])
        lastSpent = Timestamp(microseconds: Int64(bitPattern: Self.number(bytes[1..<9])))
        guard bytes.count > 9 else { return }
        let counted = bytes.count - 13
        guard counted > 0, counted % width == 0, counted / width <= Self.slots else { return nil }
        newest = Int64(Self.number(bytes[9..<13]))
        counts = stride(from: 13, to: bytes.count, by: width).map { UInt16(Self.number(bytes[$0..<($0 + width)])) }
    }

    private static func append(_ value: UInt64, bytes count: Int, to bytes: inout [UInt8]) {
        for shift in (0..<count).reversed() { bytes.append(UInt8(truncatingIfNeeded: value >> UInt64(shift * 8))) }
    }

    private static func number(_ bytes: ArraySlice<UInt8>) -> UInt64 {
        bytes.reduce(0) { $0 << 8 | UInt64($1) }
    }
}
