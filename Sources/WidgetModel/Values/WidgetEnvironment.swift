/// Device properties for the provider.
package struct WidgetEnvironment: Hashable, Sendable {
    /// BCP 47 language tag such as `en-US` (shape and length are checked, not the registry).
    package let locale: String
    /// IANA time zone name such as `Europe/Berlin`.
    package let timeZone: String

    /// Longest locale or time zone, in bytes.
    package static let maximumBytes = 64

    /// A stored environment, which is not checked again.
    package init(storedLocale locale: String, timeZone: String) {
        self.locale = locale
        self.timeZone = timeZone
    }

    /// - Parameters:
    ///   - locale: subtags separated by `-`; Apple's `_` is accepted and stored as `-`.
    ///   - timeZone: components separated by `/`.
    /// - Throws: `ModelError` with pointer `/locale` or `/timeZone`.
    package init(locale: String, timeZone: String) throws(ModelError) {
        guard Self.isLocale(locale.utf8) else {
            throw ModelError(
                message: "expected a BCP 47 language tag such as en-US, found \(Text.quoted(locale))",
                pointer: "/locale")
        }
        guard Self.isTimeZone(timeZone.utf8), TimeZoneNames.contain(timeZone) else {
            throw ModelError(
                message: "expected an IANA time zone name such as Europe/Berlin, found \(Text.quoted(timeZone))",
                pointer: "/timeZone")
        }
        self.locale = locale.utf8.contains(UInt8(ascii: "_")) ? String(locale.map { $0 == "_" ? "-" : $0 }) : locale
        self.timeZone = timeZone
    }

    /// A language of 2 to 8 letters, then subtags of 1 to 8 letters and digits.
    private static func isLocale(_ text: String.UTF8View) -> Bool {
        let subtags = text.split(omittingEmptySubsequences: false) {
            $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
        }
        return text.count <= maximumBytes && subtags[0].count >= 2 && subtags[0].allSatisfy(isLetter)
            && subtags.allSatisfy { (1...8).contains($0.count) && $0.allSatisfy { isLetter($0) || isDigit($0) } }
    }

    /// Components of letters, digits, `_`, `+`, `-` that start with a letter.
    private static func isTimeZone(_ text: String.UTF8View) -> Bool {
        let components = text.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return text.count <= maximumBytes
            && components.allSatisfy { component in
                component.first.map(isLetter) ?? false
                    && component.allSatisfy { isLetter($0) || isDigit($0) || "_+-".utf8.contains($0) }
            }
    }

    private static func isLetter(_ byte: UInt8) -> Bool { (97...122).contains(byte | 0x20) }

    private static func isDigit(_ byte: UInt8) -> Bool { (48...57).contains(byte) }
}
