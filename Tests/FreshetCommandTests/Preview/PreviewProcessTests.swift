// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Synchronization
import TestSupport
import Testing
import WidgetModel

@Suite("freshet preview", .tags(.process), .timeLimit(.patience))
struct PreviewProcessTests {
    /// Whether the provider's content has changed.
    private final class Change: Sendable {
        let isDone = Atomic(false)
    }

    @Test(
        "The page in Chromium: slider, change of the provider, hostile content, phone, without JavaScript",
        .enabled(if: HeadlessBrowser.isInstalled, "Chromium is not installed"))
    func browser() async throws {
        try await withStubProvider { provider in
            let change = Change()
            provider.respond { request in
                guard request.kind == "K" else { return .status(503) }
                return .timelines(
                    request.ids.map { Self.timeline($0, isChanged: change.isDone.load(ordering: .relaxed)) })
            }
            provider.respond(to: .options) { _ in
                change.isDone.store(true, ordering: .relaxed)
                return .list("options", [])
            }
            let manifest = FileManager.default.temporaryDirectory.appending(path: "freshet-\(UUID().uuidString).yaml")
            defer { try? FileManager.default.removeItem(at: manifest) }
            try Data(Self.manifest(provider.url).utf8).write(to: manifest)
            let preview = try FreshetProcess([
                "preview", "--manifest", manifest.path, "--port", "0", "--interval", "200ms", "--time-zone",
                "Europe/Berlin",
            ])
            let url = try #require(try await preview.firstLine()["url"]?.stringValue)
            try await HeadlessBrowser.run("Tests/FreshetCommandTests/Preview/preview.py", url, provider.url)
            preview.send(signal: SIGTERM)
            #expect(try await preview.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        }
    }

    private static func manifest(_ url: String) -> String {
        """
        app: com.example.app
        provider: {url: "\(url)"}
        kinds:
          - {name: K, displayName: Steps, description: Counts steps., families: [systemSmall, systemMedium], placeholder: {}}
          - {name: Broken, families: [systemSmall], placeholder: {}}
        """
    }

    /// An entry from a minute ago and one in an hour; the content is hostile.
    private static func timeline(_ id: TimelineID, isChanged: Bool) -> JSONValue {
        let now = start
        func entry(_ time: Timestamp, _ step: String) -> JSONValue {
            [
                "date": .string(time.rfc3339), "relevance": ["score": 2],
                "content": [
                    "light": ["step": .string(step), "text": .texts(HostileTexts.all)],
                    "dark": ["step": .string(step), "ink": "white"],
                ],
            ]
        }
        return [
            "id": .string(id.description), "policy": "atEnd",
            "entries": [
                entry(now - .seconds(60), "one"), entry(now + .seconds(3_600), isChanged ? "two changed" : "two"),
            ],
        ]
    }

    private static let start = Timestamp(microseconds: Timestamp.now().microseconds / 1_000_000 * 1_000_000)
}
