/// BCP 47 language tags from the identifiers of locales that devices report.
enum LanguageTag {
    /// Longest identifier, in bytes.
    private static let maximumIdentifierBytes = 256

    /// Keys of the extension `u` for the keywords of ICU's identifiers. A keyword of two characters is a key itself.
    private static let keys = [
        "calendar": "ca", "collation": "co", "currency": "cu", "hours": "hc", "measure": "ms", "numbers": "nu",
    ]

    /// Types of the extension for values that have another name in ICU's identifiers.
    private static let types = [
        "ca": ["gregorian": "gregory", "ethiopic-amete-alem": "ethioaa"],
        "co": ["dictionary": "dict", "gb2312han": "gb2312", "phonebook": "phonebk", "traditional": "trad"],
        "ms": ["us": "ussystem", "uk": "uksystem"],
    ]

    /// Makes a tag from one, or from an identifier of Foundation's `Locale`: `_` counts as `-`, and keywords become the
    /// extension `u`, such as `en-US-u-ca-japanese` for `en_US@calendar=japanese`. Those that have no place in it are
    /// left out. The result is nil without a language.
    static func make(from identifier: String) -> String? {
        guard identifier.utf8.count <= maximumIdentifierBytes else { return nil }
        let parts = identifier.split(separator: "@", maxSplits: 1, omittingEmptySubsequences: false)
        var tag = parts[0].contains("_") ? String(parts[0].map { $0 == "_" ? "-" : $0 }) : String(parts[0])
        guard isTag(tag.utf8) else { return nil }
        // An extension that the tag has already, or a private subtag, which ends it, is left as it is.
        guard parts.count == 2, !tag.split(separator: "-").contains(where: { $0.utf8.count == 1 }) else { return tag }
        var extensions: [String: String] = [:]
        for keyword in parts[1].split(separator: ";") {
            if let (key, type) = attribute(keyword.lowercased()) { extensions[key] = type }
        }
        var prefix = "-u"
        for (key, type) in extensions.sorted(by: { $0.key < $1.key }) {
            let addition = "\(prefix)-\(key)-\(type)"
            guard tag.utf8.count + addition.utf8.count <= WidgetEnvironment.maximumBytes else { continue }
            tag += addition
            prefix = ""
        }
        return tag
    }

    /// Key and type for a keyword, such as `ca` and `japanese` for `calendar=japanese`; nil if it cannot be expressed.
    private static func attribute(_ keyword: String) -> (key: String, type: String)? {
        let parts = keyword.split(separator: "=", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let key = keys[String(parts[0])] ?? String(parts[0])
        let type = types[key]?[String(parts[1])] ?? String(parts[1])
        guard key.utf8.count == 2, key.utf8.allSatisfy(\.isASCIIAlphanumeric), key.utf8.last?.isASCIILetter == true,
            type.split(separator: "-", omittingEmptySubsequences: false).allSatisfy({ subtag in
                (3...8).contains(subtag.utf8.count) && subtag.utf8.allSatisfy(\.isASCIIAlphanumeric)
            })
        else { return nil }
        return (key, type)
    }

    /// A language of 2 to 8 letters, then subtags of 1 to 8 letters and digits.
    private static func isTag(_ text: String.UTF8View) -> Bool {
        let subtags = text.split(separator: UInt8(ascii: "-"), omittingEmptySubsequences: false)
        return text.count <= WidgetEnvironment.maximumBytes && subtags[0].count >= 2
            && subtags[0].allSatisfy(\.isASCIILetter)
            && subtags.allSatisfy { (1...8).contains($0.count) && $0.allSatisfy(\.isASCIIAlphanumeric) }
    }
}
