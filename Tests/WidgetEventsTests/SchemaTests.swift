import Foundation
import Testing
import WidgetModel

@testable import WidgetEvents

/// The published schemas and the decoder say the same.
@Suite(.tags(.schemas), .timeLimit(.minutes(5)))
struct SchemaTests {
    private static let directory = URL(filePath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent().appending(path: "schemas")

    private func schema(_ path: String) throws -> JSONValue {
        let data = try Data(contentsOf: Self.directory.appending(path: path))
        return try JSONValue.parse([UInt8](data))
    }

    private func examples(_ schema: JSONValue) throws -> [JSONValue] {
        let examples = try #require(schema["examples"]?.arrayValue)
        #expect(!examples.isEmpty)
        return examples
    }

    @Test func everyTypeHasItsSchema() throws {
        let files = try FileManager.default.contentsOfDirectory(atPath: Self.directory.appending(path: "events").path())
        let types = EventType.allCases.map(\.rawValue) + [TimelineUpdatedEvent.type, TimelineDecidedEvent.type]
        #expect(Set(files) == Set(types.map { "\($0).schema.json" }))
        for type in types {
            let schema = try schema("events/\(type).schema.json")
            #expect(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema")
            #expect(schema["$id"] == .string("urn:freshet:schema:events:\(type)"))
            #expect(schema["title"] == .string(type))
            #expect(schema["type"] == "object")
        }
    }

    @Test(arguments: EventType.allCases)
    func examplesDecode(type: EventType) throws {
        let schema = try schema("events/\(type.rawValue).schema.json")
        let properties = try #require(schema["properties"]?.objectValue).keys
        for example in try examples(schema) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
            let decoded = try Message.binary(type.rawValue, example.encoded).decode(type.topic).get()
            #expect(decoded.event.type == type)
            // What the encoder makes of it satisfies the schema too, and names nothing that the schema does not.
            let written = try JSONValue.parse(EventEncoder.data(of: decoded.event))
            #expect(SchemaCheck.problems(of: written, by: schema) == [])
            #expect(try #require(written.objectValue).keys.allSatisfy(properties.contains))
            #expect(try Message.binary(type.rawValue, written.encoded).decode(type.topic).get().event == decoded.event)
        }
    }

