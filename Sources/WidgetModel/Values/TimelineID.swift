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
        guard let words = Hex.uuid(bytes) else { return nil }
        self.init(high: words.high, low: words.low)
    }

    /// Lower-case UUID form.
    package var description: String { Hex.uuid(high: high, low: low) }

    package static func < (left: TimelineID, right: TimelineID) -> Bool {
        left.high != right.high ? left.high < right.high : left.low < right.low
    }
}
