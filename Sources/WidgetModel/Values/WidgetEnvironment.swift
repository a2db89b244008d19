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
        return text.count <= maximumBytes && subtags[0].count >= 2 && subtags[0].allSatisfy(\.isASCIILetter)
            && subtags.allSatisfy { (1...8).contains($0.count) && $0.allSatisfy { $0.isASCIIAlphanumeric } }
    }

    /// Components of letters, digits, `_`, `+`, `-` that start with a letter.
    private static func isTimeZone(_ text: String.UTF8View) -> Bool {
        let components = text.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false)
        return text.count <= maximumBytes
            && components.allSatisfy { component in
                component.first?.isASCIILetter == true
                    && component.allSatisfy { $0.isASCIIAlphanumeric || "_+-".utf8.contains($0) }
            }
    }
}
