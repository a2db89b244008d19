// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite(.tags(.provider), .timeLimit(.patience))
struct ProviderRequestTests {
    private func identity(_ sharing: KindSharing, _ variation: KindVariation) throws -> TimelineIdentity {
        TimelineIdentity(
            app: "a", kind: "K \"1\"", sharing: sharing, variesBy: variation, family: .systemSmall,
            configuration: try WidgetConfiguration(["b": 1, "a": "é"]),
            environment: try WidgetEnvironment(locale: "en-US", timeZone: "Europe/Berlin"), user: "u\"4")
    }

    @Test func body() throws {
        let id = TimelineID(high: 1, low: 2)
        let cases: [(KindSharing, KindVariation, JSONValue)] = [
            (
                .perUser, .all,
                [
                    "id": .string(id.description), "kind": "K \"1\"", "family": "systemSmall",
                    "configuration": ["a": "é", "b": 1],
                    "environment": ["locale": "en-US", "timeZone": "Europe/Berlin"], "user": "u\"4",
                ]
            ),
            (.shared, [], ["id": .string(id.description), "kind": "K \"1\"", "configuration": ["a": "é", "b": 1]]),
            (
                .shared, [.locale],
                [
                    "id": .string(id.description), "kind": "K \"1\"", "configuration": ["a": "é", "b": 1],
                    "environment": ["locale": "en-US"],
                ]
            ),
            (
                .perUser, [.timeZone],
                [
                    "id": .string(id.description), "kind": "K \"1\"", "configuration": ["a": "é", "b": 1],
                    "environment": ["timeZone": "Europe/Berlin"], "user": "u\"4",
                ]
            ),
        ]
        let items = try cases.map { (id: id, identity: try identity($0.0, $0.1)) }
        let body = try JSONValue.parse(ProviderEndpoint.encode(timelines: items))
        #expect(body == ["requests": .array(cases.map(\.2))])
        #expect(ProviderEndpoint.encode(timelines: []) == bytes(#"{"requests":[]}"#))
    }

    @Test("A request has timelines of several kinds")
    func severalKinds() throws {
        let items = try ["Purchases", "DueDate", "Purchases"].enumerated().map { index, kind in
            (
                id: TimelineID(high: 1, low: UInt64(index)),
                identity: TimelineIdentity(
                    app: "a", kind: kind, family: nil, configuration: try WidgetConfiguration([:]), locale: nil,
                    timeZone: nil, user: nil)
            )
        }
        let start = "00000000-0000-0001-0000-00000000000"
        #expect(
            ProviderEndpoint.encode(timelines: items)
                == bytes(
                    #"{"requests":[{"id":"\#(start)0","kind":"Purchases","configuration":{}},"#
                        + #"{"id":"\#(start)1","kind":"DueDate","configuration":{}},"#
                        + #"{"id":"\#(start)2","kind":"Purchases","configuration":{}}]}"#))
    }
}
