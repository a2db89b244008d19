// SPDX-License-Identifier: Apache-2.0

import Fuzzing
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// Agreement between `schemas/asyncapi.yaml` and the program.
@Suite(.tags(.schemas), .timeLimit(.patience))
struct TopicsDocumentTests {
    private struct Example {
        let message: String
        let topic: String
        let schema: JSONValue
        let key: String
        let headers: [(name: String, value: String)]
        let payload: JSONValue?
        let keySchema: JSONValue?

        func message(without header: String? = nil) -> Message {
            Message(
                headers.filter { $0.name != header }.map { ($0.name, Array($0.value.utf8)) }, payload?.encoded)
        }
    }

    private let document: JSONValue
    private let examples: [Example]

    init() throws {
        document = try ContractFiles.yaml("asyncapi.yaml")
        var examples: [Example] = []
        for channel in try #require(document["channels"]?.objectValue).members {
            let channel = try ContractFiles.resolved(channel.value, in: document)
            for message in try #require(channel["messages"]?.objectValue).members {
                let values = try #require(message.value["examples"]?.arrayValue)
                #expect(!values.isEmpty, "\(message.key) has no example")
                for value in values {
                    examples.append(
                        Example(
                            message: try #require(message.value["name"]?.stringValue),
                            topic: try #require(channel["address"]?.stringValue), schema: message.value,
                            key: try #require(value["x-key"]?.stringValue), headers: try Self.headers(value),
                            payload: value["payload"],
                            keySchema: message.value["bindings"]?["kafka"]?["key"]))
                }
            }
        }
        self.examples = examples
    }

    private static func headers(_ example: JSONValue) throws -> [(name: String, value: String)] {
        try #require(example["headers"]?.objectValue).members.map { ($0.key, try #require($0.value.stringValue)) }
    }

    private func examples(of message: String) -> [Example] { examples.filter { $0.message == message } }

    @Test("Documented topics and types are the program's")
    func topics() throws {
        var found: [String: Set<String>] = [:]
        for channel in try #require(document["channels"]?.objectValue).members {
            let channel = try ContractFiles.resolved(channel.value, in: document)
            let address = try #require(channel["address"]?.stringValue)
            #expect(channel["bindings"]?["kafka"]?["topic"] == .string(address))
            let messages = try #require(channel["messages"]?.objectValue).members
            found[address] = Set(messages.compactMap { $0.value["name"]?.stringValue })
            for message in messages where message.value["name"] != "deadLetter" {
                #expect(message.value["headers"]?["properties"]?["ce_type"]?["const"] == message.value["name"])
            }
        }
        for topic in EventTopic.allCases {
            let types = EventType.allCases.filter { $0.topic == topic }
            #expect(found.removeValue(forKey: topic.defaultName) == Set(types.map(\.rawValue)))
        }
        #expect(
            found == [
                "freshet.timelines": [TimelineUpdatedEvent.type, EncodedEvent.timelineRemoved],
                "freshet.suggestions": [EncodedEvent.stackScheduled],
                "freshet.decisions": [TimelineDecidedEvent.type], "freshet.dead-letters": ["deadLetter"],
            ])
        // Every message is in exactly one operation, which determines its direction.
        let operations = try #require(document["operations"]?.objectValue).members
        let named = operations.flatMap { $0.value["messages"]?.arrayValue ?? [] }.compactMap { $0["$ref"]?.stringValue }
        #expect(named.count == Set(named).count && named.count == EventType.allCases.count + 5)
    }

    @Test("Every example satisfies the schemas of its headers, key and data")
    func schemas() throws {
        for example in examples {
            let headers = JSONObject(example.headers.map { (key: $0.name, value: .string($0.value)) })
            let schema = try #require(example.schema["headers"])
            #expect(SchemaCheck.problems(of: .object(headers), by: schema) == [], "\(example.message)")
            let known = try #require(schema["properties"]?.objectValue).keys
            if example.message != "deadLetter" {
                #expect(headers.keys.allSatisfy(known.contains), "\(example.message)")
                #expect(SchemaCheck.problems(of: .string(example.key), by: try #require(example.keySchema)) == [])
            }
            let payload = example.payload ?? .null
            #expect(SchemaCheck.problems(of: payload, by: try #require(example.schema["payload"])) == [])
        }
    }

    @Test("Examples of producers are decoded with their attributes and keys", arguments: EventType.allCases)
    func inputs(type: EventType) throws {
        let examples = examples(of: type.rawValue)
        #expect(!examples.isEmpty)
        for example in examples {
            #expect(example.topic == type.topic.defaultName)
            let decoded = try example.message().decode(type.topic).get()
            #expect(decoded.event.type == type)
            for (name, value) in example.headers {
                switch name {
                case "ce_id": #expect(decoded.id == value)
                case "ce_source": #expect(decoded.source == value)
                case "ce_time": #expect(decoded.time == Timestamp(rfc3339: value))
                case "traceparent": #expect(decoded.traceparent == value)
                case "ce_type", "ce_specversion", "content-type": break
                default: Issue.record("\(name) is in no example's check")
                }
            }
            // The event's own key; events of a widget or device use their user's key.
            let key: String? =
                switch decoded.event.change {
                case .reload, .widget(.placed): decoded.event.partitionKey
                default: "u42"
                }
            #expect(key == example.key)
        }
    }

    @Test("Exactly the headers that the document requires are required", arguments: EventType.allCases)
    func requiredHeaders(type: EventType) throws {
        for example in examples(of: type.rawValue) {
            let schema = try #require(example.schema["headers"])
            let required = try #require(schema["required"]?.arrayValue).compactMap(\.stringValue)
            for name in try #require(schema["properties"]?.objectValue).keys {
                let result = example.message(without: name).decode(type.topic)
                #expect(result.error?.code == (required.contains(name) ? .missingAttribute : nil), "\(name)")
            }
        }
    }

    @Test("Headers of the program's own producers are documented", arguments: EventType.allCases)
    func ownProducers(type: EventType) throws {
        for example in examples(of: type.rawValue) {
            let schema = try #require(example.schema["headers"])
            let written = try example.message().decode(type.topic).get().event.encode(
                id: "i", source: "s", time: Timestamp(microseconds: 0), traceparent: "00-a")
            let names = written.headers.map(\.name)
            #expect(names.allSatisfy { schema["properties"]?[$0] != nil }, "\(names)")
        }
    }

    @Test("Published messages match the examples")
    func outputs() throws {
        for example in examples(of: TimelineUpdatedEvent.type) {
            let data = try #require(example.payload).encoded
            let event = try TimelineUpdatedEvent(data: data)
            let updated = EncodedEvent(
                TimelineUpdatedEvent.type, of: event.timeline, revision: event.revision, source: "/freshet/workers",
                time: event.storedAt, value: event.data)
            try expect(updated, example)
        }
        for example in examples(of: EncodedEvent.timelineRemoved) {
            let revision = try #require(example.headers.first { $0.name == "freshet-revision" }?.value)
            let removed = EncodedEvent(
                EncodedEvent.timelineRemoved, of: try #require(TimelineID(example.key)),
                revision: try #require(Int64(revision)), source: "/freshet/workers", value: nil)
            try expect(removed, example)
        }
        let decided = try #require(examples(of: TimelineDecidedEvent.type).first)
        var event = TimelineDecidedEvent(decision: .deferred, rule: .budget)
        event.timeline = TimelineID(decided.key)
        event.app = "com.example.bank"
        event.kind = "RecentPurchases"
        event.user = "u42"
        event.reason = .push
        event.lane = .push
        event.requested = 8
        event.rendered = 7
        event.cause = EventPosition(topic: 0, partition: 3, offset: 4711)
        event.dueAt = Timestamp(rfc3339: "2026-06-22T12:00:00Z")
        event.eligibleAt = event.dueAt
        let time = try #require(Timestamp(rfc3339: "2026-06-22T10:00:00.5Z"))
        try expect(event.encode(source: "/freshet/decisions", time: time, topics: ["freshet.pushes"]), decided)
    }

    private func expect(_ encoded: EncodedEvent, _ example: Example) throws {
        #expect(String(decoding: encoded.key, as: UTF8.self) == example.key)
        let headers = encoded.headers.map { "\($0.name)=\(String(decoding: $0.value, as: UTF8.self))" }
        #expect(Set(headers) == Set(example.headers.map { "\($0.name)=\($0.value)" }))
        #expect(try encoded.value.map { try JSONValue.parse($0) } == example.payload)
        let schema = try #require(example.schema["headers"])
        for name in schema["required"]?.arrayValue ?? [] {
            #expect(encoded.headers.contains { .string($0.name) == name })
        }
    }

    @Test("The headers of a dead letter match its message")
    func deadLetter() throws {
        let example = try #require(examples(of: "deadLetter").first)
        let topic = try #require(example.headers.first { $0.name == "freshet-topic" }?.value)
        let sort = try #require(EventTopic.allCases.first { $0.defaultName == topic })
        let error = try #require(example.message().decode(sort).error)
        func told(_ name: String) -> String? { example.headers.first { $0.name == name }?.value }
        #expect(told("freshet-error") == "\(error.code.rawValue): \(error.placedMessage)")
        #expect(told("freshet-pointer") == error.pointer)
        #expect(told("freshet-app") == error.app)
    }

    @Test("The example in structured mode is decoded")
    func structured() throws {
        let example = try #require(document["components"]?["x-structuredMode"])
        let headers = try Self.headers(example)
        #expect(headers.map(\.value) == [FreshetEvent.structuredContentType])
        let topic = try #require(EventTopic.allCases.first { .string($0.defaultName) == example["topic"] })
        let value = try #require(example["value"]).encoded
        let decoded = try Message(headers.map { ($0.name, Array($0.value.utf8)) }, value).decode(topic).get()
        #expect(.string(decoded.event.partitionKey) == example["x-key"])
        #expect(decoded.id == "structured-1")
    }
}
