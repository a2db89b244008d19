/// A string of the document, left in place.
package struct JSONStringToken: Sendable {
    /// The bytes between the quotes.
    package let range: Range<Int>
    /// Whether `range` holds escapes and therefore differs from the string.
    package let hasEscapes: Bool
}

extension JSONReader {
    /// Whether a string equals this text.
    package func matches(_ token: JSONStringToken, _ text: StaticString) -> Bool {
        guard !token.hasEscapes else { return decoded(token).elementsEqual(UnsafeBufferPointer(of: text)) }
        let count = text.utf8CodeUnitCount
        guard token.range.count == count else { return false }
        let start = token.range.lowerBound
        let expected = text.utf8Start
        for index in 0..<count where bytes[start &+ index] != expected[index] { return false }
        return true
    }

    /// The decoded string.
    package func text(of token: JSONStringToken) -> String {
        token.hasEscapes
            ? String(decoding: decoded(token), as: UTF8.self)
            : String(decoding: bytes[token.range], as: UTF8.self)
    }

    /// The decoded string's UTF-8 bytes.
    package func utf8(of token: JSONStringToken) -> ArraySlice<UInt8> {
        token.hasEscapes ? decoded(token)[...] : bytes[token.range]
    }

    /// Reads a string and converts its UTF-8; throws if `convert` returns nil.
    @inline(__always)
    package mutating func string<Value>(
        _ expected: @autoclosure () -> String, _ convert: (ArraySlice<UInt8>) -> Value?
    ) throws(JSONError) -> Value {
        try expect(.string)
        let offset = position
        let token = try scanString()
        guard let value = convert(utf8(of: token)) else {
            throw failure(
                .invalidValue, "expected \(expected()), found \(Text.quoted(text(of: token)))", at: offset)
        }
        return value
    }

