// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Changes over HTTP are published as events", .tags(.api), .timeLimit(.patience))
struct WriteRoutesTests {
    @Test("Placing, configuring, viewing, removing and environment changes become the same events as producers send")
    func lifecycle() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { api in
                _ = try await api.ask(.put, "\(TestAPI.base)/widgets/w2", body: TestAPI.placement)
                _ = try await api.ask(
                    .put, "\(TestAPI.base)/widgets/w1/configuration", body: ["configuration": ["a": 1]])
                _ = try await api.ask(.post, "\(TestAPI.base)/widgets/w1/views")
                _ = try await api.ask(.delete, "\(TestAPI.base)/widgets/w1")
                _ = try await api.ask(
                    .put, "\(TestAPI.base)/devices/d1/environment", body: ["environment": TestAPI.environment])
                let events = try api.published.events()
                #expect(
                    events.map(\.event) == [
                        .placed(.test("w2", configuration: #"{"card":"acme"}"#)),
                        .configured(
                            app: TestKinds.app, widget: "w1",
                            configuration: WidgetConfiguration(storedCanonical: #"{"a":1}"#)),
                        .viewed(app: TestKinds.app, widget: "w1"), .removed(app: TestKinds.app, widget: "w1"),
                        .environmentChanged(
                            app: TestKinds.app, device: "d1",
                            environment: WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London"),
                            significantTimeChange: false),
                    ])
                // The API's events of one widget stay in order.
                #expect(
                    api.published.all.map { String(decoding: $0.key ?? [], as: UTF8.self) } == [
                        "w2", "w1", "w1", "w1", "d1",
                    ])
                let handling = EventHandling(isOrderedByArrival: true, keepsOutcome: true)
                #expect(try api.published.handlings().allSatisfy { $0 == handling })
                #expect(events.allSatisfy { $0.time != nil })
            }
        }
    }

