internal import Crypto

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
    package var description: String { Hex.uuid(high: high, low: low) }
}
