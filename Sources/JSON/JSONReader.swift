// SPDX-License-Identifier: Apache-2.0

/// Reads RFC 8259 JSON from bytes, value by value, without a tree and without copying values that are not requested.
///
/// Skipped values are checked as strictly as those that are read: UTF-8, escapes, surrogates, numbers, duplicate keys,
/// nesting.
///
/// ```swift
/// let object = try reader.beginObject()
/// while let key = try reader.nextKey() {
///     switch key {
///     case "app": app = try reader.string()
///     default: try reader.skip()
///     }
/// }
/// return try reader.require(app, "app", ofObjectAt: object)
/// ```
package struct JSONReader: ~Copyable {
    /// The default nesting limit of arrays and objects together.
    package static let defaultMaximumDepth = 64

    package let bytes: [UInt8]
    /// The document within `bytes`.
    private(set) var document: Range<Int>
    let maximumDepth: Int
    /// Whether numbers that a double cannot hold are refused.
    let checksNumbers: Bool
    /// JSON pointer to the first value that is read.
    let root: String
    /// Index in `bytes` of the next byte to read, within `document` or at its end.
    package internal(set) var position: Int
    /// The innermost open array or object.
    var frame = Frame(start: -1, firstKey: 0)
    /// The open arrays and objects around it, innermost last, behind one for the document.
    var outer = Stack<Frame>()
    /// Keys read so far of all open objects, innermost last.
    var keys = Stack<KeySlot>()
    /// Order of the keys of the last object that was sorted, for as many keys; see ``sortKeys(from:)``.
    var lastOrder = SIMD16<UInt8>()
    var lastOrderCount = 0
    /// The canonical form while one is written; see ``canonicalize(into:)``.
    var canonical = Stack<UInt8>()
    /// Start of the bytes that the canonical form takes unchanged and that are not copied yet; negative while none is
    /// written.
    var run = -1

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

    /// Begins another document in the same bytes, and keeps the memory.
    package mutating func restart(in range: Range<Int>) {
        document = range.clamped(to: 0..<bytes.count)
        position = document.lowerBound
        frame = Frame(start: -1, firstKey: 0)
        outer.removeLast(to: 0)
        keys.removeLast(to: 0)
        run = -1
    }

    @inline(__always)
    var end: Int { document.upperBound }

    // MARK: Bytes

    /// The byte at an index of the document. All indices derive from `position` and are compared with `end`.
    @inline(__always)
    func byte(_ index: Int) -> UInt8 { unsafe bytes.span[unchecked: index] }

    /// Eight bytes from an index on, the first one lowest. The caller has checked that `bytes` have them.
    @inline(__always)
    func word(_ index: Int) -> UInt64 {
        unsafe UInt64(
            littleEndian: bytes.span.bytes.unsafeLoadUnaligned(fromUncheckedByteOffset: index, as: UInt64.self))
    }

    /// Moves past white space and returns the byte there, which is left in place; 0, which begins nothing, at the end.
    @inline(__always)
    mutating func nextByte() -> UInt8 {
        if position < end {
            let byte = byte(position)
            if byte > 0x20 { return byte }
        }
        return nextByteAfterWhitespace()
    }

    @inline(never)
    private mutating func nextByteAfterWhitespace() -> UInt8 {
        var index = position
        while index < end, isWhitespace(byte(index)) {
            index &+= 1
            // Indentation.
            while index <= end &- 8, word(index) == 0x2020_2020_2020_2020 { index &+= 8 }
        }
        if run >= 0 { skipRun(from: position, to: index) }
        position = index
        return index < end ? byte(index) : 0
    }

    /// Leaves bytes out of the canonical form.
    @inline(__always)
    private mutating func skipRun(from start: Int, to index: Int) {
        canonical.append(bytes, from: run, to: start)
        run = index
    }

    /// Takes a byte and the single space behind it, if another byte than white space follows them.
    @inline(__always)
    private mutating func takeWithSpace(_ expected: UInt8) -> Bool {
        let next = position &+ 2
        guard next < end, byte(position) == expected, byte(position &+ 1) == 0x20, byte(next) > 0x20 else {
            return false
        }
        if run >= 0 { skipRun(from: position &+ 1, to: next) }
        position = next
        return true
    }

    @inline(__always)
    private func isWhitespace(_ byte: UInt8) -> Bool {
        byte == 0x20 || byte == 0x0A || byte == 0x0D || byte == 0x09
    }

    /// Takes `byte` if it comes next after white space.
    @inline(__always)
    mutating func take(_ expected: UInt8) -> Bool {
        guard nextByte() == expected else { return false }
        position &+= 1
        return true
    }

    // MARK: Scalars

    /// Moves past white space to the next value and returns its kind.
    package mutating func peek() throws(JSONError) -> JSONKind {
        switch nextByte() {
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
    @inline(never)
    package mutating func expect(_ kind: JSONKind) throws(JSONError) {
        let found = try peek()
        guard found == kind else { throw wrongType(expected: kind.name, found: found) }
    }

    /// Checks that nothing but white space follows.
    package mutating func finish() throws(JSONError) {
        _ = nextByte()
        guard position == end else { throw unexpected(expected: "the end of the document") }
    }

    /// Takes `null`. Leaves any other value.
    package mutating func takeNull() throws(JSONError) -> Bool {
        guard nextByte() == UInt8(ascii: "n") else {
            _ = try peek()
            return false
        }
        try literal("null")
        return true
    }

    package mutating func bool() throws(JSONError) -> Bool {
        try expect(.bool)
        let isTrue = byte(position) == UInt8(ascii: "t")
        try literal(isTrue ? "true" : "false")
        return isTrue
    }

    package mutating func string() throws(JSONError) -> String {
        text(of: try stringToken())
    }

    /// Reads a string and leaves its bytes in place.
    package mutating func stringToken() throws(JSONError) -> JSONStringToken {
        if nextByte() != UInt8(ascii: "\"") { try expect(.string) }
        let token = try scanString()
        if run >= 0, token.hasEscapes { writeEscaped(token) }
        return token
    }

    /// Reads a string and converts its UTF-8; throws if `convert` returns nil.
    @inline(__always)
    package mutating func string<Value>(
        _ expected: @autoclosure () -> String, _ convert: (ArraySlice<UInt8>) -> Value?
    ) throws(JSONError) -> Value {
        let token = try stringToken()
        guard let value = convert(utf8(of: token)) else { throw unexpected(token, expected()) }
        return value
    }

    /// The error for a string whose value is not as expected.
    @inline(never)
    package mutating func unexpected(_ token: JSONStringToken, _ expected: String) -> JSONError {
        failure(
            .invalidValue, "expected \(expected), found \(Text.quoted(text(of: token)))", at: token.range.lowerBound - 1
        )
    }

    package mutating func number() throws(JSONError) -> JSONNumber {
        let literal = try numberToken()
        return JSONNumber(
            checked: unsafe bytes.withUnsafeBufferPointer {
                unsafe String(decoding: UnsafeBufferPointer(rebasing: $0[literal]), as: UTF8.self)
            })
    }

    /// Reads a number and returns its place in the bytes.
    package mutating func numberToken() throws(JSONError) -> Range<Int> {
        try expect(.number)
        return try scanNumber()
    }

    /// Takes a literal of at most eight bytes.
    @inline(__always)
    mutating func literal(_ text: ShortText) throws(JSONError) {
        let after = position &+ text.count
        guard position <= bytes.count &- 8, after <= end,
            (word(position) ^ text.words.0) &<< UInt64(truncatingIfNeeded: 64 &- 8 &* text.count) == 0
        else { return try slowLiteral(text) }
        position = after
    }

    @inline(never)
    private mutating func slowLiteral(_ text: ShortText) throws(JSONError) {
        let start = position
        for expected in "\(text)".utf8 {
            guard position < end else {
                throw failure(.syntax, "unexpected end of input, expected \(text)", at: end)
            }
            guard expected == byte(position) else {
                throw failure(.syntax, "invalid literal, expected \(text)", at: start)
            }
            position &+= 1
        }
    }

    // MARK: Arrays and objects

    /// Opens the next array and returns the index of its first byte.
    @discardableResult
    package mutating func beginArray() throws(JSONError) -> Int {
        if nextByte() != UInt8(ascii: "[") { try expect(.array) }
        return try descend()
    }

    /// Moves to the next element of the innermost array, which the caller must then read or skip; returns false at the
    /// end.
    package mutating func nextElement() throws(JSONError) -> Bool {
        if frame.place < 0 || !takeWithSpace(UInt8(ascii: ",")) {
            let byte = nextByte()
            if byte == UInt8(ascii: "]") {
                position &+= 1
                ascend()
                return false
            }
            if frame.place >= 0 {
                guard byte == UInt8(ascii: ",") else { throw unexpected(expected: "',' or ']'") }
                position &+= 1
            }
        }
        frame.place &+= 1
        return true
    }

    /// Opens the next object and returns the index of its first byte.
    @discardableResult
    package mutating func beginObject() throws(JSONError) -> Int {
        if nextByte() != UInt8(ascii: "{") { try expect(.object) }
        return try descend()
    }

    /// Moves to the next member of the innermost object and returns its key, or nil at the end. The caller must then
    /// read or skip the value.
    ///
    /// In an object with more than 16 members, duplicate keys are found only at the end.
    package mutating func nextKey() throws(JSONError) -> JSONKey? { try nextMember() }

    /// See ``nextKey()``. Inlined where the name is not used, so that none is returned.
    @inline(__always)
    private mutating func nextMember() throws(JSONError) -> JSONKey? {
        if keys.count > frame.firstKey {
            if !takeWithSpace(UInt8(ascii: ",")) {
                let next = nextByte()
                if next == UInt8(ascii: "}") {
                    try endObject()
                    return nil
                }
                guard next == UInt8(ascii: ",") else { throw unexpected(expected: "',' or '}'") }
                position &+= 1
            }
            frame.place = Frame.none
            guard nextByte() == UInt8(ascii: "\"") else { throw unexpected(expected: "a member name") }
        } else {
            let next = nextByte()
            if next == UInt8(ascii: "}") {
                try endObject()
                return nil
            }
            guard next == UInt8(ascii: "\"") else { throw unexpected(expected: "a member name or '}'") }
        }
        let key = try scanKey()
        try remember(key)
        if !takeWithSpace(UInt8(ascii: ":")) {
            guard nextByte() == UInt8(ascii: ":") else { throw unexpected(expected: "':'") }
            position &+= 1
        }
        return key
    }

    /// Closes the innermost object at its closing brace.
    private mutating func endObject() throws(JSONError) {
        if run >= 0, !frame.isSorted { sortMembers() }
        position &+= 1
        let firstKey = frame.firstKey
        ascend()
        if keys.count &- firstKey > Self.comparedKeys { try checkManyKeys(from: firstKey) }
        keys.removeLast(to: firstKey)
    }

    /// Opens the next array or object.
    private mutating func descend() throws(JSONError) -> Int {
        let start = position
        guard outer.count < maximumDepth else {
            throw failure(.tooDeep, "nested deeper than \(maximumDepth) levels", at: start)
        }
        outer.append(frame)
        frame = Frame(start: start, firstKey: keys.count)
        position = start &+ 1
        return start
    }

    /// Closes the innermost array or object.
    @inline(__always)
    private mutating func ascend() {
        frame = outer.last
        outer.removeLast()
    }

    /// An open array or object.
    struct Frame: BitwiseCopyable {
        /// Place before the first element, and between a comma and the next key.
        static let none = -1

        /// Index of its first byte.
        let start: Int
        /// Index of the current element, or of the current key in the reader's keys.
        var place = none
        /// Number of keys of the containers around it.
        let firstKey: Int
        /// False once a member is out of the canonical order. Used only while the canonical form is written.
        var isSorted = true
    }

    // MARK: Skipping

    /// Checks the next value, passes over it, and returns its place in the bytes.
    @discardableResult
    package mutating func skip() throws(JSONError) -> Range<Int> {
        let first = nextByte()
        let start = position
        try skipValue(first)
        return unsafe Range(uncheckedBounds: (start, position))
    }

    /// Passes over the value at the current position.
    ///
    /// - Parameter first: its first byte.
    @inline(__always)
    private mutating func skipValue(_ first: UInt8) throws(JSONError) {
        switch first {
        case UInt8(ascii: "\""):
            let token = try scanString()
            if run >= 0, token.hasEscapes { writeEscaped(token) }
        case UInt8(ascii: "-"), UInt8(ascii: "0")...UInt8(ascii: "9"): _ = try scanNumber()
        case UInt8(ascii: "{"): try skipObject()
        case UInt8(ascii: "["): try skipArray()
        case UInt8(ascii: "t"): try literal("true")
        case UInt8(ascii: "f"): try literal("false")
        case UInt8(ascii: "n"): try literal("null")
        default: throw unexpected(expected: "a value")
        }
    }

    @inline(never)
    private mutating func skipObject() throws(JSONError) {
        _ = try descend()
        while try nextMember() != nil { try skipValue(nextByte()) }
    }

    @inline(never)
    private mutating func skipArray() throws(JSONError) {
        _ = try descend()
        while try nextElement() { try skipValue(nextByte()) }
    }

    /// A state of the reader that it can return to.
    package typealias Checkpoint = (position: Int, frames: Int, keys: Int)

    package var checkpoint: Checkpoint { (position, outer.count, keys.count) }

    /// Returns to a checkpoint of this reader within the same array or object, as if nothing had been read since.
    package mutating func rewind(to checkpoint: Checkpoint) {
        position = checkpoint.position
        if outer.count > checkpoint.frames {
            frame = outer[checkpoint.frames]
            outer.removeLast(to: checkpoint.frames)
        }
        keys.removeLast(to: checkpoint.keys)
    }

    // MARK: Values that are not well-formed

    /// Passes over the next value, which may be malformed except for its strings' ends and its brackets, and returns
    /// the body of its string member `name` if it has one that can be found.
    package mutating func skipLoosely(member name: ShortText) throws(JSONError) -> ArraySlice<UInt8>? {
        let start = checkpoint
        let body = looseMember(name)
        rewind(to: start)
        try skipBrackets()
        return body
    }

    private mutating func looseMember(_ name: ShortText) -> ArraySlice<UInt8>? {
        guard take(UInt8(ascii: "{")) else { return nil }
        while let key = looseString(), take(UInt8(ascii: ":")) {
            _ = nextByte()
            if name ~= ShortText(bytes, key) {
                return looseString().map { bytes[$0] }
            }
            guard (try? skipBrackets()) != nil, take(UInt8(ascii: ",")) else { return nil }
        }
        return nil
    }

    private mutating func skipBrackets() throws(JSONError) {
        _ = try peek()
        var depth = 0
        while position < end {
            switch byte(position) {
            case UInt8(ascii: "\""):
                guard looseString() != nil else { throw failure(.syntax, "unterminated string", at: position) }
                if depth == 0 { return }
                continue
            case UInt8(ascii: "{"), UInt8(ascii: "["):
                depth += 1
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                // At the outermost level this bracket closes the container of the value.
                if depth == 0 { return }
                depth -= 1
                if depth == 0 {
                    position += 1
                    return
                }
            case UInt8(ascii: ","):
                if depth == 0 { return }
            default:
                break
            }
            position += 1
        }
        if depth > 0 { throw failure(.syntax, "unexpected end of input", at: end) }
    }

    /// Passes over a string and returns its body. Returns nil without moving if the next value is not a string or the
    /// string does not end.
    private mutating func looseString() -> Range<Int>? {
        guard nextByte() == UInt8(ascii: "\"") else { return nil }
        var index = position + 1
        while index < end, byte(index) != UInt8(ascii: "\"") {
            index += byte(index) == UInt8(ascii: "\\") ? 2 : 1
        }
        guard index < end else { return nil }
        defer { position = index + 1 }
        return (position + 1)..<index
    }
}

// MARK: - Errors

extension JSONReader {
    /// An error at an index of the bytes, with the pointer to the value that was being read there.
    @inline(never)
    package mutating func failure(_ kind: JSONError.Kind, _ message: String, at index: Int) -> JSONError {
        JSONError(
            kind: kind, message: message, byteOffset: index - document.lowerBound, pointer: pointer(at: index))
    }

    /// The error for a next value of another kind than expected. If the value itself is broken, its own error.
    @inline(never)
    package mutating func wrongType(expected: String, found: JSONKind) -> JSONError {
        let start = checkpoint
        do throws(JSONError) {
            try skip()
        } catch {
            return error
        }
        rewind(to: start)
        return failure(.wrongType, "expected \(expected), found \(found.name)", at: position)
    }

    /// The error for an object without a required member; the object starts at an index of the bytes.
    @inline(never)
    package mutating func missing(_ member: String, inObjectAt index: Int) -> JSONError {
        JSONError(
            kind: .missingMember, message: "required member \(Text.quoted(member)) is missing",
            byteOffset: index - document.lowerBound, pointer: pointer(at: index) + "/" + JSONPointer.escape(member))
    }

    /// The value of a required member of an object that has been read.
    @inline(__always)
    package mutating func require<Value>(
        _ value: Value?, _ member: StaticString, ofObjectAt index: Int
    ) throws(JSONError) -> Value {
        guard let value else { throw missing("\(member)", inObjectAt: index) }
        return value
    }

    /// JSON pointer to the value at an index of the bytes. The value is the current one or contains it.
    package mutating func pointer(at index: Int) -> String {
        var pointer = root
        for number in 0...outer.count {
            let frame = number < outer.count ? outer[number] : frame
            guard frame.start < index else { break }
            guard frame.place >= 0 else { continue }
            if byte(frame.start) == UInt8(ascii: "[") {
                pointer += "/\(frame.place)"
            } else if frame.place < keys.count {
                pointer += "/" + JSONPointer.foreignToken(text(of: keys[frame.place].token))
            }
        }
        return pointer
    }

    /// An error at the current position: the end of the input, invalid UTF-8, or an unexpected byte.
    @inline(never)
    mutating func unexpected(expected: String) -> JSONError {
        guard position < end else {
            return failure(.syntax, "unexpected end of input, expected \(expected)", at: end)
        }
        if position == document.lowerBound, bytes[position..<end].starts(with: [0xEF, 0xBB, 0xBF]) {
            return failure(.syntax, "a byte order mark is not allowed", at: position)
        }
        if byte(position) >= 0x80, sequenceLength(at: position) == nil {
            return failure(.invalidUTF8, "invalid UTF-8, expected \(expected)", at: position)
        }
        return failure(.syntax, "unexpected \(Self.name(of: byte(position))), expected \(expected)", at: position)
    }

    /// Name of a byte in messages.
    static func name(of byte: UInt8) -> String {
        if byte > 0x20, byte < 0x7F { return "'\(Character(Unicode.Scalar(byte)))'" }
        let digits = String(byte, radix: 16, uppercase: true)
        return "byte 0x" + (digits.utf8.count == 1 ? "0" : "") + digits
    }
}
