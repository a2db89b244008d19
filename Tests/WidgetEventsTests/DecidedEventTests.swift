// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// Decisions as messages, read by an independent decoder.
@Suite(.tags(.schemas), .timeLimit(.patience))
struct DecidedEventTests {
    /// Decoder of an independent consumer.
    private struct Decided: Decodable, Equatable {
        struct Cause: Decodable, Equatable {
            var topic: String
            var partition: Int
            var offset: Int64
        }

        var timeline: UUID?
        var app: String?
        var kind: String?
        var user: String?
        var decision: String
        var rule: String
        var reason: String?
        var lane: String?
        var requested: Int64?
        var rendered: Int64?
        var cause: Cause?
        var dueAt: Date?
        var eligibleAt: Date?
        var claim: Int64?
        var fetchMilliseconds: Int?
        var error: String?
    }

    private static func decoded(_ event: EncodedEvent) throws -> Decided {
        let decoder = JSONDecoder()
        decoder.dateDecodingStrategy = .iso8601
        return try decoder.decode(Decided.self, from: Data(try #require(event.value)))
    }

    private static func headers(_ event: EncodedEvent) -> [String: String] {
        Dictionary(uniqueKeysWithValues: event.headers.map { ($0.name, String(decoding: $0.value, as: UTF8.self)) })
    }

    private static func full() -> TimelineDecidedEvent {
        var event = TimelineDecidedEvent(decision: .deferred, rule: .budget)
        event.timeline = TimelineID(high: 1, low: 2)
        event.app = "com.example.bank"
        event.kind = "Recent\"Purchases"
        event.user = "u\n42"
        event.reason = .push
        event.lane = .push
        event.requested = 9
        event.rendered = 7
        event.cause = EventPosition(topic: 0, partition: 3, offset: 1 << 40)
        event.dueAt = Timestamp(rfc3339: "2026-06-22T10:05:00Z")
        event.eligibleAt = Timestamp(rfc3339: "2026-06-22T10:04:00Z")
        event.claim = 1 << 41
        event.fetchTime = .milliseconds(38)
        return event
    }

    private static func schema() throws -> JSONValue {
        let root = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent()
        let file = root.appending(path: "schemas/events/\(TimelineDecidedEvent.type).schema.json")
        return try JSONValue.parse([UInt8](try Data(contentsOf: file)))
    }

    @Test("Every member is in the event, and the envelope is a CloudEvent in binary mode")
    func message() throws {
        let now = try #require(Timestamp(rfc3339: "2026-06-22T10:00:00Z"))
        let encoded = Self.full().encode(source: "/freshet/decisions", time: now, topics: ["freshet.pushes"])
        let id = "00000000-0000-0001-0000-000000000002"
        #expect(String(decoding: encoded.key, as: UTF8.self) == id)
        #expect(
            Self.headers(encoded) == [
                "ce_specversion": "1.0", "ce_type": "freshet.timeline.decided.v1", "ce_source": "/freshet/decisions",
                "ce_subject": id, "ce_id": "\(id):\(1 << 41):deferred", "ce_time": "2026-06-22T10:00:00Z",
                "content-type": "application/json",
            ])
        let formatter = ISO8601DateFormatter()
        #expect(
            try Self.decoded(encoded)
                == Decided(
                    timeline: UUID(uuidString: id), app: "com.example.bank", kind: "Recent\"Purchases", user: "u\n42",
                    decision: "deferred", rule: "budget", reason: "push", lane: "push", requested: 9, rendered: 7,
                    cause: Decided.Cause(topic: "freshet.pushes", partition: 3, offset: 1 << 40),
                    dueAt: formatter.date(from: "2026-06-22T10:05:00Z"),
                    eligibleAt: formatter.date(from: "2026-06-22T10:04:00Z"), claim: 1 << 41, fetchMilliseconds: 38))
    }

    @Test("Unknown values are omitted, and the key of a refused request is its app")
    func sparse() throws {
        var event = TimelineDecidedEvent(decision: .refused, rule: .invalidEvent)
        event.app = "com.example.bank"
        event.cause = EventPosition(topic: 0, partition: 1, offset: 2)
        event.error = "unknownKind"
        event.dueAt = .distantFuture
        event.eligibleAt = .distantPast
        let encoded = event.encode(source: "s", time: Timestamp(microseconds: 0), topics: ["t"])
        #expect(String(decoding: encoded.key, as: UTF8.self) == "com.example.bank")
        #expect(Self.headers(encoded)["ce_id"] == "refused:t-1-2:refused")
        #expect(Self.headers(encoded)["ce_subject"] == nil)
        #expect(
            try Self.decoded(encoded)
                == Decided(
                    app: "com.example.bank", decision: "refused", rule: "invalidEvent",
                    cause: Decided.Cause(topic: "t", partition: 1, offset: 2), error: "unknownKind"))
    }

    @Test("The schema accepts the written events and lists every member and enumeration value")
    func schemas() throws {
        let schema = try Self.schema()
        let properties = try #require(schema["properties"]?.objectValue)
        for example in try #require(schema["examples"]?.arrayValue) {
            #expect(SchemaCheck.problems(of: example, by: schema) == [])
        }
        var event = Self.full()
        event.error = "x"
        let written = try JSONValue.parse(event.data(["freshet.pushes"]))
        // The kind and user contain characters that IDs must not have.
        #expect(SchemaCheck.problems(of: written, by: schema).allSatisfy { $0.contains("/user") })
        #expect(Set(try #require(written.objectValue).keys) == Set(properties.keys))
        func names(_ member: String) -> Set<String> {
            Set(schema["properties"]?[member]?["enum"]?.arrayValue?.compactMap(\.stringValue) ?? [])
        }
        #expect(names("decision") == Set(Decision.allCases.filter { $0 != .none }.map(\.name)))
        #expect(names("rule") == Set(ReloadRule.allCases.map(\.name)))
        #expect(names("reason") == Set(ReloadReason.allCases.map(\.name)))
        #expect(names("lane") == Set(ReloadLane.allCases.map(\.name)))
    }
}
