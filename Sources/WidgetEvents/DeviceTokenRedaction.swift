internal import WidgetModel

/// Removes the tokens of devices from messages that become dead letters, since tokens are secrets and dead letters are
/// not encrypted.
package enum DeviceTokenRedaction {
    private static let redacted: JSONValue = "[redacted]"

    /// The value of a message, without the channel's texts if the message registers a device. Nil if it is to be stored
    /// without a value, since the token cannot be found in it.
    package static func value(of bytes: [UInt8], _ value: Range<Int>, attributes: EventAttributes) -> [UInt8]? {
        let payload = Array(bytes[value])
        let type = Array(EventType.deviceRegistered.rawValue.utf8)
        guard attributes.type.map({ bytes[$0].elementsEqual(type) }) ?? false || payload.contains(type) else {
            return payload
        }
        guard case .object(var document)? = try? JSONValue.parse(payload) else { return nil }
        document.redactChannel()
        if case .object(var data)? = document["data"] {
            data.redactChannel()
            document["data"] = .object(data)
        }
        if document["data_base64"] != nil { document["data_base64"] = redacted }
        return JSONValue.object(document).encoded
    }

    /// A part of a channel without its texts and numbers, since a rejected registration may have the token in the wrong
    /// place. The environment and the topic stay.
    fileprivate static func redact(_ value: JSONValue) -> JSONValue {
        switch value {
        case .null, .bool: value
        case .string, .number: redacted
        case .array(let elements): .array(elements.map(redact))
        case .object(let object):
            .object(
                JSONObject(
                    object.members.map { member in
                        let isPublic = ["environment", "topic"].contains(member.key)
                        return JSONObject.Member(
                            key: member.key, value: isPublic ? member.value : redact(member.value))
                    }))
        }
    }
}

extension JSONObject {
    fileprivate mutating func redactChannel() {
        if let channel = self["channel"] { self["channel"] = DeviceTokenRedaction.redact(channel) }
    }
}
