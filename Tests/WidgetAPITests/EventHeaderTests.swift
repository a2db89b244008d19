// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import WidgetAPI

extension EventRoutesTests {
    @Test(
        "An environment of a device that cannot be used is refused, with the pointer to the value",
        arguments: [("?", "UTC", "/environment/locale"), ("en", "Europe/Atlantis", "/environment/timeZone")])
    func unusableEnvironment(locale: String, timeZone: String, pointer: String) async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let answer = try await api.ask(
                    .post, Self.events,
                    body: [
                        "app": .string(TestKinds.app), "device": "d1",
                        "environment": ["locale": .string(locale), "timeZone": .string(timeZone)],
                    ],
                    headers: Self.headers(
                        "application/json",
                        [
                            "ce-specversion": "1.0", "ce-id": "b", "ce-source": "/t",
                            "ce-type": EventType.deviceEnvironmentChanged.rawValue,
                        ]))
                #expect(answer.status == 422 && answer.text.contains("\(pointer)\""), "\(answer.text)")
                #expect(try api.published.events().isEmpty)
            }
        }
    }

    @Test(
        "Errors name the headers as HTTP spells them", arguments: ["ce-specversion", "ce-id", "ce-source", "ce-type"])
    func missingHeader(_ name: String) async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                var headers = [
                    "ce-specversion": "1.0", "ce-id": "b", "ce-source": "/t",
                    "ce-type": EventType.pushReceived.rawValue,
                ]
                headers[name] = nil
                let answer = try await api.ask(
                    .post, Self.events, body: Self.push("u1"), headers: Self.headers("application/json", headers))
                #expect(answer.status == 422 && answer.text.contains("header \(name) is missing"), "\(answer.text)")
            }
        }
    }

    @Test(
        "Attributes in headers are unquoted and percent-decoded, and malformed ones are refused",
        arguments: [
            (#""/a\"b\\c""#, #"/a"b\c"#), (#""\/\a%25""#, "/a%"), ("/caf%C3%A9", "/café"), ("%FF", nil),
            ("/100%", nil), (#""/a"#, nil), (#""/a\""#, nil), (#""/a"b""#, nil), (#""\"/a\"""#, nil),
        ])
    func attributes(header: String, source: String?) async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let answer = try await api.ask(
                    .post, Self.events, body: Self.push("u1"),
                    headers: Self.headers(
                        "application/json",
                        [
                            "ce-specversion": "1.0", "ce-id": "b", "ce-source": header,
                            "ce-type": EventType.pushReceived.rawValue,
                        ]))
                #expect(try api.published.events().map(\.source) == [source].compactMap { $0 })
                guard source == nil else { return }
                // Quotes within the quotes make a source that is no URI reference.
                #expect(answer.status == (header.contains("\\\"/a") ? 422 : 400), "\(answer.text)")
            }
        }
    }
}
