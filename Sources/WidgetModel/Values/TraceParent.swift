// SPDX-License-Identifier: Apache-2.0

/// A W3C trace context in the form of the header `traceparent`: `00-<trace id>-<span id>-<flags>`.
package struct TraceParent: Hashable, Sendable, CustomStringConvertible {
    /// 32 and 16 lower-case hexadecimal digits.
    package let traceID: String
    package let spanID: String
    private let flags: UInt8
    private let text: String

    /// Whether the trace is recorded.
    package var isSampled: Bool { flags & 1 == 1 }

    package var description: String { text }

    /// Reads a header, or returns nil if it is invalid. Of a later version, the fields of this version are read.
    package init?(_ text: String) {
        let parts = text.split(separator: "-", omittingEmptySubsequences: false).map(String.init)
        guard parts.count >= 4,
            zip(parts, [2, 32, 16, 2]).allSatisfy({ $0.utf8.count == $1 && Self.isHexadecimal($0) }),
            parts[0] != "ff", parts[0] != "00" || parts.count == 4, let flags = UInt8(parts[3], radix: 16),
            parts[1...2].allSatisfy({ $0.contains { $0 != "0" } })
        else { return nil }
        (traceID, spanID) = (parts[1], parts[2])
        self.flags = flags
        self.text = "00-\(parts[1...3].joined(separator: "-"))"
    }

    private static func isHexadecimal(_ text: String) -> Bool {
        text.utf8.allSatisfy { $0.isASCIIDigit || (97...102).contains($0) }
    }
}
