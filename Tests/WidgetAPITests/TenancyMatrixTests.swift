// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import JSON
import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

/// All routes × all defects of a token. The routes come from the router: one without a rule here fails.
@Suite("Tenancy of all routes", .tags(.api), .timeLimit(.patience))
struct TenancyMatrixTests {
    /// Defect of a token.
    enum Fault: CaseIterable, Sendable {
        case none, garbage, expired, notYetValid, wrongKey, unsigned, confused, wrongApp, wrongUser, missingScope
    }

    /// Response of a route to a token of another user of the same app.
    enum Foreign: Sendable {
        /// Refusal: the route concerns the whole app, or the body names another person.
        case forbidden
        /// Same response as for a missing object.
        case notFound
        /// Public data only, without this member's elements.
        case empty(String)
        /// Same results as for missing objects.
        case missing
        /// Same response for all users of the app.
        case allowed
        /// An empty stream.
        case silent
        /// Success: the event is published in the token's name and changes nothing.
        case accepted
    }

    struct Rule: Sendable {
        var foreign: Foreign
        var body: JSONValue?
        var query = ""
        var contentType = "application/json"
        var status = 200
    }

    private static let gallery = "?family=systemSmall"
    private static let environment: JSONValue = ["locale": "en-GB", "timeZone": "Europe/London"]

    static let rules: [String: Rule] = [
        "listKinds": Rule(foreign: .allowed),
        "getKind": Rule(foreign: .allowed),
        "putKind": Rule(
            foreign: .forbidden, body: ["providerURL": "https://p.example.com", "placeholder": ["a": 1]]),
        "deleteKind": Rule(foreign: .forbidden, status: 202),
        "getPlaceholder": Rule(foreign: .allowed, query: gallery),
        "getSnapshot": Rule(foreign: .notFound, query: gallery + "&user=u1"),
        "pauseKind": Rule(foreign: .forbidden), "resumeKind": Rule(foreign: .forbidden),
        "pauseApp": Rule(foreign: .forbidden), "resumeApp": Rule(foreign: .forbidden),
        "listWidgets": Rule(foreign: .empty("widgets")),
        "getWidget": Rule(foreign: .notFound),
        "placeWidget": Rule(
            foreign: .forbidden,
            body: [
                "user": "u1", "device": "d1", "kind": "Purchases", "family": "systemSmall", "environment": environment,
            ], status: 202),
        "removeWidget": Rule(foreign: .accepted, status: 202),
        "getIntent": Rule(foreign: .allowed),
        "getOptions": Rule(foreign: .notFound, query: gallery + "&user=u1"),
        "getKindForm": Rule(foreign: .notFound, query: gallery + "&user=u1"),
        "getWidgetForm": Rule(foreign: .notFound),
        "configureWidget": Rule(foreign: .accepted, body: ["configuration": ["card": "x"]], status: 202),
        "viewWidget": Rule(foreign: .accepted, status: 202),
        "getTimeline": Rule(foreign: .notFound),
        "readTimelines": Rule(foreign: .missing, body: ["widgets": ["w1"]]),
        "explainWidget": Rule(foreign: .forbidden),
        "readSchedule": Rule(foreign: .notFound),
        "explainStack": Rule(foreign: .notFound),
        "arrangeStack": Rule(foreign: .forbidden, body: ["device": "d1", "widgets": ["w1"]], status: 202),
        "turnStack": Rule(foreign: .forbidden, body: ["device": "d1", "widget": "w1"], status: 202),
        "replaceShortcuts": Rule(foreign: .forbidden, body: ["shortcuts": []], status: 202),
        "donateInteraction": Rule(foreign: .forbidden, body: ["kind": "Purchases"], status: 202),
        "clearHabits": Rule(foreign: .forbidden),
        "listDevices": Rule(foreign: .notFound),
        "registerDevice": Rule(foreign: .forbidden, body: ["channel": ["webhook": true]], status: 202),
        "unregisterDevice": Rule(foreign: .forbidden, status: 202),
        "changeEnvironment": Rule(foreign: .forbidden, body: ["environment": environment], status: 202),
        "watchDevice": Rule(foreign: .silent, query: "?for=1"),
        "requestReload": Rule(
            foreign: .forbidden, body: ["audience": ["user": "u1"], "kinds": ["Purchases"]], status: 202),
        "getForecast": Rule(foreign: .forbidden), "getDelivery": Rule(foreign: .forbidden),
        "eraseUser": Rule(foreign: .forbidden),
        "getSigningSecret": Rule(foreign: .forbidden), "rotateSigningSecret": Rule(foreign: .forbidden),
        "endSecretRotation": Rule(foreign: .forbidden), "testProvider": Rule(foreign: .forbidden),
        "countDeadLetters": Rule(foreign: .forbidden), "replayDeadLetters": Rule(foreign: .forbidden),
        "replayDeadLetter": Rule(foreign: .forbidden),
        "listDeadLetters": Rule(foreign: .forbidden),
        "getDeadLetter": Rule(foreign: .forbidden),
        "discardDeadLetter": Rule(foreign: .forbidden, status: 204),
        "publishEvents": Rule(
            foreign: .forbidden,
            body: [
                "specversion": "1.0", "id": "1", "source": "/tests", "type": "freshet.push.received.v1",
                "data": ["app": "com.example.bank", "audience": ["user": "u1"], "kinds": "all"],
            ], contentType: "application/cloudevents+json", status: 202),
        "getEvent": Rule(foreign: .notFound),
    ]

