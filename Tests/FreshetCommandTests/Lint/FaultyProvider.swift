// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import ReloadWorkers
import Synchronization
import TestSupport
import WidgetModel

/// A provider with all mistakes that lint detects, each in one of four kinds.
enum FaultyProvider {
    static let secret = SigningSecret.random()

    static func manifest(_ url: String, secretFile: String) -> String {
        """
        app: com.example.faulty
        provider: {url: "\(url)"}
        signingSecret: {file: \(secretFile)}
        kinds:
          - {name: Loose, families: [systemSmall, systemMedium], placeholder: {}}
          - {name: Odd, families: [systemSmall], placeholder: {}}
          - name: Slow
            families: [systemSmall]
            timeout: 10s
            placeholder: {}
            intent:
              title: Card
              parameters:
                - {name: card, displayName: Card, type: custom, typeName: C, dynamicOptions: true, dynamicDefault: true}
          - {name: Broken, families: [systemSmall], placeholder: {}}
        """
    }

    static func make(_ provider: StubProvider) {
        let odd = Odd()
        provider.respond { request in
            switch request.kind {
            case "Loose": .timelines(request.ids.map(loose))
            case "Odd": odd.answer(request)
            case "Slow": try await slow(request)
            default: .status(500)
            }
        }
        provider.respond(to: .snapshot) { request in
            if request.kind == "Slow" { try await Task.sleep(for: .seconds(600)) }
            return .status(404)
        }
        provider.respond(to: .options) { _ in .list("options", []) }
        provider.respond(to: .defaults) { _ in .body(Array("{\"values\":{}}".utf8)) }
    }

    private static func now(_ seconds: Int = 0) -> Timestamp {
        Timestamp(microseconds: Timestamp.now().microseconds / 1_000_000 * 1_000_000) + .seconds(seconds)
    }

    private static func timeline(_ id: TimelineID, _ policy: JSONValue, _ entries: [JSONValue]) -> JSONValue {
        ["id": .string(id.description), "policy": policy, "entries": .array(entries)]
    }

    /// Does not check signatures. Answers equally for all users: days in UTC, relevance of 1, incomplete variants, bad
    /// links.
    private static func loose(_ id: TimelineID) -> JSONValue {
        let today = now().microseconds / 86_400_000_000
        func midnight(_ days: Int64) -> String {
            Timestamp(microseconds: (today + days) * 86_400_000_000).rfc3339
        }
        func entry(_ date: String, _ content: JSONValue, _ url: JSONValue) -> JSONValue {
            [
                "date": .string(date), "content": content, "url": url, "relevance": ["score": 1],
                "links": ["a": "app://a", "b": "app://b"],
            ]
        }
        let close = Timestamp(microseconds: today * 86_400_000_000 + 60_000_000).rfc3339
        return timeline(
            id, ["after": .string(midnight(2))],
            [
                entry(midnight(0), ["light": 1], "cards"), entry(close, 1, "javascript:alert(1)"),
                entry(midnight(1), 1, "javascript:alert(1)"), entry(midnight(2), 1, "javascript:alert(1)"),
            ])
    }

    /// Refuses incorrectly, answers incompletely, and changes with every request.
    private final class Odd: Sendable {
        private let count = Atomic(0)

        func answer(_ request: StubProvider.Request) -> StubProvider.Answer {
            let headers = request.headers
            let signature = headers["webhook-signature"] ?? ""
            let valid = ProviderClient.signature(
                secrets: [secret.bytes], id: headers["webhook-id"] ?? "",
                timestamp: headers["webhook-timestamp"].flatMap { Int64($0) } ?? 0,
                body: request.body)
            guard signature == valid else { return .status(500) }
            guard request.items.allSatisfy({ $0["x-lint"] == nil }) else { return .status(400) }
            let number = count.add(1, ordering: .relaxed).newValue
            var timelines = request.ids.dropFirst(2).map { id in
                FaultyProvider.timeline(
                    id, ["after": "2020-01-01T00:30:00Z"],
                    (0..<5).map { index in
                        [
                            "date": .string(now(3_600 + index * 600).rfc3339), "relevance": ["score": 0],
                            "content": ["light": ["a": .number(JSONNumber(number * 5 + index))], "dark": ["b": 1]],
                        ]
                    })
            }
            // The first timeline is missing.
            timelines += request.ids.dropFirst().prefix(1).map { .stubError($0, code: "unknown") }
            timelines.append(["id": "0b0e4f9a-52a1-43c6-9c6e-0e2b6f7f1a11", "policy": "never", "entries": []])
            return .timelines(timelines)
        }
    }

    /// Uses more than half of the time limit for large content with the request's date.
    private static func slow(_ request: StubProvider.Request) async throws -> StubProvider.Answer {
        // The delay is what the rule measures: more than 5 of the 10 s.
        try await Task.sleep(for: .milliseconds(5_200))
        return .timelines(
            request.ids.map { id in
                timeline(
                    id, "atEnd",
                    [
                        [
                            "date": .string(now().rfc3339), "relevance": ["score": 1],
                            "content": .string(String(repeating: "x", count: 140_000)),
                        ]
                    ])
            })
    }
}
