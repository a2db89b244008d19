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
        var words: (UInt64, UInt64) = (0, 0)
        var digits = 0
        var offset = 0
        for byte in bytes {
            if offset == 8 || offset == 13 || offset == 18 || offset == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
            } else {
                guard let digit = byte.hexadecimalDigit else { return nil }
                if digits < 16 {
                    words.0 = words.0 << 4 | UInt64(digit)
                } else {
                    words.1 = words.1 << 4 | UInt64(digit)
                }
                digits += 1
            }
            offset += 1
        }
        self.init(high: words.0, low: words.1)
    }

    /// Lower-case UUID form.
    package var description: String { String(uuid: high, low) }

    package static func < (left: TimelineID, right: TimelineID) -> Bool {
        left.high != right.high ? left.high < right.high : left.low < right.low
    }
}

/// The first 128 bits of the SHA-256 of some bytes, for finding changes of content.
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
        self.init(of: bytes, [])
    }

    /// Hash of two pieces as if they were one.
    init(of bytes: ArraySlice<UInt8>, _ more: ArraySlice<UInt8>) {
        var function = SHA256()
        bytes.withUnsafeBytes { function.update(bufferPointer: $0) }
        if !more.isEmpty { more.withUnsafeBytes { function.update(bufferPointer: $0) } }
        (high, low) = function.finalize().withUnsafeBytes { digest in
            (
                UInt64(bigEndian: digest.loadUnaligned(as: UInt64.self)),
                UInt64(bigEndian: digest.loadUnaligned(fromByteOffset: 8, as: UInt64.self))
            )
        }
    }

    /// Hash of the same bytes with a date. It differs from the hash without one.
    func dated(_ date: Timestamp) -> ContentHash {
        let mixed = UInt64(bitPattern: date.microseconds) &* 0x9E37_79B9_7F4A_7C15
        return ContentHash(high: high ^ mixed ^ mixed >> 32, low: ~low)
    }

    /// UUID form, as stored.
    package var description: String { String(uuid: high, low) }
}
