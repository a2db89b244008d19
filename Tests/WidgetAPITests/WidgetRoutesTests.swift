// SPDX-License-Identifier: Apache-2.0

import Hummingbird
import HummingbirdTesting
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite(.tags(.api), .timeLimit(.patience))
struct WidgetRoutesTests {
    @Test("A widget is returned with its configuration and timeline")
    func widget() async throws {
        try await withStore { store in
            let ids = try await store.place([.test("w1", configuration: #"{"card":"acme"}"#)])
            try await withAPI(store) { client in
                let (status, contentType, document) = try await client.json("/v1/apps/com.example.bank/widgets/w1")
                #expect(status == 200)
                #expect(contentType == "application/json")
                #expect(document["timeline"]?.stringValue == ids[0].description)
                #expect(document["configuration"] == ["card": "acme"])
                #expect(document["removed"] == false)
            }
        }
    }

    @Test("F: a widget that Freshet placed for a suggestion is marked as such")
    func suggested() async throws {
        try await withStore { store in
            let plan = StackPlan(
                key: StackPlan.Key(app: TestKinds.app, user: "u1", device: "d1", stack: "home"),
                schedule: StackSchedule(), plannedAt: .distantPast)
            let id = plan.widget(of: WidgetContent(app: TestKinds.app, kind: "Purchases"))
            try await store.place([.test("w1"), .test(id)])
            try await withAPI(store) { client in
                let list = try await client.json("/v1/apps/com.example.bank/widgets?user=u1").document
                let widgets = try #require(list["widgets"]?.arrayValue)
                #expect(widgets.map { $0["widget"]?.stringValue } == [id, "w1"])
                #expect(widgets.map { $0["suggested"] } == [true, false])
                let one = try await client.json("/v1/apps/com.example.bank/widgets/\(id)").document
                #expect(one["suggested"] == true)
            }
        }
    }

    @Test("A widget of a retired kind and its timeline are not found")
    func retired() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            _ = try await store.store.retire(app: TestKinds.app, kind: "Purchases")
            try await withAPI(store) { client in
                for path in ["/v1/apps/com.example.bank/widgets/w1", "/v1/apps/com.example.bank/widgets/w1/timeline"] {
                    let status = try await client.json(path).status
                    #expect(status == 404)
                }
                let other = try await client.json("/v1/apps/com.example.bank/widgets/w2").status
                #expect(other == 200)
            }
        }
    }

    @Test("A timeline is returned before its first render, then with its current entry")
    func timeline() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await withAPI(store) { client in
                let path = "/v1/apps/com.example.bank/widgets/w1/timeline"
                let before = try await client.json(path).document
                #expect(before["state"]?["stale"] == true)
                #expect(before["content"] == .null)
                #expect(before["currentEntry"] == .null)

                try await store.settle()
                try await store.saveStored(
                    """
                    {"entries":[{"content":1,"date":"2020-01-01T00:00:00Z"},
                        {"content":{"date":"2010-01-01T00:00:00Z","entries":[{"a":"}]\\""}]},"date":"2021-01-01T00:00:00Z"},
                        {"content":3,"date":"2999-01-01T00:00:00Z"}], "policy":"never"}
                    """, id, hash: 7)
                let after = try await client.json(path).document
                #expect(after["state"]?["stale"] == false)
                #expect(after["revision"] == 7)
                #expect(after["currentEntry"]?["content"]?["date"] == "2010-01-01T00:00:00Z")
                #expect(after["content"]?["entries"]?.arrayValue?.count == 3)
            }
        }
    }

    @Test("There is no entry before the first date")
    func beforeTheFirst() async throws {
        try await withStore { store in
            let id = try await store.place([.test("w1")])[0]
            try await store.saveStored(
                #"{"entries":[{"content":1,"date":"2020-01-01T00:00:00Z"}],"policy":"never"}"#, id, hash: 1)
            let detail = try #require(try await store.timeline(id))
            let early = try #require(Timestamp(rfc3339: "2019-12-31T23:59:59Z"))
            let late = try #require(Timestamp(rfc3339: "2020-01-01T00:00:00Z"))
            #expect(detail.currentEntry(at: early) == nil)
            let entry = try #require(detail.currentEntry(at: late))
            #expect(String(decoding: entry, as: UTF8.self) == #"{"content":1,"date":"2020-01-01T00:00:00Z"}"#)
        }
    }

    @Test("IDs in the path are percent-decoded, and invalid encodings are refused")
    func percentEncoding() async throws {
        try await withStore { store in
            try await store.place([.test("wü 1/2")])
            try await withAPI(store) { client in
                let found = try await client.json("/v1/apps/com.example.bank/widgets/w%C3%BC%201%2F2")
                #expect(found.status == 200)
                #expect(found.document["widget"] == "wü 1/2")
                for path in ["w%ZZ", "w%C3", "w%0A", "w%"] {
                    let refused = try await client.json("/v1/apps/com.example.bank/widgets/\(path)")
                    #expect(refused.status == 400, "\(path)")
                    #expect(refused.contentType == "application/problem+json")
                }
            }
        }
    }

    @Test("Objects of another app and unknown objects are the same problem document")
    func unknown() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { client in
                for path in [
                    "/v1/apps/com.example.other/widgets/w1", "/v1/apps/com.example.bank/widgets/w2",
                    "/v1/apps/com.example.other/widgets/w1/timeline", "/v1/nothing",
                ] {
                    let (status, contentType, document) = try await client.json(path)
                    #expect(status == 404, "\(path)")
                    #expect(contentType == "application/problem+json")
                    #expect(document["status"] == 404)
                    #expect(document["type"]?.stringValue == "urn:freshet:problem:not-found")
                }
            }
        }
    }

    @Test("A request without a token is refused with the expected authentication scheme")
    func unauthorized() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store) { api in
                for bearer in [
                    TestAPI.Bearer.nobody, .token("wrong-wrong-wrong-wrong"), .token(api.token + "x"),
                    .token(String(api.token.dropLast())), .token(""),
                ] {
                    let answer = try await api.ask(.get, "/v1/apps/com.example.bank/widgets/w1", as: bearer)
                    #expect(answer.status == 401)
                    #expect(answer.headers[.wwwAuthenticate]?.hasPrefix("Bearer") == true)
                    #expect(answer.contentType == "application/problem+json")
                }
            }
        }
    }

    @Test("Without keys the routes are not served")
    func notMounted() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await withAPI(store, hasKeys: false) { client in
                let status = try await client.json("/v1/apps/com.example.bank/widgets/w1").status
                #expect(status == 404)
            }
        }
    }

    @Test("A database error is an internal error whose text is only logged")
    func databaseFails() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.sql("DROP TABLE widget CASCADE")
            try await withAPI(store) { client in
                let (status, _, document) = try await client.json("/v1/apps/com.example.bank/widgets/w1")
                #expect(status == 500)
                #expect(document["detail"]?.stringValue?.contains("widget") == false)
            }
        }
    }
}