    @Test(arguments: EventType.allCases)
    func requiredMembersAreRequired(type: EventType) throws {
        let schema = try schema("events/\(type.rawValue).schema.json")
        let required = try #require(schema["required"]?.arrayValue).compactMap(\.stringValue)
        for example in try examples(schema) {
            for key in try #require(example.objectValue).keys {
                var object = try #require(example.objectValue)
                object[key] = nil
                let result = Message.binary(type.rawValue, JSONValue.object(object).encoded).decode(type.topic)
                if required.contains(key) {
                    #expect(result.error?.code == .missingField && result.error?.pointer == "/\(key)")
                } else {
                    #expect(result.error == nil, "\(key) is optional")
                }
                object[key] = 5
                let wrong = Message.binary(type.rawValue, JSONValue.object(object).encoded).decode(type.topic)
                #expect(wrong.error?.code == .wrongType && wrong.error?.pointer == "/\(key)")
                #expect(SchemaCheck.problems(of: .object(object), by: schema) != [])
            }
        }
    }

    @Test func timelineUpdates() throws {
        let schema = try schema("events/\(TimelineUpdatedEvent.type).schema.json")
        for example in try examples(schema) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
            let event = try TimelineUpdatedEvent(data: example.encoded)
            #expect(try JSONValue.parse(event.data) == example)
        }
    }

    @Test func providerRequests() throws {
        let schema = try schema("provider/timelines.request.schema.json")
        for example in try examples(schema) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
            let items = try #require(example["requests"]?.arrayValue).map { request in
                let environment = request["environment"]
                return ProviderRequest.Item(
                    id: try #require(TimelineID(request["id"]?.stringValue ?? "")),
                    identity: TimelineIdentity(
                        app: "a", kind: "k", family: WidgetFamily(name: request["family"]?.stringValue ?? ""),
                        configuration: try WidgetConfiguration(request["configuration"] ?? .null),
                        locale: environment?["locale"]?.stringValue, timeZone: environment?["timeZone"]?.stringValue,
                        user: request["user"]?.stringValue))
            }
            let body = ProviderRequest(kind: example["kind"]?.stringValue ?? "", items: items).encode()
            #expect(try JSONValue.parse(body) == example)
        }
    }

    @Test func providerResponses() throws {
        let schema = try schema("provider/timelines.response.schema.json")
        var sorts: Set<String> = []
        for example in try examples(schema) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
            let ids = try #require(example["timelines"]?.arrayValue).compactMap { $0["id"]?.stringValue }
            let response = try ProviderResponse.parse(example.encoded, requested: ids.compactMap { TimelineID($0) })
            #expect(response.outcomes.count == ids.count && response.foreignCount == 0)
            for outcome in response.outcomes {
                switch outcome {
                case .timeline: sorts.insert("timeline")
                case .failed: sorts.insert("failed")
                case .missing, .duplicate, .invalid: Issue.record("\(outcome)")
                }
            }
        }
        #expect(sorts == ["timeline", "failed"])
    }

    @Test func placeholderRequests() throws {
        let schema = try schema("provider/placeholder.request.schema.json")
        for example in try examples(schema) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
            let kind = try #require(example["kind"]?.stringValue)
            let requests = try #require(example["requests"]?.arrayValue)
            let items = try requests.map { request in
                PlaceholderIdentity(
                    kind: kind, family: try #require(WidgetFamily(name: request["family"]?.stringValue ?? "")),
                    locale: try #require(request["environment"]?["locale"]?.stringValue),
                    timeZone: request["environment"]?["timeZone"]?.stringValue)
            }
            let written = try JSONValue.parse(PlaceholderRequest(kind: kind, items: items).encode())
            #expect(SchemaCheck.problems(of: written, by: schema) == [])
            #expect(written["kind"] == example["kind"])
            // All but the ids, which the program makes from the rest.
            for (request, item) in zip(try #require(written["requests"]?.arrayValue), requests) {
                #expect(request["family"] == item["family"] && request["environment"] == item["environment"])
            }
        }
    }

    @Test(arguments: ["snapshot", "placeholder"])
    func standIns(endpoint: String) throws {
        let schema = try schema("provider/\(endpoint).response.schema.json")
        var sorts: Set<String> = []
        for example in try examples(schema) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
            let elements = try #require(example["\(endpoint)s"]?.arrayValue)
            let ids = elements.compactMap { $0["id"]?.stringValue.flatMap { TimelineID($0) } }
            let response =
                endpoint == "snapshot"
                ? try StandInResponse.snapshots(example.encoded, requested: ids)
                : try StandInResponse.placeholders(example.encoded, requested: ids)
            #expect(response.outcomes.count == elements.count && response.foreignCount == 0)
            for outcome in response.outcomes {
                switch outcome {
                case .value: sorts.insert("value")
                case .failed: sorts.insert("failed")
                case .missing, .duplicate, .invalid: Issue.record("\(outcome)")
                }
            }
            // What the schema requires of an element, the parser requires too.
            for key in ["entry", "content", "date"] {
                var broken = elements
                for index in broken.indices { broken[index] = Self.without(key, broken[index]) }
                guard broken != elements else { continue }
                let document: JSONValue = .object(JSONObject([.init(key: "\(endpoint)s", value: .array(broken))]))
                let refused =
                    try endpoint == "snapshot"
                    ? StandInResponse.snapshots(document.encoded, requested: ids)
                    : StandInResponse.placeholders(document.encoded, requested: ids)
                guard case .invalid = refused.outcomes[0] else {
                    Issue.record("without \(key): \(refused.outcomes[0])")
                    continue
                }
                #expect(SchemaCheck.problems(of: document, by: schema) != [])
            }
        }
        #expect(sorts == ["value", "failed"])
    }

    /// The value without a member of this name, at any depth but in the app's own content.
    private static func without(_ key: String, _ value: JSONValue) -> JSONValue {
        guard case .object(var object) = value else { return value }
        object[key] = nil
        if let entry = object["entry"] { object["entry"] = without(key, entry) }
        return .object(object)
    }
}

