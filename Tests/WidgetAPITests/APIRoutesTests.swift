import HTTPTypes
import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

private let base = "/v1/apps/com.example.bank"
private let environment: JSONValue = ["locale": "en-GB", "timeZone": "Europe/London"]
private let placement: JSONValue = [
    "user": "u1", "device": "d1", "kind": "Purchases", "family": "systemSmall", "configuration": ["card": "acme"],
    "environment": environment,
]

extension TestStore {
    /// Stores content for a timeline, as the workers do.
    fileprivate func save(_ id: TimelineID, hash: Int, content: String = "1") async throws {
        let digits = "00000000-0000-0000-0000-\(String(repeating: "0", count: 12 - "\(hash)".count))\(hash)"
        try await sql(
            """
            INSERT INTO timeline_content (timeline_id, hash, revision, content)
            VALUES ('\(id)', '\(digits)', \(hash),
                    '{"entries":[{"content":\(content),"date":"2020-01-01T00:00:00Z"},
                                 {"content":"later","date":"2030-01-01T00:00:00Z"}],"policy":"never"}')
            ON CONFLICT (timeline_id) DO UPDATE
                SET hash = excluded.hash, revision = excluded.revision, content = excluded.content
            """)
    }
}

@Suite("what is changed over HTTP is published as events", .tags(.api), .timeLimit(.minutes(5)))
struct WriteRoutesTests {
    @Test("placing, configuring, viewing, removing, environment: the events that producers publish")
    func lifecycle() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { api in
                let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
                var headers = HTTPFields()
                headers[try #require(HTTPField.Name("traceparent"))] = trace
                let placed = try await api.ask(.put, "\(base)/widgets/w2", body: placement, headers: headers)
                #expect(placed.status == 202)
                #expect(placed.document["event"]?["topic"] == "freshet.widgets")
                _ = try await api.ask(.put, "\(base)/widgets/w1/configuration", body: ["configuration": ["a": 1]])
                _ = try await api.ask(.post, "\(base)/widgets/w1/views")
                _ = try await api.ask(.delete, "\(base)/widgets/w1")
                _ = try await api.ask(.put, "\(base)/devices/d1/environment", body: ["environment": environment])
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
                // All of them stay in order behind the placement: the person's key.
                #expect(api.published.all.allSatisfy { $0.key == Array("u1".utf8) })
                #expect(events[0].envelope.source == "/freshet/api")
                #expect(events[0].envelope.traceparent == trace)
                #expect(placed.document["event"]?["id"] == .string(events[0].envelope.id))
                #expect(events.allSatisfy { $0.envelope.time != nil })
            }
        }
    }

    @Test("reload requests by their reason")
    func reloads() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                func post(_ body: JSONValue) async throws -> Int {
                    try await api.ask(.post, "\(base)/reloads", body: body).status
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
                        .push(
                            ReloadRequest(app: TestKinds.app, audience: .everyone, kinds: .all, reason: .push)),
                        .appChange(
                            ReloadRequest(
                                app: TestKinds.app, audience: .user("u1"), kinds: .kinds(["Purchases"]),
                                matching: WidgetConfiguration(storedCanonical: #"{"card":"acme"}"#),
                                reason: .background)),
                        .operatorReload(
                            ReloadRequest(app: TestKinds.app, audience: .device("d1"), kinds: .all, reason: .operator)),
                    ])
            }
        }
    }

    @Test(
        "what cannot be used is told with its place",
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
            ("PUT", "widgets/w1/configuration", #"{"configuration":{"a":{"b":1}}}"#, 422, "/configuration/a"),
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
                    HTTPRequest.Method(rawValue: method) ?? .get, "\(base)/\(path)", raw: body)
                #expect(answer.status == status, "\(answer.text)")
                #expect(answer.contentType == "application/problem+json")
                #expect(answer.document["pointer"] == .string(pointer), "\(answer.text)")
                #expect(answer.document["errors"]?.arrayValue?.isEmpty == false)
                #expect(answer.document["status"] == .number(JSONNumber(status)))
                #expect(api.published.all.isEmpty)
            }
        }
    }

    @Test("a device token places its own user's widgets, and takes nobody's away")
    func deviceTokens() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { api in
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                var own = placement.objectValue ?? JSONObject()
                own["user"] = nil
                #expect(try await api.ask(.put, "\(base)/widgets/w5", as: device, body: .object(own)).status == 202)
                #expect(try await api.ask(.put, "\(base)/widgets/w1", as: device, body: .object(own)).status == 404)
                for audience: JSONValue in [["user": "u1"], ["everyone": true], ["device": "d1"], ["widget": "w1"]] {
                    let body: JSONValue = ["audience": audience, "kinds": "all"]
                    #expect(try await api.ask(.post, "\(base)/reloads", as: device, body: body).status == 403)
                }
                let mine: JSONValue = ["audience": ["user": "u2"], "kinds": "all", "reason": "foreground"]
                #expect(try await api.ask(.post, "\(base)/reloads", as: device, body: mine).status == 202)
                let free: JSONValue = ["audience": ["user": "u2"], "kinds": "all", "reason": "operator"]
                #expect(try await api.ask(.post, "\(base)/reloads", as: device, body: free).status == 403)
                let kinds = try await api.ask(.get, "\(base)/kinds", as: device)
                #expect(kinds.status == 200 && !kinds.text.contains("providerURL"))
                #expect(try api.published.events().count == 2)
            }
        }
    }

    @Test("kinds are registered, changed, kept and retired; an app has to be there first")
    func kinds() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let definition: JSONValue = ["providerURL": "https://p.example.com", "placeholder": ["a": 1]]
                func put(_ body: JSONValue, _ query: String = "") async throws -> TestAPI.Answer {
                    try await api.ask(.put, "\(base)/kinds/New\(query)", body: body)
                }
                let dry = try await put(definition, "?dryRun=true")
                #expect(dry.status == 200 && dry.document["action"] == "add")
                #expect(try await api.json("\(base)/kinds/New").status == 404)
                #expect(try await put(definition).status == 201)
                #expect(try await put(definition).document["action"] == "keep")
                var changed = definition.objectValue ?? JSONObject()
                changed["maxBatch"] = 7
                let change = try await put(.object(changed))
                #expect(change.status == 200 && change.document["fields"] == ["maxBatch"])
                let read = try await api.json("\(base)/kinds/New").document
                #expect(read["definition"]?["maxBatch"] == 7 && read["kind"] == "New" && read["paused"] == false)
                #expect(try await api.json("\(base)/kinds").document["kinds"]?.arrayValue?.count == 4)
                let gone = try await api.ask(.delete, "\(base)/kinds/New")
                #expect(gone.status == 202 && gone.document["timelinesLeft"] == 0)
                #expect(try await api.json("\(base)/kinds/New").status == 404)
                #expect(try await store.integer("SELECT count(*) FROM app WHERE developer_mode") == 0)
                let stranger = try await api.tokens.token(app: "com.example.nobody")
                let refused = try await api.ask(
                    .put, "/v1/apps/com.example.nobody/kinds/New", as: .token(stranger), body: definition)
                #expect(refused.status == 404)
            }
        }
    }
}

