// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("Quotas of apps", .tags(.api), .timeLimit(.patience))
struct QuotaTests {
    private static let reload: JSONValue = ["audience": ["user": "u1"], "kinds": ["Purchases"]]
    private static let problem: JSONValue = "urn:freshet:problem:quota-exceeded"

    private static func configuration(events: Int = 0, reloads: Int = 0, deadLetters: Int = 0) -> APIConfiguration {
        var configuration = APIConfiguration.test()
        configuration.eventQuota = events
        configuration.reloadQuota = reloads
        configuration.deadLetterQuota = deadLetters
        return configuration
    }

    /// Returns the units and the seconds until it is full that a `RateLimit` header states for a quota.
    private static func left(_ quota: String, in header: String) throws -> (units: Int, seconds: Int) {
        let states = header.split(separator: ", ").map { $0.split(separator: ";") }
        let state = try #require(states.first { $0[0] == "\"\(quota)\"" && $0.count == 3 }, "\(header)")
        return (try #require(Int(state[1].dropFirst(2))), try #require(Int(state[2].dropFirst(2))))
    }

    /// Quotas of six events and two reloads a minute.
    ///
    /// - Parameter body: gets the whole seconds, rounded up, in which the quotas have got something back.
    private func withQuotas(_ body: @escaping @Sendable (_ api: TestAPI, _ elapsed: () -> Int) async throws -> Void)
        async throws
    {
        try await withStore { store in
            try await withAPI(store, configuration: Self.configuration(events: 6, reloads: 2)) { api in
                let begun = ContinuousClock.now
                try await body(api) { Int(begun.duration(to: .now).components.seconds) + 1 }
            }
        }
    }

    @Test("Responses report the quotas and the units that are left")
    func reported() async throws {
        try await withQuotas { api, elapsed in
            let first = try await api.ask(.post, "\(TestAPI.base)/reloads", body: Self.reload)
            #expect(first.status == 202)
            let policy = first.headers[.rateLimitPolicy] ?? ""
            #expect(
                policy.contains(#""events";q=6;w=60, "reloads";q=2;w=60, "connections";q=6000;qu="#), "\(policy)")
            let header = first.headers[.rateLimit] ?? ""
            #expect(header.contains(#""connections";r=6000"#), "\(header)")
            let (events, reloads) = (try Self.left("events", in: header), try Self.left("reloads", in: header))
            let passed = elapsed()
            #expect((5...(5 + passed / 10)).contains(events.units), "\(header)")
            #expect(((10 - passed)...10).contains(events.seconds), "\(header)")
            #expect((1...(1 + passed / 30)).contains(reloads.units), "\(header)")
            #expect(((30 - passed)...30).contains(reloads.seconds), "\(header)")
        }
    }

    @Test("An app has a quota of reloads over all its tokens")
    func reloads() async throws {
        try await withQuotas { api, elapsed in
            func reload(_ bearer: TestAPI.Bearer) async throws -> TestAPI.Answer {
                try await api.ask(.post, "\(TestAPI.base)/reloads", as: bearer, body: Self.reload)
            }
            let bearers = [.everything, TestAPI.Bearer.token(try await api.tokens.token(scopes: [.reload]))]
            let first = try await reload(bearers[0])
            var (count, refused) = (0, first)
            while refused.status == 202 {
                count += 1
                refused = try await reload(bearers[1])
            }
            #expect(count >= 2 && Double(count) <= 2 + Double(elapsed()) / 30)
            #expect(refused.status == 429 && refused.document["type"] == Self.problem, "\(refused.text)")
            let wait = try #require(refused.headers[.retryAfter].flatMap { Int($0) })
            #expect((max(1, 30 - elapsed())...30).contains(wait))
            #expect(refused.document["detail"]?.stringValue?.contains("reloads") == true)
        }
    }

    @Test("An app has a quota of events, which refused reloads do not use; reads and other apps are unaffected")
    func events() async throws {
        try await withQuotas { api, elapsed in
            var status = 202
            while status == 202 {
                status = try await api.ask(.post, "\(TestAPI.base)/reloads", body: Self.reload).status
            }
            // Widgets do not count as reloads.
            let widget = "\(TestAPI.base)/widgets/w1"
            var last: TestAPI.Answer
            repeat { last = try await api.ask(.delete, widget) } while last.status == 202
            #expect(last.status == 429 && last.document["detail"]?.stringValue?.contains("events") == true)
            let accepted = api.published.all.count
            #expect(accepted >= 6 && Double(accepted) <= 6 + Double(elapsed()) / 10)
            #expect(try await api.ask(.get, "\(TestAPI.base)/kinds").status == 200)
            let other = TestAPI.Bearer.token(try await api.tokens.token(app: TestKinds.otherApp))
            let elsewhere = "/v1/apps/\(TestKinds.otherApp)/widgets/w1"
            #expect(try await api.ask(.delete, elsewhere, as: other).status == 202)
        }
    }

    @Test("An app with too many waiting dead letters cannot publish until they are settled")
    func deadLetters() async throws {
        try await withStore { store in
            try await store.sql(
                """
                INSERT INTO dead_letter (topic, partition, "offset", app, cause, code, error, header_names, header_values)
                SELECT 't', 0, n, '\(TestKinds.app)', CASE WHEN n > 3 THEN 'notAllowed' ELSE 'diverted' END, 'c', 'e', '{}', '{}'
                FROM generate_series(1, 9) n
                """)
            try await withAPI(store, configuration: Self.configuration(deadLetters: 2)) { api in
                let refused = try await api.ask(.delete, "\(TestAPI.base)/widgets/w1")
                #expect(refused.status == 429 && refused.document["type"] == Self.problem, "\(refused.text)")
                #expect(refused.headers[.retryAfter] == "10")
                #expect(refused.headers[.rateLimit]?.contains(#""dead-letters";r=0"#) == true)
                #expect(api.published.all.isEmpty)
                #expect(try await api.ask(.get, "\(TestAPI.base)/dead-letters").status == 200)
            }
            try await withAPI(store, configuration: Self.configuration(deadLetters: 3)) { api in
                let accepted = try await api.ask(.delete, "\(TestAPI.base)/widgets/w1")
                #expect(accepted.status == 202)
                #expect(accepted.headers[.rateLimit]?.contains(#""dead-letters";r=0"#) == true)
            }
        }
    }

    @Test("An app has a common quota of open polls and streams")
    func connections() async throws {
        try await withStore { store in
            let changes = TimelineChanges(limits: TimelineChanges.Limits(polls: 10, streams: 10, ofApp: 2))
            let holder = TimelineChanges.Holder(app: TestKinds.app)
            let taken = [
                try changes.watch(.poll, [], for: holder), try changes.watch(.stream, [], for: holder),
            ]
            try await withAPI(store, changes: changes) { api in
                let refused = try await api.ask(.get, "\(TestAPI.base)/devices/d1/events?for=1")
                #expect(refused.status == 429 && refused.document["type"] == Self.problem, "\(refused.text)")
                #expect(refused.headers[.retryAfter] == "5")
                #expect(refused.headers[.rateLimit]?.contains(#""connections";r=0"#) == true)
                let other = TestAPI.Bearer.token(try await api.tokens.token(app: TestKinds.otherApp))
                let elsewhere = try await api.ask(
                    .get, "/v1/apps/\(TestKinds.otherApp)/devices/d1/events?for=1", as: other)
                #expect(elsewhere.status == 200)
            }
            withExtendedLifetime(taken) {}
        }
    }
}
