/// Device properties for the provider.
package struct WidgetEnvironment: Hashable, Sendable {
    /// BCP 47 language tag such as `en-US` (shape and length are checked, not the registry).
    package let locale: String
    /// IANA time zone name such as `Europe/Berlin`.
    package let timeZone: String

    /// Longest locale or time zone, in bytes.
    package static let maximumBytes = 64

    /// An environment that was checked before it was stored; not checked again.
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
        if locale.utf8.contains(UInt8(ascii: "_")) {
            self.locale = String(
                decoding: locale.utf8.map { $0 == UInt8(ascii: "_") ? UInt8(ascii: "-") : $0 }, as: UTF8.self)
        } else {
            self.locale = locale
        }
        self.timeZone = timeZone
    }

    /// A language of 2 to 8 letters, then subtags of 1 to 8 letters and digits.
    private static func isLocale(_ text: String.UTF8View) -> Bool {
        guard text.count <= maximumBytes else { return false }
        var length = 0
        var isLanguage = true
        for byte in text {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
                length += 1
            case UInt8(ascii: "0")...UInt8(ascii: "9") where !isLanguage:
                length += 1
            case UInt8(ascii: "-"), UInt8(ascii: "_"):
                guard length >= (isLanguage ? 2 : 1) else { return false }
                isLanguage = false
                length = 0
            default:
                return false
            }
            guard length <= 8 else { return false }
        }
        return length >= (isLanguage ? 2 : 1)
    }

    /// Components of letters, digits, `_`, `+`, `-` that start with a letter.
    private static func isTimeZone(_ text: String.UTF8View) -> Bool {
        guard text.count <= maximumBytes else { return false }
        var length = 0
        for byte in text {
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"):
                length += 1
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "_"), UInt8(ascii: "+"), UInt8(ascii: "-"):
                guard length > 0 else { return false }
                length += 1
            case UInt8(ascii: "/"):
                guard length > 0 else { return false }
                length = 0
            default:
                return false
            }
        }
        return length > 0
    }
}
