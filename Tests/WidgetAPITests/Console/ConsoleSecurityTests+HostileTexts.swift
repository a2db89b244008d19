// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import JSON
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

extension ConsoleSecurityTests {
    @Test("Hostile texts of providers, names and dead letters are escaped on every page")
    func scripts() async throws {
        let texts = HostileTexts.all.map { $0.filter { !Text.containsControlCharacter(String($0)) } }
        try await withStore { store in
            for (index, text) in texts.enumerated() {
                let placement = WidgetPlacement(
                    app: TestKinds.app, widget: "w\(text)", user: "u\(text)", device: "d\(text)", kind: "Purchases",
                    family: .systemSmall, configuration: try WidgetConfiguration(["card": .string(text)]),
                    environment: try WidgetEnvironment(locale: "en", timeZone: "Europe/London"))
                let id = try #require(try await store.place([placement]).first)
                let content = JSONValue.object(["light": .string(text), "dark": ["x": .string(text)]])
                try await store.saveContent(id, hash: index + 1, content: content.canonical.replacing("'", with: "''"))
                try await store.keepLetter(Int64(index), error: text, pointer: text, key: text, kind: text)
            }
            try await withAPI(store, console: try ConsoleConfiguration.test()) { api in
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(api.token).status == 303)
                let letters = (1...texts.count).map { "/console/dead-letters/\($0)" }
                let widgets = texts.flatMap { text in
                    [
                        "/console/widgets/\(Text.percentEncoded("w\(text)"))",
                        "/console/widgets?user=\(Text.percentEncoded("u\(text)"))",
                    ]
                }
                let filters = texts.map { "/console/dead-letters?topic=\(Text.percentEncoded($0))" }
                for page in ["/console", "/console/dead-letters", "/console/widgets"] + letters + widgets + filters {
                    let shown = try await browser.get(page)
                    #expect(shown.status == 200, "\(page): \(shown.status)")
                    for text in texts where text.unicodeScalars.contains(where: { "<>\"'".unicodeScalars.contains($0) })
                    {
                        #expect(!shown.text.unicodeScalars.contains(text.unicodeScalars), "\(page): \(text)")
                    }
                }
            }
        }
    }

    /// The test app whose kinds have a text as their name, description and placeholder.
    private static func apps(_ text: String, provider: String) -> [AppDefinition] {
        var app = TestKinds.apps(provider: provider)[0]
        for kind in app.kinds.indices {
            app.kinds[kind].displayName = text
            app.kinds[kind].description = text
            app.kinds[kind].placeholder = .string(text)
        }
        return [app]
    }

    @Test("Hostile texts of manifests, findings, providers and stacks are escaped on every page with them")
    func hostileNames() async throws {
        let texts = HostileTexts.all.map { $0.filter { !Text.containsControlCharacter(String($0)) } }
        for (index, text) in texts.enumerated() {
            let url = "http://127.0.0.1:1/bank"
            let console = try ConsoleConfiguration.test {
                $0.findings = { _ in
                    [
                        [
                            "check": .string(text), "severity": "problem", "message": .string(text),
                            "advice": .string(text),
                        ]
                    ]
                }
                $0.providerHealth = { _ in
                    [url: ["failure": .string(text), "limit": 1, "milliseconds": 2]]
                }
                $0.readManifest = {
                    guard $0 != "fails" else { throw ModelError(message: text) }
                    return Self.apps("\(text)2", provider: url)
                }
            }
            try await withStore(Self.apps(text, provider: url)) { store in
                let placement = WidgetPlacement(
                    app: TestKinds.app, widget: text, user: "u1", device: text, kind: "Purchases", family: .systemSmall,
                    environment: try WidgetEnvironment(locale: "en", timeZone: "Europe/London"))
                _ = try await store.place([placement])
                var person = PersonRecord()
                let stack = StackArrangement(device: text, name: text, widgets: [text])
                _ = person.apply(.stack(stack), at: Timestamp(microseconds: 1))
                let arrangement = "\(person.storedArrangement)".replacing("'", with: "''")
                try await store.sql(
                    """
                    INSERT INTO person (app_id, user_id, arrangement)
                    SELECT a.id, 'u1', '\(arrangement)' FROM app a WHERE a.name = '\(TestKinds.app)'
                    """)
                let reason = String(text.unicodeScalars.prefix(OperatorNote.maximumReasonLength / 2))
                let note = OperatorNote(by: text, reason: reason)
                _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases", note)
                if index == 0 { _ = try await store.store.pause(app: TestKinds.app, note) }
                try await withAPI(store, console: console) { api in
                    let browser = ConsoleClient(api)
                    #expect(try await browser.signIn(api.token).status == 303)
                    let widget = "/console/widgets/\(Text.percentEncoded(text))"
                    var shown = [try await browser.get(widget)]
                    #expect(index > 0 || shown[0].text.contains("stacks-title"))
                    for page in ["", "/doctor", "/kinds", "/kinds/Purchases", "/providers", "/widgets", "/actions"] {
                        shown.append(try await browser.get("/console\(page)"))
                    }
                    shown.append(
                        try await browser.post("/console/kinds/Purchases/resume", from: "/console/kinds/Purchases"))
                    for manifest in ["works", "fails"] {
                        let answer = try await browser.post(
                            "/console/manifest", from: "/console/manifest", ["manifest": manifest])
                        #expect(answer.text.contains(manifest == "works" ? "class=\"difference\"" : "role=\"alert\""))
                        shown.append(answer)
                    }
                    for page in shown {
                        #expect(page.status == 200, "\(text): \(page.text)")
                        guard text.unicodeScalars.contains(where: { "<>\"'".unicodeScalars.contains($0) }) else {
                            continue
                        }
                        #expect(!page.text.unicodeScalars.contains(text.unicodeScalars), "\(text): \(page.text)")
                    }
                }
            }
        }
    }

    @Test("Templates write unescaped values only if they are HTML of the console")
    func templates() throws {
        let allowed: Set = ["aside", "banner", "body", "html", "axis", "forecast", "form", "latency"]
        for (name, bytes) in ConsolePage.templates {
            let text = String(decoding: bytes, as: UTF8.self)
            let raw = text.matches(of: /\{\{\{([^}]*)\}\}\}/).map { String($0.1) }
            // Times are elements.
            let others = raw.filter { !$0.hasPrefix("time(") }
            #expect(Set(others).isSubset(of: allowed), "\(name): \(raw)")
            #expect(text.components(separatedBy: "{{time(").count - 1 == raw.count - others.count, "\(name)")
            #expect(!text.contains("{{&"), "\(name)")
            _ = ConsolePage.render(name, [:])
        }
        // Mustache's own escaping misses a quote with a combining character.
        let hostile = "\"\u{301} onfocus=x '\u{301} <\u{301}b"
        let html = ConsolePage.render("problem", ["detail": hostile]).text
        let quotes = html.unicodeScalars.filter { $0 == "\"" }
        #expect(!html.contains("onfocus=x '") && quotes.count == 6, "\(html)")
    }
}
