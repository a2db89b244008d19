// SPDX-License-Identifier: Apache-2.0

/// A string of the document, left in place.
package struct JSONStringToken: Sendable, BitwiseCopyable {
    let start: Int
    /// The end, and the two properties in the lowest bits: two words stay in registers.
    private let packed: Int

    @inline(__always)
    init(start: Int, end: Int, hasEscapes: Bool = false, isPlain: Bool = false) {
        self.start = start
        packed = end &<< 2 | (hasEscapes ? 1 : 0) | (isPlain ? 2 : 0)
    }

    @inline(__always)
    var end: Int { packed &>> 2 }
    /// Whether the bytes hold escapes and therefore differ from the string.
    package var hasEscapes: Bool { packed & 1 != 0 }
    /// Whether the bytes are printable ASCII without escapes.
    package var isPlain: Bool { packed & 2 != 0 }

    /// The bytes between the quotes.
    @inline(__always)
    package var range: Range<Int> { unsafe Range(uncheckedBounds: (start, end)) }
}

/// The name of a member. Public, like ``ShortText``.
public struct JSONKey: Sendable {
    package let token: JSONStringToken
    /// The decoded name.
    public let name: ShortText

    @inlinable @inline(__always)
    public static func ~= (literal: ShortText, key: JSONKey) -> Bool { literal ~= key.name }
}

/// A key of an open object, kept to find duplicates and to sort the members.
struct KeySlot: BitwiseCopyable {
    let token: JSONStringToken
    /// First eight bytes of the decoded key. Most keys differ here.
    let prefix: UInt64
    /// Place of the member in the canonical form, if one is written.
    let written: Int
    /// Index among the object's keys of the one that has this one's place in the canonical order. Set when the keys
    /// are sorted.
    var sortedKey = 0

    /// Whether the prefixes of two keys decide that the left key comes first. If not, the whole keys must be
    /// compared.
    @inline(__always)
    static func isInOrder(_ left: UInt64, _ right: UInt64) -> Bool {
        // The first byte is lowest, so byte-swapped words compare like the bytes. The shorter key is padded with zeros.
        (left | right) & 0x8080_8080_8080_8080 == 0 && left.byteSwapped < right.byteSwapped
    }
}

// MARK: - Strings

extension JSONReader {
    /// The decoded string.
    package mutating func text(of token: JSONStringToken) -> String {
        if token.hasEscapes { return String(decoding: decoded(token), as: UTF8.self) }
        if token.isPlain { return Text.ascii(bytes.span.extracting(token.range)) }
        return unsafe bytes.withUnsafeBufferPointer {
            unsafe String(decoding: UnsafeBufferPointer(rebasing: $0[token.range]), as: UTF8.self)
        }
    }

    /// The decoded name of a member.
    package mutating func text(of key: JSONKey) -> String { text(of: key.token) }

    /// The decoded string's UTF-8 bytes.
    package mutating func utf8(of token: JSONStringToken) -> ArraySlice<UInt8> {
        token.hasEscapes ? decoded(token)[...] : bytes[token.range]
    }

    @inline(never)
    private mutating func decoded(_ token: JSONStringToken) -> [UInt8] {
        var out: [UInt8] = []
        out.reserveCapacity(token.range.count)
        unescape(token.range) { out.append($0) }
        return out
    }

    /// Reads the string that starts at the opening quote.
    @inline(__always)
    mutating func scanString() throws(JSONError) -> JSONStringToken {
        let start = position &+ 1
        let index = plainEnd(from: start)
        guard index < end, byte(index) == UInt8(ascii: "\"") else {
            return try scanUncommonString(from: start, to: index)
        }
        position = index &+ 1
        return JSONStringToken(start: start, end: index, isPlain: true)
    }

    /// Reads the rest of a string, which is plain ASCII before `index`.
    @inline(never)
    private mutating func scanUncommonString(from start: Int, to index: Int) throws(JSONError) -> JSONStringToken {
        var index = index
        var hasEscapes = false
        while true {
            guard index < end else { throw failure(.syntax, "unterminated string", at: start - 1) }
            let byte = byte(index)
            switch byte {
            case UInt8(ascii: "\""):
                position = index &+ 1
                return JSONStringToken(start: start, end: index, hasEscapes: hasEscapes)
            case UInt8(ascii: "\\"):
                hasEscapes = true
                index = try escapeEnd(at: index)
            case 0x7F: index &+= 1
            case 0x80...:
                guard let length = sequenceLength(at: index) else {
                    throw failure(.invalidUTF8, "invalid UTF-8 in a string", at: index)
                }
                index &+= length
            default:
                throw failure(.syntax, "unescaped control character \(Self.name(of: byte)) in a string", at: index)
            }
            index = plainEnd(from: index)
        }
    }

