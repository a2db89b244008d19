extension JSONReader {
    /// Appends the RFC 8785 form of the next value in one pass, without a tree.
    ///
    /// Members are written as they come. An object whose keys are out of order is sorted when it ends.
    package mutating func canonicalize(into out: inout [UInt8]) throws(JSONError) {
        switch try peek() {
        case .null:
            try literal("null")
            out.append(contentsOf: "null".utf8)
        case .bool:
            out.append(contentsOf: (try bool() ? "true" : "false").utf8)
        case .number:
            let number = try scanNumber()
            ES6Number.appendCanonical(literal: bytes[number], to: &out)
        case .string:
            let token = try scanString()
            append(token, to: &out)
        case .array:
            out.append(UInt8(ascii: "["))
            var array = try beginArray()
            while try nextElement(&array) {
                if array.index > 0 { out.append(UInt8(ascii: ",")) }
                try canonicalize(into: &out)
            }
            out.append(UInt8(ascii: "]"))
        case .object:
            try canonicalizeObject(into: &out)
        }
    }

    private mutating func canonicalizeObject(into out: inout [UInt8]) throws(JSONError) {
        out.append(UInt8(ascii: "{"))
        let firstMember = canonicalMembers.count
        var isSorted = true
        var object = try beginObject()
        while let key = try nextMember(&object) {
            if object.count > 1 {
                out.append(UInt8(ascii: ","))
                let last = keys.count - 1
                if isSorted, compare(keys[last - 1], keys[last]) > 0 { isSorted = false }
            }
            let start = out.count
            append(key, to: &out)
            out.append(UInt8(ascii: ":"))
            try canonicalize(into: &out)
            canonicalMembers.append(start..<out.count)
        }
        if !isSorted { sortMembers(of: object, from: firstMember, in: &out) }
        canonicalMembers.removeLast(canonicalMembers.count - firstMember)
        try closeKeys(of: object)
        out.append(UInt8(ascii: "}"))
    }

    /// Sorts the latest members, from `firstMember` on, by their keys.
    private func sortMembers(of object: JSONObjectCursor, from firstMember: Int, in out: inout [UInt8]) {
        // Binary insertion: `sorted` would copy the reader with each call of its closure.
        var order: [Int] = []
        order.reserveCapacity(object.count)
        for index in 0..<object.count {
            var place = 0
            var end = order.count
            while place < end {
                let middle = (place + end) / 2
                if compare(keys[object.firstKey + order[middle]], keys[object.firstKey + index]) < 0 {
                    place = middle + 1
                } else {
                    end = middle
                }
            }
            order.insert(index, at: place)
        }
        let start = canonicalMembers[firstMember].lowerBound
        let unsorted = Array(out[start...])
        out.removeLast(out.count - start)
        for (place, index) in order.enumerated() {
            if place > 0 { out.append(UInt8(ascii: ",")) }
            let member = canonicalMembers[firstMember + index]
            out.append(contentsOf: unsorted[(member.lowerBound - start)..<(member.upperBound - start)])
        }
    }

    /// Appends bytes of the document unchanged. It makes no slice, because a slice would retain the document.
    package func copy(_ range: Range<Int>, to out: inout [UInt8]) {
        bytes.withUnsafeBufferPointer { out.append(contentsOf: UnsafeBufferPointer(rebasing: $0[range])) }
    }

    /// Appends the canonical form of a string.
    package func append(_ token: JSONStringToken, to out: inout [UInt8]) {
        guard token.hasEscapes else {
            // Without escapes the string is already canonical, including its quotes.
            copy((token.range.lowerBound - 1)..<(token.range.upperBound + 1), to: &out)
            return
        }
        out.append(UInt8(ascii: "\""))
        JSONWriter.appendBody(utf8(of: token), to: &out)
        out.append(UInt8(ascii: "\""))
    }
}

/// Checks of canonical JSON text without parsing.
package enum CanonicalJSON {
    /// Whether a string or key contains U+0000, which PostgreSQL's `jsonb` cannot store.
    package static func containsNull(_ canonical: [UInt8]) -> Bool {
        var index = canonical.startIndex
        while index < canonical.endIndex {
            guard canonical[index] == UInt8(ascii: "\\") else {
                index += 1
                continue
            }
            if canonical[index...].starts(with: "\\u0000".utf8) { return true }
            index += 2
        }
        return false
    }
}