    private static func service(_ pool: PostgresPool) -> APIService {
        APIService(
            configuration: APIConfiguration(), store: WidgetStore(pool: pool),
            resources: APIResources(
                keys: TokenKeyStore(logger: quiet) { [] }),
            readiness: Readiness(checks: []), logger: quiet)
    }

    private static let unused = service(
        PostgresPool(configuration: PostgresConfiguration(connectionString: ""), logger: quiet))

    static let routeIDs = unused.routes.table.map(\.id)

    @Test("The router has exactly the table's routes under /v1, and each has a rule here")
    func complete() {
        let served = Self.unused.router().routes.filter { "\($0.path)".hasPrefix("/v1") }
            .map { "\($0.method.rawValue) \($0.path)" }
        let table = Self.unused.routes.table.map { "\($0.method.rawValue) \($0.template)" }
        // HEAD follows the rules of GET.
        let heads = Self.unused.routes.table.filter { $0.method == .get }.map { "HEAD \($0.template)" }
        #expect(Set(served) == Set(table + heads))
        #expect(Set(table).count == table.count)
        #expect(Set(Self.routeIDs) == Set(Self.rules.keys))
        #expect(Self.unused.router().routes.allSatisfy { ["/v1", "/health"].contains(where: "\($0.path)".hasPrefix) })
    }

    private static func prepare(_ store: TestStore) async throws {
        try await store.defineIntent()
        try await store.place([.test("w1")])
        try await store.saveSchedule(of: "u1", revision: 1)
        try await store.sql(
            """
            INSERT INTO event_outcome (app_id, event_id, source, type, topic, partition, "offset", user_id, result)
            SELECT id, 'e1', 's', 't', 't', 0, 0, 'u1', 'applied' FROM app WHERE name = 'com.example.bank';
            INSERT INTO dead_letter (topic, partition, "offset", app, code, error, header_names, header_values)
            VALUES ('t', 0, 0, 'com.example.bank', 'missingField', 'e', '{}', '{}')
            """)
    }

    private static func path(_ route: APIRoute, app: String = TestKinds.app) -> String {
        route.template.replacing("{app}", with: app).replacing("{kind}", with: "Purchases")
            .replacing("{widget}", with: "w1").replacing("{device}", with: "d1").replacing("{letter}", with: "1")
            .replacing("{event}", with: "e1").replacing("{parameter}", with: "category")
            .replacing("{user}", with: "u1").replacing("{stack}", with: "home")
    }