@Suite("reading over HTTP", .tags(.api), .timeLimit(.minutes(5)))
struct ReadRoutesTests {
    @Test("widgets by user, device and kind, in pages that miss and repeat nothing")
    func pages() async throws {
        try await withStore { store in
            try await store.place(
                (0..<7).map { .test("w\($0)", user: $0 < 5 ? "u1" : "u2", device: $0 % 2 == 0 ? "d0" : "d1") }
                    + [.test("x", kind: "DueDate")])
            try await withAPI(store) { api in
                func all(_ query: String) async throws -> [String] {
                    var ids: [String] = []
                    var cursor: String?
                    repeat {
                        let page = try await api.json(
                            "\(base)/widgets?limit=2\(query)\(cursor.map { "&cursor=\($0)" } ?? "")"
                        ).document
                        ids += (page["widgets"]?.arrayValue ?? []).compactMap { $0["widget"]?.stringValue }
                        cursor = page["next"]?.stringValue
                    } while cursor != nil && ids.count < 100
                    return ids
                }
                #expect(try await all("") == ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "x"])
                #expect(try await all("&user=u2") == ["w5", "w6"])
                #expect(try await all("&device=d0") == ["w0", "w2", "w4", "w6"])
                #expect(try await all("&user=u1&device=d1&kind=Purchases") == ["w1", "w3"])
                #expect(try await all("&kind=DueDate") == ["x"])
                for query in [
                    "limit=0", "limit=1001", "limit=x", "limit=+1", "cursor=%", "nothing=1", "user=",
                    "limit=1&limit=2", "user=%FF",
                ] {
                    let answer = try await api.ask(.get, "\(base)/widgets?\(query)")
                    #expect(answer.status == 400, "\(query): \(answer.text)")
                }
                for cursor in ["", "?", "AA", "_w"] {
                    #expect(try await api.ask(.get, "\(base)/widgets?cursor=\(cursor)").status == 422, "\(cursor)")
                }
            }
        }
    }

