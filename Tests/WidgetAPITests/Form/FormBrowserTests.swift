// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import HummingbirdTesting
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetStore

@testable import WidgetAPI
@testable import WidgetModel

/// DESIGN.md, D: the configuration form in a browser, used by keyboard and mouse.
@Suite("The form in Chromium", .tags(.api), .timeLimit(.patience))
struct FormBrowserTests {
    @Test(
        "D: a person configures a widget with search, sections, dependent rows, several values, a stepper and errors",
        .enabled(if: HeadlessBrowser.isInstalled, "Chromium is not installed"))
    func use() async throws {
        try await withStore { store in
            try await store.defineIntent {
                $0.accentColor = "teal"
                $0.backgroundColor = "#0b3d2e"
                // Untouched parameters keep their values.
                $0.intent?.parameters += [
                    IntentParameter(name: "owner", displayName: "Owner", type: .person),
                    IntentParameter(name: "loud", displayName: "Loud", type: .boolean),
                    IntentParameter(
                        name: "quiet", displayName: "Quiet", type: .string(.none),
                        parent: .init(name: "loud", value: false)),
                    IntentParameter(
                        name: "memo", displayName: "Memo", type: .string(.none),
                        parent: .init(name: "shops", value: nil)),
                    IntentParameter(name: "since", displayName: "Since", type: .date),
                    IntentParameter(
                        name: "nickname", displayName: "Nickname", type: .string(.none),
                        parent: .init(name: "since", value: "2026-06-22T10:00:00Z")),
                ]
            }
            let stored = """
                {"card":"acme","nickname":"Nick","owner":{"display":"Ann","identifier":"p1"},\
                "since":"2026-06-22T12:00:00+02:00"}
                """
            try await store.place([.test("w1", configuration: stored)])
            try await withAPI(store, configurations: StubConfigurations(), isLive: true) { api in
                let port = try #require(api.client.port)
                let page = "http://127.0.0.1:\(port)\(TestAPI.base)/widgets/w1/configuration/form"
                try await HeadlessBrowser.run("Tests/WidgetAPITests/Form/form.py", page, api.token)
                let event = try #require(try api.published.events().last).event
                let configuration = try WidgetConfiguration([
                    "card": ["identifier": "debit", "display": "Everyday Debit"], "category": "groceries",
                    "hidden": false, "limit": 3, "shops": [["identifier": "soup", "display": "SoupPay"]],
                    "owner": ["identifier": "p1", "display": "Ann"], "since": "2026-06-22T12:00:00+02:00",
                    "nickname": .null, "loud": false,
                ])
                #expect(event == .configured(app: TestKinds.app, widget: "w1", configuration: configuration))
            }
        }
    }

    private static let stored = #"{"note":"first\n\n  second","since":"2026-06-22T12:00:00+02:00","title":"a\nb"}"#

    @Test(
        "D: controls show their state and language, line ends survive, long lists stay fast, and errors are sentences",
        .enabled(if: HeadlessBrowser.isInstalled, "Chromium is not installed"))
    func controls() async throws {
        let cities = (0..<20_000).map { IntentOptions.Item(value: .string("\($0)"), display: "City \($0)") }
        let provider = StubConfigurations(of: [
            "city": .success(IntentOptions(sections: [.init(items: cities)])),
            "broken": .failure(ProviderFailure(.provider, "status 500")),
        ])
        try await withStore { store in
            try await store.defineIntent {
                $0.intent?.parameters += [
                    IntentParameter(name: "note", displayName: "Note", type: .string(.sentences), isMultiline: true),
                    IntentParameter(name: "title", displayName: "Title", type: .string(.none)),
                    IntentParameter(
                        name: "volume", displayName: "Volume", type: .decimal(.init(minimum: 0, maximum: 100), .slider)),
                    IntentParameter(name: "place", displayName: "Where", type: .location),
                    IntentParameter(name: "since", displayName: "Since", type: .date),
                    IntentParameter(name: "link", displayName: "Link", type: .url),
                    IntentParameter(
                        name: "city", displayName: "City", type: .custom(typeName: "City"), hasDynamicOptions: true),
                    IntentParameter(
                        name: "broken", displayName: "Tram", type: .custom(typeName: "Tram"), hasDynamicOptions: true),
                ]
            }
            try await store.place([.test("w1", configuration: Self.stored)])
            try await withAPI(store, configurations: provider, isLive: true) { api in
                let port = try #require(api.client.port)
                let page = "http://127.0.0.1:\(port)\(TestAPI.base)/widgets/w1/configuration/form"
                try await HeadlessBrowser.run("Tests/WidgetAPITests/Form/controls.py", page, api.token)
                var saved: [JSONValue] = []
                for event in try api.published.events() {
                    guard case .widget(.configured(_, let configuration)) = event.event.change else { continue }
                    saved.append(configuration.value)
                }
                #expect(saved.map { $0["volume"] } == [50, .null])
                let last = try #require(saved.last)
                #expect(last["note"] == "!first\n\n  second" && last["title"] == "!a\nb")
                #expect(last["city"] == ["identifier": "19999", "display": "City 19999"])
                #expect(last["since"] == "2026-06-22T12:00:00+02:00")
            }
        }
    }
}
