/// Reads RFC 8259 JSON from bytes, value by value, without a tree and without copying values that are not requested.
///
/// Skipped values are checked as strictly as those that are read: UTF-8, escapes, surrogates, numbers, duplicate keys,
/// nesting.
///
/// ```swift
/// var object = try reader.beginObject()
/// while let key = try reader.nextKey(&object) {
///     if reader.matches(key, "app") { app = try reader.string() } else { try reader.skip() }
/// }
/// ```
package struct JSONReader: Sendable {
    /// The default nesting limit of arrays and objects together.
    package static let defaultMaximumDepth = 64

    package let bytes: [UInt8]
    /// The document within `bytes`.
    let document: Range<Int>
    let maximumDepth: Int
    /// Whether numbers that a double cannot hold are refused.
    let checksNumbers: Bool
    /// Index in `bytes` of the next byte to read.
    package internal(set) var position: Int
    /// JSON pointer to the first value that is read.
    let root: String
    /// Open arrays and objects, innermost last.
    var frames: [Frame] = []
    /// Keys read so far of all open objects, innermost last.
    var keys: [KeySlot] = []
    /// Decoded forms of the keys that have escapes.
    var decodedKeys: [UInt8] = []
    /// Finished members of all open objects that are being written in canonical form.
    var canonicalMembers: [Range<Int>] = []

    /// - Parameters:
    ///   - bytes: shared, never copied.
    ///   - range: place of the document in `bytes`, clamped to their bounds; all of them if nil.
    ///   - index: index of the value in the document to begin with; the start of the document if nil.
    ///   - root: JSON pointer to that value.
    ///   - checksNumbers: false for a document whose numbers are not used.
    package init(
        _ bytes: [UInt8], in range: Range<Int>? = nil, startingAt index: Int? = nil, root: String = "",
        maximumDepth: Int = defaultMaximumDepth, checksNumbers: Bool = true
    ) {
        self.bytes = bytes
        self.checksNumbers = checksNumbers
        self.root = root
        let document = range?.clamped(to: 0..<bytes.count) ?? 0..<bytes.count
        self.document = document
        self.maximumDepth = maximumDepth
        position = max(document.lowerBound, min(index ?? document.lowerBound, document.upperBound))
    }

    var end: Int { document.upperBound }

    /// Moves past white space to the next value and returns its kind.
    package mutating func peek() throws(JSONError) -> JSONKind {
        skipWhitespace()
        guard position < end else { throw failure(.syntax, "unexpected end of input, expected a value", at: end) }
        switch bytes[position] {
        case UInt8(ascii: "{"): return .object
        case UInt8(ascii: "["): return .array
        case UInt8(ascii: "\""): return .string
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): return .number
        case UInt8(ascii: "t"), UInt8(ascii: "f"): return .bool
        case UInt8(ascii: "n"): return .null
        default: throw unexpected(expected: "a value")
        }
    }

    /// Checks that the next value is of this kind.
    package mutating func expect(_ kind: JSONKind) throws(JSONError) {
        let found = try peek()
        guard found == kind else { throw wrongType(expected: kind.name, found: found) }
    }

    /// Checks that nothing but white space follows.
    package mutating func finish() throws(JSONError) {
        skipWhitespace()
        guard position == end else { throw unexpected(expected: "the end of the document") }
    }

    @inline(__always)
    mutating func skipWhitespace() {
        while position < end {
            switch bytes[position] {
            case 0x20, 0x0A, 0x0D, 0x09: position &+= 1
            default: return
            }
        }
    }

    /// Takes `byte` if it comes next after white space.
    mutating func take(_ byte: UInt8) -> Bool {
        skipWhitespace()
        guard position < end, bytes[position] == byte else { return false }
        position &+= 1
        return true
    }

    // MARK: Scalars

    /// Takes `null`. Leaves any other value.
    package mutating func takeNull() throws(JSONError) -> Bool {
        guard try peek() == .null else { return false }
        try literal("null")
        return true
    }

    package mutating func bool() throws(JSONError) -> Bool {
        try expect(.bool)
        if bytes[position] == UInt8(ascii: "t") {
            try literal("true")
            return true
        }
        try literal("false")
        return false
    }

    package mutating func string() throws(JSONError) -> String {
        try expect(.string)
        let token = try scanString()
        return text(of: token)
    }

    /// Reads a string and leaves its bytes in place.
    package mutating func stringToken() throws(JSONError) -> JSONStringToken {
        try expect(.string)
        return try scanString()
    }

    package mutating func number() throws(JSONError) -> JSONNumber {
        try expect(.number)
        let number = try scanNumber()
        return JSONNumber(checked: String(decoding: bytes[number], as: UTF8.self))
    }

    mutating func literal(_ text: StaticString) throws(JSONError) {
        let start = position
        for index in 0..<text.utf8CodeUnitCount {
            guard position < end else {
                throw failure(.syntax, "unexpected end of input, expected \(text)", at: end)
            }
            guard bytes[position] == text.utf8Start[index] else {
                throw failure(.syntax, "invalid literal, expected \(text)", at: start)
            }
            position &+= 1
        }
    }

    // MARK: Arrays

    package mutating func beginArray() throws(JSONError) -> JSONArrayCursor {
        try expect(.array)
        try descend()
        return JSONArrayCursor()
    }

    /// Moves to the next element, which the caller must then read or skip; returns false at the end.
    package mutating func nextElement(_ array: inout JSONArrayCursor) throws(JSONError) -> Bool {
        if take(UInt8(ascii: "]")) {
            frames.removeLast()
            return false
        }
        if array.count > 0, !take(UInt8(ascii: ",")) { throw unexpected(expected: "',' or ']'") }
        frames[frames.count - 1].place = .index(array.count)
        array.count &+= 1
        return true
    }

    /// Opens the next array or object.
    mutating func descend() throws(JSONError) {
        guard frames.count < maximumDepth else {
            throw failure(.tooDeep, "nested deeper than \(maximumDepth) levels", at: position)
        }
        frames.append(Frame(start: position))
        position &+= 1
    }

    // MARK: Skipping

    /// Checks the next value, passes over it, and returns its place in the bytes.
    @discardableResult
    package mutating func skip() throws(JSONError) -> Range<Int> {
        let kind = try peek()
        let start = position
        switch kind {
        case .null: try literal("null")
        case .bool: try literal(bytes[position] == UInt8(ascii: "t") ? "true" : "false")
        case .number: _ = try scanNumber()
        case .string: _ = try scanString()
        case .array:
            var array = try beginArray()
            while try nextElement(&array) { try skip() }
        case .object:
            var object = try beginObject()
            while try nextKey(&object) != nil { try skip() }
        }
        return start..<position
    }

    /// An open array or object.
    struct Frame: Sendable {
        enum Place {
            case index(Int)
            /// The body of the member's key.
            case key(Range<Int>)
        }

        /// Index of its first byte.
        let start: Int
        /// The current element or member; nil before the first one.
        var place: Place?
    }

    /// A state of the reader that it can return to.
    package struct Checkpoint: Sendable {
        let position: Int
        let frames: Int
        let keys: Int
        let decodedKeys: Int
        let canonicalMembers: Int
    }

    package var checkpoint: Checkpoint {
        Checkpoint(
            position: position, frames: frames.count, keys: keys.count, decodedKeys: decodedKeys.count,
            canonicalMembers: canonicalMembers.count)
    }

    /// Returns to a checkpoint of this reader, as if nothing had been read since.
    package mutating func rewind(to checkpoint: Checkpoint) {
        position = checkpoint.position
        frames.removeLast(frames.count - checkpoint.frames)
        keys.removeLast(keys.count - checkpoint.keys)
        decodedKeys.removeLast(decodedKeys.count - checkpoint.decodedKeys)
        canonicalMembers.removeLast(canonicalMembers.count - checkpoint.canonicalMembers)
    }
}

/// Progress through an array.
package struct JSONArrayCursor: Sendable {
    /// Number of elements begun.
    package fileprivate(set) var count = 0

    /// Index of the current element.
    package var index: Int { count - 1 }
}
