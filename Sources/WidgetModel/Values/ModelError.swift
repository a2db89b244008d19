package import JSON

/// Violation of a rule of the model, with its place in the document.
package struct ModelError: Error, Hashable, Sendable, CustomStringConvertible {
    /// Expected and found value. Holds no control character, so it can be logged and stored.
    package let message: String
    /// JSON pointer (RFC 6901) to the offending value; empty for the whole document.
    package let pointer: String

    package init(message: String, pointer: String = "") {
        self.message = message
        self.pointer = pointer
    }

    package var description: String { pointer.isEmpty ? message : "\(pointer): \(message)" }
}

/// All errors of a document in the order of the checks; never empty.
package struct ModelErrors: Error, Hashable, Sendable, CustomStringConvertible {
    package let errors: [ModelError]

    init(_ errors: [ModelError]) {
        self.errors = errors
    }

    package var description: String { errors.map(\.description).joined(separator: "\n") }
}

extension JSONError {
    /// The error as an error of the model.
    package var modelError: ModelError { ModelError(message: message, pointer: pointer) }
}
