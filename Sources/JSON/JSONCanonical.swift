// SPDX-License-Identifier: Apache-2.0

// The canonical form of RFC 8785: members sorted by UTF-16 code units, numbers as in ECMAScript, the fewest escapes, no
// white space.

extension JSONReader {
    /// Appends the RFC 8785 form of the next value in one pass, without a tree.
    package mutating func canonicalize(into out: inout [UInt8]) throws(JSONError) {
        try canonicalize(into: &out) { (reader) throws(JSONError) in _ = try reader.skip() }
    }

    /// Appends the RFC 8785 form of the values that a closure reads or skips.
    ///
    /// Bytes that are canonical already are copied as they stand, as many at a time as possible. Such a run ends at
    /// white space, at a number or a string that has another canonical form, and behind an object whose members need
    /// sorting.
    package mutating func canonicalize<Value>(
        into out: inout [UInt8], _ read: (inout JSONReader) throws(JSONError) -> Value
    ) throws(JSONError) -> Value {
        skipWhitespace()
        run = position
        defer { run = -1 }
        canonical.removeLast(to: 0)
        let value = try read(&self)
        endRun(at: position)
        unsafe out.append(contentsOf: UnsafeBufferPointer(canonical.suffix(from: 0)))
        return value
    }

    /// Place in the canonical form of a byte of the current run.
    @inline(__always)
    func written(_ index: Int) -> Int { canonical.count &+ index &- run }

    /// Copies the current run up to an index, where the next one begins.
    mutating func endRun(at index: Int) {
        unsafe bytes.withUnsafeBufferPointer {
            if let start = $0.baseAddress { unsafe canonical.append(start + run, count: index &- run) }
        }
        run = index
    }

    /// Writes a number that was just read.
    mutating func writeNumber(_ number: Range<Int>) {
        guard !isCanonical(number) else { return }
        endRun(at: number.lowerBound)
        var text: [UInt8] = []
        Decimal.append(value(of: number), to: &text)
        for byte in text { canonical.append(byte) }
        run = number.upperBound
    }

    /// Writes a string with escapes that was just read; the next run begins with its closing quote.
    mutating func writeEscaped(_ token: JSONStringToken) {
        endRun(at: token.start)
        var text: [UInt8] = []
        for byte in utf8(of: token) { JSONWriter.append(scalarByte: byte, to: &text) }
        for byte in text { canonical.append(byte) }
        run = token.end
    }

    /// Notes where the member of the latest key begins in the canonical form, and whether it is in order.
    mutating func writeKey(after first: Int) {
        let last = keys.count &- 1
        let token = keys[last].token
        keys[last].written.start = written(token.start &- 1)
        if token.hasEscapes { writeEscaped(token) }
        if last > first, compare(keys[last &- 1], keys[last]) > 0 { frames.last.isSorted = false }
    }

    /// Sorts the members of an object that has just ended.
    @inline(never)
    mutating func sortMembers(from first: Int) {
        endRun(at: position &- 1)
        let start = keys[first].written.start
        var slots = unsafe keys.suffix(from: first)
        unsafe slots.sort { compare($0, $1) < 0 }
        // Written in order behind the members, then moved to their place.
        let count = canonical.count &- start
        canonical.reserve(count)
        for index in slots.indices {
            if index > 0 { canonical.append(UInt8(ascii: ",")) }
            let (start, end) = unsafe slots[index].written
            unsafe canonical.append(canonical.pointer(to: start), count: end &- start)
        }
        unsafe canonical.pointer(to: start).update(from: canonical.pointer(to: start &+ count), count: count)
        canonical.removeLast(to: start &+ count)
    }

    /// Appends a string that was read, with its quotes, in its canonical form.
    package mutating func append(_ token: JSONStringToken, to out: inout [UInt8]) {
        guard token.hasEscapes else {
            return append((token.range.lowerBound - 1)..<(token.range.upperBound + 1), to: &out)
        }
        out.append(UInt8(ascii: "\""))
        for byte in utf8(of: token) { JSONWriter.append(scalarByte: byte, to: &out) }
        out.append(UInt8(ascii: "\""))
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

extension [UInt8] {
    /// Whether the bytes, which are canonical JSON, have a string or key with U+0000. PostgreSQL's `jsonb` cannot store
    /// it.
    package var hasEscapedNull: Bool {
        guard var index = firstIndex(of: UInt8(ascii: "\\")) else { return false }
        while index < endIndex {
            guard self[index] == UInt8(ascii: "\\") else {
                index += 1
                continue
            }
            if self[index...].starts(with: "\\u0000".utf8) { return true }
            index += 2
        }
        return false
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
