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

    @Test(
        "Revisions are written in decimal digits",
        arguments: [0, 7, 10, 99, 100, 1_234_567, 9_007_199_254_740_991, -1] as [Int64])
    func revisions(revision: Int64) throws {
        var event = try event(.all, .perUser)
        event.revision = revision
        var encoder = TimelineEncoder(source: "s")
        let encoded = encoder.encode(event)
        let headers = Dictionary(
            uniqueKeysWithValues: encoded.headers.map { ($0.name, String(decoding: $0.value, as: UTF8.self)) })
        #expect(headers[EncodedEvent.revisionHeader] == "\(revision)")
        #expect(headers["ce_id"] == "\(event.timeline):\(revision)")
        #expect(headers["ce_subject"] == event.timeline.description)
        #expect(try JSONValue.parse(try #require(encoded.value))["revision"] == JSONValue.count(revision))
    }

    @Test("Events that are encoded one after the other are encoded as alone") func sequence() throws {
        var encoder = TimelineEncoder(source: "s")
        // "é" as one character and as two, which Swift calls equal.
        for app in ["a.b", "\u{E9}", "e\u{301}"] {
            for variation in [KindVariation.all, [], .locale, .all] {
                for sharing in [KindSharing.perUser, .shared] {
                    let identity = TimelineIdentity(
                        app: app, kind: "K", sharing: sharing, variesBy: variation, family: .systemLarge,
                        configuration: try WidgetConfiguration(["card": "a"]),
                        environment: try WidgetEnvironment(locale: "en-US", timeZone: "UTC"), user: "u")
                    let event = TimelineUpdatedEvent(
                        timeline: identity.id, identity: identity, revision: 1, storedAt: nil, content: content)
                    let encoded = encoder.encode(event)
                    #expect(encoded.value == event.data)
                    #expect(encoded.key == bytes(identity.id.description))
                    #expect(try TimelineUpdatedEvent(data: event.data) == event)
                }
            }
        }
    }

    @Test(
        "Texts of a message are escaped as in any other JSON",
        arguments: ["", "plain", "a\"b", "a\\b", "\u{0}\u{1F}\u{7F}", "\n", "äß€😀", "longer than fifteen bytes \"\""])
    func escapes(text: String) {
        var bytes: [UInt8] = [1]
        bytes.append(json: text)
        #expect(bytes == [1] + JSONValue.string(text).encoded)
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