    /// Index of the first byte from `index` on that is a quote, a backslash, or not printable ASCII; otherwise the end.
    @inline(__always)
    private func plainEnd(from index: Int) -> Int {
        var index = index
        let limit = bytes.count &- 8
        while index <= limit {
            let special = Self.special(word(index))
            guard special == 0 else { return min(end, index &+ special.trailingZeroBitCount &>> 3) }
            index &+= 8
        }
        while index < end {
            let byte = byte(index)
            if byte < 0x20 || byte == 0x22 || byte == 0x5C || byte >= 0x7F { return index }
            index &+= 1
        }
        return end
    }

    /// The high bits of the bytes that are quotes, backslashes, or not printable ASCII. Only the lowest set bit counts,
    /// since those above it may be false.
    @inline(__always)
    private static func special(_ word: UInt64) -> UInt64 {
        let ones: UInt64 = 0x0101_0101_0101_0101
        // A carry sets the bit of 0x7F, and a borrow those of backslashes, and of control characters and quotes: with
        // its second bit inverted, a quote is 0x20, and no other printable byte is below 0x21.
        return
            (word | (word &+ ones) | ((word ^ ones &* 0x02) &- ones &* 0x21) | ((word ^ ones &* 0x5C) &- ones))
            & (ones &* 0x80)
    }

    /// Length of the multi-byte UTF-8 sequence at an index (RFC 3629); nil if it is not well-formed.
    @inline(__always)
    func sequenceLength(at index: Int) -> Int? {
        let length: Int
        var second: ClosedRange<UInt8> = 0x80...0xBF
        switch byte(index) {
        case 0xC2...0xDF: length = 2
        case 0xE0: (length, second) = (3, 0xA0...0xBF)
        case 0xED: (length, second) = (3, 0x80...0x9F)
        case 0xE1...0xEF: length = 3
        case 0xF0: (length, second) = (4, 0x90...0xBF)
        case 0xF1...0xF3: length = 4
        case 0xF4: (length, second) = (4, 0x80...0x8F)
        default: return nil
        }
        guard index &+ length <= end, second.contains(byte(index &+ 1)) else { return nil }
        if length > 2, byte(index &+ 2) & 0xC0 != 0x80 { return nil }
        if length > 3, byte(index &+ 3) & 0xC0 != 0x80 { return nil }
        return length
    }

    /// Checks the escape whose backslash is at `index` and returns its end. A surrogate pair is one escape.
    private mutating func escapeEnd(at index: Int) throws(JSONError) -> Int {
        guard index + 1 < end else { throw failure(.syntax, "unterminated string", at: index) }
        switch byte(index + 1) {
        case UInt8(ascii: "\""), UInt8(ascii: "\\"), UInt8(ascii: "/"), UInt8(ascii: "b"), UInt8(ascii: "f"),
            UInt8(ascii: "n"), UInt8(ascii: "r"), UInt8(ascii: "t"):
            return index + 2
        case UInt8(ascii: "u"):
            guard let unit = codeUnit(at: index + 2, before: end) else {
                throw failure(.syntax, "invalid escape, expected four hexadecimal digits after \\u", at: index)
            }
            switch unit {
            case 0xD800..<0xDC00:
                guard lowSurrogate(at: index + 6, before: end) != nil else {
                    throw failure(.loneSurrogate, "escape of a high surrogate without its low one", at: index)
                }
                return index + 12
            case 0xDC00..<0xE000:
                throw failure(.loneSurrogate, "escape of a low surrogate without its high one", at: index)
            default:
                return index + 6
            }
        default:
            throw failure(.syntax, "invalid escape \\\(Self.name(of: byte(index + 1)))", at: index)
        }
    }

    /// The low surrogate whose escape begins at an index.
    private mutating func lowSurrogate(at index: Int, before end: Int) -> UInt32? {
        guard index + 1 < end, byte(index) == UInt8(ascii: "\\"), byte(index + 1) == UInt8(ascii: "u"),
            let unit = codeUnit(at: index + 2, before: end), (0xDC00..<0xE000).contains(unit)
        else { return nil }
        return unit
    }

