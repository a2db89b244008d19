/// The static secret that guards `/v1`. Never printed.
package struct BearerToken: Sendable, CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    private let bytes: [UInt8]

    /// Fewest bytes of a token; shorter ones can be guessed.
    package static let minimumBytes = 16

    /// Nil when `text` is shorter than 16 bytes or cannot stand in a header.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count >= Self.minimumBytes, bytes.allSatisfy({ (0x21...0x7E).contains($0) }) else { return nil }
        self.bytes = bytes
    }

    /// Whether an `Authorization` header presents this token.
    func admits(authorization header: String) -> Bool {
        let scheme = "bearer "
        guard header.utf8.count > scheme.utf8.count, header.prefix(scheme.count).lowercased() == scheme else {
            return false
        }
        return matches(Array(header.dropFirst(scheme.count).utf8))
    }

    /// Takes the same time wherever the first difference lies; only the length that was presented shows.
    func matches(_ presented: [UInt8]) -> Bool {
        var difference: UInt8 = presented.count == bytes.count ? 0 : 1
        for index in presented.indices {
            difference |= presented[index] ^ bytes[index % bytes.count]
        }
        return difference == 0
    }

    package var description: String { "<redacted>" }
    package var debugDescription: String { description }
    package var customMirror: Mirror { Mirror(self, children: []) }
}
