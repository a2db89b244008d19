// SPDX-License-Identifier: Apache-2.0

import JSON
package import WidgetModel

/// A message to produce, in binary mode: one array with all of its parts, in the order in which `KafkaMessage` has them.
package struct EncodedEvent: Sendable {
    /// Value, key and headers, one behind the other. A header has the lengths of its name and its value as 32-bit
    /// little-endian integers in front of them.
    package private(set) var bytes: [UInt8]
    /// Nil for a tombstone.
    package let valueLength: Int?
    /// Length of the key for partitions and compaction.
    package let keyLength: Int
    package private(set) var headerCount: Int

    init(bytes: [UInt8], valueLength: Int?, keyLength: Int, headerCount: Int) {
        (self.bytes, self.headerCount) = (bytes, headerCount)
        (self.valueLength, self.keyLength) = (valueLength, keyLength)
    }

    /// A message without headers.
    init(key: String, value: [UInt8]) {
        self.init(
            bytes: value + key.utf8, valueLength: value.count, keyLength: key.utf8.count, headerCount: 0)
    }

    /// A copy of the key.
    package var key: [UInt8] {
        let start = valueLength ?? 0
        return Array(bytes[start..<start + keyLength])
    }

    /// A copy of the value; nil for a tombstone.
    package var value: [UInt8]? { valueLength.map { Array(bytes[..<$0]) } }

    /// A copy of the headers.
    package var headers: [(name: String, value: [UInt8])] {
        var headers: [(name: String, value: [UInt8])] = []
        var rest = bytes[((valueLength ?? 0) + keyLength)...]
        func removeLength() -> Int {
            defer { rest.removeFirst(4) }
            return rest.prefix(4).reversed().reduce(0) { $0 << 8 | Int($1) }
        }
        while !rest.isEmpty {
            let (name, value) = (removeLength(), removeLength())
            headers.append(
                (String(decoding: rest.prefix(name), as: UTF8.self), Array(rest.dropFirst(name).prefix(value))))
            rest.removeFirst(name + value)
        }
        return headers
    }
}

extension EncodedEvent {
    /// Appends a header; nothing for nil.
    package mutating func append(header name: String, _ value: String?) {
        guard let value else { return }
        bytes.append(header: name, value)
        headerCount += 1
    }

    package mutating func append(headers: [(name: String, value: [UInt8])]) {
        for (name, value) in headers {
            bytes.appendLengths(name: name.utf8.count, value: value.count)
            bytes.append(contentsOf: name.utf8)
            bytes.append(contentsOf: value)
            headerCount += 1
        }
    }

    /// Appends the headers of the binary mode.
    ///
    /// - Parameter further: headers after the time; those without a value are left out.
    mutating func appendHeaders(
        type: String, id: String, source: String, time: Timestamp?, _ further: (name: String, value: String?)
    ) {
        append(header: "ce_specversion", "1.0")
        append(header: "ce_id", id)
        append(header: "ce_source", source)
        append(header: "ce_type", type)
        append(header: "ce_time", time?.rfc3339)
        append(header: further.name, further.value)
        if valueLength != nil { append(header: "content-type", "application/json") }
    }
}

extension FreshetEvent {
    /// Binary mode: attributes in headers, data as the value.
    ///
    /// - Parameter key: the partition key; nil for the event's own (``partitionKey``). The user's id keeps events of a
    ///   widget or device in order with the placement.
    package func encode(
        id: String, source: String, time: Timestamp?, traceparent: String? = nil, key: String? = nil
    ) -> EncodedEvent {
        var encoded = EncodedEvent(key: key ?? partitionKey, value: data)
        encoded.appendHeaders(
            type: type.rawValue, id: id, source: source, time: time, (name: "traceparent", value: traceparent))
        return encoded
    }

    /// Structured mode: the whole event as one JSON document, for a message with ``structuredContentType``.
    package func structured(
        id: String, source: String, time: Timestamp?, traceparent: String? = nil
    ) -> [UInt8] {
        JSONWriter.object { members in
            members.append("specversion", "1.0")
            members.append("id", id)
            members.append("source", source)
            members.append("type", type.rawValue)
            members.append("time", time?.rfc3339)
            members.append("traceparent", traceparent)
            members.append("datacontenttype", "application/json")
            members.append("data", json: data)
        }
    }

