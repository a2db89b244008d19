extension JSONReader {
    /// An error at an index of the bytes, with the pointer to the value that was being read there.
    package func failure(_ kind: JSONError.Kind, _ message: String, at index: Int) -> JSONError {
        JSONError(
            kind: kind, message: message, byteOffset: index - document.lowerBound, pointer: pointer(at: index))
    }

    /// The error of the next value, whose kind has been looked at, when another was expected: its own if it is broken.
    package func wrongType(expected: String, found: JSONKind) -> JSONError {
        var copy = self
        do throws(JSONError) {
            try copy.skip()
        } catch {
            return error
        }
        return failure(.wrongType, "expected \(expected), found \(found.name)", at: position)
    }

    /// The error of an object, begun at an index of the bytes, that lacks a member.
    package func missing(_ member: String, inObjectAt index: Int) -> JSONError {
        JSONError(
            kind: .missingMember, message: "required member \(Text.quoted(member)) is missing",
            byteOffset: index - document.lowerBound, pointer: pointer(at: index) + "/" + JSONPointer.escape(member))
    }

    /// JSON pointer to the value at an index of the bytes; found by reading again from the origin.
    package func pointer(at index: Int) -> String {
        guard let origin, index >= origin.start else {
            return JSONPointer.locate(index, in: bytes, from: document.lowerBound)
        }
        return "\(origin.array)/\(origin.index)" + JSONPointer.locate(index, in: bytes, from: origin.start)
    }

    /// An error at the current position: the end, invalid UTF-8, or a byte that does not belong there.
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

    /// A byte as messages name it.
    static func name(of byte: UInt8) -> String {
        if byte > 0x20, byte < 0x7F { return "'\(Character(Unicode.Scalar(byte)))'" }
        let digits = String(byte, radix: 16, uppercase: true)
        return "byte 0x" + (digits.utf8.count == 1 ? "0" : "") + digits
    }
}
