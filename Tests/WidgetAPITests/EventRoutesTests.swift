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

@Suite("Events over HTTP and their outcomes", .tags(.api), .timeLimit(.patience))
struct EventRoutesTests {
    static let events = "\(TestAPI.base)/events"

    static func event(_ id: String, _ type: EventType, _ data: JSONValue, time: String? = nil) -> JSONValue {
        var object = JSONObject()
        object["specversion"] = "1.0"
        object["id"] = .string(id)
        object["source"] = "/shop"
        object["type"] = .string(type.rawValue)
        if let time { object["time"] = .string(time) }
        object["data"] = data
        return .object(object)
    }

    static func placement(_ widget: String, user: String = "u1") -> JSONValue {
        var object = TestAPI.placement.objectValue ?? JSONObject()
        object["app"] = .string(TestKinds.app)
        object["widget"] = .string(widget)
        object["user"] = .string(user)
        return .object(object)
    }

    static func push(_ user: String, app: String = TestKinds.app) -> JSONValue {
        ["app": .string(app), "audience": ["user": .string(user)], "kinds": ["Purchases"]]
    }

    static func headers(_ type: String, _ more: [String: String] = [:]) throws -> HTTPFields {
        var headers: HTTPFields = [.contentType: type]
        for (name, value) in more { headers[try #require(HTTPField.Name(name))] = value }
        return headers
    }

    @Test("Removing and configuring do not depend on earlier events being applied")
    func beforeApplied() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let path = "\(TestAPI.base)/widgets/new"
                #expect(try await api.ask(.put, path, body: TestAPI.placement).status == 202)
                let configured = try await api.ask(.put, "\(path)/configuration", body: ["configuration": [:]])
                #expect(configured.status == 202)
                let removed = try await api.ask(.delete, path)
                #expect(removed.status == 202, "\(removed.text)")
                let id = removed.document["event"]?["id"]?.stringValue ?? ""
                #expect(removed.headers[.location] == "\(Self.events)/\(id)")
                #expect(Set(api.published.all.map(\.key)) == [Array("new".utf8)])
            }
        }
    }

    /// Stores the outcome of an event as ingest does.
    private static func apply(
        _ message: Int, _ result: EventOutcome.Result, code: String? = nil, _ api: TestAPI, _ store: TestStore
    ) async throws {
        try await eventually("an event is published") { api.published.all.count > message }
        let event = try api.published.events()[message]
        let app = try #require(try await store.directory().apps[TestKinds.app])
        let outcome = EventOutcome(
            appID: app.id, event: event.id, source: event.source, type: event.event.type.rawValue,
            topic: api.published.all[message].topic, partition: 0, offset: Int64(message),
            user: try api.published.handlings()[message].user, result: result,
            code: code ?? (result == .deadLetter ? "unknownKind" : nil))
        _ = try await store.pool.query(.insertEventOutcomes([outcome]))
    }

    @Test("A write waits until it is applied and returns its outcome, which can be read later")
    func waits() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let path = "\(TestAPI.base)/widgets/w1?wait=applied"
                for (index, result) in EventOutcome.Result.allCases.enumerated() {
                    async let waiting = api.ask(.delete, path)
                    try await Self.apply(index, result, api, store)
                    let answer = try await waiting
                    #expect(answer.status == 200, "\(answer.text)")
                    #expect(answer.document["outcome"]?["result"] == .string(result.rawValue))
                    let location = try #require(answer.headers[.location])
                    let later = try await api.json(location)
                    #expect(later.status == 200 && later.document == answer.document)
                }
                #expect(api.changes.counts.polls == 0)
                #expect(try await api.ask(.delete, "\(TestAPI.base)/widgets/w1?wait=5").status == 400)
            }
        }
    }

    @Test("An event that is not applied within the longest wait is answered with its position only")
    func bounded() async throws {
        var configuration = APIConfiguration.test()
        configuration.outcomeWait = .milliseconds(100)
        try await withStore { [configuration] store in
            try await withAPI(store, configuration: configuration) { api in
                let answer = try await api.ask(.delete, "\(TestAPI.base)/widgets/w1?wait=applied")
                #expect(answer.status == 202 && answer.document["outcome"] == nil)
                let location = try #require(answer.headers[.location])
                #expect(try await api.json("\(location)?wait=applied").status == 404)
            }
        }
    }

    @Test("Outcomes are visible to their own app, and to the user whose token published the event")
    func tenancy() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let own = TestAPI.Bearer.token(try await api.tokens.token(user: "u1"))
                let published = try await api.ask(.delete, "\(TestAPI.base)/widgets/w1", as: own)
                let location = try #require(published.headers[.location])
                try await Self.apply(0, .applied, api, store)
                #expect(try await api.json(location, as: own).status == 200)
                #expect(try await api.json(location).status == 200)
                let another = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                #expect(try await api.json(location, as: another).status == 404)
                let stranger = TestAPI.Bearer.token(try await api.tokens.token(app: TestKinds.otherApp))
                let elsewhere = location.replacing(TestKinds.app, with: TestKinds.otherApp)
                #expect(try await api.json(location, as: stranger).status == 404)
                #expect(try await api.json(elsewhere, as: stranger).status == 404)
            }
        }
    }

    @Test("CloudEvents in binary and structured mode are published with their ID, source and time")
    func modes() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let structured = try await api.ask(
                    .post, Self.events,
                    body: Self.event("a 1", .widgetPlaced, Self.placement("w1"), time: "2026-01-01T00:00:00Z"),
                    headers: Self.headers("application/cloudevents+json; charset=utf-8"))
                #expect(structured.status == 202 && structured.document["event"]?["id"] == "a 1", "\(structured.text)")
                #expect(structured.headers[.location] == "\(Self.events)/a%201?source=%2Fshop")
                let binary = try await api.ask(
                    .post, Self.events, body: Self.push("u1"),
                    headers: Self.headers(
                        "application/json",
                        [
                            "ce-specversion": "1.0", "ce-id": "b", "ce-source": "\"/caf%C3%A9\"",
                            "ce-type": EventType.pushReceived.rawValue,
                        ]))
                #expect(binary.status == 202, "\(binary.text)")
                #expect(binary.document["event"]?["topic"] == "freshet.pushes")
                let removal: JSONValue = ["app": .string(TestKinds.app), "widget": "w1"]
                _ = try await api.ask(
                    .post, Self.events, body: Self.event("c", .widgetRemoved, removal),
                    headers: Self.headers("application/cloudevents+json"))
                let events = try api.published.events()
                #expect(events.map(\.id) == ["a 1", "b", "c"])
                #expect(events.map(\.source) == ["/shop", "/café", "/shop"])
                #expect(events[0].time?.rfc3339.hasPrefix("2026-01-01T00:00:00") == true)
                // Lifecycle events without a time are ordered by their arrival.
                #expect(try api.published.handlings().map(\.isOrderedByArrival) == [false, false, true])
            }
        }
    }

    @Test("A batch is published in order, with a result for each event")
    func batch() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let batch: JSONValue = [
                    Self.event("1", .widgetPlaced, Self.placement("w1")),
                    Self.event("2", .pushReceived, ["app": .string(TestKinds.app)]),
                    Self.event("3", .pushReceived, Self.push("u1", app: TestKinds.otherApp)), 7,
                    Self.event("5", .pushReceived, Self.push("u1")),
                ]
                let headers = try Self.headers("application/cloudevents-batch+json")
                let answer = try await api.ask(.post, Self.events, body: batch, headers: headers)
                let results = answer.document["results"]?.arrayValue ?? []
                try #require(answer.status == 200 && results.count == 5, "\(answer.text)")
                #expect(results.compactMap { $0["status"] } == [202, 422, 422, 422, 202], "\(answer.text)")
                #expect(results.first?["event"]?["id"] == "1" && results.last?["event"]?["offset"] == 1)
                #expect(results[1]["problem"]?["pointer"]?.stringValue?.hasPrefix("/1/data") == true)
                #expect(results[2]["problem"]?["pointer"] == "/2/data/app")
                #expect(try api.published.events().map(\.id) == ["1", "5"])
                #expect(try await api.ask(.post, Self.events, body: [:], headers: headers).status == 422)
                let waiting = try await api.ask(.post, "\(Self.events)?wait=applied", body: [], headers: headers)
                #expect(waiting.status == 422)
            }
        }
    }

    @Test("A batch counts as one request per event, and has a limit")
    func batchLimits() async throws {
        try await withStore { store in
            let configuration = APIConfiguration.test { ($0.rateLimit, $0.rateBurst) = (1, 3) }
            try await withAPI(store, configuration: configuration) { api in
                let headers = try Self.headers("application/cloudevents-batch+json")
                let tooMany = JSONValue.array(Array(repeating: 7, count: 501))
                #expect(try await api.ask(.post, Self.events, body: tooMany, headers: headers).status == 422)
                // More events than the bucket ever holds.
                let batch = JSONValue.array(Array(repeating: 7, count: 500))
                let answer = try await api.ask(.post, Self.events, body: batch, headers: headers)
                #expect(answer.status == 200 && answer.document["results"]?.arrayValue?.count == 500)
                let next = try await api.ask(.get, "\(Self.events)/1")
                #expect(next.headers[.rateLimitPolicy]?.hasPrefix(#""requests";q=3;w=3,"#) == true)
                #expect(next.headers[.rateLimit]?.hasPrefix(#""requests";r=0;t="#) == true)
                // Close to 500, less what the bucket has got back since.
                #expect(next.status == 429 && (60...500).contains(next.headers[.retryAfter].flatMap { Int($0) } ?? 0))
            }
        }
    }

    /// Returns the status, and the event's ID or the problem's type.
    private static func reload(
        _ api: TestAPI, _ key: String, user: String = "u1", as bearer: TestAPI.Bearer = .everything
    ) async throws -> String {
        let answer = try await api.ask(
            .post, "\(TestAPI.base)/reloads", as: bearer,
            body: ["audience": ["user": .string(user)], "kinds": ["Purchases"]], headers: [.idempotencyKey: key])
        let told = answer.document["event"]?["id"] ?? answer.document["type"]
        return "\(answer.status) \(told?.stringValue ?? "")"
    }

    @Test("An Idempotency-Key gives the same event IDs each time, and is refused for another request")
    func idempotency() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let first = try await Self.reload(api, "a")
                #expect(first.hasPrefix("202 "))
                #expect(try await Self.reload(api, "a") == first)
                #expect(try await Self.reload(api, "a", user: "u2") == "422 urn:freshet:problem:key-reused")
                let other = try await Self.reload(api, "b")
                #expect(other.hasPrefix("202 ") && other != first)
                #expect(try await Self.reload(api, "").hasPrefix("400 "))
                #expect(try await Self.reload(api, String(repeating: "x", count: 256)).hasPrefix("400 "))
            }
        }
    }

    @Test("A user's Idempotency-Key is separate from the app's, and any key may be used again after an hour")
    func keyScope() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let first = try await Self.reload(api, "a")
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u1"))
                let own = try await Self.reload(api, "a", as: device)
                #expect(own.hasPrefix("202 ") && own != first)
                try await store.sql("UPDATE idempotency_key SET recorded_at = now() - interval '61 minutes'")
                let old = Statements.deleteOldIdempotencyKeys(olderThan: .seconds(3_600), limit: 100)
                #expect(try await store.pool.query(old).map(\.deleted) == [2])
                #expect(try await Self.reload(api, "a", user: "u2").hasPrefix("202 "))
            }
        }
    }

    @Test(
        "CloudEvents keep their IDs; a key covers a whole batch, and repeated events have the first outcome")
    func idempotentBatch() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                var headers = try Self.headers("application/cloudevents-batch+json")
                headers[.idempotencyKey] = "k"
                let batch: JSONValue = [
                    Self.event("1", .pushReceived, Self.push("u1")), Self.event("2", .pushReceived, Self.push("u1")),
                ]
                for _ in 0..<2 {
                    #expect(try await api.ask(.post, Self.events, body: batch, headers: headers).status == 200)
                }
                #expect(try api.published.events().map(\.id) == ["1", "2", "1", "2"])
                let other: JSONValue = [Self.event("1", .pushReceived, Self.push("u1"))]
                #expect(try await api.ask(.post, Self.events, body: other, headers: headers).status == 422)
                #expect(api.published.all.count == 4)
                // Ingest applies the first event and skips the second.
                try await Self.apply(0, .applied, api, store)
                let single = try await api.ask(
                    .post, "\(Self.events)?wait=applied", body: Self.event("1", .pushReceived, Self.push("u1")),
                    headers: Self.headers("application/cloudevents+json"))
                #expect(single.status == 200 && single.document["event"]?["offset"] == 0)
                #expect(single.headers[.freshetPosition] == "freshet.pushes/0@0")
                // An event of another source has a separate outcome.
                var stranger = Self.event("1", .pushReceived, Self.push("u1")).objectValue ?? JSONObject()
                stranger["source"] = "/else"
                async let waiting = api.ask(
                    .post, "\(Self.events)?wait=applied", body: .object(stranger),
                    headers: Self.headers("application/cloudevents+json"))
                try await Self.apply(5, .applied, api, store)
                #expect(try await waiting.document["event"]?["offset"] == 5)
                #expect(try await store.integer("SELECT count(*) FROM event_outcome WHERE event_id = '1'") == 2)
            }
        }
    }

    @Test("The repetition of a dropped event waits for its own outcome")
    func repeatedAfterDrop() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let headers = try Self.headers("application/cloudevents+json")
                let event = Self.event("1", .pushReceived, Self.push("u1"))
                #expect(try await api.ask(.post, Self.events, body: event, headers: headers).status == 202)
                try await Self.apply(0, .ignored, code: EventOutcome.dropped, api, store)
                #expect(try await api.json("\(Self.events)/1").document["outcome"]?["code"] == "dropped")
                async let waiting = api.ask(.post, "\(Self.events)?wait=applied", body: event, headers: headers)
                try await Self.apply(1, .applied, api, store)
                let answer = try await waiting
                #expect(answer.document["event"]?["offset"] == 1)
                #expect(answer.document["outcome"]?["result"] == "applied")
            }
        }
    }

    @Test("Publishers that use the same ID get the outcomes of their own user and source")
    func oneID() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let headers = try Self.headers("application/cloudevents+json")
                var bearers = [TestAPI.Bearer.everything]
                for user in ["u1", "u2"] { bearers.append(.token(try await api.tokens.token(user: user))) }
                func removal(_ source: String) -> JSONValue {
                    let data: JSONValue = ["app": .string(TestKinds.app), "widget": "w1"]
                    var event = Self.event("1", .widgetRemoved, data).objectValue ?? JSONObject()
                    event["source"] = .string(source)
                    return .object(event)
                }
                // In the order of application: each event sees the earlier ones and waits for its own outcome.
                var message = 0
                for source in ["/shop", "/else"] {
                    for bearer in bearers.reversed() {
                        async let waiting = api.ask(
                            .post, "\(Self.events)?wait=applied", as: bearer, body: removal(source), headers: headers)
                        try await Self.apply(message, .applied, api, store)
                        let answer = try await waiting
                        #expect(answer.status == 200 && answer.document["event"]?["offset"] == .number(.init(message)))
                        let location = try #require(answer.headers[.location])
                        #expect(try await api.json(location, as: bearer).document == answer.document)
                        message += 1
                    }
                }
                // The app sees the latest event of all; a user's token sees the user's latest.
                #expect(try await api.json("\(Self.events)/1").document["event"]?["offset"] == 5)
                let latest = try await api.json("\(Self.events)/1?source=%2Fshop").document
                #expect(latest["event"]?["offset"] == 2)
                let own = try await api.json("\(Self.events)/1?source=%2Fshop", as: bearers[1]).document
                #expect(own["event"]?["offset"] == 1)
                #expect(try await api.json("\(Self.events)/1?source=%2Fnone").status == 404)
                // Another event's outcome does not wake a waiting request.
                let names = ["/shop", "/none", nil].map { source in
                    EventName(app: TestKinds.app, id: "1", source: source, user: source == nil ? "u3" : nil)
                }
                #expect(try await store.pool.query(.findEventOutcomes(names)) == [names[0]])
            }
        }
    }

    @Test("An event is found by an ID of the maximum length")
    func longID() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let id = String(repeating: "x", count: 1_024)
                let event = Self.event(id, .pushReceived, Self.push("u1"))
                let headers = try Self.headers("application/cloudevents+json")
                #expect(try await api.ask(.post, Self.events, body: event, headers: headers).status == 202)
                try await Self.apply(0, .applied, api, store)
                #expect(try await api.json("\(Self.events)/\(id)").status == 200)
                #expect(try await api.json("\(Self.events)/\(id)x").status == 400)
            }
        }
    }

    /// Returns the status, and the pointer of the problem.
    private static func post(
        _ event: JSONValue, to api: TestAPI, as bearer: TestAPI.Bearer = .everything,
        type: String = "application/cloudevents+json"
    ) async throws -> (status: Int, pointer: JSONValue?) {
        let answer = try await api.ask(.post, events, as: bearer, body: event, headers: headers(type))
        return (answer.status, answer.document["pointer"])
    }

    @Test("Invalid events over HTTP are refused with the place of the mistake, as on Kafka")
    func invalid() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                var placement = Self.placement("w1").objectValue ?? JSONObject()
                placement["kind"] = "Nothing"
                let unknown = try await Self.post(Self.event("1", .widgetPlaced, .object(placement)), to: api)
                #expect(unknown.status == 422 && unknown.pointer == "/data/kind")
                let missing = try await Self.post(["specversion": "1.0"], to: api)
                #expect(missing.status == 422 && missing.pointer == "/id")
                var push = Self.event("1", .pushReceived, Self.push("u1")).objectValue ?? JSONObject()
                push["datacontenttype"] = ""
                let typed = try await Self.post(.object(push), to: api)
                #expect(typed.status == 422 && typed.pointer == "/datacontenttype")
                // Binary mode without attributes.
                #expect(try await Self.post(Self.push("u1"), to: api, type: "application/json").status == 422)
                for type in ["text/plain", "application/cloudevents+avro"] {
                    #expect(try await Self.post([:], to: api, type: type).status == 415)
                }
                #expect(api.published.all.isEmpty)
            }
        }
    }

    @Test("Events over HTTP are refused if the token does not include them")
    func notIncluded() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let placed = Self.event("1", .widgetPlaced, Self.placement("w1"))
                let pushed = Self.event("1", .pushReceived, Self.push("u1"))
                let requested = Self.event("1", .reloadRequested, Self.push("u1"))
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                let publisher = TestAPI.Bearer.token(try await api.tokens.token(scopes: [.publish]))
                for (event, bearer) in [(placed, device), (pushed, device), (requested, publisher)] {
                    #expect(try await Self.post(event, to: api, as: bearer).status == 403)
                }
                #expect(api.published.all.isEmpty)
                #expect(try await Self.post(pushed, to: api, as: publisher).status == 202)
            }
        }
    }
}
