// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Hummingbird
import HummingbirdTesting
import JSON
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetStore

@testable import WidgetAPI
@testable import WidgetModel

/// A provider with options and defaults in memory.
final class StubConfigurations: ConfigurationProvider {
    let questions = Mutex<[OptionsQuestion]>([])
    let answer: Result<IntentOptions, ProviderFailure>
    /// Answers for single parameters.
    let answers: [String: Result<IntentOptions, ProviderFailure>]
    let values: Result<WidgetConfiguration, ProviderFailure>

    init(
        _ answer: Result<IntentOptions, ProviderFailure> = .success(.cards),
        of answers: [String: Result<IntentOptions, ProviderFailure>] = [:],
        defaults: Result<WidgetConfiguration, ProviderFailure> = .success(.empty)
    ) {
        self.answer = answer
        self.answers = answers
        values = defaults
    }

    func options(
        _ question: OptionsQuestion, of kind: KindDefinition, app: String
    ) async throws(ProviderFailure) -> IntentOptions {
        questions.withLock { $0.append(question) }
        return try (answers[question.parameter] ?? answer).get()
    }

    func defaults(
        _ context: ConfigurationContext, of kind: KindDefinition, app: String
    ) async throws(ProviderFailure) -> WidgetConfiguration {
        try values.get()
    }
}

extension IntentOptions {
    /// Sections Credit and Debit.
    static let cards = IntentOptions(sections: [
        Section(
            title: "Credit",
            items: [Item(value: "acme", display: "ACME Card"), Item(value: "soup", display: "SoupPay")]),
        Section(title: "Debit", items: [Item(value: "debit", display: "Everyday Debit", subtitle: "…1234")]),
    ])
}

extension IntentDefinition {
    /// The bank's Recent Purchases, and a parameter that depends on another.
    static let purchases = IntentDefinition(
        title: "Recent Purchases",
        parameters: [
            IntentParameter(
                name: "card", displayName: "Card", type: .custom(typeName: "Card"), hasDynamicOptions: true,
                hasDynamicDefault: true),
            IntentParameter(
                name: "category", displayName: "Category",
                type: .enumeration([
                    .init(name: "all", displayName: "All"), .init(name: "groceries", displayName: "Groceries"),
                ]), defaultValue: "all"),
            IntentParameter(name: "hidden", displayName: "Hide amounts", type: .boolean, defaultValue: false),
            IntentParameter(
                name: "limit", displayName: "Limit", type: .integer(.init(minimum: 1, maximum: 9), .stepper),
                parent: .init(name: "hidden", value: false)),
            IntentParameter(
                name: "shops", displayName: "Shops", type: .custom(typeName: "Shop"),
                count: .fixed([.systemSmall: 2]), hasDynamicOptions: true, searchPrompt: "Name of a shop"),
        ], localizations: ["de": ["Category": "Kategorie", "Groceries": "Lebensmittel"]])
}

extension TestStore {
    /// Sets the intent of these tests for the kind Purchases.
    func defineIntent(_ change: (inout KindDefinition) -> Void = { _ in }) async throws {
        try await apply(
            try await changing("Purchases") {
                $0.intent = .purchases
                change(&$0)
            })
    }
}

/// DESIGN.md, D: configurations that a backend defines, offers and edits through the API alone.
@Suite("Configuration routes", .tags(.api), .timeLimit(.patience))
struct ConfigurationRoutesTests {
    private static let kind = "\(TestAPI.base)/kinds/Purchases"
    private static let widget = "\(TestAPI.base)/widgets/w1"
    private static let place = "family=systemSmall&user=u1"

