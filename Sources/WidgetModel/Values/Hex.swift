/// Lower-case hexadecimal text of bytes, and of 128-bit values in the UUID form `8-4-4-4-12`.
package enum Hex {
    /// Length of the UUID form in bytes.
    static let uuidLength = 36

    static func uuid(high: UInt64, low: UInt64) -> String {
        String(unsafeUninitializedCapacity: uuidLength) { buffer in
            var out = 0
            for index in 0..<32 {
                if index == 8 || index == 12 || index == 16 || index == 20 {
                    buffer[out] = UInt8(ascii: "-")
                    out += 1
                }
                let word = index < 16 ? high : low
                let nibble = UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (index & 15))) & 15
                buffer[out] = nibble < 10 ? 48 + nibble : 87 + nibble
                out += 1
            }
            return out
        }
    }

    /// Reads the UUID form in either case; nil for anything else.
    static func uuid(_ bytes: some RandomAccessCollection<UInt8>) -> (high: UInt64, low: UInt64)? {
        guard bytes.count == uuidLength else { return nil }
        var words: (UInt64, UInt64) = (0, 0)
        var digits = 0
        var offset = 0
        for byte in bytes {
            if offset == 8 || offset == 13 || offset == 18 || offset == 23 {
                guard byte == UInt8(ascii: "-") else { return nil }
            } else {
                guard let digit = digit(byte) else { return nil }
                if digits < 16 {
                    words.0 = words.0 << 4 | UInt64(digit)
                } else {
                    words.1 = words.1 << 4 | UInt64(digit)
                }
                digits += 1
            }
            offset += 1
        }
        return words
    }

    package static func text(_ bytes: [UInt8]) -> String {
        var digits: [UInt8] = []
        digits.reserveCapacity(2 * bytes.count)
        for byte in bytes {
            for nibble in [byte >> 4, byte & 15] { digits.append(nibble < 10 ? 48 + nibble : 87 + nibble) }
        }
        return String(decoding: digits, as: UTF8.self)
    }

    /// Reads an even number of digits, either case; nil for anything else.
    package static func bytes(_ text: String) -> [UInt8]? {
        let digits = text.utf8.compactMap(digit)
        guard digits.count == text.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
        return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }

    @inline(__always)
    static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 65...70: byte - 55
        case 97...102: byte - 87
        default: nil
        }
    }
}
