// SPDX-License-Identifier: Apache-2.0

import FreshetClient
import FreshetService
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

struct EventLinesTests {
    private let now = Timestamp(microseconds: 1_700_000_000_000_000)

    private func event(_ line: String) throws -> OutgoingEvent {
        let now = now
        return try EventLines(now: { now }).event(Array(line.utf8))
    }

    private static let data = #"{"app":"a","audience":{"user":"u"},"kinds":["K"]}"#

    @Test("An event in short form gets an ID, a source and a time")
    func short() throws {
        let event = try event(#"{"type":"freshet.push.received.v1","data":\#(Self.data)}"#)
        #expect(
            event.event
                == .reload(ReloadRequest(app: "a", audience: .user("u"), kinds: .kinds(["K"]), reason: .push)))
        #expect(event.id.utf8.count == 32)
        #expect(event.source == "/freshet/publish")
        #expect(event.time == now)
        #expect(event.key == nil)
    }

    @Test("Envelope attributes in the line are kept")
    func envelope() throws {
        let event = try event(
            #"""
            {"data":\#(Self.data),"specversion":"1.0","id":"e1","source":"/bank","time":"2026-01-01T00:00:00Z",
             "type":"freshet.push.received.v1","key":"k",
             "traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
            """#)
        #expect(event.id == "e1" && event.source == "/bank" && event.key == "k")
        #expect(event.time == Timestamp(rfc3339: "2026-01-01T00:00:00Z"))
        #expect(event.traceparent?.hasPrefix("00-0af7") == true)
    }

    @Test("Every type of event can be read", arguments: EventType.allCases)
    func types(_ type: EventType) throws {
        let data =
            switch type {
            case .pushReceived: Self.data
            case .reloadRequested: #"{"app":"a","audience":{"user":"u"},"kinds":"all"}"#
            case .appChanged: #"{"app":"a","audience":{"everyone":true},"kinds":"all","state":"background"}"#
            case .widgetPlaced:
                #"{"app":"a","widget":"w","user":"u","device":"d","kind":"K","family":"systemSmall","#
                    + #""environment":{"locale":"en","timeZone":"Etc/UTC"}}"#
            case .widgetConfigured: #"{"app":"a","widget":"w","configuration":{}}"#
            case .widgetRemoved, .widgetViewed: #"{"app":"a","widget":"w"}"#
            case .deviceEnvironmentChanged:
                #"{"app":"a","device":"d","environment":{"locale":"en","timeZone":"Etc/UTC"}}"#
            case .stackChanged: #"{"app":"a","user":"u","device":"d","stack":"s","widgets":["w"]}"#
            case .stackTurned: #"{"app":"a","user":"u","device":"d","stack":"s","widget":"w"}"#
            case .shortcutsReplaced: #"{"app":"a","user":"u","shortcuts":[]}"#
            case .interactionDonated: #"{"app":"a","user":"u","kind":"K"}"#
            case .deviceRegistered: #"{"app":"a","user":"u","device":"d","channel":{"webhook":true}}"#
            case .deviceUnregistered: #"{"app":"a","user":"u","device":"d"}"#
            }
        #expect(try event(#"{"type":"\#(type.rawValue)","data":\#(data)}"#).event.type == type)
    }

    @Test(
        "Errors are reported with a pointer",
        arguments: [
            ("nonsense", "not JSON"), ("[]", "expected an object, found an array"), ("{}", "/type"),
            (#"{"type":5}"#, "/type"),
            (#"{"type":"freshet.push.received.v2"}"#, "did you mean \"freshet.push.received.v1\""),
            (#"{"type":"freshet.push.received.v1"}"#, "/data"),
            (#"{"type":"freshet.push.received.v1","data":{"app":"a"}}"#, "/data/audience"),
            (
                #"{"type":"freshet.push.received.v1","data":{"app":"","audience":{"user":"u"},"kinds":"all"}}"#,
                "/data/app"
            ),
            (#"{"type":"freshet.push.received.v1","specversion":"0.3","data":\#(data)}"#, "/specversion"),
            (#"{"type":"freshet.push.received.v1","time":"yesterday","data":\#(data)}"#, "/time"),
            (#"{"type":"freshet.push.received.v1","id":"","data":\#(data)}"#, "/id"),
        ])
    func refused(_ line: String, _ part: String) {
        #expect { try event(line) } throws: { error in
            error is ModelError && "\(error)".contains(part)
        }
    }
}
