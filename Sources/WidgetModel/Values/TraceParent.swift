/// A W3C trace context, as the header `traceparent` has it: `00-<trace id>-<span id>-<flags>`.
package struct TraceParent: Hashable, Sendable, CustomStringConvertible {
    /// 32 and 16 lower-case hexadecimal digits.
    package let traceID: String
    package let spanID: String
    private let flags: UInt8
    private let text: String

    /// Whether the trace is recorded.
    package var isSampled: Bool { flags & 1 == 1 }

    package var description: String { text }

    /// nil for what the recommendation calls invalid. A later version is read as far as this one goes.
    package init?(_ text: String) {
        let bytes = Array(text.utf8)
        guard bytes.count >= 55, bytes[2] == UInt8(ascii: "-"), bytes[35] == UInt8(ascii: "-"),
            bytes[52] == UInt8(ascii: "-"), let version = Self.byte(bytes[0..<2]), version != 0xFF,
            version == 0 ? bytes.count == 55 : bytes.count == 55 || bytes[55] == UInt8(ascii: "-"),
            Self.isID(bytes[3..<35]), Self.isID(bytes[36..<52]), let flags = Self.byte(bytes[53..<55])
        else { return nil }
        traceID = String(decoding: bytes[3..<35], as: UTF8.self)
        spanID = String(decoding: bytes[36..<52], as: UTF8.self)
        self.flags = flags
        self.text = "00-\(traceID)-\(spanID)-\(String(decoding: bytes[53..<55], as: UTF8.self))"
    }

    private static func digit(_ byte: UInt8) -> UInt8? {
        switch byte {
        case UInt8(ascii: "0")...UInt8(ascii: "9"): byte - UInt8(ascii: "0")
        case UInt8(ascii: "a")...UInt8(ascii: "f"): byte - UInt8(ascii: "a") + 10
        default: nil
        }
    }

    private static func byte(_ digits: ArraySlice<UInt8>) -> UInt8? {
        guard let high = digits.first.flatMap(digit), let low = digits.last.flatMap(digit) else { return nil }
        return high << 4 | low
    }

    private static func isID(_ digits: ArraySlice<UInt8>) -> Bool {
        digits.allSatisfy { digit($0) != nil } && digits.contains { $0 != UInt8(ascii: "0") }
    }
}
