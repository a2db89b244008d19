// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

/// All types of bad input, with the pointers and messages of the resulting dead letters.
@Suite(.tags(.decoding), .timeLimit(.patience))
struct BadInputTests {
    struct Bad: Sendable, CustomTestStringConvertible {
        var type: EventType
        var data: String
        var error: EventError

        init(
            _ type: EventType, _ data: String, _ code: EventError.Code, _ pointer: String?, _ message: String,
            app: String? = "a"
        ) {
            self.type = type
            self.data = data
            error = EventError(code: code, message: message, pointer: pointer, app: app)
        }

        var testDescription: String { data }
    }

    /// Names in a list of strings.
    static let thousand = (0..<1000).map(String.init).joined(separator: "\",\"")

    static let placed =
        #"{"app":"a","widget":"w","user":"u","device":"d","kind":"K","family":"systemSmall","#
        + #""environment":{"locale":"en","timeZone":"UTC"}}"#

    @Test(arguments: [
        // Malformed JSON
        Bad(.widgetViewed, "", .malformedJSON, "", "unexpected end of input, expected a value at byte 0", app: nil),
        Bad(.widgetViewed, "not json", .malformedJSON, "", "invalid literal, expected null at byte 0", app: nil),
        Bad(
            .widgetViewed, #"{"app":"a","widget":}"#, .malformedJSON, "/widget",
            "unexpected '}', expected a value at byte 20"),
        Bad(
            .widgetViewed, #"{"widget":x,"app":"a"}"#, .malformedJSON, "/widget",
            "unexpected 'x', expected a value at byte 10", app: nil),
        Bad(
            .widgetViewed, #"{"app":"a","widget":"w"} {}"#, .malformedJSON, "",
            "unexpected '{', expected the end of the document at byte 25"),
        Bad(
            .widgetViewed, #"{"app":"a","widget":"w""#, .malformedJSON, "/widget",
            "unexpected end of input, expected ',' or '}' at byte 23"),
        Bad(
            .widgetViewed, #"{"app":"a","widget":"w","widget":"v"}"#, .malformedJSON, "/widget",
            "duplicate member \"widget\" at byte 24"),
        Bad(
            .widgetViewed, #"{"app":"a","widget":"\udead"}"#, .malformedJSON, "/widget",
            "escape of a low surrogate without its high one at byte 21"),
        Bad(.widgetViewed, "\u{FEFF}{}", .malformedJSON, "", "a byte order mark is not allowed at byte 0", app: nil),
        Bad(
            .widgetViewed, #"{"app":"a","x":1e999,"widget":"w"}"#, .invalidValue, "/x",
            "the number 1e999 cannot be kept exactly; use a string"),
        Bad(
            .widgetConfigured, #"{"card":1,"widget":"w","configuration":{"n":9007199254740993},"app":"a"}"#,
            .invalidValue, "/configuration/n", "the number 9007199254740993 cannot be kept exactly; use a string"),
        Bad(
            .widgetConfigured, #"{"x":1e-999,"app":"a"}"#, .invalidValue, "/x",
            "the number 1e-999 cannot be kept exactly; use a string"),
        Bad(
            .widgetViewed, #"{"app":"a","x":"# + String(repeating: "[", count: 70), .malformedJSON,
            "/x" + String(repeating: "/0", count: 63), "nested deeper than 64 levels at byte 78"),
        // Missing fields
        Bad(.widgetViewed, "{}", .missingField, "/app", "required member \"app\" is missing", app: nil),
        Bad(.widgetViewed, #"{"app":"a"}"#, .missingField, "/widget", "required member \"widget\" is missing"),
        Bad(
            .pushReceived, #"{"app":"a","kinds":"all"}"#, .missingField, "/audience",
            "required member \"audience\" is missing"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":"u"}}"#, .missingField, "/kinds",
            "required member \"kinds\" is missing"),
        Bad(
            .appChanged, #"{"app":"a","audience":{"user":"u"},"kinds":"all"}"#, .missingField, "/state",
            "required member \"state\" is missing"),
        Bad(
            .widgetConfigured, #"{"app":"a","widget":"w"}"#, .missingField, "/configuration",
            "required member \"configuration\" is missing"),
        Bad(
            .deviceEnvironmentChanged, #"{"app":"a","device":"d"}"#, .missingField, "/environment",
            "required member \"environment\" is missing"),
        Bad(
            .deviceEnvironmentChanged, #"{"app":"a","device":"d","environment":{"locale":"en"}}"#, .missingField,
            "/environment/timeZone", "required member \"timeZone\" is missing"),
        // Wrong types
        Bad(.widgetViewed, "[]", .wrongType, "", "expected an object, found an array", app: nil),
        Bad(
            .widgetViewed, #"{"app":5,"widget":"w"}"#, .wrongType, "/app", "expected a string, found a number", app: nil
        ),
        Bad(.widgetViewed, #"{"app":"a","widget":null}"#, .wrongType, "/widget", "expected a string, found null"),
        Bad(
            .pushReceived, #"{"app":"a","audience":"u","kinds":"all"}"#, .wrongType, "/audience",
            "expected an object, found a string"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":7},"kinds":"all"}"#, .wrongType, "/audience/user",
            "expected a string, found a number"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"everyone":"true"},"kinds":"all"}"#, .wrongType,
            "/audience/everyone", "expected a boolean, found a string"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":"u"},"kinds":["K",true]}"#, .wrongType, "/kinds/1",
            "expected a string, found a boolean"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":"u"},"kinds":{}}"#, .wrongType, "/kinds",
            "expected an array or a string, found an object"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":"u"},"kinds":"all","matching":[]}"#, .wrongType, "/matching",
            "expected an object, found an array"),
        Bad(
            .widgetConfigured, #"{"app":"a","widget":"w","configuration":null}"#, .wrongType, "/configuration",
            "expected an object, found null"),
        Bad(
            .deviceEnvironmentChanged,
            #"{"app":"a","device":"d","environment":{"locale":"en","timeZone":"UTC"},"significantTimeChange":1}"#,
            .wrongType, "/significantTimeChange", "expected a boolean, found a number"),
        // Invalid values
        Bad(.widgetViewed, #"{"app":"a","widget":""}"#, .invalidValue, "/widget", "must not be empty"),
        Bad(
            .widgetViewed, #"{"app":"a","widget":"a\u0000b"}"#, .invalidValue, "/widget",
            "must not contain control characters"),
        Bad(
            .widgetViewed, #"{"app":"a","widget":"\#(String(repeating: "w", count: 257))"}"#, .invalidValue, "/widget",
            "must be at most 256 bytes, is 257"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{},"kinds":"all"}"#, .invalidValue, "/audience",
            "expected exactly one of user, device, widget, everyone, found 0"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":"u","device":"d"},"kinds":"all"}"#, .invalidValue,
            "/audience", "expected exactly one of user, device, widget, everyone, found 2"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"everyone":false},"kinds":"all"}"#, .invalidValue,
            "/audience/everyone", "expected true, found false"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":"u"},"kinds":[]}"#, .invalidValue, "/kinds",
            "expected at least one kind"),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":"u"},"kinds":"some"}"#, .invalidValue, "/kinds",
            "expected a list of kinds or \"all\", found \"some\""),
        Bad(
            .pushReceived, #"{"app":"a","audience":{"user":"u"},"kinds":"all","matching":{"card":{"a":{}}}}"#,
            .invalidValue, "/matching/card/a", "expected a scalar, found an object"),
        Bad(
            .pushReceived,
            #"{"app":"a","audience":{"user":"u"},"kinds":["\#(thousand)","x"]}"#,
            .invalidValue, "/kinds", "more than 1000 kinds"),
        Bad(
            .appChanged, #"{"app":"a","audience":{"user":"u"},"kinds":"all","state":"asleep"}"#, .invalidValue,
            "/state", "expected \"foreground\" or \"background\", found \"asleep\""),
        Bad(
            .widgetPlaced, placed.replacing("systemSmall", with: "tiny"), .invalidValue, "/family",
            "expected one of systemSmall, systemMedium, systemLarge, systemExtraLarge, accessoryCircular, "
                + "accessoryRectangular, accessoryInline, found \"tiny\""
        ),
    ])
    func data(bad: Bad) {
        let binary = Message.binary(bad.type.rawValue, bad.data).decode(bad.type.topic)
        #expect(binary.error == bad.error)
    }

    /// In structured mode the pointer applies to the whole event.
    @Test(arguments: [true, false])
    func dataInStructuredMode(typeComesFirst: Bool) {
        func decode(_ data: String) -> EventError? {
            let type = #""type":"freshet.push.received.v1","#
            let head = #"{"specversion":"1.0","id":"1","source":"s","#
            let text =
                typeComesFirst ? "\(head)\(type)\"data\":\(data)}" : "\(head)\"data\":\(data),\(type.dropLast())}"
            return Message.structured(text).decode(.pushes).error
        }
        #expect(
            decode(#"{"app":"a","audience":{"user":7},"kinds":"all"}"#)
                == EventError(
                    code: .wrongType, message: "expected a string, found a number", pointer: "/data/audience/user",
                    app: "a"))
        #expect(
            decode(#"{"app":"a","kinds":"all"}"#)
                == EventError(
                    code: .missingField, message: "required member \"audience\" is missing", pointer: "/data/audience",
                    app: "a"))
        #expect(decode(#"{"app":"a",}"#)?.code == .malformedJSON)
        #expect(decode(#"{"app":"a",}"#)?.pointer == "/data")
        #expect(decode("null") == EventError(code: .missingData, message: "the event has no data", pointer: "/data"))
    }

    @Test(arguments: [
        ("id", EventError(code: .missingAttribute, message: "attribute id is missing", pointer: "/id", app: "a.b")),
        (
            "source",
            EventError(code: .missingAttribute, message: "attribute source is missing", pointer: "/source", app: "a.b")
        ),
        (
            "type",
            EventError(code: .missingAttribute, message: "attribute type is missing", pointer: "/type", app: "a.b")
        ),
        (
            "specversion",
            EventError(
                code: .missingAttribute, message: "attribute specversion is missing", pointer: "/specversion",
                app: "a.b")
        ),
        ("data", EventError(code: .missingData, message: "the event has no data", pointer: "/data")),
    ])
    func missingInStructuredMode(member: String, error: EventError) throws {
        let text = FreshetEvent.viewed(app: "a.b", widget: "w").structured(id: "1", source: "s", time: nil)
        var object = try #require(try JSONValue.parse(text).objectValue)
        object[member] = nil
        let message = Message.structured(JSONValue.object(object).canonical)
        #expect(message.decode(.widgets).error == error)
    }

    @Test(
        arguments: [
            ("id", 5, EventError.Code.invalidAttribute, "attribute id: expected a string, found a number"),
            ("id", "", .invalidAttribute, "attribute id: must not be empty"),
            ("specversion", "0.3", .invalidAttribute, "attribute specversion: expected \"1.0\", found \"0.3\""),
            ("source", "a\nb", .invalidAttribute, "attribute source: must not contain control characters"),
            ("type", "freshet.unknown.v9", .unknownType, "unknown event type \"freshet.unknown.v9\""),
            ("type", "freshet.push.received.v1", .wrongTopic, "freshet.push.received.v1 belongs on freshet.pushes"),
            ("time", "today", .invalidAttribute, "attribute time: expected an RFC 3339 date-time, found \"today\""),
            (
                "datacontenttype", "text/xml", .unsupportedContentType,
                "expected data in application/json, found \"text/xml\""
            ),
        ] as [(String, JSONValue, EventError.Code, String)])
    func attributesInStructuredMode(member: String, value: JSONValue, code: EventError.Code, message: String) throws {
        let text = FreshetEvent.viewed(app: "a.b", widget: "w").structured(id: "1", source: "s", time: nil)
        var object = try #require(try JSONValue.parse(text).objectValue)
        object[member] = value
        let error = Message.structured(JSONValue.object(object).canonical).decode(.widgets).error
        #expect(error == EventError(code: code, message: message, pointer: "/\(member)", app: "a.b"))
    }

    @Test(arguments: [
        (
            #""e30=""#, EventError.Code.missingField,
            "in the decoded data at /app: required member \"app\" is missing", String?.none
        ),
        (
            #""eyJhcHAiOiJhIiwid2lkZ2V0Ijo3fQ==""#, .wrongType,
            "in the decoded data at /widget: expected a string, found a number", "a"
        ),
        (#""e30""#, .invalidAttribute, "attribute data_base64: expected Base64 (RFC 4648)", nil),
        (#""e31=""#, .invalidAttribute, "attribute data_base64: expected Base64 (RFC 4648)", nil),
        (#"7"#, .invalidAttribute, "attribute data_base64: expected a string, found a number", nil),
    ])
    func base64(value: String, code: EventError.Code, message: String, app: String?) {
        let type = #""type":"freshet.widget.viewed.v1""#
        for (before, after) in [("", "," + type), (type + ",", "")] {
            let text = #"{"specversion":"1.0","id":"1","source":"s",\#(before)"data_base64":\#(value)\#(after)}"#
            #expect(
                Message.structured(text).decode(.widgets).error
                    == EventError(code: code, message: message, pointer: "/data_base64", app: app))
        }
    }

    @Test func base64BesideData() {
        let text =
            #"{"specversion":"1.0","id":"1","source":"s","type":"freshet.widget.viewed.v1","data_base64":"e30=","#
            + #""data":{"app":"a","widget":"w"}}"#
        #expect(Message.structured(text).decode(.widgets).error?.code == .invalidAttribute)
    }

    @Test("All errors in an event's data are reported in the order of the data, then missing members")
    func allProblems() {
        func problems(_ data: String, _ type: EventType = .widgetPlaced) -> [String] {
            EventDecoder().problems(data: bytes(data), of: type).map { "\($0.pointer ?? "-") \($0.code.rawValue)" }
        }
        #expect(
            problems(#"{"app":7,"x":[],"kind":"","widget":"w","environment":{"locale":"en"}}"#) == [
                "/app wrongType", "/kind invalidValue", "/environment/timeZone missingField", "/user missingField",
                "/device missingField", "/family missingField",
            ])
        #expect(problems(#"{"app":7,"kind":"#) == ["/app wrongType", "/kind malformedJSON"])
        #expect(problems("[]") == [" wrongType"])
        #expect(problems(#"{"app":"a","widget":"w"}"#, .widgetViewed) == [])
    }

    @Test(
        arguments: [
            ("ce_specversion", nil, EventError.Code.missingAttribute, "header ce_specversion is missing"),
            ("ce_id", nil, .missingAttribute, "header ce_id is missing"),
            ("ce_source", nil, .missingAttribute, "header ce_source is missing"),
            ("ce_type", nil, .missingAttribute, "header ce_type is missing"),
            (
                "ce_specversion", bytes("0.3"), .invalidAttribute,
                "header ce_specversion: expected \"1.0\", found \"0.3\""
            ),
            ("ce_id", [], .invalidAttribute, "header ce_id: must not be empty"),
            ("ce_id", [0x61, 0xFF], .invalidUTF8, "header ce_id is not UTF-8"),
            ("ce_source", bytes("a\u{0}"), .invalidAttribute, "header ce_source: must not contain control characters"),
            (
                "ce_source", bytes(String(repeating: "s", count: 1025)), .invalidAttribute,
                "header ce_source: must be at most 1024 bytes, is 1025"
            ),
            (
                "ce_type", bytes("freshet.widget.viewed.v2"), .unknownType,
                "unknown event type \"freshet.widget.viewed.v2\""
            ),
            ("ce_type", bytes("x\u{0}y"), .unknownType, "unknown event type \"x\\u{0}y\""),
            ("ce_type", [0xC0], .invalidUTF8, "the event type is not UTF-8"),
            (
                "ce_time", bytes("2026-06-22"), .invalidAttribute,
                "header ce_time: expected an RFC 3339 date-time, found \"2026-06-22\""
            ),
        ] as [(String, [UInt8]?, EventError.Code, String)])
    func headers(name: String, value: [UInt8]?, code: EventError.Code, message: String) {
        let broken = Message.binary("freshet.widget.viewed.v1", #"{"app":"a","widget":"w"}"#, replacing: [name: value])
        #expect(broken.decode(.widgets).error == EventError(code: code, message: message, app: "a"))
    }

    @Test("A message without headers is in structured mode; one with any attribute in its headers is not")
    func noHeaders() {
        let event = FreshetEvent.viewed(app: "a", widget: "w")
        let text = event.structured(id: "1", source: "s", time: nil)
        #expect((try? Message([], text).decode(.widgets).get())?.event == event)
        #expect(
            Message([], bytes(#"{"app":"a"}"#)).decode(.widgets).error
                == EventError(
                    code: .missingAttribute, message: "attribute specversion is missing", pointer: "/specversion",
                    app: "a"))
        #expect(
            Message([("ce_id", bytes("1"))], text).decode(.widgets).error?.message == "header ce_specversion is missing"
        )
    }

    @Test func noValue() {
        let tombstone = Message.binary("freshet.widget.viewed.v1", nil as [UInt8]?)
        #expect(tombstone.decode(.widgets).error == EventError(code: .missingData, message: "the message has no value"))
    }

    @Test func oversized() throws {
        let frame = #"{"app":"a","widget":"w","padding":""}"#
        let limit = 1_048_576
        func message(_ size: Int) -> Message {
            let padding = String(repeating: "x", count: size - frame.utf8.count)
            return .binary("freshet.widget.viewed.v1", String(frame.dropLast(2)) + padding + "\"}")
        }
        #expect(try message(limit).decode(.widgets).get().event.type == .widgetViewed)
        #expect(
            message(limit + 1).decode(.widgets).error
                == EventError(code: .tooLarge, message: "1048577 bytes, at most 1048576 are allowed", app: "a"))
        #expect(message(100).decode(.widgets, EventDecoder(maximumEventBytes: 99)).error?.code == .tooLarge)
    }

    @Test(
        arguments: [
            ([0x22, 0xFF, 0x22], "/widget", "invalid UTF-8 in a string at byte 21"),
            ([0x22, 0xED, 0xA0, 0x80, 0x22], "/widget", "invalid UTF-8 in a string at byte 21"),
            ([0xC3, 0x28], "/widget", "invalid UTF-8, expected a value at byte 20"),
        ] as [([UInt8], String, String)])
    func invalidUTF8(value: [UInt8], pointer: String, message: String) {
        let data = bytes(#"{"app":"a","widget":"#) + value + bytes("}")
        #expect(
            Message.binary("freshet.widget.viewed.v1", data).decode(.widgets).error
                == EventError(code: .invalidUTF8, message: message, pointer: pointer, app: "a"))
    }

    @Test func everyMessageCanBeStored() {
        // A dead letter's text has no control characters, whatever it quotes from the message.
        let data = #"{"app":"a","audience":{"user":"u"},"kinds":"\u0000\n\u0085"}"#
        let error = Message.binary("freshet.push.received.v1", data).decode(.pushes).error
        #expect(error?.message == #"expected a list of kinds or "all", found "\u{0}\u{a}\u{85}""#)
        let key = Message.binary(
            "freshet.widget.viewed.v1", #"{"app":"a","\u0000\#(String(repeating: "k", count: 300))":x}"#)
        #expect(key.decode(.widgets).error?.pointer == "/ " + String(repeating: "k", count: 63) + "…")
        #expect(
            error?.description
                == #"invalidValue at /kinds: expected a list of kinds or "all", found "\u{0}\u{a}\u{85}""#)
    }
}
