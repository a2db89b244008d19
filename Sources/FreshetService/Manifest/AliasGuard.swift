/// Finds aliased collections as keys of mappings, which the YAML parser would hash with exponential cost if aliases nest.
///
/// It works on the text before parsing, and refuses files with an anchor, an alias and something like a complex key.
enum AliasGuard {
    static func firstAliasBesideComplexKey(in text: String) -> SourceMark? {
        var line = 1
        var column = 0
        var previous: UInt8 = newline
        var anchor = false
        var complexKey = false
        var alias: SourceMark?
        var key = KeyState.none
        let bytes = Array(text.utf8)
        for (index, byte) in bytes.enumerated() {
            // Columns count scalars.
            if byte & 0b1100_0000 != 0b1000_0000 { column += 1 }
            let next = index + 1 < bytes.count ? bytes[index + 1] : newline
            let startsToken = isSpace(previous) || isFlow(previous) || previous == UInt8(ascii: ":")
            switch byte {
            case UInt8(ascii: "&") where startsToken && !isSpace(next):
                anchor = true
            case UInt8(ascii: "*") where startsToken && !isSpace(next):
                if alias == nil { alias = SourceMark(line: line, column: column) }
            case UInt8(ascii: "?") where startsToken && isSpace(next):
                complexKey = true
            case UInt8(ascii: ":") where key != .none:
                complexKey = true
            default:
                break
            }
            key = key.after(byte, startsAlias: byte == UInt8(ascii: "*") && startsToken && !isSpace(next))
            if byte == newline {
                line += 1
                column = 0
            }
            previous = byte
        }
        return anchor && complexKey ? alias : nil
    }

    /// Whether a `:` would make a key of the preceding token.
    private enum KeyState {
        case none
        case alias
        /// After an alias or a closing bracket, and white space.
        case complete

        func after(_ byte: UInt8, startsAlias: Bool) -> KeyState {
            if startsAlias { return .alias }
            if byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}") { return .complete }
            switch self {
            case .none: return .none
            case .alias: return isSpace(byte) ? .complete : isFlow(byte) ? .none : .alias
            case .complete: return isSpace(byte) ? .complete : .none
            }
        }
    }

    private static let newline = UInt8(ascii: "\n")

    private static func isSpace(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: " ") || byte == UInt8(ascii: "\t") || byte == newline || byte == UInt8(ascii: "\r")
    }

    private static func isFlow(_ byte: UInt8) -> Bool {
        byte == UInt8(ascii: "[") || byte == UInt8(ascii: "{") || byte == UInt8(ascii: ",")
            || byte == UInt8(ascii: "]") || byte == UInt8(ascii: "}")
    }
}
