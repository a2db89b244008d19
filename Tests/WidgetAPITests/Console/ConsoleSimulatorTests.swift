// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("The console's simulator", .tags(.api), .timeLimit(.patience))
struct ConsoleSimulatorTests {
    private static func withSimulator(
        _ change: (inout ConsoleConfiguration) -> Void = { _ in },
        _ body: @escaping @Sendable (ConsoleClient) async throws -> Void
    ) async throws {
        let console = try ConsoleConfiguration.test(change)
        try await withStore { store in
            try await withAPI(store, console: console) { api in
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(try await api.viewer()).status == 303)
                try await body(browser)
            }
        }
    }

    private static func simulate(_ browser: ConsoleClient, _ fields: [String: String]) async throws -> String {
        let answer = try await browser.post("/console/simulator", from: "/console/simulator", fields)
        #expect(answer.status == 200, "\(answer.text)")
        return answer.text
    }

    /// Text of the page's alert; nil without one.
    private static func alert(in page: String) -> String? {
        guard let start = page.firstRange(of: "role=\"alert\">")?.upperBound else { return nil }
        return String(page[start...].prefix { $0 != "<" })
    }

    @Test("A viewer simulates the app's kinds; the same seed gives the same report, another seed another one")
    func kinds() async throws {
        try await Self.withSimulator { browser in
            let fields = ["from": "2026-06-22", "days": "2", "people": "10", "seed": "1"]
            let page = try await Self.simulate(browser, fields)
            #expect(Self.alert(in: page) == nil)
            #expect(page.contains("10 people, 2 days from 2026-06-22"))
            for text in ["Purchases", "timeline-days by budgeted reloads", "timelines by hour", "stacks, planned"] {
                #expect(page.contains(text), "\(text)")
            }
            let report = { (page: String) in page.firstRange(of: "<section>").map { page[$0.lowerBound...] } }
            let again = try await Self.simulate(browser, fields)
            #expect(report(again) == report(page) && report(page) != nil)
            let other = try await Self.simulate(browser, fields.merging(["seed": "2"]) { $1 })
            #expect(report(other) != report(page))
        }
    }

    @Test("A manifest is simulated in place of the app's kinds, and stays in the form")
    func manifest() async throws {
        let change: @Sendable (inout ConsoleConfiguration) -> Void = {
            $0.readManifest = { text in
                var app = TestKinds.apps()[0]
                app.kinds = Array(app.kinds.prefix(1))
                app.kinds[0].name = "OnlyInTheManifest"
                if text == "other" { app.name = TestKinds.otherApp }
                guard text != "broken" else { throw ModelError(message: "line 1: <b>broken") }
                return [app]
            }
        }
        try await Self.withSimulator(change) { browser in
            let page = try await Self.simulate(browser, ["days": "1", "people": "5", "manifest": "a: </textarea>"])
            #expect(page.contains("OnlyInTheManifest") && page.contains("a: &lt;/textarea&gt;</textarea>"))
            let broken = try await Self.simulate(browser, ["manifest": "broken"])
            #expect(Self.alert(in: broken)?.contains("line 1: &lt;b&gt;broken") == true)
            let other = try await Self.simulate(browser, ["manifest": "other"])
            #expect(Self.alert(in: other)?.contains("is not the token") == true)
        }
    }

    @Test(
        "An input beyond its limits is refused with the field's name",
        arguments: [
            ("days", "32"), ("days", "0"), ("days", "x"), ("people", "1001"), ("people", "-1"), ("seed", "-1"),
            ("from", "2026-13-01"),
            ("from", "1999-12-31"), ("from", "9999-12-31"), ("from", "2026-06-221"), ("from", "2026-06-22T10:00:00Z"),
        ])
    func limits(field: String, value: String) async throws {
        try await Self.withSimulator { browser in
            let page = try await Self.simulate(browser, [field: value])
            #expect(Self.alert(in: page)?.hasPrefix("/\(field): expected") == true, "\(page)")
        }
    }

    @Test("A manifest with more kinds than the page can show is refused")
    func manyKinds() async throws {
        let change: @Sendable (inout ConsoleConfiguration) -> Void = {
            $0.readManifest = { _ in
                var app = TestKinds.apps()[0]
                app.kinds = (0...ConsoleSimulation.kinds.upperBound).map { number in
                    var kind = app.kinds[0]
                    kind.name = "Kind\(number)"
                    return kind
                }
                return [app]
            }
        }
        try await Self.withSimulator(change) { browser in
            let page = try await Self.simulate(browser, ["manifest": "x"])
            #expect(Self.alert(in: page)?.contains("1 to 50 kinds, found 51") == true, "\(page)")
        }
    }

    @Test("Hostile names in a manifest are escaped in the report")
    func hostileNames() async throws {
        let texts = HostileTexts.all.filter { !Text.containsControlCharacter($0) }
        let change: @Sendable (inout ConsoleConfiguration) -> Void = {
            $0.readManifest = { _ in
                var app = TestKinds.apps()[0]
                app.kinds = texts.prefix(ConsoleSimulation.kinds.upperBound).map { text in
                    var kind = app.kinds[0]
                    kind.name = text
                    kind.displayName = text
                    kind.providerURL = "http://127.0.0.1/\(text)"
                    return kind
                }
                return [app]
            }
        }
        try await Self.withSimulator(change) { browser in
            let page = try await Self.simulate(browser, ["days": "1", "people": "20", "manifest": "x"])
            #expect(page.contains("20 people"))
            for text in texts where text.unicodeScalars.contains(where: { "<>\"'".unicodeScalars.contains($0) }) {
                #expect(!page.unicodeScalars.contains(text.unicodeScalars), "\(text)")
            }
        }
    }

    @Test("People and days together are limited")
    func size() throws {
        #expect(throws: Problem.self) {
            try ConsoleSimulation.options(["days": "31", "people": "1000"], now: Timestamp.now())
        }
        _ = try ConsoleSimulation.options(["days": "5", "people": "1000"], now: Timestamp.now())
        _ = try ConsoleSimulation.options(["from": "2099-12-31", "seed": "18446744073709551615"], now: Timestamp.now())
    }

    @Test("A second simulation is refused while one runs, and accepted afterwards")
    func turns() async throws {
        let turn = ConsoleSimulation()
        let refusal = try await turn.alone {
            await #expect(throws: Problem.self) { try await turn.alone {} }
        }
        #expect(refusal?.status == .conflict)
        await #expect(throws: CancellationError.self) {
            try await turn.alone { () async throws -> Void in throw CancellationError() }
        }
        let value = try await turn.alone { 1 }
        #expect(value == 1)
    }
}