    @Test("a timeline's entity tag, its age, whether it is stale, and the entry of a time")
    func entityTags() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await withAPI(store) { api in
                let path = "\(base)/widgets/w1/timeline"
                func get(_ known: String?, _ query: String = "") async throws -> TestAPI.Answer {
                    var headers = HTTPFields()
                    headers[.ifNoneMatch] = known
                    return try await api.ask(.get, path + query, headers: headers)
                }
                let standIn = try await get(nil)
                #expect(standIn.status == 200 && standIn.headers[.freshetStale] == "true")
                #expect(standIn.document["content"] == .null && standIn.headers[.age] == nil)
                let standInTag = try #require(standIn.headers[.eTag])
                #expect(try await get(standInTag).status == 304)

                try await store.save(id, hash: 7)
                let first = try await get(standInTag)
                let tag = try #require(first.headers[.eTag])
                #expect(first.status == 200 && tag == "W/\"00000000-0000-0000-0000-000000000007\"")
                #expect(first.headers[.freshetRevision] == "7" && first.headers[.cacheControl] == "private, no-cache")
                #expect(first.document["state"]?["stale"] == true)
                for known in [tag, String(tag.dropFirst(2)), "\"a\", \(tag)", "*"] {
                    let unchanged = try await get(known)
                    #expect(unchanged.status == 304 && unchanged.text.isEmpty, "\(known)")
                    #expect(unchanged.headers[.eTag] == tag && unchanged.headers[.freshetStale] == "true")
                }
                #expect(try await get("\"other\"").status == 200)
                try await store.settle()
                let fresh = try await get(tag)
                #expect(fresh.status == 304 && fresh.headers[.freshetStale] == "false")
                #expect(fresh.headers[.age].flatMap { Int($0) } ?? 0 >= 86_400)

                let later = try await get(nil, "?at=2031-01-01T00:00:00Z")
                #expect(later.document["currentEntry"]?["content"] == "later")
                #expect(later.document["shown"]?["entry"]?["content"] == "later")
                #expect(try await get(nil, "?at=2019-01-01T00:00:00Z").document["currentEntry"] == .null)
                for query in ["?at=yesterday", "?wait=61", "?wait=-1", "?wit=1"] {
                    #expect(try await get(nil, query).status == 400, "\(query)")
                }
            }
        }
    }

    @Test("a long timeline is compressed for those who take that")
    func compression() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.save(id, hash: 1, content: "\"\(String(repeating: "x", count: 5_000))\"")
            try await withAPI(store) { api in
                let path = "\(base)/widgets/w1/timeline"
                let plain = try await api.ask(.get, path)
                #expect(plain.headers[.contentEncoding] == nil && plain.headers[.vary] == "Accept-Encoding")
                for (accepted, isGzip) in [
                    ("gzip", true), ("br, gzip;q=0.5", true), ("*", true), ("gzip;q=0", false), ("br", false),
                    ("gzip;q=0, *", false),
                ] {
                    var headers = HTTPFields()
                    headers[.acceptEncoding] = accepted
                    let answer = try await api.ask(.get, path, headers: headers)
                    #expect((answer.headers[.contentEncoding] == "gzip") == isGzip, "\(accepted)")
                    #expect(isGzip == (answer.length < 2_000), "\(accepted)")
                    #expect(answer.headers[.eTag] == plain.headers[.eTag])
                }
            }
        }
    }

    @Test("who waits is answered when the content changes, and not before; waiting is bounded")
    func waiting() async throws {
        let changes = TimelineChanges(limits: TimelineChanges.Limits(polls: 1, streams: 0))
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.save(id, hash: 1)
            try await withAPI(store, changes: changes) { api in
                let path = "\(base)/widgets/w1/timeline?wait=30"
                let tag = "W/\"00000000-0000-0000-0000-000000000001\""
                var headers = HTTPFields()
                headers[.ifNoneMatch] = tag
                let known = headers
                async let waited = api.ask(.get, path, headers: known)
                try await eventually("somebody waits") { changes.counts.polls == 1 }
                let second = try await api.ask(.get, path, headers: known)
                #expect(second.status == 503 && second.headers[.retryAfter] != nil)
                #expect(second.document["type"] == "urn:freshet:problem:too-many-waiting")
                #expect(try await api.ask(.get, "\(base)/devices/d1/events").status == 503)
                // A hint without a change answers nobody.
                changes.changed([.timeline(id)])
                try await store.save(id, hash: 2)
                changes.changed([.timeline(id)])
                let answer = try await waited
                #expect(answer.status == 200 && answer.headers[.freshetRevision] == "2")
                try await eventually("the place is free") { changes.counts.polls == 0 }
                // The end of the process answers at once.
                headers[.ifNoneMatch] = "W/\"00000000-0000-0000-0000-000000000002\""
                let now = headers
                async let ended = api.ask(.get, path, headers: now)
                try await eventually("somebody waits") { changes.counts.polls == 1 }
                changes.close()
                #expect(try await ended.status == 304)
            }
        }
    }

    @Test("who waits for the timeline of a widget that is just being placed gets it; of none, the same as ever")
    func placedMeanwhile() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                async let waited = api.ask(.get, "\(base)/widgets/w1/timeline?wait=1")
                try await store.place([.test("w1")])
                #expect(try await waited.status == 200)
                let none = try await api.ask(.get, "\(base)/widgets/w2/timeline?wait=1")
                #expect(none.status == 404 && none.document["detail"] != nil)
            }
        }
    }

    @Test("the gallery: placeholder and snapshot, of a user's own and of shared kinds")
    func gallery() async throws {
        try await withStore { store in
            let ids = try await store.place([.test("w1"), .test("w2", kind: "Weather")])
            try await store.save(ids[0], hash: 1, content: #"{"mine":true}"#)
            try await store.save(ids[1], hash: 2, content: #"{"sunny":true}"#)
            try await withAPI(store) { api in
                func get(_ path: String, as bearer: TestAPI.Bearer = .everything) async throws -> TestAPI.Answer {
                    try await api.ask(.get, "\(base)/kinds/\(path)", as: bearer)
                }
                let query = "family=systemSmall&locale=en-GB&timeZone=Europe/London"
                let placeholder = try await get("Purchases/placeholder?\(query)")
                #expect(placeholder.status == 200 && placeholder.document["state"] == "placeholder")
                #expect(try await get("Purchases/placeholder").status == 400)
                #expect(try await get("Purchases/placeholder?family=huge").status == 400)
                #expect(try await get("Nothing/placeholder?\(query)").status == 404)
                #expect(try await get("Purchases/snapshot?\(query)").document["state"] == "placeholder")
                let own = try await get("Purchases/snapshot?\(query)&user=u1")
                #expect(own.document["entry"]?["content"] == ["mine": true])
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u1"))
                #expect(try await get("Purchases/snapshot?\(query)", as: device).document == own.document)
                let shared = try await get("Weather/snapshot?\(query)")
                #expect(shared.document["entry"]?["content"] == ["sunny": true])
                #expect(try await get("Weather/snapshot?\(query)&configuration=[]").status == 400)
            }
        }
    }

    @Test("dead letters of the app: listed, read and discarded")
    func deadLetters() async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO dead_letter (topic, partition, "offset", app, code, cause, error, key, header_names,
                                         header_values, payload)
                SELECT 't', 0, n, CASE WHEN n = 3 THEN 'com.example.other' ELSE 'com.example.bank' END, 'missingField',
                       'invalid', 'e', 'k', '{authorization}', '{secret}', '{"n":1}' FROM generate_series(1, 4) n
                """)
            try await withAPI(store) { api in
                let first = try await api.json("\(base)/dead-letters?limit=2").document
                #expect((first["deadLetters"]?.arrayValue ?? []).map { $0["id"] } == [4, 2])
                let cursor = try #require(first["next"]?.stringValue)
                let rest = try await api.json("\(base)/dead-letters?limit=2&cursor=\(cursor)").document
                #expect((rest["deadLetters"]?.arrayValue ?? []).map { $0["id"] } == [1])
                #expect(try await api.json("\(base)/dead-letters?cause=diverted").document["deadLetters"] == [])
                #expect(try await api.json("\(base)/dead-letters?cause=bad").status == 400)
                let letter = try await api.ask(.get, "\(base)/dead-letters/2")
                #expect(letter.document["payload"] == #"{"n":1}"# && letter.document["key"] == "k")
                #expect(!letter.text.contains("secret"))
                for id in ["3", "99", "x", "-1", "99999999999999999999"] {
                    #expect(try await api.json("\(base)/dead-letters/\(id)").status == 404, "\(id)")
                    #expect(try await api.ask(.delete, "\(base)/dead-letters/\(id)").status == 404, "\(id)")
                }
                #expect(try await api.ask(.delete, "\(base)/dead-letters/2").status == 204)
                #expect(try await api.ask(.delete, "\(base)/dead-letters/2").status == 404)
            }
        }
    }
}

@Suite("what holds for every request", .tags(.api), .timeLimit(.minutes(5)))
struct ServingTests {
    @Test("request ids are taken when they can stand in a log, else made")
    func requestIDs() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                for (given, isTaken) in [
                    ("abc-1.2_3", true), ("with space", false), (String(repeating: "a", count: 129), false),
                    ("", false),
                ] {
                    var headers = HTTPFields()
                    headers[.requestID] = given
                    let answer = try await api.ask(.get, "\(base)/kinds", headers: headers)
                    let id = try #require(answer.headers[.requestID])
                    #expect((id == given) == isTaken && RequestID.isSane(id))
                }
                #expect(try await api.ask(.get, "/nothing").headers[.requestID] != nil)
            }
        }
    }

    @Test("limits of bodies, their type, and methods that are not there")
    func bodies() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let large = "{\"a\":\"\(String(repeating: "x", count: APICall.maximumBodyBytes))\"}"
                #expect(try await api.ask(.put, "\(base)/kinds/K", raw: large).status == 413)
                #expect(try await api.ask(.put, "\(base)/kinds/K").status == 400)
                var headers = HTTPFields()
                headers[.contentType] = "text/plain"
                #expect(try await api.ask(.put, "\(base)/kinds/K", raw: "{}", headers: headers).status == 415)
                let method = try await api.ask(.post, "\(base)/widgets/w1")
                #expect(method.status == 405 && method.headers[.allow] == "DELETE, GET, PUT")
                #expect(try await api.ask(.patch, "\(base)/kinds/K").status == 405)
                #expect(try await api.ask(.get, "/v1/apps").status == 404)
                #expect(try await api.ask(.get, "/v1/nothing").status == 404)
            }
        }
    }

    @Test("a token over its rate is told when to come again; others are not held up")
    func rates() async throws {
        try await withStore { store in
            let configuration = APIConfiguration(port: 0, rate: APIConfiguration.Rate(limit: 1, burst: 3))
            try await withAPI(store, configuration: configuration) { api in
                for _ in 0..<3 { #expect(try await api.ask(.get, "\(base)/kinds").status == 200) }
                let refused = try await api.ask(.get, "\(base)/kinds")
                #expect(refused.status == 429 && refused.headers[.retryAfter] == "1")
                let other = TestAPI.Bearer.token(try await api.tokens.token())
                #expect(try await api.ask(.get, "\(base)/kinds", as: other).status == 200)
            }
        }
    }

    @Test("pages of other origins are let in only where they are listed")
    func origins() async throws {
        try await withStore { store in
            var headers = HTTPFields()
            headers[.origin] = "https://app.example.com"
            let asking = headers
            try await withAPI(store) { api in
                let answer = try await api.ask(.get, "\(base)/kinds", headers: asking)
                #expect(answer.status == 200 && answer.headers[.accessControlAllowOrigin] == nil)
            }
            let configuration = APIConfiguration(port: 0, corsOrigins: ["https://app.example.com"])
            try await withAPI(store, configuration: configuration) { api in
                let answer = try await api.ask(.get, "\(base)/kinds", headers: asking)
                #expect(answer.headers[.accessControlAllowOrigin] == "https://app.example.com")
                #expect(answer.headers[.vary] == "Origin")
                var preflight = asking
                preflight[.accessControlRequestMethod] = "PUT"
                let allowed = try await api.ask(.options, "\(base)/kinds/K", as: .nobody, headers: preflight)
                #expect(allowed.status == 204 && allowed.headers[.accessControlAllowMethods]?.contains("PUT") == true)
                preflight[.origin] = "https://evil.example.com"
                let refused = try await api.ask(.options, "\(base)/kinds/K", as: .nobody, headers: preflight)
                #expect(refused.headers[.accessControlAllowOrigin] == nil)
            }
        }
    }
}
