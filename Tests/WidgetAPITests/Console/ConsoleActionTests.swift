// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Actions of operators", .tags(.api), .timeLimit(.patience))
struct ConsoleActionTests {
    private static let confirmed = ["confirmed": "yes"]

    /// Passes an app with three timelines and its signed-in operator, whose token has the subject `night@example.com`.
    private static func withOperator(
        _ body: @escaping @Sendable (TestStore, TestAPI, ConsoleClient) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", user: "u2"), .test("w3", kind: "DueDate")])
            try await withAPI(store, console: try .test()) { api in
                let browser = ConsoleClient(api)
                let token = try await api.tokens.token(subject: "night@example.com")
                #expect(try await browser.signIn(token).status == 303)
                try await body(store, api, browser)
            }
        }
    }

    /// The first line of the overview's verdict.
    private static func headline(_ browser: ConsoleClient) async throws -> String {
        let text = try await browser.get("/console").text
        let start = try #require(text.firstRange(of: "id=\"verdict-title\"")?.upperBound)
        let end = try #require(text[start...].firstRange(of: "</h2>")?.lowerBound)
        return String(text[start..<end])
    }

    private static func actions(_ store: TestStore) async throws -> [RecordedAction] {
        try await store.pool.query(.listActions(app: TestKinds.app, kind: nil, limit: 100))
    }

    @Test("An action shows the number of timelines that it touches, and runs only after it is confirmed")
    func asks() async throws {
        try await Self.withOperator { store, api, browser in
            let kind = "/console/kinds/Purchases"
            for (path, touched) in [
                ("/console/app/pause", "3 timelines."), (kind + "/pause", "2 timelines."),
                (kind + "/resume", "2 timelines due now, of 2 timelines."), (kind + "/reload", "2 timelines."),
                (kind + "/cancel", "0 timelines in 0 sweeps and lists of everyone, of 2 timelines."),
            ] {
                let page = try await browser.post(path, from: "/console/kinds")
                #expect(
                    page.status == 200 && page.text.contains("<strong>\(touched)</strong>"), "\(path): \(page.text)")
                #expect(
                    page.text.contains("name=\"reason\" maxlength=\"200\"")
                        && page.text.contains(", night@example.com."))
            }
            #expect(try await Self.actions(store).isEmpty && api.published.all.isEmpty)
            for (path, name) in [
                (kind + "/reload", "reload"), (kind + "/cancel", "cancel"), (kind + "/pause", "pause"),
                ("/console/dead-letters/discard", "discard"),
            ] {
                let answer = try await browser.post(
                    path, from: "/console/kinds", Self.confirmed.merging(["reason": "as <agreed>"]) { $1 })
                #expect(answer.status < 400, "\(answer.text)")
                let action = try #require(try await Self.actions(store).first)
                #expect(action.name.rawValue == name && action.action.note?.operatorName == "night@example.com")
                #expect(action.action.note?.reason == "as <agreed>")
            }
            #expect(try api.published.events().count == 1)
            let shown = try await browser.get("/console/actions?kind=Purchases&done=pause").text
            #expect(shown.contains("as &lt;agreed&gt;") && !shown.contains("as <agreed>"))
            #expect(shown.contains("Reloads are paused") && shown.contains("<dd>2 timelines</dd>"))
        }
    }

    @Test("Pages, API and the overview's first line name who paused, when and why")
    func named() async throws {
        try await Self.withOperator { store, api, browser in
            let reason = ["confirmed": "yes", "reason": "the \"bank\" <migrates>"]
            #expect(try await browser.post("/console/app/pause", from: "/console/kinds", reason).status == 303)
            let line = try await Self.headline(browser)
            let start = "The app com.example.bank is paused by night@example.com since <time datetime=\"20"
            #expect(line.contains(start), "\(line)")
            #expect(
                line.contains("3 widgets wait; reason: &quot;the \\&quot;bank\\&quot; &lt;migrates&gt;&quot;"),
                "\(line)")
            for page in ["/kinds", "/kinds/Purchases", "/actions"] {
                let text = try await browser.get("/console\(page)").text
                #expect(
                    text.contains("night@example.com") && text.contains("the &quot;bank&quot; &lt;migrates&gt;"),
                    "\(page)")
            }
            let asked = try await browser.post("/console/app/resume", from: "/console/kinds").text
            #expect(asked.contains("Paused by night@example.com since <time datetime=\"20"))
            let told = try await api.json("\(TestAPI.base)/widgets/w1/explanation").document
            let next = told["next"]?["text"]?.stringValue ?? ""
            #expect(next.hasPrefix("reloads of the app are paused by night@example.com since 20"), "\(next)")
            #expect(next.hasSuffix(#"; reason: "the \"bank\" <migrates>""#), "\(next)")
            #expect(told["pause"]?["app"]?["by"] == "night@example.com" && told["pause"]?["kind"] == .null)
            #expect(try await browser.get("/console/widgets/w1").text.contains("paused by night@example.com"))
        }
    }

    @Test("A paused kind is named after what fails, and a reload of everyone's cancellation with its operator")
    func kinds() async throws {
        try await Self.withOperator { store, api, browser in
            let answer = try await api.ask(.put, "\(TestAPI.base)/kinds/DueDate/pause?reason=wrong+dates").document
            let name = try #require(answer["pause"]?["by"]?.stringValue)
            #expect(answer["pause"]?["reason"] == "wrong dates" && answer["pause"]?["at"] == answer["pausedAt"])
            _ = try await store.pool.query(.registerWorker(1))
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let outage = BreakerState(
                app: app.name, appID: app.id, provider: "http://127.0.0.1:1/bank", rest: .seconds(30),
                message: "answered with status 503")
            _ = try await store.pool.execute(.recordBreakers([outage], worker: 1))
            #expect(try await Self.headline(browser).contains("http://127.0.0.1:1/bank failed"))
            let text = try await browser.get("/console").text
            #expect(
                text.contains("The kind DueDate is paused by \(name) since <time datetime=\"20")
                    && text.contains(": 1 widget waits; reason"))
            #expect(text.contains("href=\"/console/widgets?kind=DueDate&amp;state=paused\""))
            let kind = try await api.json("\(TestAPI.base)/kinds/DueDate").document
            #expect(kind["pause"]?["reason"] == "wrong dates" && kind["appPause"] == .null)
            try await store.settle()
            let kinds = try await store.pool.query(.listKinds(app: TestKinds.app)).readable
            let purchases = try #require(kinds.first { $0.definition.name == "Purchases" })
            let everyone = EveryoneReload(appID: purchases.appID, kindID: purchases.id)
            _ = try await store.pool.query(.bumpKinds([everyone]))
            _ = try await browser.post("/console/kinds/Purchases/cancel", from: "/console/kinds", Self.confirmed)
            let told = try await api.json("\(TestAPI.base)/widgets/w1/explanation").document["notes"]?.arrayValue ?? []
            #expect("\(told)".contains("1 reload of everyone cancelled by night@example.com at 20"), "\(told)")
        }
    }

    @Test("A reason that is too long, or has line breaks, is refused, and nothing is done")
    func reasons() async throws {
        try await Self.withOperator { store, api, browser in
            for reason in [String(repeating: "x", count: 201), "two\nlines"] {
                let form = try await browser.post(
                    "/console/app/pause", from: "/console/kinds", Self.confirmed.merging(["reason": reason]) { $1 })
                #expect(form.status == 400 && form.text.contains("reason"), "\(form.text)")
                let query = Text.percentEncoded(reason)
                #expect(try await api.ask(.put, "\(TestAPI.base)/pause?reason=\(query)").status == 400)
            }
            #expect(try await Self.actions(store).isEmpty)
            let longest = String(repeating: "ü", count: 200)
            #expect(
                try await api.ask(.put, "\(TestAPI.base)/pause?reason=\(Text.percentEncoded(longest))").status == 200)
            #expect(try await Self.actions(store).first?.action.note?.reason == longest)
        }
    }
}
