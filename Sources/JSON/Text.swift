// SPDX-License-Identifier: Apache-2.0

/// Byte-wise comparison and quoting of strings.
///
/// Swift's `==` and `<` on `String` treat canonically equivalent texts as equal; PostgreSQL, Kafka keys and hashes
/// compare bytes. Identities must agree with them, so strings are compared by these functions.
package enum Text {
    /// Whether two strings are the same bytes.
    package static func equal(_ left: String, _ right: String) -> Bool {
        // For ASCII strings `==` compares bytes. Other characters may be equivalent to one in ASCII.
        left == right
            && (left.utf8Span.isKnownASCII && right.utf8Span.isKnownASCII || left.utf8.elementsEqual(right.utf8))
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
    package static func equal(_ bytes: Span<UInt8>, _ text: String) -> Bool {
        guard bytes.count == text.utf8.count else { return false }
        var text = text
        return text.withUTF8 { text in
            unsafe bytes.withUnsafeBytes { unsafe equal($0, UnsafeRawBufferPointer(text)) }
        }
    }

    /// Returns true if both are the same bytes.
    package static func equal(_ left: Span<UInt8>, _ right: Span<UInt8>) -> Bool {
        guard left.count == right.count else { return false }
        return unsafe left.withUnsafeBytes { left in unsafe right.withUnsafeBytes { unsafe equal(left, $0) } }
    }

    /// Returns true if two buffers of the same length hold the same bytes.
    @inline(__always)
    private static func equal(_ left: UnsafeRawBufferPointer, _ right: UnsafeRawBufferPointer) -> Bool {
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
    package static func isPrintableASCII(_ bytes: Span<UInt8>) -> Bool {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let raw = unsafe bytes.bytes
        var index = 0
        while index &+ 8 <= raw.byteCount {
            let word = unsafe raw.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self)
            // High bits of bytes from 0x80, of 0x7F by a carry, and of those below 0x20 by a borrow.
            guard (word | (word &+ ones) | (word &- ones &* 0x20)) & (ones &* 0x80) == 0 else { return false }
            index &+= 8
        }
        while index < bytes.count {
            guard bytes[index] &- 0x20 < 0x5F else { return false }
            index &+= 1
        }
        return true
    }

    /// A text of bytes that are known to be ASCII.
    package static func ascii(_ bytes: Span<UInt8>) -> String {
        unsafe String(copying: UTF8Span(unchecked: bytes, isKnownASCII: true))
    }

    /// The text of UTF-8; nil if it is malformed.
    package static func validated(_ bytes: Span<UInt8>) -> String? {
        unsafe bytes.withUnsafeBufferPointer { unsafe String(validating: $0, as: UTF8.self) }
    }

    /// The text of UTF-8, with U+FFFD for malformed parts.
    package static func repaired(_ bytes: Span<UInt8>) -> String {
        unsafe bytes.withUnsafeBufferPointer { unsafe String(decoding: $0, as: UTF8.self) }
    }

    /// Index of the first byte of a value.
    static func index(of byte: UInt8, in bytes: UnsafeBufferPointer<UInt8>) -> Int? {
        let ones: UInt64 = 0x0101_0101_0101_0101
        let raw = UnsafeRawBufferPointer(bytes)
        var index = 0
        while index &+ 8 <= raw.count {
            let word = unsafe UInt64(littleEndian: raw.loadUnaligned(fromByteOffset: index, as: UInt64.self))
            let different = word ^ ones &* UInt64(byte)
            // The lowest high bit is that of the first zero.
            let zeros = (different &- ones) & ~different & (ones &* 0x80)
            if zeros != 0 { return index &+ zeros.trailingZeroBitCount &>> 3 }
            index &+= 8
        }
        while index < raw.count {
            if unsafe raw[index] == byte { return index }
            index &+= 1
        }
        return nil
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
///
/// Public, since the compiler inlines only public functions into other modules; inlined, literals become constants.
public struct ShortText: Sendable, ExpressibleByStringLiteral {
    /// Length in bytes.
    public let count: Int
    /// The first 24 bytes, the first one lowest, with zeros beyond the end.
    public let words: (UInt64, UInt64, UInt64)

    /// Longest text that another one can match.
    package static let maximumBytes = 24

    /// - Parameter literal: at most 24 bytes.
    @inlinable @inline(__always)
    public init(stringLiteral literal: StaticString) {
        let size = literal.utf8CodeUnitCount
        precondition(size <= 24, "longer than a text that can be matched")
        let start = unsafe literal.utf8Start
        var words: (UInt64, UInt64, UInt64) = (0, 0, 0)
        var index = 0
        while index < min(size, 8) {
            unsafe words.0 |= UInt64(start[index]) &<< UInt64(truncatingIfNeeded: 8 &* index)
            index &+= 1
        }
        while index < min(size, 16) {
            unsafe words.1 |= UInt64(start[index]) &<< UInt64(truncatingIfNeeded: 8 &* index)
            index &+= 1
        }
        while index < size {
            unsafe words.2 |= UInt64(start[index]) &<< UInt64(truncatingIfNeeded: 8 &* index)
            index &+= 1
        }
        count = size
        self.words = words
    }

    /// - Parameter range: place of the text in the bytes.
    @inline(__always)
    package init(_ bytes: [UInt8], _ range: Range<Int>) {
        self.init(bytes.span, range)
    }

    @inline(__always)
    private init(_ bytes: Span<UInt8>, _ range: Range<Int>) {
        let start = range.lowerBound
        let count = range.upperBound &- start
        self.count = count
        guard start >= 0, start <= bytes.count &- Self.maximumBytes else {
            words = Self.words(bytes.extracting(range))
            return
        }
        let raw = unsafe bytes.bytes
        func word(_ first: Int) -> UInt64 {
            unsafe UInt64(
                littleEndian: raw.unsafeLoadUnaligned(fromUncheckedByteOffset: start &+ first, as: UInt64.self))
        }
        // Clears the bytes beyond the end.
        let mask = UInt64.max &>> UInt64(truncatingIfNeeded: -8 &* count)
        if count &- 1 < 8 {
            words = (count > 0 ? word(0) & mask : 0, 0, 0)
        } else if count <= 16 {
            words = (word(0), word(8) & mask, 0)
        } else {
            words = (word(0), word(8), count < 24 ? word(16) & mask : word(16))
        }
    }

    @inline(never)
    private static func words(_ bytes: Span<UInt8>) -> (UInt64, UInt64, UInt64) {
        var words: (UInt64, UInt64, UInt64) = (0, 0, 0)
        for index in 0..<min(bytes.count, maximumBytes) {
            let shifted = UInt64(bytes[index]) << UInt64(index & 7 &* 8)
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
    public static func ~= (literal: ShortText, text: ShortText) -> Bool {
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

    @inline(__always)
    init(count: Int, words: (UInt64, UInt64, UInt64)) {
        self.count = count
        self.words = words
    }
}

extension ShortText: CustomStringConvertible {
    /// The first 24 bytes.
    public var description: String {
        let bytes = [words.0, words.1, words.2].flatMap { word in
            (0..<8).map { UInt8(truncatingIfNeeded: word >> ($0 * 8)) }
        }
        return String(decoding: bytes.prefix(count), as: UTF8.self)
    }
}
