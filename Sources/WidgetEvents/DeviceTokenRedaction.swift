// SPDX-License-Identifier: Apache-2.0

import JSON
internal import WidgetModel

extension EventAttributes {
    /// The value of a message that becomes a dead letter, without the texts of a device's channel, whatever type the
    /// message says it has: tokens are secrets, and dead letters are not encrypted. Nil if it is to be stored without a
    /// value, since it may hold a token that cannot be found in it.
    package func redactedValue(of bytes: [UInt8], _ value: Range<Int>) -> [UInt8]? {
        let payload = Array(bytes[value])
        let type = Array(EventType.deviceRegistered.rawValue.utf8)
        let registers = self.type.map { bytes[$0].elementsEqual(type) } ?? false || payload.contains(type)
        guard case .object(var document)? = try? JSONValue.parse(payload) else {
            return registers || Self.signs.contains { payload.contains($0) } ? nil : payload
        }
        let original = document
        document.redactChannel()
        if case .object(var data)? = document["data"] {
            data.redactChannel()
            document["data"] = .object(data)
        }
        // Of an unknown type, it may be anything.
        if document["data_base64"] != nil, registers || !isOfAnotherType(bytes) {
            document["data_base64"] = JSONValue.redacted
        }
        return document == original ? payload : JSONValue.object(document).encoded
    }

    /// Words of a message that is no JSON and may hold a token.
    private static let signs = ["apns", "token", "channel"].map { Array($0.utf8) }

    /// Whether a message is of a known type that registers no device.
    private func isOfAnotherType(_ bytes: [UInt8]) -> Bool {
        type.flatMap { EventType(rawValue: String(decoding: bytes[$0], as: UTF8.self)) } != nil
    }
}

extension JSONValue {
    fileprivate static let redacted: JSONValue = "[redacted]"

    /// A part of a channel without its texts and numbers, since a rejected registration may have the token in the wrong
    /// place. The environment and the topic stay.
    fileprivate var withoutTexts: JSONValue {
        switch self {
        case .null, .bool: self
        case .string, .number: .redacted
        case .array(let elements): .array(elements.map(\.withoutTexts))
        case .object(let object):
            .object(
                JSONObject(
                    object.members.map { member in
                        let isPublic = ["environment", "topic"].contains(member.key)
                        return (key: member.key, value: isPublic ? member.value : member.value.withoutTexts)
                    }))
        }
    }
}

extension JSONObject {
    fileprivate mutating func redactChannel() {
        if let channel = self["channel"] { self["channel"] = channel.withoutTexts }
    }
}
