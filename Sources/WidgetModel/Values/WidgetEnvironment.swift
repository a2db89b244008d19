// SPDX-License-Identifier: Apache-2.0

import JSON

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Device properties for the provider.
package struct WidgetEnvironment: Sendable {
    /// BCP 47 language tag such as `en-US` (shape and length are checked, not the registry).
    package let locale: String
    /// IANA time zone name such as `Europe/Berlin`.
    package let timeZone: String
    /// Reported values that cannot be used, with the pointers `/locale` and `/timeZone`. Neutral values stand for them.
    package let problems: [ModelError]

    /// Longest locale or time zone, in bytes.
    package static let maximumBytes = 64

    /// A stored environment, which is not checked again.
    package init(storedLocale locale: String, timeZone: String) {
        (self.locale, self.timeZone, problems) = (locale, timeZone, [])
    }

    /// The environment that a device reports, with neutral values for those that cannot be used: a kind that does not
    /// vary by them accepts its widgets all the same.
    ///
    /// - Parameters:
    ///   - locale: language tag, or an identifier of Foundation's `Locale` such as `en_US@calendar=japanese`.
    ///   - timeZone: name of a zone, or an offset such as `GMT+0530` or `+05:30`.
    package init(reportedLocale locale: String, timeZone: String) {
        var problems: [ModelError] = []
        let (tag, zone) = (Self.languageTag(from: locale), Self.timeZone(reportedAs: timeZone))
        if tag == nil {
            problems.append(
                ModelError(
                    message: "expected a BCP 47 language tag such as en-US, found \(Text.quoted(locale))",
                    pointer: "/locale"))
        }
        if zone == nil {
            problems.append(
                ModelError(
                    message: "expected an IANA time zone name such as Europe/Berlin, found \(Text.quoted(timeZone))",
                    pointer: "/timeZone"))
        }
        (self.locale, self.timeZone, self.problems) = (tag ?? "und", zone ?? "UTC", problems)
    }

    /// The environment with the values of an earlier one in place of reported values that cannot be used.
    package func completed(from earlier: WidgetEnvironment) -> WidgetEnvironment {
        func isUsable(_ pointer: String) -> Bool { !problems.contains { $0.pointer == pointer } }
        return WidgetEnvironment(
            storedLocale: isUsable("/locale") ? locale : earlier.locale,
            timeZone: isUsable("/timeZone") ? timeZone : earlier.timeZone)
    }

    /// - Parameters: as in ``init(reportedLocale:timeZone:)``.
    /// - Throws: `ModelError` with pointer `/locale` or `/timeZone`.
    package init(locale: String, timeZone: String) throws(ModelError) {
        self.init(reportedLocale: locale, timeZone: timeZone)
        if let problem = problems.first { throw problem }
    }
}

extension WidgetEnvironment: Hashable {
    package static func == (left: WidgetEnvironment, right: WidgetEnvironment) -> Bool {
        left.locale == right.locale && left.timeZone == right.timeZone
    }

    package func hash(into hasher: inout Hasher) {
        hasher.combine(locale)
        hasher.combine(timeZone)
    }
}

// MARK: - Languages

/// BCP 47 language tags from the identifiers of locales that devices report.
extension WidgetEnvironment {
    /// Longest identifier, in bytes.
    private static let maximumIdentifierBytes = 256

    /// Keys of the extension `u` for the keywords of ICU's identifiers. A keyword of two characters is a key itself.
    private static let extensionKeys = [
        "calendar": "ca", "collation": "co", "currency": "cu", "hours": "hc", "measure": "ms", "numbers": "nu",
    ]

    /// Types of the extension for values that have another name in ICU's identifiers.
    private static let extensionTypes = [
        "ca": ["gregorian": "gregory", "ethiopic-amete-alem": "ethioaa"],
        "co": ["dictionary": "dict", "gb2312han": "gb2312", "phonebook": "phonebk", "traditional": "trad"],
        "ms": ["us": "ussystem", "uk": "uksystem"],
    ]

    /// Makes a tag from one, or from an identifier of Foundation's `Locale`: `_` counts as `-`, and keywords become the
    /// extension `u`, such as `en-US-u-ca-japanese` for `en_US@calendar=japanese`. Those that have no place in it are
    /// left out. The result is nil without a language.
    private static func languageTag(from identifier: String) -> String? {
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
            guard tag.utf8.count + addition.utf8.count <= maximumBytes else { continue }
            tag += addition
            prefix = ""
        }
        return tag
    }

    /// Key and type for a keyword, such as `ca` and `japanese` for `calendar=japanese`; nil if it cannot be expressed.
    private static func attribute(_ keyword: String) -> (key: String, type: String)? {
        let parts = keyword.split(separator: "=", omittingEmptySubsequences: false)
        guard parts.count == 2 else { return nil }
        let key = extensionKeys[String(parts[0])] ?? String(parts[0])
        let type = extensionTypes[key]?[String(parts[1])] ?? String(parts[1])
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
        return text.count <= maximumBytes && subtags[0].count >= 2
            && subtags[0].allSatisfy(\.isASCIILetter)
            && subtags.allSatisfy { (1...8).contains($0.count) && $0.allSatisfy(\.isASCIIAlphanumeric) }
    }
}

