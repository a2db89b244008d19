// SPDX-License-Identifier: Apache-2.0

import Foundation
import Fuzzing
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// Agreement between the published schemas and the decoder.
@Suite(.tags(.schemas), .timeLimit(.patience))
struct SchemaTests {
    private func schema(_ path: String) throws -> JSONValue { try SchemaCheck.schema(path) }

    private func examples(_ schema: JSONValue) throws -> [JSONValue] {
        let examples = try #require(schema["examples"]?.arrayValue)
        #expect(!examples.isEmpty)
        return examples
    }

    @Test func everyTypeHasItsSchema() throws {
        let files = try FileManager.default.contentsOfDirectory(
            atPath: ContractFiles.folder.appending(path: "events").path())
        let published = [TimelineUpdatedEvent.type, TimelineDecidedEvent.type, EncodedEvent.stackScheduled]
        let types = EventType.allCases.map(\.rawValue) + published
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
            // The encoded event satisfies the schema, too, and has only members of the schema.
            let written = try JSONValue.parse(decoded.event.data)
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
            let items = try #require(example["requests"]?.arrayValue).map(requestedTimeline)
            let body = ProviderEndpoint.encode(timelines: items)
            #expect(try JSONValue.parse(body) == example)
        }
    }

    @Test func providerResponses() throws {
        let schema = try schema("provider/timelines.response.schema.json")
        var sorts: Set<String> = []
        for example in try examples(schema) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
            let ids = try #require(example["timelines"]?.arrayValue).compactMap { $0["id"]?.stringValue }
            let response = try ProviderResponse.parse(
                example.encoded, requested: ids.compactMap { TimelineID($0) }.map { RequestedTimeline($0) })
            #expect(response.outcomes.count == ids.count && response.foreignCount == 0)
            for outcome in response.outcomes {
                switch outcome {
                case .success: sorts.insert("timeline")
                case .failure(let failure):
                    #expect(failure.reason == .provider, "\(failure)")
                    sorts.insert("failed")
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
            let written = try JSONValue.parse(ProviderEndpoint.encode(placeholders: items, kind: kind))
            #expect(SchemaCheck.problems(of: written, by: schema) == [])
            #expect(written["kind"] == example["kind"])
            // All members but the IDs, which the program derives from the others.
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
                ? try FallbackResponse.snapshots(example.encoded, requested: ids)
                : try FallbackResponse.placeholders(example.encoded, requested: ids)
            #expect(response.outcomes.count == elements.count && response.foreignCount == 0)
            for outcome in response.outcomes {
                switch outcome {
                case .success: sorts.insert("value")
                case .failure(let failure):
                    #expect(failure.reason == .provider, "\(failure)")
                    sorts.insert("failed")
                }
            }
            // The parser requires the members that the schema requires.
            for key in ["entry", "content", "date"] {
                var broken = elements
                for index in broken.indices { broken[index] = Self.without(key, broken[index]) }
                guard broken != elements else { continue }
                let document: JSONValue = .object(JSONObject([(key: "\(endpoint)s", value: .array(broken))]))
                let refused =
                    try endpoint == "snapshot"
                    ? FallbackResponse.snapshots(document.encoded, requested: ids)
                    : FallbackResponse.placeholders(document.encoded, requested: ids)
                guard case .failure(let failure) = refused.outcomes[0], failure.reason == .invalid else {
                    Issue.record("without \(key): \(refused.outcomes[0])")
                    continue
                }
                #expect(SchemaCheck.problems(of: document, by: schema) != [])
            }
        }
        #expect(sorts == ["value", "failed"])
    }

    /// Returns the value without members of this name at any depth, except in the app's content.
    private static func without(_ key: String, _ value: JSONValue) -> JSONValue {
        guard case .object(var object) = value else { return value }
        object[key] = nil
        if let entry = object["entry"] { object["entry"] = without(key, entry) }
        return .object(object)
    }
}

/// The timeline that an element of a documented request asks for.
func requestedTimeline(_ request: JSONValue) throws -> (id: TimelineID, identity: TimelineIdentity) {
    let environment = request["environment"]
    return (
        id: try #require(TimelineID(request["id"]?.stringValue ?? "")),
        identity: TimelineIdentity(
            app: "a", kind: try #require(request["kind"]?.stringValue),
            family: WidgetFamily(name: request["family"]?.stringValue ?? ""),
            configuration: try WidgetConfiguration(request["configuration"] ?? .null),
            locale: environment?["locale"]?.stringValue, timeZone: environment?["timeZone"]?.stringValue,
            user: request["user"]?.stringValue)
    )
}
