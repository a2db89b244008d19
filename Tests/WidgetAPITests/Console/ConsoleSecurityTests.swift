// SPDX-License-Identifier: Apache-2.0

import Foundation
import HTTPTypes
import JSON
import Logging
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

/// The table in section "Console" of `deploy/operations.md`.
@Suite("Security of the console", .tags(.api), .timeLimit(.patience))
struct ConsoleSecurityTests {
    /// Forms that change something, with a page that contains them.
    private static let actions: [(path: String, page: String)] = [
        ("/console/app/pause", "/console/kinds"), ("/console/app/resume", "/console/kinds"),
        ("/console/kinds/Purchases/pause", "/console/kinds/Purchases"),
        ("/console/kinds/Purchases/resume", "/console/kinds/Purchases"),
        ("/console/kinds/Purchases/cancel", "/console/kinds/Purchases"),
        ("/console/kinds/Purchases/reload", "/console/kinds/Purchases"),
        ("/console/kinds/Purchases/test", "/console/providers"),
        ("/console/widgets/w1/reload", "/console/widgets/w1"),
        ("/console/dead-letters/replay", "/console/dead-letters"),
        ("/console/dead-letters/discard", "/console/dead-letters"),
    ]

    private static let pages = [
        "/console", "/console/doctor", "/console/kinds", "/console/kinds/Purchases", "/console/manifest",
        "/console/simulator",
        "/console/widgets", "/console/widgets/w1", "/console/dead-letters", "/console/dead-letters/1",
        "/console/providers", "/console/actions", "/console/actions?kind=Purchases",
    ]

    private static func changes(_ store: TestStore) async throws -> Int {
        try await store.integer(
            """
            SELECT (SELECT count(*) FROM kind WHERE paused_at IS NOT NULL) + (SELECT count(*) FROM app WHERE paused_at IS NOT NULL)
                + (SELECT count(*) FROM dead_letter WHERE replayed_at IS NOT NULL OR discarded_at IS NOT NULL OR replays > 0)
            """)
    }