/// As much of JSON Schema as the published schemas use.
enum SchemaCheck {
    /// Pointers to values that do not satisfy the schema.
    static func problems(of value: JSONValue, by schema: JSONValue, at pointer: String = "") -> [String] {
        if case .bool(let allowed) = schema { return allowed ? [] : [pointer] }
        var problems: [String] = []
        if let type = schema["type"] {
            let names = type.arrayValue?.compactMap(\.stringValue) ?? [type.stringValue ?? ""]
            if !names.contains(where: { matches(value, type: $0) }) { return ["\(pointer) is no \(names)"] }
        }
        if let constant = schema["const"], constant != value { problems.append("\(pointer) is not \(constant)") }
        if let allowed = schema["enum"]?.arrayValue, !allowed.contains(value) {
            problems.append("\(pointer) is none of \(allowed)")
        }
        if let alternatives = schema["oneOf"]?.arrayValue {
            let count = alternatives.count { Self.problems(of: value, by: $0, at: pointer).isEmpty }
            if count != 1 { problems.append("\(pointer) satisfies \(count) of oneOf") }
        }
        if let alternatives = schema["anyOf"]?.arrayValue,
            !alternatives.contains(where: { Self.problems(of: value, by: $0, at: pointer).isEmpty })
        {
            problems.append("\(pointer) satisfies none of anyOf")
        }
        switch value {
        case .string(let text):
            problems += stringProblems(text, schema, pointer)
        case .array(let elements):
            if let minimum = schema["minItems"]?.numberValue?.int64, elements.count < minimum {
                problems.append("\(pointer) is short")
            }
            if let maximum = schema["maxItems"]?.numberValue?.int64, elements.count > maximum {
                problems.append("\(pointer) is long")
            }
            for (index, element) in elements.enumerated() {
                problems += schema["items"].map { Self.problems(of: element, by: $0, at: "\(pointer)/\(index)") } ?? []
            }
        case .object(let object):
            for key in schema["required"]?.arrayValue?.compactMap(\.stringValue) ?? [] where object[key] == nil {
                problems.append("\(pointer)/\(key) is missing")
            }
            for member in object.members {
                let place = "\(pointer)/\(member.key)"
                let schema = schema["properties"]?[member.key] ?? schema["additionalProperties"]
                problems += schema.map { Self.problems(of: member.value, by: $0, at: place) } ?? []
            }
        case .number(let number):
            if let minimum = schema["minimum"]?.numberValue?.double, number.double < minimum {
                problems.append("\(pointer) is small")
            }
        case .null, .bool:
            break
        }
        return problems
    }

    private static func stringProblems(_ text: String, _ schema: JSONValue, _ pointer: String) -> [String] {
        var problems: [String] = []
        let count = text.unicodeScalars.count
        if let minimum = schema["minLength"]?.numberValue?.int64, count < minimum {
            problems.append("\(pointer) is short")
        }
        if let maximum = schema["maxLength"]?.numberValue?.int64, count > maximum {
            problems.append("\(pointer) is long")
        }
        if let pattern = schema["pattern"]?.stringValue,
            text.range(of: pattern, options: .regularExpression) == nil
        {
            problems.append("\(pointer) does not match \(pattern)")
        }
        switch schema["format"] {
        case "date-time" where Timestamp(rfc3339: text) == nil: problems.append("\(pointer) is no date-time")
        case "uuid" where UUID(uuidString: text) == nil: problems.append("\(pointer) is no UUID")
        default: break
        }
        return problems
    }

    private static func matches(_ value: JSONValue, type: String) -> Bool {
        switch (value, type) {
        case (.null, "null"), (.bool, "boolean"), (.number, "number"), (.string, "string"), (.array, "array"),
            (.object, "object"):
            true
        case (.number(let number), "integer"): number.int64 != nil
        default: false
        }
    }
}
