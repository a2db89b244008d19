// SPDX-License-Identifier: Apache-2.0

// The canonical form of RFC 8785: members sorted by UTF-16 code units, numbers as in ECMAScript, the fewest escapes, no
// white space.

extension JSONReader {
    /// Appends the RFC 8785 form of the next value in one pass, without a tree.
    ///
    /// - Parameter prefix: text to append before it.
    package mutating func canonicalize(
        into out: inout [UInt8], after prefix: ShortText = ""
    ) throws(JSONError) {
        beginRun(after: prefix)
        defer { run = -1 }
        try skip()
        endRun(at: position)
        unsafe out.append(contentsOf: UnsafeBufferPointer(canonical.suffix(from: 0)))
    }

    /// Appends the RFC 8785 form of the values that a closure reads or skips.
    ///
    /// Bytes that are canonical already are copied as they stand, as many at a time as possible. Such a run ends at
    /// white space, at a number or a string that has another canonical form, and behind an object whose members need
    /// sorting.
    package mutating func canonicalize<Value>(
        into out: inout [UInt8], _ read: (inout JSONReader) throws(JSONError) -> Value
    ) throws(JSONError) -> Value {
        beginRun()
        defer { run = -1 }
        let value = try read(&self)
        endRun(at: position)
        unsafe out.append(contentsOf: UnsafeBufferPointer(canonical.suffix(from: 0)))
        return value
    }

    /// The RFC 8785 form of the values that a closure reads or skips.
    package mutating func canonicalText(
        _ read: (inout JSONReader) throws(JSONError) -> Void
    ) throws(JSONError) -> String {
        beginRun()
        defer { run = -1 }
        try read(&self)
        endRun(at: position)
        return unsafe String(decoding: UnsafeBufferPointer(canonical.suffix(from: 0)), as: UTF8.self)
    }

    private mutating func beginRun(after prefix: ShortText = "") {
        _ = nextByte()
        run = position
        canonical.removeLast(to: 0)
        canonical.append(prefix)
    }

    /// Place in the canonical form of a byte of the current run.
    @inline(__always)
    func written(_ index: Int) -> Int { canonical.count &+ index &- run }

    /// Copies the current run up to an index, where the next one begins.
    @inline(__always)
    mutating func endRun(at index: Int) {
        canonical.append(bytes, from: run, to: index)
        run = index
    }

    /// Writes a number that was just read, and that may be canonical.
    mutating func writeNumber(_ number: Range<Int>) {
        endRun(at: number.lowerBound)
        var text: [UInt8] = []
        Decimal.append(value(of: number), to: &text)
        canonical.append(text, from: 0, to: text.count)
        run = number.upperBound
    }

    /// Writes a string with escapes that was just read; the next run begins with its closing quote.
    mutating func writeEscaped(_ token: JSONStringToken) {
        endRun(at: token.start)
        var text: [UInt8] = []
        for byte in utf8(of: token) { JSONWriter.append(scalarByte: byte, to: &text) }
        canonical.append(text, from: 0, to: text.count)
        run = token.end
    }

    /// Sorts the members of the innermost object, which ends here.
    @inline(never)
    mutating func sortMembers() {
        endRun(at: position)
        let first = frame.firstKey
        sortKeys(from: first)
        // Each member is copied with the brace or the comma before it: in order behind the object, then to its place.
        let slots = unsafe keys.suffix(from: first)
        let (start, end) = unsafe (slots[0].written &- 1, canonical.count)
        canonical.reserve(end &- start &+ Stack<UInt8>.few)
        var firstMember = end
        for place in slots.indices {
            let member = unsafe slots[place].sortedKey
            if member == 0 { firstMember = canonical.count }
            let memberEnd = unsafe member &+ 1 == slots.count ? end : slots[member &+ 1].written &- 1
            unsafe canonical.appendAgain(from: slots[member].written &- 1, to: memberEnd)
        }
        canonical[firstMember] = UInt8(ascii: ",")
        canonical[end] = UInt8(ascii: "{")
        unsafe canonical.pointer(to: start).update(from: canonical.pointer(to: end), count: end &- start)
        canonical.removeLast(to: end)
    }

