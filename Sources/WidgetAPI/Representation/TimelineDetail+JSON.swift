import PostgresClient
package import WidgetModel
package import WidgetStore

extension TimelineDetail {
    /// The timeline as the API and the commands show it.
    ///
    /// - Parameters:
    ///   - time: of which the current entry is told; when it was read, if nil.
    ///   - standIn: what is shown while nothing is stored.
    /// - Throws: `JSONError` when the stored content is broken.
    package func json(at time: Timestamp? = nil, standIn: StandIn? = nil) throws(JSONError) -> JSONValue {
        var object = JSONObject()
        object["timeline"] = .string(id.description)
        object["app"] = .string(app)
        object["kind"] = .string(kind)
        object["family"] = family.map { .string($0.name) } ?? .null
        object["configuration"] = try JSONValue.parse(configuration)
        object["locale"] = .optional(locale)
        object["timeZone"] = .optional(timeZone)
        object["user"] = .optional(user)
        object["state"] = stateJSON
        object["revision"] = revision.map { .number(JSONNumber(Int($0))) } ?? .null
        object["storedAt"] = .optional(storedAt?.rfc3339)
        object["age"] = age.map { .number(JSONNumber(Int($0.wholeMicroseconds / 1_000_000))) } ?? .null
        object["shown"] = try shown(at: time ?? readAt, standIn: standIn)
        object["currentEntry"] = try currentEntry(at: time ?? readAt) ?? .null
        object["content"] = try content.map { text throws(JSONError) in try JSONValue.parse(text) } ?? .null
        return .object(object)
    }

    /// How long ago it was rendered; nil before the first time.
    package var age: Duration? {
        renderedAt.map { max(.zero, readAt - $0) }
    }

    /// The stored entry that is shown at `time`: the last one that is not later; nil before the first, or when nothing
    /// is stored.
    package func currentEntry(at time: Timestamp) throws(JSONError) -> JSONValue? {
        guard let content else { return nil }
        let entries = try JSONValue.parse(content)["entries"]?.arrayValue ?? []
        return entries.last { entry in
            guard let date = entry["date"]?.stringValue.flatMap({ Timestamp(rfc3339: $0) }) else { return false }
            return date <= time
        }
    }

    private var stateJSON: JSONValue {
        var object = JSONObject()
        object["stale"] = .bool(isStale)
        object["requested"] = .number(JSONNumber(Int(requested)))
        object["rendered"] = .number(JSONNumber(Int(rendered)))
        object["kindGeneration"] = .number(JSONNumber(Int(kindGeneration)))
        object["renderedKindGeneration"] = .number(JSONNumber(Int(renderedKindGeneration)))
        object["appGeneration"] = .number(JSONNumber(Int(appGeneration)))
        object["renderedAppGeneration"] = .number(JSONNumber(Int(renderedAppGeneration)))
        object["leased"] = .bool(isLeased)
        object["lane"] = .string(lane.name)
        object["dueAt"] = dueAt.isFinite ? .string(Timestamp(dueAt).rfc3339) : .null
        object["renderedAt"] = .optional(renderedAt?.rfc3339)
        object["attempts"] = .number(JSONNumber(Int(attempts)))
        object["lastDecision"] = decision.map { .string($0.name) } ?? .null
        object["cause"] = cause.map(\.json) ?? .null
        return .object(object)
    }
}

extension EventPosition {
    fileprivate var json: JSONValue {
        [
            "topic": .number(JSONNumber(Int(topic))), "partition": .number(JSONNumber(Int(partition))),
            "offset": .number(JSONNumber(Int(offset))),
        ]
    }
}

extension JSONValue {
    fileprivate static func optional(_ text: String?) -> JSONValue {
        text.map { .string($0) } ?? .null
    }
}
