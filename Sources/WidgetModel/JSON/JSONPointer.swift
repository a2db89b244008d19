/// A JSON pointer (RFC 6901).
package struct JSONPointer: Hashable, Sendable {
    /// Unescaped reference tokens; none names the whole document.
    package let tokens: [String]

    package init(tokens: [String]) {
        self.tokens = tokens
    }

    /// Reads the string form: empty, or each token after a `/`, with `~0` for `~` and `~1` for `/`.
    package init?(_ text: String) {
        guard !text.isEmpty else {
            tokens = []
            return
        }
        guard text.utf8.first == UInt8(ascii: "/") else { return nil }
        var tokens: [String] = []
        for part in text.utf8.dropFirst().split(separator: UInt8(ascii: "/"), omittingEmptySubsequences: false) {
            var token: [UInt8] = []
            var bytes = part.makeIterator()
            while let byte = bytes.next() {
                guard byte == UInt8(ascii: "~") else {
                    token.append(byte)
                    continue
                }
                switch bytes.next() {
                case UInt8(ascii: "0"): token.append(UInt8(ascii: "~"))
                case UInt8(ascii: "1"): token.append(UInt8(ascii: "/"))
                default: return nil
                }
            }
            tokens.append(String(decoding: token, as: UTF8.self))
        }
        self.tokens = tokens
    }

    /// The string form.
    package var text: String { tokens.map { "/" + Self.escape($0) }.joined() }

    /// A key of a foreign document as a reference token of an error: what is unfit for storing (control characters) or
    /// too long is replaced, so such a pointer may not resolve.
    static func foreignToken(_ key: String) -> String {
        let isLong = key.utf8.count > maximumForeignBytes
        guard isLong || Text.containsControlCharacter(key) else { return escape(key) }
        return escape(Text.printable(key, maximum: maximumForeignBytes / 4) + (isLong ? "…" : ""))
    }

    private static let maximumForeignBytes = 256

    /// A reference token in the string form.
    package static func escape(_ token: String) -> String {
        guard token.utf8.contains(where: { $0 == UInt8(ascii: "~") || $0 == UInt8(ascii: "/") }) else { return token }
        var out: [UInt8] = []
        for byte in token.utf8 {
            switch byte {
            case UInt8(ascii: "~"): out.append(contentsOf: "~0".utf8)
            case UInt8(ascii: "/"): out.append(contentsOf: "~1".utf8)
            default: out.append(byte)
            }
        }
        return String(decoding: out, as: UTF8.self)
    }
}

// MARK: Finding a place

extension JSONPointer {
    private enum Frame {
        case array(index: Int)
        /// The body of the current member's key; nil before there is one.
        case object(key: Range<Int>?)
    }

    /// Pointer, from the value at `start`, to the innermost value that has begun before, or begins at, `index`.
    ///
    /// Everything before the index is taken to be well-formed. The pointer of a key is its object's.
    static func locate(_ index: Int, in bytes: [UInt8], from start: Int) -> String {
        var frames: [Frame] = []
        var position = start
        var expectsKey = false
        while position < index {
            switch bytes[position] {
            case UInt8(ascii: "{"):
                frames.append(.object(key: nil))
                expectsKey = true
            case UInt8(ascii: "["):
                frames.append(.array(index: 0))
                expectsKey = false
            case UInt8(ascii: "}"), UInt8(ascii: "]"):
                _ = frames.popLast()
                expectsKey = false
            case UInt8(ascii: ","):
                switch frames.popLast() {
                case .array(let index):
                    frames.append(.array(index: index + 1))
                case .object:
                    frames.append(.object(key: nil))
                    expectsKey = true
                case nil: break
                }
            case UInt8(ascii: "\""):
                let body = stringBody(from: position + 1, to: index, in: bytes)
                if expectsKey, body.upperBound < index, case .object = frames.last {
                    frames[frames.count - 1] = .object(key: body)
                    expectsKey = false
                }
                position = body.upperBound
            default:
                break
            }
            position += 1
        }
        return text(of: frames, in: bytes)
    }

    /// The bytes up to the closing quote or the limit.
    private static func stringBody(from start: Int, to limit: Int, in bytes: [UInt8]) -> Range<Int> {
        var position = start
        while position < limit, bytes[position] != UInt8(ascii: "\"") {
            position += bytes[position] == UInt8(ascii: "\\") ? 2 : 1
        }
        return start..<max(start, min(position, limit))
    }

    private static func text(of frames: [Frame], in bytes: [UInt8]) -> String {
        var result = ""
        for frame in frames {
            switch frame {
            case .array(let index):
                result += "/\(index)"
            case .object(let key?):
                var decoded: [UInt8] = []
                JSONReader.unescape(bytes[key], into: &decoded)
                result += "/" + foreignToken(String(decoding: decoded, as: UTF8.self))
            case .object(nil):
                continue
            }
        }
        return result
    }
}
