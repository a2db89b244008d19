/// Passing over values that are not well-formed, by their strings and brackets only.
extension JSONReader {
    /// Returns the body of the string member `name` of the next object, without moving the reader.
    ///
    /// Nil if there is no such member or it cannot be found.
    package func looseMember(_ name: String) -> ArraySlice<UInt8>? {
        var copy = self
        copy.skipWhitespace()
        guard copy.take(UInt8(ascii: "{")) else { return nil }
        while let key = copy.looseString(), copy.take(UInt8(ascii: ":")) {
            copy.skipWhitespace()
            if bytes[key].elementsEqual(name.utf8) { return copy.looseString().map { bytes[$0] } }
            guard (try? copy.looseSkip()) != nil, copy.take(UInt8(ascii: ",")) else { return nil }
        }
        return nil
    }

    /// Passes over the next value by its brackets.
    package mutating func looseSkip() throws(JSONError) {
        _ = try peek()
        var depth = 0
        while position < end {
            switch bytes[position] {
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
        skipWhitespace()
        guard position < end, bytes[position] == UInt8(ascii: "\"") else { return nil }
        var index = position + 1
        while index < end, bytes[index] != UInt8(ascii: "\"") {
            index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1
        }
        guard index < end else { return nil }
        defer { position = index + 1 }
        return (position + 1)..<index
    }
}