    /// The value of four hexadecimal digits.
    private mutating func codeUnit(at index: Int, before end: Int) -> UInt32? {
        guard index + 4 <= end else { return nil }
        var unit: UInt32 = 0
        for offset in 0..<4 {
            let byte = byte(index + offset)
            let digit: UInt8
            switch byte {
            case 48...57: digit = byte - 48
            case 65...70: digit = byte - 55
            case 97...102: digit = byte - 87
            default: return nil
            }
            unit = unit << 4 | UInt32(digit)
        }
        return unit
    }

    /// Passes the UTF-8 of a string's body to a closure, byte by byte.
    mutating func unescape(_ body: Range<Int>, _ emit: (UInt8) -> Void) {
        var index = body.lowerBound
        while index < body.upperBound {
            let byte = byte(index)
            guard byte == UInt8(ascii: "\\"), index + 1 < body.upperBound else {
                emit(byte)
                index += 1
                continue
            }
            let escape = self.byte(index + 1)
            index += 2
            switch escape {
            case UInt8(ascii: "b"): emit(0x08)
            case UInt8(ascii: "f"): emit(0x0C)
            case UInt8(ascii: "n"): emit(0x0A)
            case UInt8(ascii: "r"): emit(0x0D)
            case UInt8(ascii: "t"): emit(0x09)
            case UInt8(ascii: "u"):
                guard var scalar = codeUnit(at: index, before: body.upperBound) else { continue }
                index += 4
                if (0xD800..<0xDC00).contains(scalar), let low = lowSurrogate(at: index, before: body.upperBound) {
                    scalar = 0x10000 + (scalar - 0xD800) << 10 + (low - 0xDC00)
                    index += 6
                }
                for byte in String(Character(Unicode.Scalar(scalar) ?? "\u{FFFD}")).utf8 { emit(byte) }
            default: emit(escape)
            }
        }
    }
}

// MARK: - Keys

extension JSONReader {
    /// Number of keys up to which each key is compared with all keys before it. The keys of larger objects are sorted
    /// at the end.
    static let comparedKeys = 16

    /// Reads the member name that starts at the opening quote.
    @inline(__always)
    mutating func scanKey() throws(JSONError) -> JSONKey {
        let start = position &+ 1
        guard start <= bytes.count &- 16 else { return try scanUncommonKey() }
        // Most names are plain and shorter than 16 bytes.
        let words = (word(start), word(start &+ 8))
        var special = Self.special(words.0)
        let name: ShortText
        if special != 0 {
            // Ones below the byte.
            let mask = (special & (0 &- special) &- 1) &>> 7
            name = ShortText(count: special.trailingZeroBitCount &>> 3, words: (words.0 & mask, 0, 0))
        } else {
            special = Self.special(words.1)
            guard special != 0 else { return try scanUncommonKey() }
            let mask = (special & (0 &- special) &- 1) &>> 7
            name = ShortText(count: 8 &+ special.trailingZeroBitCount &>> 3, words: (words.0, words.1 & mask, 0))
        }
        let index = start &+ name.count
        guard index < end, byte(index) == UInt8(ascii: "\"") else { return try scanUncommonKey() }
        position = index &+ 1
        return JSONKey(token: JSONStringToken(start: start, end: index, isPlain: true), name: name)
    }

    @inline(never)
    private mutating func scanUncommonKey() throws(JSONError) -> JSONKey {
        let token = try scanString()
        return JSONKey(token: token, name: shortText(of: token))
    }

    /// A string for comparison with literals.
    @inline(__always)
    package mutating func shortText(of token: JSONStringToken) -> ShortText {
        token.hasEscapes ? decodedShortText(of: token) : ShortText(bytes, token.range)
    }

    @inline(never)
    private mutating func decodedShortText(of token: JSONStringToken) -> ShortText {
        let decoded = decoded(token)
        return ShortText(decoded, decoded.indices)
    }

    /// Keeps a key as the current one of its object. Throws if a smaller object already has it.
    @inline(__always)
    mutating func remember(_ key: JSONKey) throws(JSONError) {
        let count = keys.count
        let prefix = key.name.words.0
        let mayBeSame = count &- frame.firstKey < Self.comparedKeys && keys.contains(prefix, from: frame.firstKey)
        keys.append(KeySlot(token: key.token, prefix: prefix, written: written(key.token.start &- 1)))
        if mayBeSame { try checkFewKeys() }
        frame.place = count
        guard run >= 0 else { return }
        if key.token.hasEscapes { writeEscaped(key.token) }
        guard count > frame.firstKey, frame.isSorted else { return }
        let before = keys[count &- 1].prefix
        frame.isSorted =
            KeySlot.isInOrder(before, prefix)
            || !KeySlot.isInOrder(prefix, before) && compareWhole(count &- 1, count) < 0
    }