    private static func bearer(_ fault: Fault, _ route: APIRoute, _ api: TestAPI) async throws -> TestAPI.Bearer {
        switch fault {
        case .none: return .nobody
        case .garbage: return .token("not-a-token")
        case .expired: return .token(try await api.tokens.token(until: .seconds(-31)))
        case .notYetValid: return .token(try await api.tokens.token(from: .seconds(500)))
        case .wrongKey: return .token(try await TestTokens.make().token(key: "es"))
        case .unsigned:
            let parts = api.token.split(separator: ".")
            return .token("\(String(base64URL: #"{"alg":"none","typ":"JWT"}"#.utf8)).\(parts[1]).")
        case .confused:
            let key = try #require(api.tokens.jwks["keys"]?.arrayValue?[2])
            let forged: JSONValue = ["keys": [["kty": "oct", "kid": "ed", "k": key["x"] ?? .null]]]
            let forger = TestTokens(jwks: forged, keys: try await TokenKeys(jwks: forged.encoded))
            return .token(try await forger.token(key: "ed"))
        case .wrongApp: return .token(try await api.tokens.token(app: TestKinds.otherApp))
        case .wrongUser: return .token(try await api.tokens.token(user: "u2"))
        case .missingScope:
            return .token(
                try await api.tokens.token(
                    scopes: TokenScope.allCases.filter {
                        $0 != route.operation.access.scope
                            && !(route.operation.access.scope == .operateRead && $0 == .operate)
                    }))
        }
    }