    private static func withForms(
        _ provider: StubConfigurations = StubConfigurations(), _ body: @Sendable (TestAPI) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.defineIntent()
            try await store.place([.test("w1", configuration: #"{"card":"acme"}"#)])
            try await withAPI(store, configurations: provider, body)
        }
    }

    @Test("The intent is the manifest's, and a kind without one is 404")
    func intent() async throws {
        try await Self.withForms { api in
            let answer = try await api.json("\(Self.kind)/intent")
            #expect(answer.status == 200 && answer.document == IntentDefinition.purchases.json())
            for path in ["DueDate/intent", "DueDate/configuration/form?family=systemSmall", "Nothing/intent"] {
                let missing = try await api.json("\(TestAPI.base)/kinds/\(path)")
                #expect(missing.status == 404 && missing.contentType == "application/problem+json")
            }
        }
    }

    @Test("D: static options come from the definition, and the list filters by search")
    func listedOptions() async throws {
        try await Self.withForms { api in
            func displays(_ query: String) async throws -> [String?] {
                let path = "\(Self.kind)/parameters/category/options?\(Self.place)\(query)"
                let sections = try await api.json(path).document["sections"]?.arrayValue ?? []
                return sections.flatMap { $0["options"]?.arrayValue ?? [] }.map { $0["display"]?.stringValue }
            }
            for (query, expected) in [
                ("", ["All", "Groceries"]), ("&search=GRO", ["Groceries"]),
                ("&locale=de-DE&search=lebens", ["Lebensmittel"]),
            ] {
                let found = try await displays(query)
                #expect(found == expected)
            }
        }
    }

    @Test(
        "D: dynamic options come from the provider in sections, for the user and the other values; the list filters by search"
    )
    func dynamicOptions() async throws {
        let provider = StubConfigurations()
        try await Self.withForms(provider) { api in
            let path =
                "\(Self.kind)/parameters/card/options?\(Self.place)&configuration=%7B%22category%22:%22groceries%22%7D"
            let answer = try await api.json(path)
            #expect(answer.status == 200 && answer.document == IntentOptions.cards.json)
            let question = try #require(provider.questions.withLock { $0.last })
            #expect(question.parameter == "card" && question.search == nil && question.context.user == "u1")
            #expect(question.context.values.value == ["category": "groceries"])
            let filtered = try await api.json(path + "&search=debit").document
            #expect(filtered["sections"]?.arrayValue?.map { $0["title"] } == ["Debit"])
            #expect(provider.questions.withLock { $0.last?.search } == .some(nil), "the provider does not search cards")
        }
    }

    @Test("D: a provider that searches is asked first without a term, then with each term")
    func search() async throws {
        let provider = StubConfigurations()
        try await Self.withForms(provider) { api in
            let path = "\(Self.kind)/parameters/shops/options?\(Self.place)"
            for query in ["", "&search=", "&search=so"] { _ = try await api.json(path + query) }
            // Options of the provider's search are not filtered again.
            let answer = try await api.json(path + "&search=zzz")
            #expect(answer.document == IntentOptions.cards.json)
            #expect(provider.questions.withLock { $0.map(\.search) } == [nil, nil, "so", "zzz"])
        }
    }

    @Test(
        "A provider failure is reported as a problem, never as an empty list",
        arguments: [
            (ProviderFailure(.provider, "status 500"), 502), (ProviderFailure(.invalid, "no list"), 502),
            (ProviderFailure(.timeout, "no answer in 10 s"), 504),
            (ProviderFailure(.resting, "has failed lately", retryAfter: .milliseconds(4_200)), 503),
        ])
    func failures(_ failure: ProviderFailure, _ status: Int) async throws {
        try await Self.withForms(StubConfigurations(.failure(failure), defaults: .failure(failure))) { api in
            let path = "\(Self.kind)/parameters/card/options?\(Self.place)"
            let answer = try await api.ask(.get, path)
            #expect(answer.status == status && answer.contentType == "application/problem+json")
            #expect(answer.document["detail"]?.stringValue?.hasSuffix(failure.message) == true)
            #expect(answer.document["type"] == "urn:freshet:problem:provider-failed")
            #expect(answer.headers[.retryAfter] == (failure.retryAfter == nil ? nil : "5"))
            // The form is still served.
            #expect(try await api.json("\(Self.kind)/configuration/form?\(Self.place)").status == 200)
        }
    }

    @Test("A request for options needs a family and a user, and a parameter with options")
    func badQuestions() async throws {
        try await Self.withForms { api in
            for (path, status) in [
                ("card/options?family=systemSmall", 400), ("card/options?user=u1", 400),
                ("card/options?family=no&user=u1", 400), ("card/options?\(Self.place)&configuration=1", 400),
                ("hidden/options?\(Self.place)", 404), ("nothing/options?\(Self.place)", 404),
                ("card/options?\(Self.place)&search=%00", 400),
            ] {
                let answer = try await api.json("\(Self.kind)/parameters/\(path)")
                #expect(answer.status == status, "\(path): \(answer.document)")
            }
            let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u1"))
            let own = try await api.json("\(Self.kind)/parameters/card/options?family=systemSmall", as: device)
            #expect(own.status == 200)
        }
    }

    @Test("D: the form of a widget has its values, the form of a kind the dynamic defaults")
    func forms() async throws {
        let defaults = try WidgetConfiguration(["card": ["identifier": "soup", "display": "SoupPay"]])
        try await Self.withForms(StubConfigurations(defaults: .success(defaults))) { api in
            func values(_ path: String) async throws -> [JSONValue?] {
                let answer = try await api.json(path)
                #expect(answer.status == 200 && answer.contentType == "application/json")
                return answer.document["rows"]?.arrayValue?.map { $0["value"] } ?? []
            }
            #expect(try await values("\(Self.widget)/configuration/form") == ["acme", "all", false, .null, .null])
            let form = "\(Self.kind)/configuration/form?\(Self.place)"
            #expect(try await values(form).first == ["identifier": "soup", "display": "SoupPay"] as JSONValue)
            #expect(try await values(form + "&configuration=%7B%7D").first == .some(.null))
            let document = try await api.json(form + "&locale=de").document
            let rows = document["rows"]?.arrayValue ?? []
            #expect(rows.map { $0["label"] } == ["Card", "Kategorie", "Hide amounts", "Limit", "Shops"])
            let path = try #require(rows[0]["optionsPath"]?.stringValue)
            #expect(path == "\(Self.kind)/parameters/card/options?family=systemSmall&locale=de&timeZone=UTC&user=u1")
            #expect(try await api.json(path).status == 200)
            #expect(rows[4]["limit"] == 2)
        }
    }

    @Test("D: a configuration is checked against the definition, and all errors are reported with pointers")
    func configure() async throws {
        try await Self.withForms { api in
            let path = "\(Self.widget)/configuration"
            let bad = try await api.ask(
                .put, path,
                body: ["configuration": ["category": "grocery", "limit": 10, "shops": ["a", "b", "c"], "crad": 1]])
            #expect(bad.status == 422 && bad.document["type"] == "urn:freshet:problem:invalid")
            let pointers = bad.document["errors"]?.arrayValue?.compactMap { $0["pointer"]?.stringValue }
            let expected = ["category", "limit", "shops", "crad"].map { "/configuration/\($0)" }
            #expect(pointers == expected)
            #expect(api.published.all.isEmpty)
            let configuration: JSONValue = [
                "card": ["identifier": "soup", "display": "SoupPay"], "category": "groceries", "limit": 3,
            ]
            let good = try await api.ask(.put, path, body: ["configuration": configuration])
            #expect(good.status == 202 && good.headers[.freshetPosition] != nil)
            let event = try #require(try api.published.events().first)
            #expect(
                event.event
                    == .configured(
                        app: TestKinds.app, widget: "w1", configuration: try WidgetConfiguration(configuration)))
            // Another user's placement may still be under way.
            let unknown = try await api.ask(
                .put, "\(TestAPI.base)/widgets/w2/configuration", body: ["configuration": ["crad": 1]])
            #expect(unknown.status == 202)
        }
    }

    @Test(
        "All errors of a placement or an event are reported like those of a configuration, with pointers into the body",
        arguments: [
            (
                ["configuration": ["category": "grocery", "limit": 10, "crad": 1]],
                ["/configuration/category", "/configuration/limit", "/configuration/crad"]
            ), (["family": "huge", "environment": 7, "device": nil], ["/family", "/environment", "/device"]),
        ] as [(JSONValue, [String])])
    func errors(_ members: JSONValue, _ expected: [String]) async throws {
        var data = try #require(EventRoutesTests.placement("w7").objectValue)
        for member in try #require(members.objectValue).members {
            data[member.key] = nil
            if member.value != .null { data[member.key] = member.value }
        }
        let event = EventRoutesTests.event("1", .widgetPlaced, .object(data))
        let attributes = [
            "ce-specversion": "1.0", "ce-id": "1", "ce-source": "/shop", "ce-type": EventType.widgetPlaced.rawValue,
        ]
        try await Self.withForms { [data] api in
            func pointers(_ problem: JSONValue?) -> Set<String> {
                Set(problem?["errors"]?.arrayValue?.compactMap { $0["pointer"]?.stringValue } ?? [])
            }
            func post(_ body: JSONValue, _ type: String, _ more: [String: String] = [:]) async throws -> JSONValue {
                let headers = try EventRoutesTests.headers(type, more)
                return try await api.ask(.post, EventRoutesTests.events, body: body, headers: headers).document
            }
            let placed = try await api.ask(.put, "\(TestAPI.base)/widgets/w7", body: .object(data))
            #expect(placed.status == 422 && pointers(placed.document) == Set(expected), "\(placed.text)")
            let binary = try await post(.object(data), "application/json", attributes)
            #expect(pointers(binary) == Set(expected), "\(binary)")
            let structured = try await post(event, "application/cloudevents+json")
            #expect(pointers(structured) == Set(expected.map { "/data" + $0 }), "\(structured)")
            let batch = try await post([event], "application/cloudevents-batch+json")["results"]?.arrayValue?.first
            #expect(pointers(batch?["problem"]) == Set(expected.map { "/0/data" + $0 }))
            #expect(api.published.all.isEmpty)
        }
    }

