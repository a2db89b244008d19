/// Byte-wise comparison, quoting and rules of the model's strings.
///
/// Swift's `==` and `<` on `String` treat canonically equivalent texts as equal; PostgreSQL, Kafka keys and hashes
/// compare bytes. Identities must agree with them, so the model compares strings by these functions.
package enum Text {
    /// Longest id of an app, user, device, widget or kind, in UTF-8 bytes.
    package static let maximumIdentifierBytes = 256

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

    /// Reason why `text` is not a valid id, or nil: 1 to 256 bytes, no control characters (C0, DEL, C1).
    package static func identifierProblem(
        _ text: String, maximumBytes: Int = maximumIdentifierBytes
    ) -> String? {
        let count = text.utf8.count
        if count == 0 { return "must not be empty" }
        if count > maximumBytes {
            return "must be at most \(maximumBytes) bytes, is \(count)"
        }
        return containsControlCharacter(text) ? "must not contain control characters" : nil
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

    /// The text percent-encoded except for the unreserved characters of RFC 3986.
    package static func percentEncoded(_ text: String) -> String {
        text.utf8.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: String(UnicodeScalar(byte))
            default: (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
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