// MARK: - Time zones

/// Names of the IANA time zone database, including links.
extension WidgetEnvironment {
    /// The name of a zone that a device reports: its name, or an offset from UTC such as `GMT+0530` or `+05:30`, for
    /// which a zone with this offset is taken. East is positive, as in Foundation's `TimeZone`. Nil for any other text.
    private static func timeZone(reportedAs text: String) -> String? {
        guard text.utf8.count <= maximumBytes else { return nil }
        if isZoneName(text.utf8), knowsZone(text) { return text }
        return offset(text).flatMap { zone(eastBy: $0) }
    }

    /// Components of letters, digits, `_`, `+`, `-` that start with a letter.
    private static func isZoneName(_ text: String.UTF8View) -> Bool {
        text.split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false).allSatisfy { component in
            component.first?.isASCIILetter == true
                && component.allSatisfy { $0.isASCIIAlphanumeric || "_+-".utf8.contains($0) }
        }
    }

    /// Minutes east of UTC: `GMT`, `UTC` or nothing, a sign, and `h`, `hh`, `hhmm` or `hh:mm`.
    private static func offset(_ text: String) -> Int? {
        let digits = text.hasPrefix("GMT") || text.hasPrefix("UTC") ? text.dropFirst(3) : text[...]
        guard let sign = digits.first, sign == "+" || sign == "-" else { return nil }
        let parts = digits.dropFirst().split(separator: ":", omittingEmptySubsequences: false)
        guard parts.count <= 2, parts.joined().utf8.allSatisfy(\.isASCIIDigit) else { return nil }
        let (hours, minutes): (Substring, Substring)
        if parts.count == 2 {
            (hours, minutes) = (parts[0], parts[1])
        } else {
            (hours, minutes) = (parts[0].prefix(2), parts[0].dropFirst(2))
        }
        guard (1...2).contains(hours.count), minutes.isEmpty && parts.count == 1 || minutes.count == 2,
            let hour = Int(hours), let minute = minutes.isEmpty ? 0 : Int(minutes), minute < 60
        else { return nil }
        return (sign == "+" ? 1 : -1) * (hour * 60 + minute)
    }

    /// Zones of the offsets that are no full hours, in minutes. Their clocks do not change, where there is such a zone;
    /// those of St. John's, Lord Howe and Chatham do, so that half of the year the time is another one.
    private static let zonesOfMinutes = [
        -570: "Pacific/Marquesas", -210: "America/St_Johns", -150: "America/St_Johns", 210: "Asia/Tehran",
        270: "Asia/Kabul", 330: "Asia/Kolkata", 345: "Asia/Kathmandu", 390: "Asia/Yangon", 525: "Australia/Eucla",
        570: "Australia/Darwin", 630: "Australia/Lord_Howe", 765: "Pacific/Chatham", 825: "Pacific/Chatham",
    ]

    private static func zone(eastBy minutes: Int) -> String? {
        guard minutes.isMultiple(of: 60) else { return zonesOfMinutes[minutes] }
        let hours = minutes / 60
        guard (-12...14).contains(hours) else { return nil }
        // In these names, west is positive.
        return hours == 0 ? "UTC" : "Etc/GMT\(hours > 0 ? "-" : "+")\(abs(hours))"
    }

    /// Returns true for the names of release 2025b of the IANA database, and for those of this machine's database.
    private static func knowsZone(_ name: String) -> Bool {
        if zoneNames.contains(name) { return true }
        // A zone of a later release. Files that are no zones, such as leapseconds, begin with a small letter.
        guard let first = name.utf8.first, first & 0x20 == 0 else { return false }
        let path = "/usr/share/zoneinfo/\(name)"
        return access(path, F_OK) == 0 && access(path + "/.", F_OK) != 0
    }

    /// The file names each region, followed by a colon and its zones.
    private static let zoneNames: Set<String> = {
        let text = String(decoding: PackageResources.TimeZones_txt, as: UTF8.self)
        var names: Set<String> = []
        var region = Substring()
        for word in text.split(whereSeparator: \.isWhitespace) {
            if word.hasSuffix(":") {
                region = word.dropLast()
            } else {
                names.insert(String(region + word))
            }
        }
        return names
    }()
}
