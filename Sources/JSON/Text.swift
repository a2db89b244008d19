// SPDX-License-Identifier: Apache-2.0

/// Byte-wise comparison and quoting of strings.
///
/// Swift's `==` and `<` on `String` treat canonically equivalent texts as equal; PostgreSQL, Kafka keys and hashes
/// compare bytes. Identities must agree with them, so strings are compared by these functions.
package enum Text {
    /// Whether two strings are the same bytes.
    package static func equal(_ left: String, _ right: String) -> Bool {
        // For ASCII strings `==` compares bytes.
        left == right && (left.utf8Span.isKnownASCII || left.utf8.elementsEqual(right.utf8))
    }

    /// Whether two optional strings are both absent or the same bytes.
    package static func equal(_ left: String?, _ right: String?) -> Bool {
        switch (left, right) {
        case (nil, nil): true
        case (let left?, let right?): equal(left, right)
        default: false
        }
    }

    /// Returns true if `bytes` are the UTF-8 of `text`.
    package static func equal(_ bytes: ArraySlice<UInt8>, _ text: String) -> Bool {
        guard bytes.count == text.utf8.count else { return false }
        var text = text
        return text.withUTF8 { text in
            unsafe bytes.withUnsafeBytes { unsafe equal($0, UnsafeRawBufferPointer(text)) }
        }
    }

    /// Returns true if two buffers of the same length hold the same bytes.
    static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
        var index = 0
        while index &+ 8 <= left.count {
            let (one, other) = unsafe (
                left.loadUnaligned(fromByteOffset: index, as: UInt64.self),
                right.loadUnaligned(fromByteOffset: index, as: UInt64.self)
            )
            guard one == other else { return false }
            index &+= 8
        }
        while index < left.count {
            guard unsafe left[index] == right[index] else { return false }
            index &+= 1
        }
        return true
    }

    /// Whether bytes are printable ASCII.
    package static func isPrintableASCII(_ bytes: ArraySlice<UInt8>) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        return unsafe bytes.withUnsafeBytes { bytes in
            var index = 0
            while index &+ 8 <= bytes.count {
                let word = unsafe bytes.loadUnaligned(fromByteOffset: index, as: UInt64.self)
                // High bits of bytes from 0x80, of 0x7F by a carry, and of those below 0x20 by a borrow.
                guard (word | (word &+ ones) | (word &- ones &* 0x20)) & (ones &* 0x80) == 0 else { return false }
                index &+= 8
            }
            while index < bytes.count {
                guard unsafe bytes[index] &- 0x20 < 0x5F else { return false }
                index &+= 1
            }
            return true
        }
    }

    /// Byte order, which is PostgreSQL's `COLLATE "C"`.
    package static func precedes(_ left: String, _ right: String) -> Bool {
        left.utf8.lexicographicallyPrecedes(right.utf8)
    }

    /// Hashes the bytes and their number.
    package static func hash(_ text: String, into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { bytes in
            hasher.combine(bytes.count)
            unsafe hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        }
    }

    /// Whether `text` holds a C0 control, DEL or a C1 control (UTF-8 `C2 80`…`C2 9F`).
    package static func containsControlCharacter(_ text: String) -> Bool {
        var previous: UInt8 = 0
        for byte in text.utf8 {
            if byte < 0x20 || byte == 0x7F || (previous == 0xC2 && byte < 0xA0) { return true }
            previous = byte
        }
        return false
    }

    /// A foreign text for storing and logging: cut to `maximum` scalars, control characters replaced by spaces.
    package static func printable(_ text: String, maximum: Int) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(maximum) {
            let isControl = scalar.value < 0x20 || (0x7F..<0xA0).contains(scalar.value)
            result.unicodeScalars.append(isControl ? " " : scalar)
        }
        return result
    }

    /// `text` in double quotes for a message or a log, with quotes, control characters, line separators and direction
    /// marks escaped.
    ///
    /// - Parameter maximum: number of characters after which it is cut.
    package static func quoted(_ text: String, maximum: Int = 64) -> String {
        var result = "\""
        var count = 0
        for scalar in text.unicodeScalars {
            if count == maximum {
                result += "…"
                break
            }
            count += 1
            switch scalar {
            case "\"", "\\": result += "\\\(scalar)"
            default: append(scalar, to: &result)
            }
        }
        return result + "\""
    }

    /// `text` on one line, with control characters, line separators and direction marks escaped.
    package static func oneLine(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars { append(scalar, to: &result) }
        return result
    }

    private static func append(_ scalar: Unicode.Scalar, to text: inout String) {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x2028...0x202E, 0x2066...0x2069:
            text += "\\u{" + String(scalar.value, radix: 16) + "}"
        default: text.unicodeScalars.append(scalar)
        }
    }
}

