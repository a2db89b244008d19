// SPDX-License-Identifier: Apache-2.0

import JSON
package import WidgetModel

/// A message to produce, in binary mode.
package struct EncodedEvent: Sendable {
    /// Partition and compaction key.
    package var key: [UInt8]
    package var headers: [(name: String, value: [UInt8])]
    /// Nil for a tombstone.
    package var value: [UInt8]?
}

extension EncodedEvent {
    /// Headers of the binary mode.
    ///
    /// - Parameters:
    ///   - further: headers after the time; those without a value are left out.
    ///   - hasData: false for a tombstone.
    static func headers(
        type: String, id: String, source: String, time: Timestamp?, _ further: [(String, String?)],
        hasData: Bool = true
    ) -> [(name: String, value: [UInt8])] {
        let attributes: [(String, String?)] = [
            ("ce_specversion", "1.0"), ("ce_id", id), ("ce_source", source), ("ce_type", type),
            ("ce_time", time?.rfc3339),
        ]
        let contentType = [("content-type", hasData ? "application/json" : nil)]
        return (attributes + further + contentType).compactMap { name, value in
            value.map { (name: name, value: Array($0.utf8)) }
        }
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
        let headers = EncodedEvent.headers(
            type: type.rawValue, id: id, source: source, time: time, [("traceparent", traceparent)])
        return EncodedEvent(key: Array((key ?? partitionKey).utf8), headers: headers, value: data)
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
