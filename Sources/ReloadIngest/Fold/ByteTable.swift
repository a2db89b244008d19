/// A hash table that numbers keys of bytes and a tag from 0 on. The keys are in one arena, so that look-ups do not allocate,
/// and are compared bytewise, as PostgreSQL and Kafka do.
struct ByteTable: Sendable {
    private struct Entry: BitwiseCopyable {
        var hash: UInt64
        var tag: UInt64
        var start: Int
        var count: Int
    }

    private var entries: [Entry] = []
    private var arena: [UInt8] = []
    /// Numbers of entries or -1; their count is a power of two, at least twice that of the entries.
    private var slots: [Int32] = []
    private let seed: UInt64

    /// Secret, so that nobody can choose colliding keys.
    private static let processSeed = UInt64.random(in: 1 ... .max)

    init() {
        seed = Self.processSeed
    }

    var count: Int { entries.count }
    var isEmpty: Bool { entries.isEmpty }

    func key(_ number: Int) -> ArraySlice<UInt8> {
        let entry = entries[number]
        return arena[entry.start..<(entry.start + entry.count)]
    }

    /// The key's number. A new key gets the next number.
    ///
    /// - Parameters:
    ///   - bytes: the bytes that hold the key at `range`.
    ///   - tag: part of the key.
    mutating func number(of range: Range<Int>, in bytes: RawSpan, tag: UInt64) -> Int {
        let hash = hash(bytes, range, tag)
        if entries.count &* 2 >= slots.count { grow() }
        let mask = slots.count &- 1
        var slot = Int(truncatingIfNeeded: hash) & mask
        while slots[slot] >= 0 {
            let number = Int(slots[slot])
            let entry = entries[number]
            if entry.hash == hash, entry.tag == tag, entry.count == range.count,
                Self.areEqual(arena.span.bytes, entry.start, bytes, range.lowerBound, count: entry.count)
            {
                return number
            }
            slot = (slot &+ 1) & mask
        }
        let number = entries.count
        slots[slot] = Int32(truncatingIfNeeded: number)
        entries.append(Entry(hash: hash, tag: tag, start: arena.count, count: range.count))
        for index in range { arena.append(bytes.unsafeLoad(fromByteOffset: index, as: UInt8.self)) }
        return number
    }

    private mutating func grow() {
        slots = Array(repeating: -1, count: max(64, slots.count * 4))
        let mask = slots.count &- 1
        for (number, entry) in entries.enumerated() {
            var slot = Int(truncatingIfNeeded: entry.hash) & mask
            while slots[slot] >= 0 { slot = (slot &+ 1) & mask }
            slots[slot] = Int32(truncatingIfNeeded: number)
        }
    }

    // MARK: Bytes, eight at a time

    private func hash(_ bytes: RawSpan, _ range: Range<Int>, _ tag: UInt64) -> UInt64 {
        var hash = Self.mixed(seed ^ tag, 0xA076_1D64_78BD_642F ^ UInt64(range.count))
        var index = range.lowerBound
        while index &+ 8 <= range.upperBound {
            hash = Self.mixed(hash ^ Self.word(bytes, index), 0xE703_7ED1_A0B4_28DB)
            index &+= 8
        }
        if index < range.upperBound {
            hash = Self.mixed(hash ^ Self.tail(bytes, index, range.upperBound), 0x8EBC_6AF0_9C88_C6E3)
        }
        return hash
    }

    @inline(__always)
    private static func mixed(_ left: UInt64, _ right: UInt64) -> UInt64 {
        let (high, low) = left.multipliedFullWidth(by: right)
        return high ^ low
    }

    private static func areEqual(_ left: RawSpan, _ leftStart: Int, _ right: RawSpan, _ rightStart: Int, count: Int)
        -> Bool
    {
        var index = 0
        while index &+ 8 <= count {
            guard word(left, leftStart &+ index) == word(right, rightStart &+ index) else { return false }
            index &+= 8
        }
        guard index < count else { return true }
        return tail(left, leftStart &+ index, leftStart &+ count)
            == tail(right, rightStart &+ index, rightStart &+ count)
    }

    @inline(__always)
    private static func word(_ bytes: RawSpan, _ index: Int) -> UInt64 {
        // Any eight bytes are a UInt64, and the load is checked against the bounds.
        bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self)
    }

    /// Fewer than eight bytes, as a word.
    @inline(__always)
    private static func tail(_ bytes: RawSpan, _ index: Int, _ end: Int) -> UInt64 {
        if index &+ 8 <= bytes.byteCount {
            return UInt64(littleEndian: word(bytes, index)) & ((1 << UInt64((end &- index) &* 8)) &- 1)
        }
        var result: UInt64 = 0
        for offset in 0..<(end &- index) {
            result |= UInt64(bytes.unsafeLoad(fromByteOffset: index &+ offset, as: UInt8.self)) << UInt64(offset &* 8)
        }
        return result
    }
}
