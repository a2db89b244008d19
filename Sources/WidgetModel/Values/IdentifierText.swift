import JSON

extension Text {
    /// Longest id of an app, user, device, widget or kind, in UTF-8 bytes.
    package static let maximumIdentifierBytes = 256

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

    /// The text percent-encoded except for the unreserved characters of RFC 3986.
    package static func percentEncoded(_ text: String) -> String {
        text.utf8.map { byte in
            switch byte {
            case 0x30...0x39, 0x41...0x5A, 0x61...0x7A, 0x2D, 0x2E, 0x5F, 0x7E: String(UnicodeScalar(byte))
            default: (byte < 16 ? "%0" : "%") + String(byte, radix: 16, uppercase: true)
            }
        }.joined()
    }
}
