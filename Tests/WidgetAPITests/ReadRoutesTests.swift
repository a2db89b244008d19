// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Reading over HTTP", .tags(.api), .timeLimit(.patience))
struct ReadRoutesTests {
    @Test("Widgets are listed by user, device and kind, in pages without gaps and duplicates")
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
                            "\(TestAPI.base)/widgets?limit=2\(query)\(cursor.map { "&cursor=\($0)" } ?? "")"
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
                    let answer = try await api.ask(.get, "\(TestAPI.base)/widgets?\(query)")
                    #expect(answer.status == 400, "\(query): \(answer.text)")
                }
                for cursor in ["", "?", "AA", "_w"] {
                    #expect(
                        try await api.ask(.get, "\(TestAPI.base)/widgets?cursor=\(cursor)").status == 422, "\(cursor)")
                }
            }
        }
    }

    private static func read(
        _ api: TestAPI, _ body: JSONValue, as bearer: TestAPI.Bearer = .everything
    ) async throws -> [JSONValue] {
        let answer = try await api.ask(.post, "\(TestAPI.base)/timelines", as: bearer, body: body)
        #expect(answer.status == 200, "\(answer.text)")
        return answer.document["results"]?.arrayValue ?? []
    }

    private static func members(_ name: String, _ results: [JSONValue]) -> [JSONValue] {
        results.compactMap { $0[name] }
    }

    @Test("One request returns the timelines of many widgets, in its order")
    func many() async throws {
        try await withStore { store in
            let ids = try await store.place([.test("w1"), .test("w2", user: "u2"), .test("w3")])
            try await store.saveContent(ids[1], hash: 7)
            try await withAPI(store) { api in
                let path = "\(TestAPI.base)/timelines"
                let results = try await Self.read(api, ["widgets": ["w2", "nothing", "w1"]])
                #expect(Self.members("widget", results) == ["w2", "nothing", "w1"])
                #expect(Self.members("status", results) == [200, 404, 200])
                for (widget, result) in [("w2", results[0]), ("w1", results[2])] {
                    let alone = try await api.ask(.get, "\(TestAPI.base)/widgets/\(widget)/timeline")
                    #expect(result["etag"]?.stringValue == alone.headers[.eTag])
                    for member in ["timeline", "content", "shown", "configuration", "revision"] {
                        #expect(result["timeline"]?[member] == alone.document[member])
                    }
                }
                let tags = Self.members("etag", results).filter { $0 != .null }
                let known = try await Self.read(api, ["widgets": ["w1", "w2"], "known": .array(tags)])
                #expect(Self.members("status", known) == [304, 304])
                #expect(
                    Self.members("timeline", known) == [.null, .null] && Self.members("stale", known) == [true, true])
                let own = TestAPI.Bearer.token(try await api.tokens.token(user: "u2"))
                let owned = try await Self.read(api, ["widgets": ["w1", "w2"]], as: own)
                #expect(Self.members("status", owned) == [404, 200])
                let tooMany = JSONValue.array((0..<51).map { .string("w\($0)") })
                let broken: [JSONValue] = [
                    [:], ["widgets": []], ["widgets": "w1"], ["widgets": ["w1", "w1"]], ["widgets": [""]],
                    ["widgets": [7]], ["widgets": tooMany], ["widgets": ["w1"], "known": "x"],
                    ["widgets": ["w1"], "x": 1],
                ]
                for body in broken {
                    #expect(try await api.ask(.post, path, body: body).status == 422, "\(body)")
                }
            }
        }
    }

    private static func timeline(
        _ api: TestAPI, known: String? = nil, _ query: String = ""
    ) async throws -> TestAPI.Answer {
        var headers = HTTPFields()
        headers[.ifNoneMatch] = known
        return try await api.ask(.get, "\(TestAPI.base)/widgets/w1/timeline\(query)", headers: headers)
    }

    @Test("A timeline without content is stale and has an entity tag of its own")
    func withoutContent() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await withAPI(store) { api in
                let standIn = try await Self.timeline(api)
                #expect(standIn.status == 200 && standIn.headers[.freshetStale] == "true")
                #expect(standIn.document["content"] == .null && standIn.headers[.age] == nil)
                let standInTag = try #require(standIn.headers[.eTag])
                #expect(try await Self.timeline(api, known: standInTag).status == 304)
                try await store.saveContent(id, hash: 7)
                #expect(try await Self.timeline(api, known: standInTag).status == 200)
            }
        }
    }

    @Test("A timeline has an entity tag, age and staleness; a known tag is answered without content")
    func entityTags() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.saveContent(id, hash: 7)
            try await withAPI(store) { api in
                let first = try await Self.timeline(api)
                let tag = try #require(first.headers[.eTag])
                #expect(first.status == 200 && tag == "W/\"00000000-0000-0000-0000-000000000007\"")
                #expect(first.headers[.freshetRevision] == "7" && first.headers[.cacheControl] == "private, no-cache")
                #expect(first.document["state"]?["stale"] == true)
                for known in [tag, String(tag.dropFirst(2)), "\"a\", \(tag)", "*"] {
                    let unchanged = try await Self.timeline(api, known: known)
                    #expect(unchanged.status == 304 && unchanged.text.isEmpty, "\(known)")
                    #expect(unchanged.headers[.eTag] == tag && unchanged.headers[.freshetStale] == "true")
                }
                #expect(try await Self.timeline(api, known: "\"other\"").status == 200)
                try await store.settle()
                let fresh = try await Self.timeline(api, known: tag)
                #expect(fresh.status == 304 && fresh.headers[.freshetStale] == "false")
                #expect(fresh.headers[.age].flatMap { Int($0) } ?? 0 >= 86_400)
            }
        }
    }

    @Test("A timeline is read with its entry of a time, and wrong parameters are refused")
    func entryOfTime() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.saveContent(id, hash: 7)
            try await withAPI(store) { api in
                let later = try await Self.timeline(api, "?at=2031-01-01T00:00:00Z")
                #expect(later.document["currentEntry"]?["content"] == "later")
                #expect(later.document["shown"]?["entry"]?["content"] == "later")
                let earlier = try await Self.timeline(api, "?at=2019-01-01T00:00:00Z")
                #expect(earlier.document["currentEntry"] == .null)
                for query in ["?at=yesterday", "?wait=61", "?wait=-1", "?wit=1"] {
                    #expect(try await Self.timeline(api, query).status == 400, "\(query)")
                }
            }
        }
    }

    @Test("A waiting reader is answered when the content changes or the wait ends")
    func waiting() async throws {
        let changes = TimelineChanges(limits: TimelineChanges.Limits(polls: 1, streams: 0))
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.saveContent(id, hash: 1)
            try await withAPI(store, changes: changes) { api in
                let path = "\(TestAPI.base)/widgets/w1/timeline?wait=60"
                let tag = "W/\"00000000-0000-0000-0000-000000000001\""
                var headers = HTTPFields()
                headers[.ifNoneMatch] = tag
                let known = headers
                async let waited = api.ask(.get, path, headers: known)
                try await eventually("a request waits") { changes.counts.polls == 1 }
                let second = try await api.ask(.get, path, headers: known)
                #expect(second.status == 503 && second.headers[.retryAfter] != nil)
                #expect(second.document["type"] == "urn:freshet:problem:too-many-waiting")
                #expect(try await api.ask(.get, "\(TestAPI.base)/devices/d1/events").status == 503)
                // A hint without a change does not end the wait.
                changes.notify([.timeline(id)])
                try await store.saveContent(id, hash: 2)
                changes.notify([.timeline(id)])
                let answer = try await waited
                #expect(answer.status == 200 && answer.headers[.freshetRevision] == "2")
                try await eventually("no request waits") { changes.counts.polls == 0 }
                // Shutdown ends the wait at once.
                headers[.ifNoneMatch] = "W/\"00000000-0000-0000-0000-000000000002\""
                let now = headers
                async let ended = api.ask(.get, path, headers: now)
                try await eventually("a request waits") { changes.counts.polls == 1 }
                changes.close()
                #expect(try await ended.status == 304)
            }
        }
    }

    @Test("A waiting reader gets the timeline of a widget that is being placed, and 404 for an unknown widget")
    func placedMeanwhile() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                for number in 1... {
                    let (widget, begun) = ("w\(number)", ContinuousClock.now)
                    async let waited = api.ask(.get, "\(TestAPI.base)/widgets/\(widget)/timeline?wait=1")
                    try await store.place([.test(widget)])
                    let status = try await waited.status
                    if status == 200 { break }
                    // The placement took longer than the wait.
                    try #require(status == 404 && begun.duration(to: .now) >= .seconds(1))
                }
                let none = try await api.ask(.get, "\(TestAPI.base)/widgets/none/timeline?wait=1")
                #expect(none.status == 404 && none.document["detail"] != nil)
            }
        }
    }

    private static func gallery(
        _ api: TestAPI, _ path: String, as bearer: TestAPI.Bearer = .everything
    ) async throws -> TestAPI.Answer {
        try await api.ask(.get, "\(TestAPI.base)/kinds/\(path)", as: bearer)
    }

    private static let environment = "family=systemSmall&locale=en-GB&timeZone=Europe/London"

    @Test("The gallery shows the placeholder of a kind; wrong parameters and unknown kinds are refused")
    func placeholders() async throws {
        try await withStore { store in
            try await withAPI(store) { api in
                let placeholder = try await Self.gallery(api, "Purchases/placeholder?\(Self.environment)")
                #expect(placeholder.status == 200 && placeholder.document["state"] == "placeholder")
                for query in ["Purchases/placeholder", "Purchases/placeholder?family=huge"] {
                    #expect(try await Self.gallery(api, query).status == 400)
                }
                #expect(try await Self.gallery(api, "Nothing/placeholder?\(Self.environment)").status == 404)
                let configured = "Weather/snapshot?\(Self.environment)&configuration=[]"
                #expect(try await Self.gallery(api, configured).status == 400)
            }
        }
    }

    @Test("The gallery shows snapshots of per-user and shared kinds")
    func snapshots() async throws {
        try await withStore { store in
            let ids = try await store.place([.test("w1"), .test("w2", kind: "Weather")])
            try await store.saveContent(ids[0], hash: 1, content: #"{"mine":true}"#)
            try await store.saveContent(ids[1], hash: 2, content: #"{"sunny":true}"#)
            try await withAPI(store) { api in
                let path = "Purchases/snapshot?\(Self.environment)"
                #expect(try await Self.gallery(api, path).document["state"] == "placeholder")
                let own = try await Self.gallery(api, "\(path)&user=u1")
                #expect(own.document["entry"]?["content"] == ["mine": true])
                let device = TestAPI.Bearer.token(try await api.tokens.token(user: "u1"))
                #expect(try await Self.gallery(api, path, as: device).document == own.document)
                let shared = try await Self.gallery(api, "Weather/snapshot?\(Self.environment)")
                #expect(shared.document["entry"]?["content"] == ["sunny": true])
            }
        }
    }

    /// Keeps three dead letters of an app and one, the third, of another.
    private static func withDeadLetters(
        _ body: @escaping @Sendable (_ api: TestAPI) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO dead_letter (topic, partition, "offset", app, code, cause, error, key, header_names,
                                         header_values, payload)
                SELECT 't', 0, n, CASE WHEN n = 3 THEN 'com.example.other' ELSE 'com.example.bank' END, 'missingField',
                       'invalid', 'e', 'k', '{authorization}', '{secret}', '{"n":1}' FROM generate_series(1, 4) n
                """)
            try await withAPI(store) { api in try await body(api) }
        }
    }

    @Test("Dead letters of the app are listed in pages and by cause")
    func deadLetters() async throws {
        try await Self.withDeadLetters { api in
            let first = try await api.json("\(TestAPI.base)/dead-letters?limit=2").document
            #expect((first["deadLetters"]?.arrayValue ?? []).map { $0["id"] } == [4, 2])
            let cursor = try #require(first["next"]?.stringValue)
            let rest = try await api.json("\(TestAPI.base)/dead-letters?limit=2&cursor=\(cursor)").document
            #expect((rest["deadLetters"]?.arrayValue ?? []).map { $0["id"] } == [1])
            #expect(try await api.json("\(TestAPI.base)/dead-letters?cause=diverted").document["deadLetters"] == [])
            #expect(try await api.json("\(TestAPI.base)/dead-letters?cause=bad").status == 400)
        }
    }

    @Test("A dead letter is read without its credentials and discarded once; those of other apps are not found")
    func deadLetter() async throws {
        try await Self.withDeadLetters { api in
            let letter = try await api.ask(.get, "\(TestAPI.base)/dead-letters/2")
            #expect(letter.document["payload"] == #"{"n":1}"# && letter.document["key"] == "k")
            #expect(!letter.text.contains("secret"))
            for id in ["3", "99", "x", "-1", "99999999999999999999"] {
                #expect(try await api.json("\(TestAPI.base)/dead-letters/\(id)").status == 404, "\(id)")
                #expect(try await api.ask(.delete, "\(TestAPI.base)/dead-letters/\(id)").status == 404, "\(id)")
            }
            #expect(try await api.ask(.delete, "\(TestAPI.base)/dead-letters/2").status == 204)
            #expect(try await api.ask(.delete, "\(TestAPI.base)/dead-letters/2").status == 404)
        }
    }
}
