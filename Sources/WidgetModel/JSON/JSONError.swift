/// Error in JSON, with its place.
package struct JSONError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Kind: Hashable, Sendable {
        /// Not RFC 8259 JSON.
        case syntax
        /// Bytes that are not UTF-8.
        case invalidUTF8
        /// A `\u` escape of half a surrogate pair.
        case loneSurrogate
        /// A member name that its object already has.
        case duplicateKey
        /// Nested deeper than allowed.
        case tooDeep
        /// A number that an IEEE 754 double cannot hold: out of range, nearer to 0 than any other, or from 2^53 on and rounded.
        case numberOutOfRange
        /// Well-formed, but another type of value was asked for.
        case wrongType
        /// Well-formed and of the right type, but against a rule of the value.
        case invalidValue
        /// An object without a member that it must have; the pointer is where it should be.
        case missingMember
    }

    package let kind: Kind
    /// Expected and found value, without its place. Holds no control character.
    package let message: String
    /// Offset of the offending byte from the start of the document.
    package let byteOffset: Int
    /// JSON pointer to the value that was being read.
    package let pointer: String

    /// As an error of the model.
    package var modelError: ModelError { ModelError(message: message, pointer: pointer) }

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