    private func decoded(_ token: JSONStringToken) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(token.range.count)
        Self.unescape(bytes[token.range], into: &out)
        return out
    }

    /// Reads the string that starts at the opening quote.
    package mutating func scanString() throws(JSONError) -> JSONStringToken {
        let start = position &+ 1
        var index = start
        var hasEscapes = false
        while true {
            index = plainEnd(from: index)
            guard index < end else {
                throw failure(.syntax, "unterminated string", at: start - 1)
            }
            let byte = bytes[index]
            switch byte {
            case UInt8(ascii: "\""):
                position = index &+ 1
                return JSONStringToken(range: start..<index, hasEscapes: hasEscapes)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                index = try escapeEnd(at: index)
            case 0x80...:
                guard let length = UTF8Check.sequenceLength(in: bytes, at: index, end: end) else {
                    throw failure(.invalidUTF8, "invalid UTF-8 in a string", at: index)
                }
                index &+= length
            default:
                throw failure(.syntax, "unescaped control character \(Self.name(of: byte)) in a string", at: index)
            }
        }
    }

    /// Index of the first byte from `index` on that is a quote, a backslash, a control character or not ASCII;
    /// otherwise the end.
    @inline(__always)
    private func plainEnd(from index: Int) -> Int {
        var index = index
        let raw = bytes.span.bytes
        while index &+ 8 <= end {
            // Any eight bytes form a UInt64, and the load is checked against the array's bounds.
            let word = UInt64(littleEndian: raw.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self))
            let ones: UInt64 = 0x0101_0101_0101_0101
            let quotes = word ^ (ones &* 0x22)
            let backslashes = word ^ (ones &* 0x5C)
            // Sets the high bit of each special byte. Only the lowest set bit counts, since those above it may be
            // false.
            let special =
                (word | ((word &- ones &* 0x20) & ~word) | ((quotes &- ones) & ~quotes)
                    | ((backslashes &- ones) & ~backslashes)) & (ones &* 0x80)
            guard special == 0 else { return index &+ special.trailingZeroBitCount &>> 3 }
            index &+= 8
        }
        while index < end {
            let byte = bytes[index]
            if byte < 0x20 || byte == 0x22 || byte == 0x5C || byte >= 0x80 { return index }
            index &+= 1
        }
        return end
    }

    /// Checks the escape whose backslash is at `index` and returns its end. A surrogate pair is one escape.
    private func escapeEnd(at index: Int) throws(JSONError) -> Int {
        guard index + 1 < end else { throw failure(.syntax, "unterminated string", at: index) }
        switch bytes[index + 1] {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return index + 2
        case UInt8(ascii: "u"):
            guard let unit = codeUnit(at: index + 2) else {
                throw failure(.syntax, "invalid escape, expected four hexadecimal digits after \\u", at: index)
            }
            switch unit {
            case 0xD800..<0xDC00:
                guard index + 7 < end, bytes[index + 6] == UInt8(ascii: "\\"), bytes[index + 7] == UInt8(ascii: "u"),
                    let low = codeUnit(at: index + 8), (0xDC00..<0xE000).contains(low)
                else {
                    throw failure(.loneSurrogate, "escape of a high surrogate without its low one", at: index)
                }
                return index + 12
            case 0xDC00..<0xE000:
                throw failure(.loneSurrogate, "escape of a low surrogate without its high one", at: index)
            default:
                return index + 6
            }
        default:
            throw failure(.syntax, "invalid escape \\\(Self.name(of: bytes[index + 1]))", at: index)
        }
    }

    private func codeUnit(at index: Int) -> UInt32? {
        guard index + 4 <= end else { return nil }
        return Self.codeUnit(bytes[index..<(index + 4)])
    }

    private static func codeUnit(_ digits: ArraySlice<UInt8>) -> UInt32? {
        var unit: UInt32 = 0
        for byte in digits {
            guard let digit = hexDigit(byte) else { return nil }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    private static func hexDigit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case 48...57: byte - 48
        case 65...70: byte - 55
        case 97...102: byte - 87
        default: nil
        }
    }

    /// Appends the UTF-8 of a string body. In an unchecked body, as when the pointer of an error is made, half a
    /// surrogate pair becomes U+FFFD.
    static func unescape(_ body: ArraySlice<UInt8>, into out: inout [UInt8]) {
        var index = body.startIndex
        while index < body.endIndex {
            let byte = body[index]
            guard byte == UInt8(ascii: "\\"), index + 1 < body.endIndex else {
                out.append(byte)
                index += 1
                continue
            }
            let escape = body[index + 1]
            index += 2
            switch escape {
            case UInt8(ascii: "b"): out.append(0x08)
            case UInt8(ascii: "f"): out.append(0x0C)
            case UInt8(ascii: "n"): out.append(0x0A)
            case UInt8(ascii: "r"): out.append(0x0D)
            case UInt8(ascii: "t"): out.append(0x09)
            case UInt8(ascii: "u"):
                guard index + 4 <= body.endIndex, var scalar = codeUnit(body[index..<(index + 4)]) else { continue }
                index += 4
                if (0xD800..<0xDC00).contains(scalar), index + 6 <= body.endIndex,
                    body[index] == UInt8(ascii: "\\"), body[index + 1] == UInt8(ascii: "u"),
                    let low = codeUnit(body[(index + 2)..<(index + 6)]), (0xDC00..<0xE000).contains(low)
                {
                    scalar = 0x10000 + (scalar - 0xD800) << 10 + (low - 0xDC00)
                    index += 6
                }
                out.append(contentsOf: String(Character(Unicode.Scalar(scalar) ?? "\u{FFFD}")).utf8)
            default: out.append(escape)
            }
        }
    }
}

extension UnsafeBufferPointer<UInt8> {
    /// The bytes of a literal, which live as long as the program.
    fileprivate init(of text: StaticString) {
        self.init(start: text.utf8Start, count: text.utf8CodeUnitCount)
    }
}

/// Well-formed UTF-8 (RFC 3629).
enum UTF8Check {
    /// Length of the multi-byte sequence at `index`; nil if it is not well-formed.
    @inline(__always)
    static func sequenceLength(in bytes: [UInt8], at index: Int, end: Int) -> Int? {
        let lead = bytes[index]
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch lead {
        case 0xC2...0xDF: length = 2
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: length = 3
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: length = 4
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        default: return nil
        }
        guard index &+ length <= end, second.contains(bytes[index &+ 1]) else { return nil }
        for offset in 2..<max(2, length) where bytes[index &+ offset] & 0xC0 != 0x80 { return nil }
        return length
    }
}
