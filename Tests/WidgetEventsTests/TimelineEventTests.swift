// SPDX-License-Identifier: Apache-2.0

import Fuzzing
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

@Suite(.timeLimit(.patience))
struct TimelineEventTests {
    private let content = bytes(
        #"{"entries":[{"content":1,"date":"2026-06-22T10:00:00Z"}],"policy":{"after":"2026-06-22T22:00:00Z"}}"#)

    private func event(_ variation: KindVariation, _ sharing: KindSharing) throws -> TimelineUpdatedEvent {
        let identity = TimelineIdentity(
            app: "a.b", kind: "K", sharing: sharing, variesBy: variation, family: .systemLarge,
            configuration: try WidgetConfiguration(["card": "a\"b"]),
            environment: try WidgetEnvironment(locale: "en-US", timeZone: "UTC"), user: "u\n1")
        return TimelineUpdatedEvent(
            timeline: identity.id, identity: identity, revision: 42, storedAt: Timestamp(microseconds: 1_500_000),
            content: content)
    }

    @Test("A message has the identity in its headers and data, and the content as stored") func message() throws {
        let event = try event(.all, .perUser)
        let encoded = EncodedEvent(
            TimelineUpdatedEvent.type, of: event.timeline, revision: event.revision, source: "freshet",
            time: event.storedAt, value: event.data)
        let id = event.timeline.description
        #expect(encoded.key == bytes(id))
        #expect(
            encoded.headers.map { "\($0.name)=\(String(decoding: $0.value, as: UTF8.self))" } == [
                "ce_specversion=1.0", "ce_id=\(id):42", "ce_source=freshet", "ce_type=freshet.timeline.updated.v1",
                "ce_time=1970-01-01T00:00:01.5Z", "ce_subject=\(id)", "freshet-revision=42",
                "content-type=application/json",
            ])
        let data = try JSONValue.parse(try #require(encoded.value))
        #expect(
            data == [
                "timeline": .string(id), "revision": 42, "storedAt": "1970-01-01T00:00:01.5Z", "app": "a.b",
                "kind": "K",
                "family": "systemLarge", "configuration": ["card": "a\"b"], "locale": "en-US", "timeZone": "UTC",
                "user": "u\n1",
                "entries": [["content": 1, "date": "2026-06-22T10:00:00Z"]],
                "policy": ["after": "2026-06-22T22:00:00Z"],
            ])
    }

    @Test("A consumer decodes the published event") func roundTrip() throws {
        for variation in [KindVariation.all, [], .locale] {
            var event = try event(variation, .shared)
            #expect(try TimelineUpdatedEvent(data: event.data) == event)
            event.storedAt = nil
            #expect(try TimelineUpdatedEvent(data: event.data) == event)
        }
    }

    @Test(arguments: ["timeline", "revision", "app", "kind", "configuration", "entries", "policy"])
    func requiredMembers(key: String) throws {
        var object = try #require(try JSONValue.parse(event(.all, .shared).data).objectValue)
        object[key] = nil
        #expect {
            try TimelineUpdatedEvent(data: JSONValue.object(object).encoded)
        } throws: { error in
            let error = error as? JSONError
            return error?.kind == .missingMember && error?.pointer == "/\(key)"
        }
        object[key] = .bool(true)
        #expect(throws: JSONError.self) { try TimelineUpdatedEvent(data: JSONValue.object(object).encoded) }
    }

    @Test("A removed timeline is a tombstone with the attributes in the headers") func tombstone() throws {
        let id = TimelineID(high: 1, low: 2)
        let encoded = EncodedEvent(EncodedEvent.timelineRemoved, of: id, revision: 7, source: "s", value: nil)
        #expect(encoded.value == nil)
        #expect(encoded.key == bytes(id.description))
        let headers = Dictionary(
            uniqueKeysWithValues: encoded.headers.map { ($0.name, String(decoding: $0.value, as: UTF8.self)) })
        #expect(headers["ce_type"] == "freshet.timeline.removed.v1")
        #expect(headers[EncodedEvent.revisionHeader] == "7")
        #expect(headers["content-type"] == nil)
    }
}
