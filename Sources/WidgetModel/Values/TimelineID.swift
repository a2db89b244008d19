// SPDX-License-Identifier: Apache-2.0

internal import Crypto

/// Identity of a timeline: the first 128 bits of the SHA-256 of its canonical form, written as a UUID.
///
/// Ordered by bytes, as PostgreSQL orders `uuid`.
package struct TimelineID: Hashable, Comparable, Sendable, CustomStringConvertible {
    /// The first eight bytes, big-endian.
    package let high: UInt64
    /// The last eight bytes, big-endian.
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    /// The first 128 bits of the SHA-256 of the bytes.
    init(hashOf bytes: [UInt8]) {
        let hash = ContentHash(of: bytes)
        self.init(high: hash.high, low: hash.low)
    }

    /// Reads the UUID form (`8-4-4-4-12` hexadecimal digits of either case).
    package init?(_ text: String) {
        self.init(bytes: Array(text.utf8)[...])
    }

    /// Reads the UUID form from bytes.
    package init?(bytes: ArraySlice<UInt8>) {
        guard bytes.count == 36 else { return nil }
        let bytes = bytes.span
        let hyphen = UInt8(ascii: "-")
        guard bytes[8] == hyphen, bytes[13] == hyphen, bytes[18] == hyphen, bytes[23] == hyphen else { return nil }
        func half(_ index: Int) -> UInt64 {
            UInt64(
                UInt32(
                    littleEndian: unsafe bytes.bytes.unsafeLoadUnaligned(fromByteOffset: index, as: UInt32.self)))
        }
        guard let first = UInt32(hexadecimal: half(0) | half(4) << 32),
            let second = UInt32(hexadecimal: half(9) | half(14) << 32),
            let third = UInt32(hexadecimal: half(19) | half(24) << 32),
            let fourth = UInt32(hexadecimal: half(28) | half(32) << 32)
        else { return nil }
        self.init(high: UInt64(first) << 32 | UInt64(second), low: UInt64(third) << 32 | UInt64(fourth))
    }

    /// Lower-case UUID form.
    package var description: String { String(uuid: high, low) }

    /// Length of the UUID form.
    package static let textLength = 36

    /// Writes the UUID form.
    package func write(to bytes: inout OutputSpan<UInt8>) {
        let (first, second) = (high.hexadecimalDigits, low.hexadecimalDigits)
        bytes.append(first.0, 0..<8)
        bytes.append(UInt8(ascii: "-"))
        bytes.append(first.1, 0..<4)
        bytes.append(UInt8(ascii: "-"))
        bytes.append(first.1, 4..<8)
        bytes.append(UInt8(ascii: "-"))
        bytes.append(second.0, 0..<4)
        bytes.append(UInt8(ascii: "-"))
        bytes.append(second.0, 4..<8)
        bytes.append(second.1, 0..<8)
    }

    package static func < (left: TimelineID, right: TimelineID) -> Bool {
        left.high != right.high ? left.high < right.high : left.low < right.low
    }
}

extension OutputSpan<UInt8> {
    /// Appends some bytes of a number, counted from the lowest one.
    @inline(__always)
    fileprivate mutating func append(_ number: UInt64, _ range: Range<UInt64>) {
        var index = range.lowerBound
        while index < range.upperBound {
            append(UInt8(truncatingIfNeeded: number &>> (8 &* index)))
            index &+= 1
        }
    }
}

/// A hash of 128 bits for finding changes: the first ones of the SHA-256, or, for the content of timelines, SipHash.
package struct ContentHash: Hashable, Sendable, CustomStringConvertible {
    /// The first eight bytes, big-endian.
    package let high: UInt64
    /// The next eight bytes, big-endian.
    package let low: UInt64

    package init(high: UInt64, low: UInt64) {
        self.high = high
        self.low = low
    }

    package init(of bytes: [UInt8]) {
        self.init(of: bytes[...])
    }

    package init(of bytes: ArraySlice<UInt8>) {
        var function = SHA256()
        bytes.withUnsafeBytes { function.update(bufferPointer: $0) }
        (high, low) = function.finalize().withUnsafeBytes { digest in
            (
                UInt64(bigEndian: digest.loadUnaligned(as: UInt64.self)),
                UInt64(bigEndian: digest.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            )
        }
    }

    /// A hash that takes a tenth of the time, of two pieces as if they were one: for a timeline's content.
    ///
    /// It is compared with the hash of an earlier content of the same timeline only. Content comes from the provider of
    /// the timeline's app, who can find two with the same hash, and hides his own change from his own users.
    package init(ofContent content: ArraySlice<UInt8>, _ more: ArraySlice<UInt8> = []) {
        var hash = SipHash()
        hash.combine(content)
        hash.combine(more)
        (high, low) = hash.finalize()
    }

    /// Hash of the same bytes with a date. It differs from the hash without one.
    func dated(_ date: Timestamp) -> ContentHash {
        let mixed = UInt64(bitPattern: date.microseconds) &* 0x9E37_79B9_7F4A_7C15
        return ContentHash(high: high ^ mixed ^ mixed >> 32, low: ~low)
    }

    /// UUID form, as stored.
    package var description: String { String(uuid: high, low) }
}
