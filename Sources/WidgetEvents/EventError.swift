internal import WidgetModel

/// Why a message is not an event that can be applied; what a dead letter says.
package struct EventError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The raw values are stored with dead letters.
    package enum Code: String, CaseIterable, Sendable {
        /// The data, or the structured envelope, is not JSON as RFC 8259 has it, or has a duplicate member.
        case malformedJSON
        /// Bytes that are not UTF-8, in the data or in an attribute.
        case invalidUTF8
        /// Longer than allowed.
        case tooLarge
        /// Neither JSON nor a CloudEvent in JSON.
        case unsupportedContentType
        /// A CloudEvents attribute is missing.
        case missingAttribute
        /// A CloudEvents attribute has a value that it cannot have.
        case invalidAttribute
        /// No event type of Freshet.
        case unknownType
        /// A type that this topic does not carry.
        case wrongTopic
        /// There is no data.
        case missingData
        /// A required member of the data is missing.
        case missingField
        /// A member of the data has the wrong JSON type.
        case wrongType
        /// A member of the data has a value that it cannot have.
        case invalidValue
    }

    package let code: Code
    /// What is wrong and what was expected. Valid UTF-8 without control characters, so that it can be stored.
    package let message: String
    /// JSON pointer to the offending value: into the data in binary mode, into the whole event in structured mode.
    package let pointer: String?
    /// The app that the event names, when it could be read.
    package internal(set) var app: String?

    package init(code: Code, message: String, pointer: String? = nil, app: String? = nil) {
        self.code = code
        self.message = message
        self.pointer = pointer
        self.app = app
    }

    init(_ error: JSONError) {
        let code: Code =
            switch error.kind {
            case .syntax, .loneSurrogate, .duplicateKey, .tooDeep, .numberOutOfRange: .malformedJSON
            case .invalidUTF8: .invalidUTF8
            case .wrongType: .wrongType
            case .invalidValue: .invalidValue
            case .missingMember: .missingField
            }
        let isBroken = code == .malformedJSON || code == .invalidUTF8
        self.init(
            code: code, message: isBroken ? "\(error.message) at byte \(error.byteOffset)" : error.message,
            pointer: error.pointer)
    }

    package var description: String {
        let place = pointer.map { $0.isEmpty ? "" : " at \($0)" } ?? ""
        return "\(code.rawValue)\(place): \(message)"
    }
}
