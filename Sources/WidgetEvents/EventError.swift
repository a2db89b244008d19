// SPDX-License-Identifier: Apache-2.0

import JSON
internal import WidgetModel

/// Error of an invalid event, as recorded in dead letters.
package struct EventError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The raw values are stored with dead letters.
    package enum Code: String, CaseIterable, Sendable {
        /// The data or the structured envelope is not JSON (RFC 8259), or has a duplicate member.
        case malformedJSON
        /// Bytes that are not UTF-8, in the data or in an attribute.
        case invalidUTF8
        /// Longer than allowed.
        case tooLarge
        /// Neither JSON nor a CloudEvent in JSON.
        case unsupportedContentType
        /// A CloudEvents attribute is missing.
        case missingAttribute
        /// A CloudEvents attribute has an invalid value.
        case invalidAttribute
        /// The type is not an event type of Freshet.
        case unknownType
        /// The topic does not carry the type.
        case wrongTopic
        /// There is no data.
        case missingData
        /// A required member of the data is missing.
        case missingField
        /// A member of the data has the wrong JSON type.
        case wrongType
        /// A member of the data has an invalid value.
        case invalidValue
    }

    package let code: Code
    /// Description of the error, without control characters.
    package let message: String
    /// JSON pointer to the offending value: into the data in binary mode, into the whole event in structured mode.
    package let pointer: String?
    /// The event's app, if it could be read.
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
            case .syntax, .loneSurrogate, .duplicateKey, .tooDeep: .malformedJSON
            case .invalidUTF8: .invalidUTF8
            case .wrongType: .wrongType
            case .invalidValue, .numberOutOfRange: .invalidValue
            case .missingMember: .missingField
            }
        let isBroken = code == .malformedJSON || code == .invalidUTF8
        self.init(
            code: code, message: isBroken ? "\(error.message) at byte \(error.byteOffset)" : error.message,
            pointer: error.pointer)
    }

    /// The message with its place and without the code.
    package var placedMessage: String {
        pointer.map { $0.isEmpty ? message : "\($0): \(message)" } ?? message
    }

    package var description: String {
        let place = pointer.map { $0.isEmpty ? "" : " at \($0)" } ?? ""
        return "\(code.rawValue)\(place): \(message)"
    }
}
