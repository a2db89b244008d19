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
