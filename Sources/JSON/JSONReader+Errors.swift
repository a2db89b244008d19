extension JSONReader {
    /// An error at an index of the bytes, with the pointer to the value that was being read there.
    package func failure(_ kind: JSONError.Kind, _ message: String, at index: Int) -> JSONError {
        JSONError(
            kind: kind, message: message, byteOffset: index - document.lowerBound, pointer: pointer(at: index))
    }

    /// The error for a next value of another kind than expected. If the value itself is broken, its own error.
    package func wrongType(expected: String, found: JSONKind) -> JSONError {
        var copy = self
        do throws(JSONError) {
            try copy.skip()
        } catch {
            return error
        }
        return failure(.wrongType, "expected \(expected), found \(found.name)", at: position)
    }

    /// The error for an object without a required member; the object starts at an index of the bytes.
    package func missing(_ member: String, inObjectAt index: Int) -> JSONError {
        JSONError(
            kind: .missingMember, message: "required member \(Text.quoted(member)) is missing",
            byteOffset: index - document.lowerBound, pointer: pointer(at: index) + "/" + JSONPointer.escape(member))
    }

    /// The value of a required member of an object that has been read.
    package func require<Value>(
        _ value: Value?, _ member: String, of object: JSONObjectCursor
    ) throws(JSONError) -> Value {
        guard let value else { throw missing(member, inObjectAt: object.start) }
        return value
    }

    /// JSON pointer to the value at an index of the bytes. The value is the current one or contains it.
    package func pointer(at index: Int) -> String {
        frames.prefix { $0.start < index }.reduce(into: root) { pointer, frame in
            switch frame.place {
            case .index(let index): pointer += "/\(index)"
            case .key(let key):
                var decoded: [UInt8] = []
                Self.unescape(bytes[key], into: &decoded)
                pointer += "/" + JSONPointer.foreignToken(String(decoding: decoded, as: UTF8.self))
            case nil: break
            }
        }
    }

    /// An error at the current position: the end of the input, invalid UTF-8, or an unexpected byte.
    func unexpected(expected: String) -> JSONError {
        guard position < end else {
            return failure(.syntax, "unexpected end of input, expected \(expected)", at: end)
        }
        let byte = bytes[position]
        if position == document.lowerBound, bytes[position..<end].starts(with: [0xEF, 0xBB, 0xBF]) {
            return failure(.syntax, "a byte order mark is not allowed", at: position)
        }
        if byte >= 0x80, UTF8Check.sequenceLength(in: bytes, at: position, end: end) == nil {
            return failure(.invalidUTF8, "invalid UTF-8, expected \(expected)", at: position)
        }
        return failure(.syntax, "unexpected \(Self.name(of: byte)), expected \(expected)", at: position)
    }

    /// Name of a byte in messages.
    static func name(of byte: UInt8) -> String {
        if byte > 0x20, byte < 0x7F { return "'\(Character(Unicode.Scalar(byte)))'" }
        let digits = String(byte, radix: 16, uppercase: true)
        return "byte 0x" + (digits.utf8.count == 1 ? "0" : "") + digits
    }
}