    static func withConsole(
        console: ConsoleConfiguration? = nil,
        _ body: @escaping @Sendable (TestStore, TestAPI) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.keepLetter(1)
            let console = try console ?? ConsoleConfiguration.test()
            try await withAPI(store, console: console) { api in
                try await body(store, api)
            }
        }
    }

    @Test("The console is off by default")
    func off() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let off = try await api.ask(.get, "/console", as: .everything)
                #expect(off.status == 404)
            }
        }
    }

    @Test("Every page without a session leads to the sign-in, which has the same headers")
    func withoutSession() async throws {
        try await Self.withConsole { _, api in
            let nobody = ConsoleClient(api)
            for page in Self.pages {
                let refused = try await nobody.get(page)
                #expect(refused.status == 303, "\(page)")
                #expect(refused.headers[.location]?.hasPrefix("/console/sign-in") == true)
            }
            let signIn = try await nobody.get("/console/sign-in")
            #expect(signIn.headers[.init("X-Frame-Options")!] == "DENY" && signIn.headers[.cacheControl] == "no-store")
            #expect(signIn.headers[.contentSecurityPolicy]?.contains("frame-ancestors 'none'") == true)
        }
    }

    @Test("Style sheets need no session, and templates are not served")
    func assets() async throws {
        try await Self.withConsole { _, api in
            let nobody = ConsoleClient(api)
            let sheet = try await nobody.get("/console/assets/console.css")
            #expect(sheet.contentType == "text/css; charset=utf-8")
            #expect(try await nobody.get("/console/assets/shell.mustache").status == 404)
        }
    }

    @Test("Every page has headers against frames and scripts")
    func headers() async throws {
        try await Self.withConsole { _, api in
            let somebody = ConsoleClient(api)
            #expect(try await somebody.signIn(api.token).status == 303)
            for page in Self.pages {
                let shown = try await somebody.get(page)
                #expect(shown.status == 200, "\(page): \(shown.text)")
                let policy = shown.headers[.contentSecurityPolicy] ?? ""
                #expect(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"))
                #expect(policy.contains("script-src 'self'") && !policy.contains("unsafe"))
                #expect(shown.headers[.init("X-Frame-Options")!] == "DENY")
                #expect(shown.headers[.cacheControl] == "no-store")
                #expect(!shown.text.contains("style=\"") && !shown.text.contains("<style"), "\(page)")
            }
        }
    }

    @Test("A port of its own has the console with its forms, and nothing else of the API")
    func ownPort() async throws {
        try await withStore { store in
            try await store.defineIntent()
            try await store.place([.test("w1", configuration: "{\"card\":\"acme\"}")])
            let console = try ConsoleConfiguration.test { $0.port = 0 }
            try await withAPI(store, configurations: StubConfigurations(), console: console) { api in
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(api.token).status == 303)
                let page = try await browser.get("/console/widgets/w1").text
                #expect(page.contains("href=\"/console/widgets/w1/form\""))
                let form = try await browser.get("/console/widgets/w1/form").text
                let save = "\(TestAPI.base)/widgets/w1/configuration"
                #expect(form.contains("data-save=\"\(save)\""))
                let body: JSONValue = ["configuration": ["card": "acme"]]
                #expect(try await api.ask(.put, save, as: .nobody, body: body).status == 401)
                #expect(try await api.ask(.put, save, body: body).status == 202)
                for path in [TestAPI.base + "/kinds", TestAPI.base + "/widgets/w1", "/health", "/metrics"] {
                    #expect(try await api.ask(.get, path).status == 404, "\(path)")
                }
            }
        }
    }

    @Test("CSRF: a form without its token, or with another session's, changes nothing")
    func forgery() async throws {
        try await Self.withConsole { store, api in
            let victim = ConsoleClient(api)
            #expect(try await victim.signIn(api.token).status == 303)
            let attacker = ConsoleClient(api)
            #expect(try await attacker.signIn(api.token).status == 303)
            let foreign = try ConsoleClient.formToken(in: try await attacker.get("/console/kinds").text)
            for path in Self.actions.map(\.path) + ["/console/manifest", "/console/simulator"] {
                for fields in [[:], ["csrf": ""], ["csrf": "AAAA"], ["csrf": foreign]] {
                    let answer = try await victim.post(path, from: nil, fields.merging(["confirmed": "yes"]) { $1 })
                    #expect(answer.status == 403, "\(path): \(answer.status)")
                }
            }
            // The sign-in and sign-out are forms, too.
            #expect(try await victim.post("/console/sign-out", from: nil, [:]).status == 403)
            let fresh = ConsoleClient(api)
            #expect(try await fresh.post("/console/sign-in", from: nil, ["token": api.token]).status == 403)
            #expect(try await Self.changes(store) == 0 && api.published.all.isEmpty)
            // The API's own media type is not that of a form.
            let json = try await api.ask(
                .post, "/console/app/pause", as: .nobody, body: [:], headers: [.cookie: try #require(victim.session)])
            #expect(json.status == 415)
        }
    }

    @Test("Session fixation: a planted cookie is no session, and every sign-in makes a session of its own")
    func fixation() async throws {
        try await Self.withConsole { _, api in
            let browser = ConsoleClient(api)
            _ = try await browser.get("/console/sign-in")
            let planted = browser.cookies
            #expect(planted.count == 1 && browser.session == nil)
            #expect(try await browser.signIn(api.token).status == 303)
            let thief = ConsoleClient(api)
            for (_, cookie) in planted {
                let value = String(cookie.drop { $0 != "=" })
                for name in ["freshet-console", "freshet-console-sign-in"] {
                    thief.cookies = [name: name + value]
                    #expect(try await thief.get("/console/kinds").status == 303, "\(name)")
                }
            }
            // Another sign-in with the same token is another session with its own form tokens.
            let second = ConsoleClient(api)
            #expect(try await second.signIn(api.token).status == 303)
            #expect(second.session != browser.session)
        }
    }

    @Test("A link signs in once; a preview of it, another code and a process without links do not")
    func signInLinks() async throws {
        let links = ConsoleSignInLinks()
        try await withStore { store in
            let configuration = try ConsoleConfiguration.test { $0.links = links }
            try await withAPI(store, console: configuration) { api in
                let browser = ConsoleClient(api)
                let link = links.add(token: api.token)
                let preview = try await api.ask(.head, link, as: .nobody)
                #expect(preview.status == 200 && preview.headers[.setCookie]?.hasPrefix("freshet-console=") != true)
                let answer = try await browser.get(link)
                #expect(answer.status == 303 && answer.headers[.location] == "/console")
                #expect(try await browser.get("/console/kinds").status == 200)
                for path in [link, "/console/sign-in?code=other"] {
                    let nobody = ConsoleClient(api)
                    #expect(try await nobody.get(path).status == 403, "\(path)")
                    #expect(nobody.session == nil, "\(path)")
                }
            }
            let without = try ConsoleConfiguration.test()
            try await withAPI(store, console: without) { api in
                let nobody = ConsoleClient(api)
                let answer = try await nobody.get("/console/sign-in?code=other")
                #expect(answer.status == 200 && nobody.session == nil)
            }
        }
    }

    @Test("Roles: a viewer can read every page, is offered no action and cannot act")
    func roles() async throws {
        try await Self.withConsole { store, api in
            let viewer = ConsoleClient(api)
            #expect(try await viewer.signIn(try await api.viewer()).status == 303)
            for page in Self.pages {
                let shown = try await viewer.get(page)
                #expect(shown.status == 200, "\(page): \(shown.text)")
                let forms = shown.text.components(separatedBy: "method=\"post\"").count - 1
                // Signing out, comparing a manifest and simulating change nothing.
                #expect(forms == (["/console/manifest", "/console/simulator"].contains(page) ? 2 : 1), "\(page)")
            }
            for (path, _) in Self.actions {
                for fields in [["confirmed": "yes"], [:]] {
                    let answer = try await viewer.post(path, from: "/console/kinds", fields)
                    #expect(answer.status == 403, "\(path): \(answer.status)")
                }
            }
            #expect(try await Self.changes(store) == 0 && api.published.all.isEmpty)
        }
    }

    @Test("The form of a configuration is offered only to those who may save it")
    func formByRole() async throws {
        try await withStore { store in
            try await store.defineIntent()
            try await store.place([.test("w1", kind: "Purchases", configuration: #"{"card":"acme"}"#)])
            try await withAPI(store, configurations: StubConfigurations(), console: try .test()) { api in
                for (token, isOffered) in [(api.token, true), (try await api.viewer(), false)] {
                    let browser = ConsoleClient(api)
                    #expect(try await browser.signIn(token).status == 303)
                    let page = try await browser.get("/console/widgets/w1").text
                    #expect(page.contains("/console/widgets/w1/form") == isOffered)
                    let form = try await browser.get("/console/widgets/w1/form")
                    #expect(form.status == (isOffered ? 200 : 403))
                    #expect(form.text.contains(token) == isOffered)
                }
            }
        }
    }

    @Test("Only operators' tokens for a whole app can sign in, and show only their app")
    func tenants() async throws {
        let console = try ConsoleConfiguration.test {
            $0.findings = { app in [["check": "ingest", "severity": "ok", "message": .string("events of \(app)")]] }
        }
        try await Self.withConsole(console: console) { store, api in
            let refused = [
                try await api.tokens.token(user: "u1"), try await api.tokens.token(scopes: [.widgetsRead]), "nonsense",
                try await api.tokens.token(until: .seconds(-60)), "",
            ]
            for token in refused {
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(token).status == 403)
                #expect(try await browser.get("/console/kinds").status == 303)
            }
            let other = ConsoleClient(api)
            #expect(try await other.signIn(try await api.tokens.token(app: TestKinds.otherApp)).status == 303)
            for page in [
                "/console/widgets/w1", "/console/dead-letters/1", "/console/kinds/DueDate",
                "/console/actions?kind=DueDate",
            ] {
                #expect(try await other.get(page).status == 404, "\(page)")
            }
            for page in [
                "/console/widgets?widget=w1", "/console/dead-letters", "/console/kinds", "/console/providers",
                "/console/doctor",
            ] {
                let text = try await other.get(page).text
                #expect(
                    !text.contains(">u1<") && !text.contains("DueDate") && !text.contains("no such kind"), "\(page)")
            }
            #expect(try await other.get("/console/doctor").text.contains("events of \(TestKinds.otherApp)<"))
            _ = try await other.post(
                "/console/dead-letters/discard", from: "/console/kinds", ["letter": "1", "confirmed": "yes"])
            for fields in [[:], ["confirmed": "yes"]] {
                let pause = try await other.post("/console/kinds/DueDate/pause", from: "/console/kinds", fields)
                #expect(pause.status == 404)
            }
            #expect(try await Self.changes(store) == 0)
        }
    }

    @Test("The cookie is not readable by scripts or other sites, Secure over TLS, and deleted by the sign-out")
    func cookie() async throws {
        try await Self.withConsole { _, api in
            let browser = ConsoleClient(api)
            let plain = try #require(try await browser.signIn(api.token).headers[.setCookie])
            for attribute in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
                #expect(plain.contains("; \(attribute)"), "\(plain)")
            }
            #expect(!plain.contains("Secure") && !plain.contains(api.token))
            let ended = try await browser.post("/console/sign-out", from: "/console/kinds")
            #expect(ended.headers[.setCookie]?.contains("Max-Age=0") == true)
            #expect(try await browser.get("/console/kinds").status == 303)

            let secure = ConsoleClient(api)
            let tls: HTTPFields = [.init("X-Forwarded-Proto")!: "https"]
            let cookie = try #require(try await secure.signIn(api.token, headers: tls).headers[.setCookie])
            #expect(cookie.hasPrefix("__Host-") && cookie.contains("; Secure"))
            #expect(try await secure.get("/console/kinds", headers: tls).status == 200)
        }
    }

    @Test("The sign-in page keeps the session, whose cookie browsers leave out when another site leads there")
    func crossSite() async throws {
        try await Self.withConsole { _, api in
            let browser = ConsoleClient(api)
            _ = try await browser.signIn(api.token)
            let cookies = browser.cookies
            browser.cookies = [:]
            #expect(try await browser.get("/console/kinds").status == 303)
            let other: HTTPFields = [.init("Sec-Fetch-Site")!: "cross-site"]
            let page = try await browser.get("/console/sign-in?next=%2Fconsole%2Fkinds", headers: other)
            #expect(page.text.contains("href=\"/console/kinds\">Continue"))
            browser.cookies.merge(cookies) { new, _ in new }
            #expect(try await browser.get("/console/kinds").status == 200)
        }
    }

    @Test("A forged, changed or expired session, or one of a removed token, is refused")
    func forged() async throws {
        let key = try ConsoleConfiguration.test().key
        let now = Timestamp.now()
        let session = ConsoleSession(token: "t", expiresAt: now + .seconds(60))
        let sealed = try #require(session.sealed(key))
        #expect(ConsoleSession(cookie: sealed, key: key, now: now) == session)
        #expect(ConsoleSession(cookie: sealed, key: key, now: now + .seconds(61)) == nil)
        let otherKey = try #require(ConsoleKey(base64: String(repeating: "B", count: 43) + "="))
        #expect(ConsoleSession(cookie: sealed, key: otherKey, now: now) == nil)
        for index in sealed.indices {
            var changed = sealed
            changed.replaceSubrange(index...index, with: sealed[index] == "x" ? "y" : "x")
            #expect(ConsoleSession(cookie: changed, key: key, now: now) == nil)
        }
        #expect(ConsoleSession(cookie: "", key: key, now: now) == nil)
        #expect(ConsoleKey(base64: "c2hvcnQ=") == nil && "\(key)" == "<redacted>")
        try await Self.withConsole { _, api in
            let browser = ConsoleClient(api)
            // Tokens are verified at every request, since the clock's leeway exceeds this token's remaining time.
            let short = try await api.tokens.token(until: .seconds(-5))
            #expect(try await browser.signIn(short).status == 303)
            #expect(try await browser.get("/console/kinds").status == 303)
        }
    }

    @Test("Failed sign-ins are limited by address, and nothing redirects to another site")
    func signIn() async throws {
        try await Self.withConsole { _, api in
            let browser = ConsoleClient(api)
            #expect(try await browser.signIn(api.token, next: "/console/kinds").headers[.location] == "/console/kinds")
            for place in [
                "//evil.example", "https://evil.example", "/console//evil", "/consoleevil", "/v1", "/console/\\e",
            ] {
                #expect(try await browser.signIn(api.token, next: place).headers[.location] == "/console", "\(place)")
            }
            let fields = (0..<40).map { "f\($0)" }
            let many = Dictionary(uniqueKeysWithValues: fields.map { ($0, "x") })
            #expect(try await browser.post("/console/sign-in", from: "/console/sign-in", many).status == 400)
            // The limit lets another one pass every few seconds.
            var (refused, limited) = (0, try await browser.signIn(api.token))
            while limited.status == 303 {
                while try await browser.signIn("wrong").status == 403 { refused += 1 }
                limited = try await browser.signIn(api.token)
            }
            #expect(limited.status == 429 && limited.headers[.retryAfter] != nil)
            #expect(refused >= Console.signInBurst)
        }
    }

    @Test("The form of a configuration, which has the token, stays out of frames, caches and other origins")
    func formHeaders() async throws {
        try await withStore { store in
            try await store.defineIntent()
            try await store.place([.test("w1", kind: "Purchases", configuration: #"{"card":"acme"}"#)])
            try await withAPI(store, configurations: StubConfigurations(), console: try .test()) { api in
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(api.token).status == 303)
                let form = try await browser.get("/console/widgets/w1/form")
                #expect(form.status == 200 && form.headers[.cacheControl] == "no-store")
                let policy = form.headers[.contentSecurityPolicy] ?? ""
                for rule in [
                    "default-src 'none'", "connect-src 'self'", "script-src 'self'", "frame-ancestors 'none'",
                ] {
                    #expect(policy.contains(rule), "\(policy)")
                }
                let expected = [
                    "X-Frame-Options": "DENY", "Cross-Origin-Opener-Policy": "same-origin",
                    "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "same-origin",
                ]
                for (name, value) in expected {
                    #expect(form.headers[try #require(HTTPField.Name(name))] == value, "\(name)")
                }
            }
        }
    }
}
