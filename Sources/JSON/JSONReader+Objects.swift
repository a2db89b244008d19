/// Progress through an object.
package struct JSONObjectCursor: Sendable {
    /// Number of members begun.
    package fileprivate(set) var count = 0
    /// Index of the object's first byte.
    package let start: Int
    /// Index of the object's first key in the reader's stack.
    let firstKey: Int
    let firstDecoded: Int
}

/// A key of an open object, kept to find duplicates and to sort the members.
struct KeySlot: Sendable {
    /// Length of the decoded key in bytes.
    let count: Int
    /// The first eight bytes of the decoded key, the first byte lowest, with zeros beyond its end. Most keys differ
    /// here.
    let prefix: UInt64
    /// Beginning of the decoded key, in the document or in `decodedKeys`.
    let start: Int
    let isDecoded: Bool
    /// Index of the opening quote.
    let offset: Int
}

extension JSONReader {
    /// Number of keys up to which each key is compared with all keys before it. The keys of larger objects are sorted
    /// at the end.
    private static let comparedKeys = 16

    package mutating func beginObject() throws(JSONError) -> JSONObjectCursor {
        try expect(.object)
        let start = position
        try descend()
        return JSONObjectCursor(start: start, firstKey: keys.count, firstDecoded: decodedKeys.count)
    }

    /// Moves to the next member and returns its key, or nil at the end. The caller must then read or skip the value.
    ///
    /// In an object with more than 16 members, duplicate keys are found only at the end.
    package mutating func nextKey(_ object: inout JSONObjectCursor) throws(JSONError) -> JSONStringToken? {
        if let token = try nextMember(&object) { return token }
        try closeKeys(of: object)
        return nil
    }

    /// Does the same as `nextKey`, but keeps the keys at the end for `closeKeys`.
    mutating func nextMember(_ object: inout JSONObjectCursor) throws(JSONError) -> JSONStringToken? {
        if take(UInt8(ascii: "}")) {
            frames.removeLast()
            return nil
        }
        if object.count > 0, !take(UInt8(ascii: ",")) { throw unexpected(expected: "',' or '}'") }
        frames[frames.count - 1].place = nil
        skipWhitespace()
        guard position < end, bytes[position] == UInt8(ascii: "\"") else {
            throw unexpected(expected: object.count > 0 ? "a member name" : "a member name or '}'")
        }
        let token = try scanString()
        try remember(token, of: object)
        frames[frames.count - 1].place = .key(token.range)
        guard take(UInt8(ascii: ":")) else { throw unexpected(expected: "':'") }
        object.count &+= 1
        return token
    }

    /// Forgets the keys of an object that has ended. Throws if a larger object has duplicate keys.
    mutating func closeKeys(of object: JSONObjectCursor) throws(JSONError) {
        if object.count > Self.comparedKeys {
            let sorted = keys[object.firstKey...].sorted { compare($0, $1) < 0 }
            var duplicate: KeySlot?
            for index in sorted.indices.dropFirst() where isSame(sorted[index - 1], sorted[index]) {
                let later = sorted[index - 1].offset > sorted[index].offset ? sorted[index - 1] : sorted[index]
                if duplicate.map({ later.offset < $0.offset }) ?? true { duplicate = later }
            }
            if let duplicate { throw duplicateFailure(duplicate) }
        }
        keys.removeLast(keys.count - object.firstKey)
        decodedKeys.removeLast(decodedKeys.count - object.firstDecoded)
    }

    private mutating func remember(_ token: JSONStringToken, of object: JSONObjectCursor) throws(JSONError) {
        let offset = token.range.lowerBound - 1
        let slot: KeySlot
        if token.hasEscapes {
            let start = decodedKeys.count
            Self.unescape(bytes[token.range], into: &decodedKeys)
            let count = decodedKeys.count - start
            slot = KeySlot(
                count: count, prefix: Self.prefix(of: decodedKeys, at: start, count: count), start: start,
                isDecoded: true, offset: offset)
        } else {
            let start = token.range.lowerBound
            let count = token.range.count
            slot = KeySlot(
                count: count, prefix: Self.prefix(of: bytes, at: start, count: count), start: start, isDecoded: false,
                offset: offset)
        }
        if object.count < Self.comparedKeys {
            for index in object.firstKey..<keys.count where isSame(keys[index], slot) {
                throw duplicateFailure(slot)
            }
        }
        if keys.capacity == 0 { keys.reserveCapacity(Self.comparedKeys) }
        keys.append(slot)
    }

    private static func prefix(of bytes: [UInt8], at start: Int, count: Int) -> UInt64 {
        if start + 8 <= bytes.count {
            // Any eight bytes form a UInt64, and the load is checked against the array's bounds.
            let word = UInt64(
                littleEndian: bytes.span.bytes.unsafeLoadUnaligned(fromByteOffset: start, as: UInt64.self))
            return count >= 8 ? word : word & ((1 << UInt64(count * 8)) - 1)
        }
        var word: UInt64 = 0
        for index in 0..<count { word |= UInt64(bytes[start + index]) << UInt64(index * 8) }
        return word
    }

    func isSame(_ left: KeySlot, _ right: KeySlot) -> Bool {
        guard left.prefix == right.prefix, left.count == right.count else { return false }
        guard left.count > 8 else { return true }
        return isEqual(left, right)
    }

    private func isEqual(_ left: KeySlot, _ right: KeySlot) -> Bool {
        if left.isDecoded || right.isDecoded { return keyBytes(left).elementsEqual(keyBytes(right)) }
        for offset in 8..<left.count where bytes[left.start + offset] != bytes[right.start + offset] { return false }
        return true
    }

    /// The decoded key.
    private func keyBytes(_ slot: KeySlot) -> ArraySlice<UInt8> {
        (slot.isDecoded ? decodedKeys : bytes)[slot.start..<(slot.start + slot.count)]
    }

    /// Compares keys by UTF-16 code units, as RFC 8785 sorts. The result is negative, zero or positive.
    func compare(_ left: KeySlot, _ right: KeySlot) -> Int {
        let isASCII = (left.prefix | right.prefix) & 0x8080_8080_8080_8080 == 0
        if isASCII, left.prefix != right.prefix {
            // The first byte is lowest, so byte-swapped words compare like the bytes. The shorter key is padded with
            // zeros.
            return left.prefix.byteSwapped < right.prefix.byteSwapped ? -1 : 1
        }
        return UTF16Order.compare(keyBytes(left), keyBytes(right))
    }

    private func duplicateFailure(_ slot: KeySlot) -> JSONError {
        let key = String(decoding: keyBytes(slot), as: UTF8.self)
        let container = pointer(at: slot.offset)
        return JSONError(
            kind: .duplicateKey, message: "duplicate member \(Text.quoted(key))",
            byteOffset: slot.offset - document.lowerBound, pointer: container + "/" + JSONPointer.foreignToken(key))
    }
}

/// Order of UTF-16 code units over UTF-8 bytes.
enum UTF16Order {
    /// Bytes order as code units do, except that U+E000…U+FFFF (lead bytes EE and EF) come after the surrogates of
    /// the supplementary planes (lead bytes F0…F4).
    static func compare(
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
