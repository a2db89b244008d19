#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// Names of the IANA time zone database, including links.
enum TimeZoneNames {
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