    /// Reason why a text is not a valid id or source, or nil: 1 to 1024 bytes, no control characters.
    package static func attributeProblem(_ text: String) -> String? { EventAttribute.problem(of: text) }

    /// The content type of a message in structured mode.
    package static let structuredContentType = "application/cloudevents+json"

    /// The event's own partition key: its user, else its device or widget, else its app.
    package var partitionKey: String {
        switch change {
        case .reload(let request): request.audience.identifier ?? app
        case .device(.environment(let device, _, _)): device
        default: user ?? widget ?? app
        }
    }

    /// The event's data as JSON.
    package var data: [UInt8] {
        JSONWriter.object { members in
            members.append("app", app)
            switch change {
            case .reload(let request):
                Self.append(request, to: &members)
                if type == .appChanged { members.append("state", request.reason.name) }
            case .widget(.placed(let placement)):
                members.append("widget", placement.widget)
                members.append("user", placement.user)
                members.append("device", placement.device)
                members.append("kind", placement.kind)
                members.append("family", placement.family.name)
                members.append("configuration", json: placement.configuration.canonical.utf8)
                Self.append(placement.environment, to: &members)
            case .widget(.configured(let widget, let configuration)):
                members.append("widget", widget)
                members.append("configuration", json: configuration.canonical.utf8)
            case .widget(.removed(let widget)), .view(let widget):
                members.append("widget", widget)
            case .device(let change):
                members.append("user", user)
                members.append("device", change.device)
                Self.append(change, to: &members)
            case .person(let change):
                members.append("user", user)
                Self.append(change, to: &members)
            case .interaction(let interaction):
                members.append("user", user)
                members.append("device", interaction.device)
                members.append("kind", interaction.kind)
                members.append("configuration", json: interaction.configuration.canonical.utf8)
                members.append("timeZone", interaction.timeZone)
            }
        }
    }

    private static func append(_ change: PersonChange, to members: inout JSONWriter) {
        switch change {
        case .stack(let stack):
            members.append("device", stack.device)
            members.append("stack", stack.name)
            members.append("widgets", value: .texts(stack.widgets))
            members.append("smartRotate", value: .bool(stack.smartRotate))
            members.append("suggestions", value: .bool(stack.suggestions))
        case .turned(let device, let stack, let widget):
            members.append("device", device)
            members.append("stack", stack)
            members.append("widget", widget)
        case .shortcuts(let device, let shortcuts):
            members.append("device", device)
            members.append("shortcuts", value: .array(shortcuts.map(\.json)))
        }
    }

    private static func append(_ change: DeviceChange, to members: inout JSONWriter) {
        switch change {
        case .environment(_, let environment, let isSignificant):
            Self.append(environment, to: &members)
            if isSignificant { members.append("significantTimeChange", value: true) }
        case .registered(_, let channel): members.append("channel", value: channel.json)
        case .unregistered: break
        }
    }

    private static func append(_ request: ReloadRequest, to members: inout JSONWriter) {
        members.append(
            "audience", value: [request.audience.name: request.audience.identifier.map(JSONValue.string) ?? true])
        let kinds: JSONValue =
            switch request.kinds {
            case .all: "all"
            case .kinds(let names): .array(names.map(JSONValue.string))
            }
        members.append("kinds", value: kinds)
        if let matching = request.matching { members.append("matching", json: matching.canonical.utf8) }
    }

    private static func append(_ environment: WidgetEnvironment, to members: inout JSONWriter) {
        members.append("environment") {
            $0.append("locale", environment.locale)
            $0.append("timeZone", environment.timeZone)
        }
    }
}

extension RelevantShortcut {
    /// As an event says it, without the app.
    var json: JSONValue {
        var object = JSONObject()
        object["kind"] = .string(content.kind)
        if content.configuration != .empty { object["configuration"] = content.configuration.value }
        if !role.isEmpty { object["role"] = .string(role) }
        if !ranges.isEmpty {
            object["ranges"] = .array(ranges.map { ["from": .time($0.lowerBound), "until": .time($0.upperBound)] })
        }
        return .object(object)
    }
}

extension DeliveryChannel {
    /// As an event says it.
    var json: JSONValue {
        switch self {
        case .webhook: ["webhook": true]
        case .apns(let address):
            [
                "apns": [
                    "token": .string(String(hexadecimal: address.token)),
                    "environment": .string(address.environment.rawValue),
                    "topic": .string(address.topic),
                ]
            ]
        }
    }
}