/// A text by its length and its first 24 bytes, so that a `switch` compares words with those of literals.
package struct ShortText: Sendable, ExpressibleByStringLiteral {
    /// Length in bytes.
    package let count: Int
    /// The first 24 bytes, the first one lowest, with zeros beyond the end.
    package let words: (UInt64, UInt64, UInt64)

    /// Longest text that another one can match.
    package static let maximumBytes = 24

    /// - Parameter literal: at most 24 bytes.
    @inlinable @inline(__always)
    package init(stringLiteral literal: StaticString) {
        count = literal.utf8CodeUnitCount
        precondition(count <= 24, "longer than a text that can be matched")
        let start = unsafe literal.utf8Start
        var words: (UInt64, UInt64, UInt64) = (0, 0, 0)
        for index in 0..<min(count, 8) { unsafe words.0 |= UInt64(start[index]) << UInt64(index &* 8) }
        if count > 8 {
            for index in 8..<min(count, 16) { unsafe words.1 |= UInt64(start[index]) << UInt64((index &- 8) &* 8) }
        }
        if count > 16 {
            for index in 16..<count { unsafe words.2 |= UInt64(start[index]) << UInt64((index &- 16) &* 8) }
        }
        self.words = words
    }

    /// - Parameter range: place of the text in the bytes.
    @inline(__always)
    package init(_ bytes: [UInt8], _ range: Range<Int>) {
        let (start, count) = (range.lowerBound, range.count)
        self.count = count
        precondition(start >= 0 && range.upperBound <= bytes.count)
        guard start &+ Self.maximumBytes <= bytes.count else {
            words = Self.words(bytes[range])
            return
        }
        let raw = unsafe bytes.span.bytes
        func word(_ number: Int) -> UInt64 {
            let rest = count &- number &* 8
            let word = unsafe UInt64(
                littleEndian: raw.unsafeLoadUnaligned(
                    fromUncheckedByteOffset: start &+ number &* 8, as: UInt64.self))
            return rest >= 8 ? word : word & ~(UInt64.max &<< UInt64(truncatingIfNeeded: rest &* 8))
        }
        words = (word(0), count > 8 ? word(1) : 0, count > 16 ? word(2) : 0)
    }

    @inline(never)
    private static func words(_ bytes: ArraySlice<UInt8>) -> (UInt64, UInt64, UInt64) {
        var words: (UInt64, UInt64, UInt64) = (0, 0, 0)
        for (index, byte) in bytes.prefix(maximumBytes).enumerated() {
            let shifted = UInt64(byte) << UInt64(index & 7 &* 8)
            switch index {
            case ..<8: words.0 |= shifted
            case ..<16: words.1 |= shifted
            default: words.2 |= shifted
            }
        }
        return words
    }

    /// Whether a text is the literal.
    @inlinable @inline(__always)
    package static func ~= (literal: ShortText, text: ShortText) -> Bool {
        text.count == literal.count && text.words.0 == literal.words.0 && text.words.1 == literal.words.1
            && text.words.2 == literal.words.2
    }
}

extension ShortText {
    /// The text with its ASCII letters in lower case.
    package var lowercased: ShortText {
        func lowercased(_ word: UInt64) -> UInt64 {
            let ones: UInt64 = 0x0101_0101_0101_0101
            // High bits of the ASCII bytes from `A` on, and from `[` on; a letter has the first only.
            let ascii = word & (ones &* 0x7F)
            let letters = (ascii &+ ones &* 0x3F) & ~(ascii &+ ones &* 0x25) & ~word & (ones &* 0x80)
            return word | letters &>> 2
        }
        return ShortText(
            count: count, words: (lowercased(words.0), lowercased(words.1), lowercased(words.2)))
    }

    private init(count: Int, words: (UInt64, UInt64, UInt64)) {
        self.count = count
        self.words = words
    }
}

extension ShortText: CustomStringConvertible {
    /// The first 24 bytes.
    package var description: String {
        let bytes = [words.0, words.1, words.2].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) }
        }
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