    /// Throws if the latest key, which begins like another one of its object, is the same.
    @inline(never)
    private mutating func checkFewKeys() throws(JSONError) {
        let latest = keys.last
        for index in frame.firstKey..<keys.count &- 1 where isSame(keys[index], latest) {
            throw duplicateFailure(latest)
        }
    }

    /// Throws if a larger object that has ended has duplicate keys.
    @inline(never)
    mutating func checkManyKeys(from first: Int) throws(JSONError) {
        sortKeys(from: first)
        var duplicate: KeySlot?
        for place in (first &+ 1)..<keys.count {
            let (left, right) = (
                keys[first &+ keys[place &- 1].sortedKey], keys[first &+ keys[place].sortedKey]
            )
            guard isSame(left, right) else { continue }
            let later = left.token.range.lowerBound > right.token.range.lowerBound ? left : right
            if duplicate.map({ later.token.range.lowerBound < $0.token.range.lowerBound }) ?? true {
                duplicate = later
            }
        }
        if let duplicate { throw duplicateFailure(duplicate) }
    }

    private mutating func isSame(_ left: KeySlot, _ right: KeySlot) -> Bool {
        guard left.prefix == right.prefix else { return false }
        guard !left.token.hasEscapes, !right.token.hasEscapes else {
            return utf8(of: left.token) == utf8(of: right.token)
        }
        let count = left.token.end &- left.token.start
        guard count == right.token.end &- right.token.start else { return false }
        return count <= 8
            || Text.equal(bytes.span.extracting(left.token.range), bytes.span.extracting(right.token.range))
    }

    /// Finds the order of an object's keys by UTF-16 code units, as RFC 8785 sorts.
    mutating func sortKeys(from first: Int) {
        let count = keys.count &- first
        guard count <= Self.comparedKeys else {
            let order = (first..<keys.count).sorted { precedes($0, $1) }
            for (place, key) in order.enumerated() { keys[first &+ place].sortedKey = key &- first }
            return
        }
        // Objects of a list mostly have the same members, written in the same order.
        if lastOrderCount == count, takeLastOrder(from: first) { return }
        let slots = unsafe keys.suffix(from: first)
        for index in slots.indices {
            var place = index
            while place > 0 {
                let before = unsafe slots[place &- 1].sortedKey
                guard precedes(first &+ index, first &+ before) else { break }
                unsafe slots[place].sortedKey = before
                place &-= 1
            }
            unsafe slots[place].sortedKey = index
        }
        lastOrderCount = count
        for index in slots.indices { lastOrder[index] = UInt8(truncatingIfNeeded: unsafe slots[index].sortedKey) }
    }

    /// Gives the keys the order of the last object with as many. Returns false if it is not certain to be theirs.
    @inline(__always)
    private mutating func takeLastOrder(from first: Int) -> Bool {
        let slots = unsafe keys.suffix(from: first)
        var previous: UInt64 = 0
        for index in slots.indices {
            let key = Int(lastOrder[index])
            let prefix = unsafe slots[key].prefix
            guard index == 0 || KeySlot.isInOrder(previous, prefix) else { return false }
            previous = prefix
            unsafe slots[index].sortedKey = key
        }
        return true
    }

    /// Compares two keys.
    private mutating func precedes(_ left: Int, _ right: Int) -> Bool {
        let (leftPrefix, rightPrefix) = (keys[left].prefix, keys[right].prefix)
        if KeySlot.isInOrder(leftPrefix, rightPrefix) { return true }
        if KeySlot.isInOrder(rightPrefix, leftPrefix) { return false }
        return compareWhole(left, right) < 0
    }

    @inline(never)
    private mutating func compareWhole(_ left: Int, _ right: Int) -> Int {
        JSONReader.compareUTF16(utf8(of: keys[left].token), utf8(of: keys[right].token))
    }

    @inline(never)
    private mutating func duplicateFailure(_ slot: KeySlot) -> JSONError {
        let key = text(of: slot.token)
        let index = slot.token.range.lowerBound - 1
        return JSONError(
            kind: .duplicateKey, message: "duplicate member \(Text.quoted(key))",
            byteOffset: index - document.lowerBound, pointer: pointer(at: index) + "/" + JSONPointer.foreignToken(key))
    }
}
