// SPDX-License-Identifier: Apache-2.0

import JSON

extension UInt8 {
    var isASCIIDigit: Bool { (48...57).contains(self) }

    /// Whether the byte is a lowercase or uppercase letter.
    var isASCIILetter: Bool { (97...122).contains(self | 0x20) }

    var isASCIIAlphanumeric: Bool { isASCIILetter || isASCIIDigit }

    /// Value of a hexadecimal digit of either case; nil for any other byte.
    @inline(__always)
    var hexadecimalDigit: UInt8? {
        switch self {
        case 48...57: self - 48
        case 65...70: self - 55
        case 97...102: self - 87
        default: nil
        }
    }
}

extension [UInt8] {
    /// Appends the lowest bytes of a number, the highest of them first.
    mutating func append(_ number: UInt64, bytes count: Int) {
        for position in (0..<count).reversed() { append(UInt8(truncatingIfNeeded: number >> UInt64(8 * position))) }
    }

    /// Appends a text as a JSON string.
    package mutating func append(json text: String) {
        let utf8 = text.utf8Span.span
        var isPlain = true
        append(addingCapacity: utf8.count + 2) { bytes in
            bytes.append(UInt8(ascii: "\""))
            for index in utf8.indices {
                let byte = utf8[index]
                if byte < 0x20 || byte == UInt8(ascii: "\"") || byte == UInt8(ascii: "\\") { isPlain = false }
                bytes.append(byte)
            }
            bytes.append(UInt8(ascii: "\""))
        }
        guard !isPlain else { return }
        removeLast(utf8.count + 2)
        append(contentsOf: JSONValue.string(text).encoded)
    }

    /// Reads an even number of hexadecimal digits, either case; nil for anything else.
    package init?(hexadecimal text: String) {
        let digits = text.utf8.compactMap(\.hexadecimalDigit)
        guard digits.count == text.utf8.count, digits.count.isMultiple(of: 2) else { return nil }
        self = stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
    }
}

extension UInt32 {
    /// Reads eight hexadecimal digits of either case, the first one in the lowest byte; nil for anything else.
    @inline(__always)
    init?(hexadecimal digits: UInt64) {
        let ones: UInt64 = 0x0101_0101_0101_0101
        // Letters, and they alone among digits and letters, have the bit 0x40.
        let letters = digits &>> 6 & ones
        let values = digits & (ones &* 0x0F) &+ letters &* 9
        // The lower-case digits of the values, for comparison: those from 10 carry into the high nibble with 6 more.
        let expected = values &+ ones &* 0x30 &+ ((values &+ ones &* 6) &>> 4 & ones) &* 0x27
        guard expected == digits | letters &<< 5, values & (ones &* 0xF0) == 0 else { return nil }
        let bytes = (values &<< 4 | values &>> 8) & 0x00FF_00FF_00FF_00FF
        let pairs = (bytes | bytes &>> 8) & 0x0000_FFFF_0000_FFFF
        self = UInt32(truncatingIfNeeded: pairs | pairs &>> 16).byteSwapped
    }
}

extension UInt64 {
    /// The sixteen lower-case hexadecimal digits, eight in each number, with the first one in the lowest byte.
    var hexadecimalDigits: (UInt64, UInt64) {
        func digits(_ half: UInt64) -> UInt64 {
            // A nibble in each byte, by halves: of four, of two, of one byte.
            var nibbles = (half | half << 16) & 0x0000_FFFF_0000_FFFF
            nibbles = (nibbles | nibbles << 8) & 0x00FF_00FF_00FF_00FF
            nibbles = (nibbles | nibbles << 4) & 0x0F0F_0F0F_0F0F_0F0F
            // 1 in the bytes of letters: 39 is the distance between "9" + 1 and "a".
            let letters = (nibbles &+ 0x0606_0606_0606_0606) &>> 4 & 0x0101_0101_0101_0101
            return (nibbles &+ 0x3030_3030_3030_3030 &+ letters &* 39).byteSwapped
        }
        return (digits(self &>> 32), digits(self & 0xFFFF_FFFF))
    }

    /// The number of some bytes, at most eight, with the highest first.
    init(bytes: some Sequence<UInt8>) { self = bytes.reduce(0) { $0 << 8 | UInt64($1) } }
}

extension String {
    /// Lower-case hexadecimal digits of bytes.
    package init(hexadecimal bytes: [UInt8]) {
        var digits: [UInt8] = []
        digits.reserveCapacity(2 * bytes.count)
        for byte in bytes {
            for nibble in [byte >> 4, byte & 15] { digits.append(nibble < 10 ? 48 + nibble : 87 + nibble) }
        }
        self.init(decoding: digits, as: UTF8.self)
    }

    /// Lower-case UUID form `8-4-4-4-12` of 128 bits.
    init(uuid high: UInt64, _ low: UInt64) {
        self.init(unsafeUninitializedCapacity: 36) { buffer in
            var out = 0
            for index in 0..<32 {
                if index == 8 || index == 12 || index == 16 || index == 20 {
                    buffer[out] = UInt8(ascii: "-")
                    out += 1
                }
                buffer[out] = Self.hexadecimalDigit(index, of: high, low)
                out += 1
            }
            return out
        }
    }

    /// An unguessable identifier: 128 random bits in hexadecimal.
    package static func randomID() -> String {
        let (high, low) = (UInt64.random(in: 0...(.max)), UInt64.random(in: 0...(.max)))
        return String(unsafeUninitializedCapacity: 32) { buffer in
            for index in 0..<32 { buffer[index] = hexadecimalDigit(index, of: high, low) }
            return 32
        }
    }

    /// A digit of the 32 of 128 bits, counted from the highest.
    private static func hexadecimalDigit(_ index: Int, of high: UInt64, _ low: UInt64) -> UInt8 {
        let word = index < 16 ? high : low
        let nibble = UInt8(truncatingIfNeeded: word >> UInt64(60 - 4 * (index & 15))) & 15
        return nibble < 10 ? 48 + nibble : 87 + nibble
    }
}
