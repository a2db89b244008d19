// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetEvents

extension Tag {
    @Tag static var decoding: Self
    @Tag static var property: Self
    @Tag static var schemas: Self
}

func bytes(_ text: String) -> [UInt8] { Array(text.utf8) }

/// A message in one arena, as in a polled batch, with other bytes around every part.
struct Message {
    var arena: [UInt8] = bytes("{\"")
    var headers: [(name: Range<Int>, value: Range<Int>?)] = []
    var value: Range<Int>?

    init(_ headers: [(String, [UInt8]?)], _ value: [UInt8]?) {
        for (name, bytes) in headers {
            let nameRange = append(Array(name.utf8))
            let valueRange = bytes.map { append($0) }
            self.headers.append((nameRange, valueRange))
        }
        self.value = value.map { append($0) }
        arena.append(contentsOf: bytes("\"}"))
    }

    /// Returns a complete message in binary mode, with headers replaced or, by nil, omitted.
    static func binary(
        _ type: String, _ data: [UInt8]?, replacing replaced: [String: [UInt8]?] = [:]
    ) -> Message {
        let defaults: [(String, String)] = [
            ("ce_specversion", "1.0"), ("ce_id", "e-1"), ("ce_source", "/tests"), ("ce_type", type),
            ("ce_time", "2026-06-22T10:00:00Z"), ("content-type", "application/json"),
        ]
        var headers: [(String, [UInt8]?)] = []
        for (name, text) in defaults {
            switch replaced[name] {
            case .some(.some(let bytes)): headers.append((name, bytes))
            case .some(.none): continue
            case nil: headers.append((name, bytes(text)))
            }
        }
        for (name, value) in replaced where !defaults.contains(where: { $0.0 == name }) {
            headers.append((name, value))
        }
        return Message(headers, data)
    }

    static func binary(_ type: String, _ data: String, replacing replaced: [String: [UInt8]?] = [:]) -> Message {
        binary(type, bytes(data), replacing: replaced)
    }

    static func structured(_ text: String, contentType: String = "application/cloudevents+json") -> Message {
        Message([("content-type", bytes(contentType))], bytes(text))
    }

    func decode(_ topic: EventTopic, _ decoder: EventDecoder = EventDecoder()) -> Result<DecodedEvent, EventError> {
        Result { () throws(EventError) in
            try decoder.decode(bytes: arena, value: value, headers: headers, topic: topic)
        }.mapError { error in
            var error = error
            if error.app == nil, let value { error.app = EventDecoder.app(in: arena, value: value) }
            return error
        }
    }

    private mutating func append(_ part: [UInt8]) -> Range<Int> {
        let start = arena.count
        arena.append(contentsOf: part)
        defer { arena.append(contentsOf: bytes("\"1]")) }
        return start..<(start + part.count)
    }
}

/// One event of each type, and variants.
enum Samples {
    static func all() throws -> [FreshetEvent] {
        let environment = try WidgetEnvironment(locale: "en-US", timeZone: "Europe/Berlin")
        let configuration = try WidgetConfiguration(["card": "acme", "limits": [1, "two"]])
        let named = KindScope.kinds(["DueDate", "RecentPurchases"])
        return [
            .reload(
                ReloadRequest(app: "a.b", audience: .user("u1"), kinds: named, matching: configuration, reason: .push)),
            .reload(ReloadRequest(app: "a.b", audience: .device("d\"1"), kinds: .all, reason: .push)),
            .reload(ReloadRequest(app: "a.b", audience: .widget("é😀"), kinds: .kinds(["K"]), reason: .push)),
            .reload(ReloadRequest(app: "a.b", audience: .everyone, kinds: .all, reason: .push)),
            .reload(ReloadRequest(app: "a.b", audience: .user("u1"), kinds: named, reason: .foreground)),
            .reload(
                ReloadRequest(
                    app: "a.b", audience: .everyone, kinds: .all, matching: configuration, reason: .background)),
            .reload(
                ReloadRequest(
                    app: "a.b", audience: .everyone, kinds: named, matching: configuration, reason: .operator)),
            .reload(ReloadRequest(app: "a.b", audience: .user("u1"), kinds: .all, reason: .operator)),
            .placed(
                WidgetPlacement(
                    app: "a.b", widget: "w", user: "u", device: "d", kind: "K", family: .accessoryInline,
                    configuration: configuration, environment: environment)),
            .placed(
                WidgetPlacement(
                    app: "a.b", widget: "w", user: "u", device: "d", kind: "K", family: .systemSmall,
                    environment: environment)),
            .configured(app: "a.b", widget: "w", configuration: configuration),
            .removed(app: "a.b", widget: "w"), .viewed(app: "a.b", widget: "w"),
            .environmentChanged(app: "a.b", device: "d", environment: environment, significantTimeChange: true),
            .environmentChanged(app: "a.b", device: "d", environment: environment, significantTimeChange: false),
        ]
    }
}