    /// Appends a string that was read, with its quotes, in its canonical form. For use while none is being written.
    ///
    /// - Parameters:
    ///   - prefix: text to append before it.
    ///   - suffix: text to append behind it.
    package mutating func append(
        _ token: JSONStringToken, after prefix: ShortText = "", before suffix: ShortText = "",
        to out: inout [UInt8]
    ) {
        canonical.removeLast(to: 0)
        canonical.append(prefix)
        if token.hasEscapes {
            canonical.append(UInt8(ascii: "\""))
            var text: [UInt8] = []
            for byte in utf8(of: token) { JSONWriter.append(scalarByte: byte, to: &text) }
            canonical.append(text, from: 0, to: text.count)
            canonical.append(UInt8(ascii: "\""))
        } else {
            canonical.append(bytes, from: token.start &- 1, to: token.end &+ 1)
        }
        canonical.append(suffix)
        unsafe out.append(contentsOf: UnsafeBufferPointer(canonical.suffix(from: 0)))
    }

    /// Appends a number that was read in its canonical form.
    package mutating func append(number: Range<Int>, to out: inout [UInt8]) {
        if isCanonical(number) { append(number, to: &out) } else { Decimal.append(value(of: number), to: &out) }
    }

    /// Appends bytes that were read.
    package func append(_ range: Range<Int>, to out: inout [UInt8]) {
        unsafe bytes.withUnsafeBufferPointer { unsafe out.append(contentsOf: UnsafeBufferPointer(rebasing: $0[range])) }
    }
}

extension String {
    /// Whether the text, which is canonical JSON, has a string or key with U+0000. PostgreSQL's `jsonb` cannot store
    /// it.
    package var hasEscapedNull: Bool {
        var text = self
        return text.withUTF8 { bytes in
            guard let backslash = unsafe Text.index(of: UInt8(ascii: "\\"), in: bytes) else { return false }
            var index = backslash
            while index < bytes.count {
                guard unsafe bytes[index] == UInt8(ascii: "\\") else {
                    index += 1
                    continue
                }
                if unsafe bytes[index...].starts(with: "\\u0000".utf8) { return true }
                index += 2
            }
            return false
        }
    }
}

extension [UInt8] {
    /// Appends the UTF-8 of a text.
    package mutating func append(_ text: String) {
        let isDone: Void? = unsafe text.utf8.withContiguousStorageIfAvailable { unsafe append(contentsOf: $0) }
        if isDone == nil { append(contentsOf: text.utf8) }
    }

    /// Appends the first bytes of words, of each word the lowest byte first.
    package mutating func append(words: (UInt64, UInt64, UInt64), count: Int) {
        let words = (words.0.littleEndian, words.1.littleEndian, words.2.littleEndian)
        unsafe Swift.withUnsafeBytes(of: words) {
            unsafe append(contentsOf: UnsafeRawBufferPointer(rebasing: $0[..<count]))
        }
    }
}

extension JSONReader {
    /// Order of UTF-16 code units over UTF-8 bytes.
    ///
    /// Bytes order as code units do, except that U+E000…U+FFFF (lead bytes EE and EF) come after the surrogates of
    /// the supplementary planes (lead bytes F0…F4).
    static func compareUTF16(
        _ left: some RandomAccessCollection<UInt8>, _ right: some RandomAccessCollection<UInt8>
    ) -> Int {
        var rightBytes = right.makeIterator()
        for leftByte in left {
            guard let rightByte = rightBytes.next() else { return 1 }
            guard leftByte != rightByte else { continue }
            if leftByte >= 0xEE, rightByte >= 0xEE, (leftByte >= 0xF0) != (rightByte >= 0xF0) {
                return leftByte >= 0xF0 ? -1 : 1
            }
            return leftByte < rightByte ? -1 : 1
        }
        return rightBytes.next() == nil ? 0 : -1
    }
}
