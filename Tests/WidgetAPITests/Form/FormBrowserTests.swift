// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import HummingbirdTesting
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

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
}