    @Test("The response names the event, its topic and its position; the event keeps the request's trace")
    func response() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
                var headers = HTTPFields()
                headers[try #require(HTTPField.Name("traceparent"))] = trace
                let placed = try await api.ask(
                    .put, "\(TestAPI.base)/widgets/w2", body: TestAPI.placement, headers: headers)
                #expect(placed.status == 202)
                #expect(placed.document["event"]?["topic"] == "freshet.widgets")
                let events = try api.published.events()
                #expect(placed.headers[.freshetPosition] == "freshet.widgets/0@0")
                #expect(events[0].source == "/freshet/api")
                #expect(events[0].traceparent == trace)
                #expect(placed.document["event"]?["id"] == .string(events[0].id))
            }
        }
    }

    @Test("A reload request becomes the event of its reason")
    func reloads() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                func post(_ body: JSONValue) async throws -> Int {
                    try await api.ask(.post, "\(TestAPI.base)/reloads", body: body).status
                }
                #expect(try await post(["audience": ["everyone": true], "kinds": "all"]) == 202)
                #expect(
                    try await post([
                        "audience": ["user": "u1"], "kinds": ["Purchases"], "matching": ["card": "acme"],
                        "reason": "background",
                    ]) == 202)
                #expect(try await post(["audience": ["device": "d1"], "kinds": "all", "reason": "operator"]) == 202)
                let events = try api.published.events().map(\.event)
                #expect(
                    events == [
                        .reload(
                            ReloadRequest(app: TestKinds.app, audience: .everyone, kinds: .all, reason: .push)),
                        .reload(
                            ReloadRequest(
                                app: TestKinds.app, audience: .user("u1"), kinds: .kinds(["Purchases"]),
                                matching: WidgetConfiguration(storedCanonical: #"{"card":"acme"}"#),
                                reason: .background)),
                        .reload(
                            ReloadRequest(app: TestKinds.app, audience: .device("d1"), kinds: .all, reason: .operator)),
                    ])
            }
        }
    }

    @Test(
        "Invalid input is reported with a pointer",
        arguments: [
            ("PUT", "widgets/w2", #"{"user":"u1"}"#, 422, "/device"),
            ("PUT", "widgets/w2", #"{"user":7}"#, 422, "/user"),
            ("PUT", "widgets/w2", #"{"app":"other"}"#, 422, "/app"),
            ("PUT", "widgets/w2", #"{"usr":"u1"}"#, 422, "/usr"),
            ("PUT", "widgets/w2", #"["#, 400, "/0"), ("PUT", "widgets/w2", #"[]"#, 422, ""),
            ("PUT", "widgets/w2", #"{"user":"a","user":"b"}"#, 400, "/user"),
            (
                "PUT", "widgets/w2",
                #"{"user":"u","device":"d","kind":"Nothing","family":"systemSmall","#
                    + #""environment":{"locale":"en","timeZone":"UTC"}}"#, 422, "/kind"
            ),
            (
                "PUT", "widgets/w2",
                #"{"user":"u","device":"d","kind":"DueDate","family":"accessoryInline","#
                    + #""environment":{"locale":"en","timeZone":"UTC"}}"#, 422, "/family"
            ),
            (
                "PUT", "widgets/w2",
                #"{"user":"u","device":"d","kind":"DueDate","family":"systemSmall","#
                    + #""environment":{"locale":"?","timeZone":"UTC"}}"#, 422, "/environment/locale"
            ),
            ("PUT", "widgets/w1/configuration", #"{"configuration":{"a":{"b":[]}}}"#, 422, "/configuration/a/b"),
            ("PUT", "widgets/w1/configuration", #"{"configuration":{"a":9007199254740993}}"#, 422, "/configuration/a"),
            ("PUT", "kinds/K", #"{"placeholder":{"a":[1e-400]}}"#, 422, "/placeholder/a/0"),
            (
                "PUT", "widgets/w2",
                #"{"user":"u","device":"d","kind":"DueDate","family":"systemSmall","#
                    + #""environment":{"locale":"en","timeZone":"Europe/Atlantis"}}"#, 422, "/environment/timeZone"
            ),
            ("POST", "reloads", #"{"audience":{},"kinds":"all"}"#, 422, "/audience"),
            ("POST", "reloads", #"{"audience":{"user":"u"},"kinds":["Purchases","No"]}"#, 422, "/kinds/1"),
            ("POST", "reloads", #"{"audience":{"user":"u"},"kinds":"all","reason":"why"}"#, 422, "/reason"),
            ("PUT", "kinds/K", #"{"providerURL":"ftp://x","placeholder":{},"maxBatch":0}"#, 422, "/providerURL"),
            ("PUT", "kinds/K", #"{"name":"L","providerURL":"https://x.example.com","placeholder":{}}"#, 422, "/name"),
        ])
    func refused(_ method: String, _ path: String, _ body: String, _ status: Int, _ pointer: String) async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { api in
                let answer = try await api.ask(
                    HTTPRequest.Method(rawValue: method) ?? .get, "\(TestAPI.base)/\(path)", raw: body)
                #expect(answer.status == status, "\(answer.text)")
                #expect(answer.contentType == "application/problem+json")
                #expect(answer.document["pointer"] == .string(pointer), "\(answer.text)")
                #expect(answer.document["errors"]?.arrayValue?.isEmpty == false)
                #expect(answer.document["status"] == .number(JSONNumber(status)))
                #expect(api.published.all.isEmpty)
            }
        }
    }

    @Test(
        "All errors of a document are reported at once",
        arguments: [
            (
                "PUT", "widgets/w2",
                [
                    "usr": "u", "app": "other", "family": "huge", "configuration": ["a": ["b": []]],
                    "environment": ["locale": 7, "timeZone": "UTC"],
                ],
                ["/usr", "/app", "/family", "/configuration/a/b", "/environment/locale", "/user", "/device", "/kind"]
            ),
            (
                "POST", "reloads", ["audience": [:], "kinds": [], "reason": "why"],
                ["/reason", "/audience", "/kinds"]
            ),
            (
                "POST", "reloads", ["audience": ["user": "u"], "kinds": ["No", "Purchases", "Neither"]],
                ["/kinds/2", "/kinds/0"]
            ),
            (
                "PUT", "kinds/K", ["name": "L", "providerURL": "ftp://x", "placeholder": [:], "maxBatch": 0],
                ["/name", "/providerURL", "/maxBatch"]
            ),
        ] as [(String, String, JSONValue, [String])])
    func allErrors(_ method: String, _ path: String, _ body: JSONValue, _ pointers: [String]) async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { api in
                let answer = try await api.ask(
                    HTTPRequest.Method(rawValue: method) ?? .get, "\(TestAPI.base)/\(path)", body: body)
                #expect(answer.status == 422, "\(answer.text)")
                let errors = answer.document["errors"]?.arrayValue ?? []
                #expect(Set(errors.compactMap { $0["pointer"]?.stringValue }) == Set(pointers), "\(answer.text)")
                #expect(errors.count == pointers.count && api.published.all.isEmpty)
            }
        }
    }

    @Test("A kind whose provider must not be called is not registered")
    func egress() async throws {
        try await withStore { store in
            try await withAPI(
                store, providerProblem: { $0.host == "10.0.0.1" ? "not public" : nil }
            ) { api in
                func put(_ url: String) async throws -> TestAPI.Answer {
                    try await api.ask(
                        .put, "\(TestAPI.base)/kinds/New?dryRun=true",
                        body: ["providerURL": .string(url), "placeholder": [:]])
                }
                let refused = try await put("http://10.0.0.1/x")
                #expect(refused.status == 422 && refused.document["pointer"] == "/providerURL", "\(refused.text)")
                #expect(try await put("http://203.0.113.7/x").status == 200)
            }
        }
    }

    @Test("A device token places only widgets of its own user and cannot take over others")
    func deviceTokens() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { api in
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                var own = TestAPI.placement.objectValue ?? JSONObject()
                own["user"] = nil
                #expect(
                    try await api.ask(.put, "\(TestAPI.base)/widgets/w5", as: device, body: .object(own)).status == 202)
                #expect(
                    try await api.ask(.put, "\(TestAPI.base)/widgets/w1", as: device, body: .object(own)).status == 202)
                for audience: JSONValue in [["user": "u1"], ["everyone": true], ["device": "d1"], ["widget": "w1"]] {
                    let body: JSONValue = ["audience": audience, "kinds": "all"]
                    #expect(try await api.ask(.post, "\(TestAPI.base)/reloads", as: device, body: body).status == 403)
                }
                let mine: JSONValue = ["audience": ["user": "u2"], "kinds": "all", "reason": "foreground"]
                #expect(try await api.ask(.post, "\(TestAPI.base)/reloads", as: device, body: mine).status == 202)
                let free: JSONValue = ["audience": ["user": "u2"], "kinds": "all", "reason": "operator"]
                #expect(try await api.ask(.post, "\(TestAPI.base)/reloads", as: device, body: free).status == 403)
                let kinds = try await api.ask(.get, "\(TestAPI.base)/kinds", as: device)
                #expect(kinds.status == 200 && !kinds.text.contains("providerURL"))
                let events = try api.published.events()
                #expect(events.count == 3)
                // Another person's widget is not accessible.
                #expect(try api.published.handlings().allSatisfy { $0.user == "u2" && $0.keepsOutcome })
            }
        }
    }

    private static let definition: JSONValue = ["providerURL": "https://p.example.com", "placeholder": ["a": 1]]

    private static func putKind(
        _ api: TestAPI, _ body: JSONValue = definition, _ query: String = ""
    ) async throws -> TestAPI.Answer {
        try await api.ask(.put, "\(TestAPI.base)/kinds/New\(query)", body: body)
    }

    @Test("A kind of an existing app is registered after a dry run, changed and left unchanged")
    func kinds() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let dry = try await Self.putKind(api, Self.definition, "?dryRun=true")
                #expect(dry.status == 200 && dry.document["action"] == "add")
                #expect(try await api.json("\(TestAPI.base)/kinds/New").status == 404)
                #expect(try await Self.putKind(api).status == 201)
                #expect(try await Self.putKind(api).document["action"] == "keep")
                var changed = Self.definition.objectValue ?? JSONObject()
                changed["maxBatch"] = 7
                let change = try await Self.putKind(api, .object(changed))
                #expect(change.status == 200 && change.document["fields"] == ["maxBatch"])
                let read = try await api.json("\(TestAPI.base)/kinds/New").document
                #expect(read["definition"]?["maxBatch"] == 7 && read["kind"] == "New" && read["paused"] == false)
                #expect(try await api.json("\(TestAPI.base)/kinds").document["kinds"]?.arrayValue?.count == 4)
                #expect(try await store.integer("SELECT count(*) FROM app WHERE developer_mode") == 0)
            }
        }
    }

    @Test("D: the answer to a definition, and the kind, name sizes for families that the kind does not offer")
    func notices() async throws {
        var definition = Self.definition.objectValue ?? JSONObject()
        definition["families"] = ["systemSmall"]
        let parameter: JSONValue = ["name": "items", "type": "string", "size": ["systemSmall": 3, "systemLarge": 9]]
        definition["intent"] = ["title": "Items", "parameters": [parameter]]
        try await withStore { [definition] store in
            try await withAPI(store) { api in
                let notice = "New.items: the size for systemLarge has no effect: the kind offers systemSmall"
                let answers = [
                    try await Self.putKind(api, .object(definition), "?dryRun=true"),
                    try await Self.putKind(api, .object(definition)),
                    try await api.ask(.get, "\(TestAPI.base)/kinds/New"), try await Self.putKind(api),
                ]
                let found = answers.map { $0.document["notices"]?.arrayValue }
                #expect(found == [[.string(notice)], [.string(notice)], [.string(notice)], nil])
            }
        }
    }

    @Test("A retired kind is not found, and no kind can be added to an unknown app")
    func retiredKind() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                #expect(try await Self.putKind(api).status == 201)
                let gone = try await api.ask(.delete, "\(TestAPI.base)/kinds/New")
                #expect(gone.status == 202 && gone.document["timelinesLeft"] == 0)
                #expect(try await api.json("\(TestAPI.base)/kinds/New").status == 404)
                let stranger = try await api.tokens.token(app: "com.example.nobody")
                let refused = try await api.ask(
                    .put, "/v1/apps/com.example.nobody/kinds/New", as: .token(stranger), body: Self.definition)
                #expect(refused.status == 404)
            }
        }
    }
}
