/// Checks of canonical JSON text without parsing.
enum CanonicalJSON {
    /// Whether a string or key holds U+0000, which PostgreSQL's `jsonb` cannot.
    static func containsNull(_ canonical: [UInt8]) -> Bool {
        var index = canonical.startIndex
        while index < canonical.endIndex {
            guard canonical[index] == UInt8(ascii: "\\") else {
                index += 1
                continue
            }
            if canonical[index...].starts(with: "\\u0000".utf8) { return true }
            index += 2
        }
        return false
    }
}