    @Test("D: a value that the widget has already and that does not fit any more does not block a change")
    func misfit() async throws {
        try await withStore { store in
            try await store.place([.test("w1", configuration: #"{"limit":99}"#)])
            try await store.defineIntent()
            try await withAPI(store) { api in
                let changes: [JSONValue] = [
                    ["limit": 99, "category": "groceries"], ["limit": 98, "category": "groceries"],
                    ["limit": 99, "category": "grocery"],
                ]
                var statuses: [Int] = []
                for change in changes {
                    let path = "\(Self.widget)/configuration"
                    statuses.append(try await api.ask(.put, path, body: ["configuration": change]).status)
                }
                #expect(statuses == [202, 422, 422])
            }
        }
    }

    @Test("D: a text with U+0000 is refused with the pointer of its parameter")
    func null() async throws {
        try await Self.withForms { api in
            let values: JSONValue = ["category": "all", "card": ["identifier": "acme", "display": "A\u{0}"]]
            var placement = try #require(TestAPI.placement.objectValue)
            placement["configuration"] = values
            for (path, body) in [
                ("\(Self.widget)/configuration", ["configuration": values]), (Self.widget, .object(placement)),
            ] as [(String, JSONValue)] {
                let refused = try await api.ask(.put, path, body: body)
                #expect(refused.status == 422 && refused.document["pointer"] == "/configuration/card")
                #expect(refused.text.contains("must not contain U+0000"), "\(refused.text)")
            }
        }
    }

    @Test("D: a placement is not blocked by a value that the widget has already: over HTTP, and as an event")
    func misfitOfPlacement() async throws {
        try await withStore { store in
            try await store.place([.test("w1", configuration: #"{"limit":99}"#)])
            try await store.defineIntent()
            try await withAPI(store) { api in
                var found: [[Int]] = []
                for limit in [99, 98] {
                    var data = try #require(EventRoutesTests.placement("w1").objectValue)
                    data["configuration"] = ["limit": .count(limit), "category": "groceries"]
                    let event = EventRoutesTests.event("\(limit)", .widgetPlaced, .object(data))
                    let headers = try EventRoutesTests.headers("application/cloudevents+json")
                    let posted = try await api.ask(.post, EventRoutesTests.events, body: event, headers: headers)
                    for name in ["app", "widget"] { data[name] = nil }
                    found.append([try await api.ask(.put, Self.widget, body: .object(data)).status, posted.status])
                }
                #expect(found == [[202, 202], [422, 422]])
            }
        }
    }

    @Test("F: shortcuts and donations over HTTP that ingest would refuse are refused, each error with its pointer")
    func people() async throws {
        try await withStore { store in
            try await store.defineIntent { $0.intent?.supportedCombinations = [["card", "category"]] }
            try await withAPI(store) { api in
                func pointers(_ method: HTTPRequest.Method, _ path: String, _ body: JSONValue) async throws
                    -> [String]
                {
                    let answer = try await api.ask(method, "\(TestAPI.base)/users/u1/\(path)", body: body)
                    #expect(answer.status == 422, "\(answer.text)")
                    return answer.document["errors"]?.arrayValue?.compactMap { $0["pointer"]?.stringValue } ?? []
                }
                let range: JSONValue = ["from": "2026-06-22T09:30:00Z", "until": "2026-06-22T10:00:00Z"]
                let shortcuts: JSONValue = [
                    ["kind": "Purchases", "configuration": ["card": "acme", "category": "all"], "ranges": [range]],
                    ["kind": "Purchases", "configuration": [:], "ranges": [range]],
                    ["kind": "Purchases", "configuration": ["limit": 99]], ["kind": "Nothing"],
                ]
                #expect(
                    try await pointers(.put, "shortcuts", ["shortcuts": shortcuts]) == [
                        "/shortcuts/1/configuration", "/shortcuts/2/configuration/limit", "/shortcuts/3/kind",
                    ])
                #expect(
                    try await pointers(.post, "donations", ["kind": "Purchases", "configuration": ["limit": 99]])
                        == ["/configuration/limit"])
                let event = EventRoutesTests.event(
                    "1", .shortcutsReplaced, ["app": .string(TestKinds.app), "user": "u1", "shortcuts": shortcuts])
                let headers = try EventRoutesTests.headers("application/cloudevents+json")
                let posted = try await api.ask(.post, EventRoutesTests.events, body: event, headers: headers)
                #expect(posted.status == 422 && posted.document["pointer"] == "/data/shortcuts/1/configuration")
                #expect(api.published.all.isEmpty)
            }
        }
    }

    @Test("D: a kind that is not eligible for widgets is not offered and cannot be placed")
    func eligibility() async throws {
        try await withStore { store in
            try await store.defineIntent { $0.intent?.isEligibleForWidgets = false }
            try await withAPI(store) { api in
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u1"))
                let offered = try await api.json("\(TestAPI.base)/kinds", as: device).document["kinds"]?.arrayValue
                #expect(offered?.contains { $0["kind"] == "DueDate" } == true)
                #expect(offered?.contains { $0["kind"] == "Purchases" } == false)
                let placed = try await api.ask(.put, Self.widget, body: TestAPI.placement)
                #expect(placed.status == 422 && placed.document["pointer"] == "/kind")
            }
        }
    }

    @Test("A: a timeline has its entry's link, or else the kind's for the configuration")
    func links() async throws {
        try await withStore { store in
            try await store.defineIntent { $0.widgetURL = "bank://{card}/{category}" }
            let id = try await store.place([.test("w1", configuration: #"{"card":"acme","category":"all"}"#)])[0]
            try await withAPI(store) { api in
                func url() async throws -> JSONValue? {
                    try await api.json("\(Self.widget)/timeline").document["url"]
                }
                #expect(try await url() == "bank://acme/all")
                try await store.saveContent(id, hash: 1)
                #expect(try await url() == "bank://acme/all")
                try await store.saveStored(
                    #"{"entries":[{"content":1,"date":"2020-01-01T00:00:00Z","url":"bank://sale"}],"policy":"never"}"#,
                    id, hash: 2)
                #expect(try await url() == "bank://sale")
            }
        }
    }

    // MARK: Page

    @Test("The form is available as HTML: escaped, with a strict policy and without caching")
    func page() async throws {
        try await withStore { store in
            try await store.defineIntent {
                $0.displayName = "<b>\"Purchases\"</b>"
                $0.accentColor = "teal"
                $0.backgroundColor = "red;}</style>"
            }
            try await store.place([.test("w1", configuration: #"{"card":{"display":"A & <B>","identifier":"a'b"}}"#)])
            try await withAPI(store) { api in
                let answer = try await api.ask(
                    .get, "\(Self.widget)/configuration/form", headers: [.accept: "text/html,*/*;q=0.8"])
                #expect(answer.status == 200 && answer.contentType == "text/html; charset=utf-8")
                let policy = try #require(answer.headers[.init("Content-Security-Policy")!])
                #expect(policy.hasPrefix("default-src 'none'; script-src 'nonce-") && !policy.contains("unsafe"))
                #expect(answer.headers[.cacheControl] == "no-store" && answer.headers[.vary] == "Accept")
                #expect(answer.text.contains("<h1>&lt;b&gt;&quot;Purchases&quot;&lt;/b&gt;</h1>"))
                #expect(answer.text.contains("value=\"A &amp; &lt;B&gt;\"") && !answer.text.contains("<B>"))
                #expect(answer.text.contains("--accent: teal") && !answer.text.contains("red;"))
                #expect(answer.text.contains("data-save=\"\(Self.widget)/configuration\""))
                #expect(!answer.text.contains("style=\"") && !answer.text.contains("onclick"))
            }
        }
    }
}