    @Test(
        "Each route refuses every unauthorised request without disclosing anything",
        arguments: routeIDs)
    func matrix(_ id: String) async throws {
        let rule = try #require(Self.rules[id])
        let log = RecordedLog(level: .warning)
        try await withStore { store in
            try await Self.prepare(store)
            try await withAPI(store, logger: log.logger) { api in
                let route = try #require(Self.unused.routes.table.first { $0.id == id })
                let path = Self.path(route) + rule.query
                let headers: HTTPFields = [.contentType: rule.contentType]
                for fault in Fault.allCases {
                    let bearer = try await Self.bearer(fault, route, api)
                    let answer = try await api.ask(route.method, path, as: bearer, body: rule.body, headers: headers)
                    let what: Comment = "\(id), \(fault): \(answer.status) \(answer.text)"
                    switch fault {
                    case .none, .garbage, .expired, .notYetValid, .wrongKey, .unsigned, .confused:
                        #expect(answer.status == 401, what)
                        #expect(answer.headers[.wwwAuthenticate]?.hasPrefix("Bearer realm") == true, what)
                    case .wrongApp:
                        #expect(answer.status == 404, what)
                        // Objects of another app and missing objects have the same response.
                        let missing = try await api.ask(
                            route.method, Self.path(route, app: "com.example.nothing") + rule.query, as: bearer,
                            body: rule.body, headers: headers)
                        #expect(answer.status == missing.status && answer.text == missing.text, what)
                    case .missingScope: #expect(answer.status == 403, what)
                    case .wrongUser: try await expect(rule.foreign, answer, route, api, bearer, rule, what)
                    }
                    #expect(answer.status < 400 || answer.contentType == "application/problem+json", what)
                }
                let foreign = try api.published.handlings()
                #expect(foreign.allSatisfy { $0.user == "u2" })
                if case .accepted = rule.foreign {} else { #expect(foreign.isEmpty) }
                let control = try await api.ask(route.method, path, body: rule.body, headers: headers)
                #expect(control.status == rule.status, "\(id): \(control.status) \(control.text)")
                #expect(api.published.all.count - foreign.count == (rule.status == 202 && id != "deleteKind" ? 1 : 0))
            }
        }
        #expect(log.count(of: "Bearer") == 0 && log.count(of: "eyJ") == 0)
    }

    private func expect(
        _ foreign: Foreign, _ answer: TestAPI.Answer, _ route: APIRoute, _ api: TestAPI, _ bearer: TestAPI.Bearer,
        _ rule: Rule, _ what: Comment
    ) async throws {
        switch foreign {
        case .forbidden: #expect(answer.status == 403, what)
        case .allowed: #expect(answer.status == 200, what)
        case .silent: #expect(answer.status == 200 && !answer.text.contains("data:"), what)
        case .empty(let member):
            #expect(answer.status == 200 && answer.document[member]?.arrayValue?.isEmpty == true, what)
        case .missing:
            let results = answer.document["results"]?.arrayValue ?? []
            #expect(answer.status == 200 && results.compactMap { $0["status"] } == [404], what)
        case .accepted, .notFound:
            let status = if case .accepted = foreign { 202 } else { 404 }
            #expect(answer.status == status, what)
            guard route.path.contains("{widget}") else { return }
            let missing = try await api.ask(
                route.method, Self.path(route).replacing("w1", with: "w999") + rule.query, as: bearer, body: rule.body)
            #expect(missing.status == status && (status == 202 || missing.text == answer.text), what)
        }
    }

    @Test("Placing gives the same answer for IDs that are free, removed, another person's or another app's")
    func guesses() async throws {
        try await withStore { store in
            try await store.place([
                .test("taken"), .test("gone"), .test("elsewhere", app: TestKinds.otherApp, user: "u9"),
            ])
            try await store.sql("UPDATE widget SET timeline_id = NULL WHERE id = 'gone'")
            try await withAPI(store) { api in
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                var body = TestAPI.placement.objectValue ?? JSONObject()
                body["user"] = nil
                var shapes: Set<String> = []
                let ids = ["free", "taken", "gone", "elsewhere"]
                for id in ids {
                    let answer = try await api.ask(
                        .put, "\(TestAPI.base)/widgets/\(id)", as: device, body: .object(body))
                    var event = try #require(answer.document["event"]?.objectValue)
                    #expect(event["id"]?.stringValue?.count == 32)
                    #expect(event["offset"] == .number(JSONNumber(shapes.isEmpty ? 0 : api.published.all.count - 1)))
                    event["id"] = nil
                    event["offset"] = nil
                    #expect(answer.headers[.freshetPosition] != nil && answer.headers[.location] != nil)
                    let headers = answer.headers.map(\.name.canonicalName).sorted()
                    shapes.insert("\(answer.status) \(headers) \(JSONValue.object(event).encoded)")
                }
                #expect(shapes.count == 1 && shapes.first?.hasPrefix("202") == true, "\(shapes)")
                let events = try api.published.events()
                // Ingest ignores placements of another person's widgets: the owners do not change.
                let record = WidgetRecord(.test("taken"), changedAt: Timestamp(microseconds: 1))
                for (event, handling) in try zip(events, api.published.handlings()) {
                    guard case .widget(.placed(let placement)) = event.event.change, let time = event.time
                    else {
                        Issue.record("\(event)")
                        continue
                    }
                    #expect(placement.user == "u2" && handling.user == "u2")
                    let outcome = WidgetRecord.apply(
                        .placed(placement), at: time, to: record, limitedTo: handling.user)
                    #expect(outcome == .ignored(.foreign))
                }
                // Reading them gives the same answers, too.
                for path in ["", "/timeline"] {
                    var answers: Set<String> = []
                    for id in ids {
                        let answer = try await api.ask(.get, "\(TestAPI.base)/widgets/\(id)\(path)", as: device)
                        answers.insert("\(answer.status) \(answer.text)")
                    }
                    #expect(answers.count == 1)
                }
            }
        }
    }

    @Test("Objects of another tenant with the same names are neither read nor changed")
    func twins() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w1", app: TestKinds.otherApp, user: "u9")])
            try await withAPI(store) { api in
                let other = TestAPI.Bearer.token(try await api.tokens.token(app: TestKinds.otherApp))
                let own = try await api.ask(.get, "/v1/apps/com.example.other/widgets/w1", as: other)
                #expect(own.status == 200 && own.document["user"] == "u9")
                let list = try await api.ask(.get, "/v1/apps/com.example.other/widgets", as: other)
                #expect(list.document["widgets"]?.arrayValue?.count == 1)
                let paused = try await api.ask(.put, "/v1/apps/com.example.other/kinds/Purchases/pause", as: other)
                #expect(paused.status == 200)
                #expect(try await store.integer("SELECT count(*) FROM kind WHERE paused_at IS NOT NULL") == 1)
                _ = try await api.ask(.delete, "/v1/apps/com.example.other/widgets/w1", as: other)
                let event = try #require(try api.published.events().first)
                #expect(event.event == .removed(app: "com.example.other", widget: "w1"))
            }
        }
    }
}
