#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Names of the IANA time zone database, including links.
enum TimeZoneNames {
    /// The name of a zone that a device reports: its name, or an offset from UTC such as `GMT+0530` or `+05:30`, for
    /// which a zone with this offset is taken. East is positive, as in Foundation's `TimeZone`. Nil for any other text.
    static func name(reportedAs text: String) -> String? {
        guard text.utf8.count <= WidgetEnvironment.maximumBytes else { return nil }
        if isName(text.utf8), contain(text) { return text }
        return offset(text).flatMap { zone(eastBy: $0) }
    }

    /// Components of letters, digits, `_`, `+`, `-` that start with a letter.
    private static func isName(_ text: String.UTF8View) -> Bool {
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

    /// Zones of the offsets that are no full hours, in minutes. Their clocks do not change, where there is such a zone; those
    /// of St. John's, Lord Howe and Chatham do, so that half of the year the time is another one.
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
    static func contain(_ name: String) -> Bool {
        if all.contains(name) { return true }
        // A zone of a later release. Files that are no zones, such as leapseconds, begin with a small letter.
        guard let first = name.utf8.first, first & 0x20 == 0 else { return false }
        let path = "/usr/share/zoneinfo/\(name)"
        return access(path, F_OK) == 0 && access(path + "/.", F_OK) != 0
    }

    /// The file names each region, followed by a colon and its zones.
    private static let all: Set<String> = {
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
