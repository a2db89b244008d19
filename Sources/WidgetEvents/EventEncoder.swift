package import WidgetModel

/// A message to produce, in binary mode.
package struct EncodedEvent: Sendable {
    /// Partition and compaction key.
    package var key: [UInt8]
    package var headers: [(name: String, value: [UInt8])]
    /// Nil for a tombstone.
    package var value: [UInt8]?
}

/// Encodes the events that Freshet consumes, for producers.
package enum EventEncoder {
    /// Binary mode: attributes in headers, data as the value.
    ///
    /// - Parameter key: the partition key; nil for the event's own (``key(of:)``). The user's id keeps events of a
    ///   widget or device in order with the placement.
    package static func encode(
        _ event: FreshetEvent, id: String, source: String, time: Timestamp?, traceparent: String? = nil,
        key: String? = nil
    ) -> EncodedEvent {
        let headers = headers(
            type: event.type.rawValue, id: id, source: source, time: time, [("traceparent", traceparent)])
        return EncodedEvent(key: Array((key ?? Self.key(of: event)).utf8), headers: headers, value: data(of: event))
    }

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

    /// Structured mode: the whole event as one JSON document, for a message with ``structuredContentType``.
    package static func structured(
        _ event: FreshetEvent, id: String, source: String, time: Timestamp?, traceparent: String? = nil
    ) -> [UInt8] {
        var members = JSONObjectWriter()
        members.append("specversion", "1.0")
        members.append("id", id)
        members.append("source", source)
        members.append("type", event.type.rawValue)
        members.append("time", time?.rfc3339)
        members.append("traceparent", traceparent)
        members.append("datacontenttype", "application/json")
        members.append("data", json: data(of: event))
        return members.finish()
    }

    /// Reason why a text is not a valid id or source, or nil: 1 to 1024 bytes, no control characters.
    package static func attributeProblem(_ text: String) -> String? { EventAttribute.problem(of: text) }

    /// The content type of a message in structured mode.
    package static let structuredContentType = "application/cloudevents+json"

    /// The event's own partition key: its user, else its device or widget, else its app.
    package static func key(of event: FreshetEvent) -> String {
        switch event {
        case .push(let request), .appChange(let request), .operatorReload(let request):
            request.audience.identifier ?? request.app
        case .placed(let placement): placement.user
        case .configured(_, let widget, _), .removed(_, let widget), .viewed(_, let widget): widget
        case .environmentChanged(_, let device, _, _): device
        case .stackChanged, .stackTurned, .shortcutsReplaced, .interactionDonated, .deviceRegistered,
            .deviceUnregistered:
            event.person ?? event.app
        }
    }

    /// The event's data as JSON.
    package static func data(of event: FreshetEvent) -> [UInt8] {
        var members = JSONObjectWriter()
        members.append("app", event.app)
        switch event {
        case .push(let request), .operatorReload(let request):
            append(request, to: &members)
        case .appChange(let request):
            append(request, to: &members)
            members.append("state", request.reason.name)
        case .placed(let placement):
            members.append("widget", placement.widget)
            members.append("user", placement.user)
            members.append("device", placement.device)
            members.append("kind", placement.kind)
            members.append("family", placement.family.name)
            members.append("configuration", json: placement.configuration.canonical.utf8)
            append(placement.environment, to: &members)
        case .configured(_, let widget, let configuration):
            members.append("widget", widget)
            members.append("configuration", json: configuration.canonical.utf8)
        case .removed(_, let widget), .viewed(_, let widget):
            members.append("widget", widget)
        case .environmentChanged(_, let device, let environment, let significantTimeChange):
            members.append("device", device)
            append(environment, to: &members)
            if significantTimeChange { members.append("significantTimeChange", json: "true".utf8) }
        case .stackChanged(_, let user, let stack):
            members.append("user", user)
            members.append("device", stack.device)
            members.append("stack", stack.name)
            members.append("widgets", json: JSONValue.texts(stack.widgets).encoded)
            members.append("smartRotate", json: "\(stack.smartRotate)".utf8)
            members.append("suggestions", json: "\(stack.suggestions)".utf8)
        case .stackTurned(_, let user, let device, let stack, let widget):
            members.append("user", user)
            members.append("device", device)
            members.append("stack", stack)
            members.append("widget", widget)
        case .shortcutsReplaced(_, let user, let device, let shortcuts):
            members.append("user", user)
            members.append("device", device)
            members.append("shortcuts", json: JSONValue.array(shortcuts.map(\.json)).encoded)
        case .interactionDonated(_, let user, let interaction):
            members.append("user", user)
            members.append("device", interaction.device)
            members.append("kind", interaction.kind)
            members.append("configuration", json: interaction.configuration.canonical.utf8)
            members.append("timeZone", interaction.timeZone)
        case .deviceRegistered(_, let registration):
            members.append("user", registration.user)
            members.append("device", registration.device)
            members.append("channel", json: registration.channel.json.encoded)
        case .deviceUnregistered(_, let user, let device):
            members.append("user", user)
            members.append("device", device)
        }
        return members.finish()
    }

    private static func append(_ request: ReloadRequest, to members: inout JSONObjectWriter) {
        let audience: JSONValue = [
            request.audience.name: request.audience.identifier.map(JSONValue.string) ?? true
        ]
        members.append("audience", json: audience.encoded)
        let kinds: JSONValue =
            switch request.kinds {
            case .all: "all"
            case .kinds(let names): .array(names.map(JSONValue.string))
            }
        members.append("kinds", json: kinds.encoded)
        if let matching = request.matching { members.append("matching", json: matching.canonical.utf8) }
    }

    private static func append(_ environment: WidgetEnvironment, to members: inout JSONObjectWriter) {
        let value: JSONValue = ["locale": .string(environment.locale), "timeZone": .string(environment.timeZone)]
        members.append("environment", json: value.encoded)
    }
}
