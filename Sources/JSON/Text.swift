/// Byte-wise comparison and quoting of strings.
///
/// Swift's `==` and `<` on `String` treat canonically equivalent texts as equal; PostgreSQL, Kafka keys and hashes
/// compare bytes. Identities must agree with them, so strings are compared by these functions.
package enum Text {
    /// Whether two strings are the same bytes.
    package static func equal(_ left: String, _ right: String) -> Bool {
        // For ASCII strings `==` compares bytes.
        left == right && (left.utf8Span.isKnownASCII || left.utf8.elementsEqual(right.utf8))
    }

    /// Whether two optional strings are both absent or the same bytes.
    package static func equal(_ left: String?, _ right: String?) -> Bool {
        switch (left, right) {
        case (nil, nil): true
        case (let left?, let right?): equal(left, right)
        default: false
        }
    }

    /// Byte order, which is PostgreSQL's `COLLATE "C"`.
    package static func precedes(_ left: String, _ right: String) -> Bool {
        left.utf8.lexicographicallyPrecedes(right.utf8)
    }

    /// Hashes the bytes and their number.
    package static func hash(_ text: String, into hasher: inout Hasher) {
        var text = text
        text.withUTF8 { bytes in
            hasher.combine(bytes.count)
            hasher.combine(bytes: UnsafeRawBufferPointer(bytes))
        }
    }

    /// Whether `text` holds a C0 control, DEL or a C1 control (UTF-8 `C2 80`…`C2 9F`).
    package static func containsControlCharacter(_ text: String) -> Bool {
        var previous: UInt8 = 0
        for byte in text.utf8 {
            if byte < 0x20 || byte == 0x7F || (previous == 0xC2 && byte < 0xA0) { return true }
            previous = byte
        }
        return false
    }

    /// A foreign text for storing and logging: cut to `maximum` scalars, control characters replaced by spaces.
    package static func printable(_ text: String, maximum: Int) -> String {
        var result = ""
        for scalar in text.unicodeScalars.prefix(maximum) {
            let isControl = scalar.value < 0x20 || (0x7F..<0xA0).contains(scalar.value)
            result.unicodeScalars.append(isControl ? " " : scalar)
        }
        return result
    }

    /// `text` in double quotes for a message or a log, with quotes, control characters, line separators and direction
    /// marks escaped.
    ///
    /// - Parameter maximum: number of characters after which it is cut.
    package static func quoted(_ text: String, maximum: Int = 64) -> String {
        var result = "\""
        var count = 0
        for scalar in text.unicodeScalars {
            if count == maximum {
                result += "…"
                break
            }
            count += 1
            switch scalar {
            case "\"", "\\": result += "\\\(scalar)"
            default: append(scalar, to: &result)
            }
        }
        return result + "\""
    }

    /// `text` on one line, with control characters, line separators and direction marks escaped.
    package static func oneLine(_ text: String) -> String {
        var result = ""
        for scalar in text.unicodeScalars { append(scalar, to: &result) }
        return result
    }

    private static func append(_ scalar: Unicode.Scalar, to text: inout String) {
        switch scalar.value {
        case 0..<0x20, 0x7F..<0xA0, 0x2028...0x202E, 0x2066...0x2069:
            text += "\\u{" + String(scalar.value, radix: 16) + "}"
        default: text.unicodeScalars.append(scalar)
        }
    }
}
