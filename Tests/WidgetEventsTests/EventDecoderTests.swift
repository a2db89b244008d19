// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

@Suite(.tags(.decoding), .timeLimit(.patience))
struct EventDecoderTests {
    private let viewed = #"{"app":"a.b","widget":"w"}"#

    @Test func theDesignsExample() throws {
        let data = #"""
            {"app": "com.example.bank", "audience": {"user": "u42"}, "kinds": ["RecentPurchases"],
             "matching": {"card": "acme"}}
            """#
        let decoded = try Message.binary("freshet.push.received.v1", data).decode(.pushes).get()
        #expect(
            decoded.event
                == .reload(
                    ReloadRequest(
                        app: "com.example.bank", audience: .user("u42"), kinds: .kinds(["RecentPurchases"]),
                        matching: try WidgetConfiguration(["card": "acme"]), reason: .push)))
        #expect((decoded.id, decoded.source) == ("e-1", "/tests"))
        #expect(decoded.event.type == .pushReceived && decoded.traceparent == nil)
        #expect(decoded.time == Timestamp(rfc3339: "2026-06-22T10:00:00Z"))
    }

    @Test func bothModesReadWhatTheEncoderWrites() throws {
        for event in try Samples.all() {
            for time in [Timestamp(microseconds: 1_700_000_000_123_456), nil] {
                let encoded = event.encode(id: "é-1", source: "s", time: time, traceparent: "00-ab-cd-01")
                let expected = DecodedEvent(
                    id: "é-1", source: "s", time: time, traceparent: "00-ab-cd-01", event: event)
                let binary = Message(encoded.headers.map { ($0.name, $0.value) }, encoded.value)
                #expect(try binary.decode(event.type.topic).get() == expected)

                let text = event.structured(
                    id: "é-1", source: "s", time: time, traceparent: "00-ab-cd-01")
                let structured = Message([("content-type", bytes(FreshetEvent.structuredContentType))], text)
                #expect(try structured.decode(event.type.topic).get() == expected)
            }
        }
    }

    @Test func keys() throws {
        let keys = try Samples.all().map { $0.partitionKey }
        #expect(keys == ["u1", "d\"1", "é😀", "a.b", "u1", "a.b", "a.b", "u1", "u", "u", "w", "w", "w", "d", "d"])
        let encoded = FreshetEvent.viewed(app: "a", widget: "w").encode(id: "1", source: "s", time: nil, key: "u42")
        #expect(encoded.key == bytes("u42"))
    }

    /// Envelopes with members in any order, the data first or last, with extensions.
    @Test(arguments: [
        #"{"specversion":"1.0","id":"1","source":"s","type":"freshet.widget.viewed.v1","data":DATA}"#,
        #"{"data":DATA,"type":"freshet.widget.viewed.v1","source":"s","id":"1","specversion":"1.0"}"#,
        #" {"x":{"data":1}, "datacontenttype":"application/json; charset=utf-8", "data":DATA ,"#
            + #""specversion":"1.0","id":"1","source":"s","subject":null,"time":null,"#
            + #""type":"freshet.widget.viewed.v1"} "#,
    ])
    func structured(text: String) throws {
        let decoded = try Message.structured(text.replacing("DATA", with: viewed)).decode(.widgets).get()
        #expect(decoded.event == .viewed(app: "a.b", widget: "w"))
        #expect(decoded == DecodedEvent(id: "1", source: "s", event: .viewed(app: "a.b", widget: "w")))
    }

    @Test(arguments: [
        ("application/json", true), ("Application/JSON; charset=UTF-8", true), ("application/json ;x=y", true),
        ("text/json", true),
        ("application/vnd.freshet+json", true), ("text/plain", false), ("application/xml", false), ("", false),
        ("application/cloudevents-batch+json", false), ("application/cloudevents+avro", false),
        ("application/cloudevents", false), ("avro/binary", false),
    ])
    func contentTypesOfBinaryMode(contentType: String, isAccepted: Bool) {
        let message = Message.binary(
            "freshet.widget.viewed.v1", viewed, replacing: ["content-type": bytes(contentType)])
        switch message.decode(.widgets) {
        case .success: #expect(isAccepted)
        case .failure(let error):
            #expect(!isAccepted)
            #expect(error.code == .unsupportedContentType)
            #expect(error.app == "a.b")
        }
    }

    @Test(arguments: [
        "application/cloudevents+json", "application/cloudevents+json; charset=utf-8",
        "APPLICATION/CloudEvents+JSON;x=1",
    ])
    func contentTypesOfStructuredMode(contentType: String) throws {
        let text = #"{"specversion":"1.0","id":"1","source":"s","type":"freshet.widget.viewed.v1","data":\#(viewed)}"#
        #expect(
            try Message.structured(text, contentType: contentType).decode(.widgets).get().event.type == .widgetViewed)
    }

    @Test("Data in Base64 is decoded like other data", arguments: [#","datacontenttype":"application/json""#, ""])
    func base64(contentType: String) throws {
        // {"app":"a.b","widget":"w"}
        let data = #""data_base64":"eyJhcHAiOiJhLmIiLCJ3aWRnZXQiOiJ3In0=""#
        let type = #""type":"freshet.widget.viewed.v1""#
        for (first, second) in [(data, type), (type, data)] {
            let text = #"{"specversion":"1.0","id":"1","source":"s",\#(first),\#(second)\#(contentType)}"#
            let decoded = try Message.structured(text).decode(.widgets).get()
            #expect(decoded.event == .viewed(app: "a.b", widget: "w"))
        }
    }

    @Test func headers() throws {
        func decode(_ replaced: [String: [UInt8]?]) throws -> DecodedEvent {
            try Message.binary("freshet.widget.viewed.v1", viewed, replacing: replaced).decode(.widgets).get()
        }
        #expect(try decode(["content-type": nil]).id == "e-1", "JSON by default")
        #expect(try decode(["ce_time": nil]).time == nil)
        #expect(try decode(["ce_extension": bytes("x"), "ce_null": nil, "x": [0xFF]]).id == "e-1")
        #expect(try decode(["traceparent": bytes("00-a")]).traceparent == "00-a")
        #expect(try decode(["traceparent": bytes("00-a"), "ce_traceparent": bytes("00-b")]).traceparent == "00-b")
        #expect(try decode(["traceparent": [0xFF]]).traceparent == nil, "an invalid trace context is ignored")
        #expect(try decode(["CE_Id": bytes("last")]).id == "last", "in any case; the last of several applies")
    }

    @Test func additionsAreIgnored() throws {
        let data =
            #"{"v":[{"x":1}],"app":"a.b","audience":{"since":1,"everyone":true},"kinds":"all","#
            + #""matching":null,"z":null}"#
        let event = try Message.binary("freshet.push.received.v1", data).decode(.pushes).get().event
        #expect(event == .reload(ReloadRequest(app: "a.b", audience: .everyone, kinds: .all, reason: .push)))
    }

    @Test func requestsAreNormalised() throws {
        let data = #"{"app":"a.b","audience":{"user":"u"},"kinds":["b","a","b"],"matching":{}}"#
        let event = try Message.binary("freshet.push.received.v1", data).decode(.pushes).get().event
        let request = ReloadRequest(app: "a.b", audience: .user("u"), kinds: .kinds(["a", "b"]), reason: .push)
        #expect(
            event == .reload(request),
            "a match without members matches everything and is omitted")
    }

    @Test func topicsCarryTheirTypes() {
        let names = ["freshet.pushes", "freshet.app-changes", "freshet.widgets", "freshet.donations"]
        #expect(EventTopic.allCases.map(\.defaultName) == names)
        func types(_ topic: EventTopic) -> [EventType] { EventType.allCases.filter { $0.topic == topic } }
        #expect(types(.pushes) == [.pushReceived])
        #expect(types(.appChanges) == [.appChanged, .reloadRequested])
        #expect(types(.widgets).count == 9)
        #expect(types(.donations) == [.shortcutsReplaced, .interactionDonated])
        for type in EventType.allCases {
            for topic in EventTopic.allCases where topic != type.topic {
                let error = Message.binary(type.rawValue, viewed).decode(topic).error
                #expect(error?.code == .wrongTopic)
                #expect(error?.message == "\(type.rawValue) belongs on \(type.topic.defaultName)")
            }
        }
    }
}

extension Result {
    var error: Failure? {
        switch self {
        case .success: nil
        case .failure(let error): error
        }
    }
}
