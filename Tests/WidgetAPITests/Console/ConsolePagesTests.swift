// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Pages of the console", .tags(.api), .timeLimit(.patience))
struct ConsolePagesTests {
    @Test("The alerts are the headings of the runbook, and the doctor's page links to all of them")
    func alerts() async throws {
        let headings = try String(contentsOfFile: try #require(Repository.path("deploy/runbook.md")), encoding: .utf8)
            .split(separator: "\n")
            .filter { $0.hasPrefix("## Freshet") }.map { String($0.dropFirst(3)) }
        #expect(ConsoleAlert.allCases.map(\.name) == headings)
        try await ConsoleSecurityTests.withConsole(
            console: try .test { $0.runbook = "https://runbook.example.com/r.md" }
        ) { _, api in
            let browser = ConsoleClient(api)
            #expect(try await browser.signIn(api.token).status == 303)
            let page = try await browser.get("/console/doctor").text
            for heading in headings {
                #expect(
                    page.contains("href=\"https://runbook.example.com/r.md#\(heading.lowercased())\""), "\(heading)")
            }
        }
    }

    @Test(
        "An unknown page is a page of the console, on its own port too; a slash at the end leads to the page",
        arguments: [nil, 0])
    func unknownPages(_ port: Int?) async throws {
        try await ConsoleSecurityTests.withConsole(console: try .test { $0.port = port }) { _, api in
            let browser = ConsoleClient(api)
            let nobody = try await browser.get("/console/nothing")
            #expect(nobody.headers[.location] == "/console/sign-in?next=%2Fconsole%2Fnothing")
            #expect(try await browser.signIn(api.token).status == 303)
            // The path of an action, too: a browser repeats it when the address is entered again.
            for (path, status) in [
                ("/nothing", 404), ("/kinds/Purchases/no/page", 404), ("/app/pause", 404), ("//kinds", 400),
            ] {
                let page = try await browser.get("/console\(path)")
                #expect(page.status == status && page.contentType == "text/html; charset=utf-8", "\(path)")
                #expect(page.text.contains("<nav") && page.text.contains("href=\"/console\">Overview"), "\(path)")
            }
            for path in ["/console", "/console/kinds"] {
                #expect(try await browser.get(path + "/").headers[.location] == path)
            }
            for path in ["/console/assets/nothing.js", "/nothing"] {
                #expect(try await browser.get(path).contentType == "application/problem+json", "\(path)")
            }
        }
    }

    @Test("The confirmation repeats the filter, whose letters alone it settles")
    func confirmation() async throws {
        try await ConsoleSecurityTests.withConsole { store, api in
            let browser = ConsoleClient(api)
            #expect(try await browser.signIn(api.token).status == 303)
            let filter = ["cause": "unknownKind", "topic": "freshet.pushes", "since": "2020-01-01T00:00:00Z"]
            let page = try await browser.post("/console/dead-letters/discard", from: "/console/dead-letters", filter)
                .text
            for text in ["Cause: <code>unknownKind<", "Topic: <code>freshet.pushes<", "Kept since: <code>2020-01-01T"] {
                #expect(page.contains(text), "\(text)")
            }
            // The time of the dry run ends the filter.
            #expect(page.contains("Kept before: <code>20"))
            // So does a filter that ends later.
            let later = filter.merging(["until": "2099-01-01T00:00:00Z"]) { $1 }
            let limited = try await browser.post("/console/dead-letters/discard", from: "/console/dead-letters", later)
            #expect(limited.text.contains("Kept before: <code>20") && !limited.text.contains("2099"))
            #expect(try await store.waitingLetters() == 1)
        }
    }

    @Test("Letters that only wait are discarded only by their cause", arguments: ["diverted", "unreadable"])
    func waitingLetters(_ cause: String) async throws {
        try await ConsoleSecurityTests.withConsole { store, api in
            try await store.sql("UPDATE dead_letter SET cause = '\(cause)'")
            let browser = ConsoleClient(api)
            #expect(try await browser.signIn(api.token).status == 303)
            for (filter, left) in [([:], 1), (["cause": cause], 0)] as [([String: String], Int)] {
                let answer = try await browser.post(
                    "/console/dead-letters/discard", from: "/console/dead-letters",
                    filter.merging(["confirmed": "yes"]) { $1 })
                #expect(answer.status == 200, "\(answer.text)")
                #expect(try await store.waitingLetters() == left)
            }
        }
    }

    @Test("Widget and kind show the budget of now and tomorrow; developer mode says lifted", arguments: [false, true])
    func budgets(isLifted: Bool) async throws {
        try await withStore(TestKinds.apps(developerMode: isLifted)) { store in
            let id = try await store.place([.test("w1")])[0]
            var ledger = BudgetLedger()
            for _ in 0..<80 { ledger.spend(of: 40, at: Timestamp.now()) }
            let bytes = try #require(ledger.stored).map { ($0 < 16 ? "0" : "") + String($0, radix: 16) }.joined()
            try await store.sql("UPDATE timeline SET budget = '\\x\(bytes)' WHERE identity = '\(id)'")
            try await withAPI(store, console: try .test()) { api in
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(api.token).status == 303)
                let (kind, widget) = (
                    try await browser.get("/console/kinds/Purchases").text,
                    try await browser.get("/console/widgets/w1").text
                )
                let budget = try await api.json("\(TestAPI.base)/widgets/w1/explanation").document["budget"]
                #expect(budget?["lifted"] == .bool(isLifted) && (budget?["tomorrow"] == .null) == isLifted)
                for page in [kind, widget] {
                    #expect(page.contains("lifted by developer mode") == isLifted)
                    #expect(page.contains("when tomorrow begins") != isLifted)
                }
                #expect(kind.contains("for one of 1 timelines without") != isLifted)
                #expect(widget.contains("40 reloads in 24 h: 0 can be used at once, one more") != isLifted)
            }
        }
    }

    @Test("A process without workers shows the open breakers of others, and knows neither limits nor latencies")
    func unknownHealth() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            _ = try await store.pool.query(.registerWorker(1))
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let state = BreakerState(
                app: app.name, appID: app.id, provider: "http://127.0.0.1:1/bank", rest: .seconds(30),
                message: "connection: refused by <bank>")
            _ = try await store.pool.execute(.recordBreakers([state], worker: 1))
            var console = try ConsoleConfiguration.test()
            console.providerHealth = { _ in nil }
            try await withAPI(store, console: console) { api in
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(api.token).status == 303)
                let (overview, providers) = (
                    try await browser.get("/console").text, try await browser.get("/console/providers").text
                )
                #expect(overview.contains("connection: refused by &lt;bank&gt;") && !overview.contains("unknown"))
                #expect(providers.contains("No requests of 1 of 1 worker processes since"))
                #expect(providers.contains("connection: refused by &lt;bank&gt;"))
                #expect(providers.contains("Limit and latency are unknown here"))
                let told = try await api.json("\(TestAPI.base)/widgets/w1/explanation").document
                #expect(told["next"]?["rule"] == "provider.resting", "\(told)")
                #expect(told["outage"]?["provider"] == "http://127.0.0.1:1/bank")
                #expect(told["outage"]?["probeAt"] == told["next"]?["at"])
            }
        }
    }
}
