package import WidgetModel

/// Encodes the events that Freshet consumes, for producers.
package enum EventEncoder {
    /// Binary mode: attributes in headers, data as the value.
    ///
    /// - Parameter key: the partition key; the event's own when nil (see `key(of:)`). Pass the user's id with events of
    ///   a widget or device, so that they stay in order with the placement.
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
    /// - Parameter further: headers behind the time; without a value, one is left out.
    static func headers(
        type: String, id: String, source: String, time: Timestamp?, _ further: [(String, String?)]
    ) -> [(name: String, value: [UInt8])] {
        let attributes: [(String, String?)] = [
            ("ce_specversion", "1.0"), ("ce_id", id), ("ce_source", source), ("ce_type", type),
            ("ce_time", time?.rfc3339),
        ]
        return (attributes + further + [("content-type", "application/json")]).compactMap { name, value in
            value.map { (name: name, value: Array($0.utf8)) }
        }
    }

    /// Structured mode: the whole event as one JSON document. Its message has the header `content-type:
    /// application/cloudevents+json`.
    package static func structured(
        _ event: FreshetEvent, id: String, source: String, time: Timestamp?, traceparent: String? = nil
    ) -> [UInt8] {
        var out: [UInt8] = []
        var members = MemberWriter()
        members.append("specversion", "1.0", to: &out)
        members.append("id", id, to: &out)
        members.append("source", source, to: &out)
        members.append("type", event.type.rawValue, to: &out)
        if let time { members.append("time", time.rfc3339, to: &out) }
        if let traceparent { members.append("traceparent", traceparent, to: &out) }
        members.append("datacontenttype", "application/json", to: &out)
        members.append("data", raw: data(of: event), to: &out)
        members.end(&out)
        return out
    }

    /// Reason why a text is not a valid id or source, or nil: 1 to 1024 bytes, no control characters.
    package static func attributeProblem(_ text: String) -> String? { Envelope.problem(of: text) }

    /// The content type of a message in structured mode.
    package static let structuredContentType = "application/cloudevents+json"

    /// The event's own partition key: the user of a placement or request, else the device or widget, or the app for
    /// everyone.
    package static func key(of event: FreshetEvent) -> String {
        switch event {
        case .push(let request), .appChange(let request), .operatorReload(let request):
            request.audience.identifier ?? request.app
        case .placed(let placement): placement.user
        case .configured(_, let widget, _), .removed(_, let widget), .viewed(_, let widget): widget
        case .environmentChanged(_, let device, _, _): device
        }
    }

    /// The event's data as JSON.
    package static func data(of event: FreshetEvent) -> [UInt8] {
        var out: [UInt8] = []
        var members = MemberWriter()
        members.append("app", event.app, to: &out)
        switch event {
        case .push(let request), .operatorReload(let request):
            append(request, to: &out, &members)
        case .appChange(let request):
            append(request, to: &out, &members)
            members.append("state", request.reason.name, to: &out)
        case .placed(let placement):
            members.append("widget", placement.widget, to: &out)
            members.append("user", placement.user, to: &out)
            members.append("device", placement.device, to: &out)
            members.append("kind", placement.kind, to: &out)
            members.append("family", placement.family.name, to: &out)
            members.append("configuration", raw: Array(placement.configuration.canonical.utf8), to: &out)
            append(placement.environment, to: &out, &members)
        case .configured(_, let widget, let configuration):
            members.append("widget", widget, to: &out)
            members.append("configuration", raw: Array(configuration.canonical.utf8), to: &out)
        case .removed(_, let widget), .viewed(_, let widget):
            members.append("widget", widget, to: &out)
        case .environmentChanged(_, let device, let environment, let significantTimeChange):
            members.append("device", device, to: &out)
            append(environment, to: &out, &members)
            if significantTimeChange {
                members.append("significantTimeChange", raw: Array("true".utf8), to: &out)
            }
        }
        members.end(&out)
        return out
    }

    private static func append(_ request: ReloadRequest, to out: inout [UInt8], _ members: inout MemberWriter) {
        let audience: JSONValue = [
            request.audience.name: request.audience.identifier.map(JSONValue.string) ?? true
        ]
        members.append("audience", raw: audience.encoded, to: &out)
        let kinds: JSONValue =
            switch request.kinds {
            case .all: "all"
            case .kinds(let names): .array(names.map(JSONValue.string))
            }
        members.append("kinds", raw: kinds.encoded, to: &out)
        if let matching = request.matching {
            members.append("matching", raw: Array(matching.canonical.utf8), to: &out)
        }
    }

    private static func append(
        _ environment: WidgetEnvironment, to out: inout [UInt8], _ members: inout MemberWriter
    ) {
        let value: JSONValue = ["locale": .string(environment.locale), "timeZone": .string(environment.timeZone)]
        members.append("environment", raw: value.encoded, to: &out)
    }
}
