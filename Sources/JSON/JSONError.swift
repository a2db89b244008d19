// SPDX-License-Identifier: Apache-2.0

/// Error in JSON, with its place.
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        /// Text that is not RFC 8259 JSON.
        case syntax
        /// Bytes that are not UTF-8.
        case invalidUTF8
        /// A `\u` escape of half a surrogate pair.
        case loneSurrogate
        /// A member name that its object already has.
        case duplicateKey
        /// Nesting deeper than allowed.
        case tooDeep
        /// A number that an IEEE 754 double cannot hold: out of range, rounded to 0, or from 2^53 on and rounded.
        case numberOutOfRange
        /// A well-formed value of another type than expected.
        case wrongType
        /// A well-formed value of the right type that breaks a rule.
        case invalidValue
        /// An object without a required member. The pointer is where the member should be.
        case missingMember
    }

    package let kind: Kind
    /// Description with the expected and the found value, without its place. Contains no control characters.
    package let message: String
    /// Offset of the offending byte from the start of the document.
    package let byteOffset: Int
    /// JSON pointer to the value that was being read.
    package let pointer: String

    package init(kind: Kind, message: String, byteOffset: Int, pointer: String) {
        self.kind = kind
        self.message = message
        self.byteOffset = byteOffset
        self.pointer = pointer
    }

    package var description: String {
        "\(message) at byte \(byteOffset)" + (pointer.isEmpty ? "" : " (\(pointer))")
    }
}

/// A JSON pointer (RFC 6901).
package struct JSONPointer: Hashable, Sendable {
    /// Unescaped reference tokens; empty for the whole document.
    package let tokens: [String]

    package init(tokens: [String]) {
        self.tokens = tokens
    }

    /// Reads the string form: empty, or a `/` before each token, with `~0` for `~` and `~1` for `/`.
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

    /// Token that names every element of a list, for pointers that may name several values.
    package static let everyElement = "*"

    /// Whether the pointer names a value, or one that contains it, where ``everyElement`` names any element of a list.
    package func covers(_ place: ArraySlice<String>) -> Bool {
        tokens.count <= place.count
            && zip(tokens, place).allSatisfy { token, step in
                Text.equal(token, step) || Text.equal(token, Self.everyElement) && Int(step) != nil
            }
    }

    /// The string form.
    package var text: String { tokens.map { "/" + Self.escape($0) }.joined() }

    /// Makes a key of a foreign document a reference token for an error. Control characters, which cannot be stored,
    /// are replaced, and long keys are cut, so the pointer may not resolve.
    package static func foreignToken(_ key: String) -> String {
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
