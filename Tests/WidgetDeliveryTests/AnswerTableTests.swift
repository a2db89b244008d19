// SPDX-License-Identifier: Apache-2.0

import Foundation
import PostgresClient
import SampleProvider
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

/// The table of deploy/delivery.md, row by row: the stand-in gives each answer over HTTP/2, and the database, the log
/// and the next push of the same topic show its effect.
@Suite("APNs answers and their effects in the guide's table", .timeLimit(.patience))
struct AnswerTableTests {
    struct Row: Sendable, CustomStringConvertible {
        let status: Int
        let reason: String
        let effect: String

        var description: String { "\(status) \(reason)" }
    }

    static let rows: [Row] = {
        let text =
            Repository.path("deploy/delivery.md").flatMap { try? String(contentsOfFile: $0, encoding: .utf8) } ?? ""
        return text.split(separator: "\n").compactMap { line in
            let cells = line.split(separator: "|", omittingEmptySubsequences: false).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            guard cells.count == 6, let status = Int(cells[1]) else { return nil }
            return Row(status: status, reason: cells[2], effect: cells[3])
        }
    }()

    /// Apple, "Handling notification responses from APNs".
    private static let documented: Set<String> = [
        "200 ", "400 BadCollapseId", "400 BadDeviceToken", "400 BadExpirationDate", "400 BadMessageId",
        "400 BadPriority", "400 BadTopic", "400 DeviceTokenNotForTopic", "400 DuplicateHeaders", "400 IdleTimeout",
        "400 InvalidPushType", "400 MissingDeviceToken", "400 MissingTopic", "400 PayloadEmpty",
        "400 TopicDisallowed", "403 BadCertificate", "403 BadCertificateEnvironment",
        "403 BadEnvironmentKeyIdInToken", "403 ExpiredProviderToken", "403 Forbidden", "403 InvalidProviderToken",
        "403 MissingProviderToken", "403 UnrelatedKeyIdInToken", "404 BadPath", "405 MethodNotAllowed",
        "410 ExpiredToken", "410 Unregistered", "413 PayloadTooLarge", "429 TooManyProviderTokenUpdates",
        "429 TooManyRequests", "500 InternalServerError", "503 ServiceUnavailable", "503 Shutdown",
    ]

    @Test("The table has every documented answer once")
    func complete() {
        #expect(Set(Self.rows.map(\.description)) == Self.documented)
        #expect(Self.rows.count == Self.documented.count)
    }

    @Test("An answer has the effect of its row", arguments: rows)
    func effect(_ row: Row) async throws {
        let answer = APNsAnswer(status: row.status, reason: row.reason)
        #expect("\(answer.effect)" == row.effect)
        let log = RecordedLog()
        let backoff = Backoff(base: .seconds(200), cap: .seconds(200))
        let configuration = DeliveryConfiguration.test { ($0.restBackoff, $0.policy.backoff) = (backoff, backoff) }
        try await withDelivery(configuration, logger: log.logger) { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", device: "d2")])
            try await delivery.register("u1", "d1", token: "0101010101010101")
            delivery.apns.set { _ in .answer(answer) }
            try await delivery.change()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.received == 1)
            delivery.apns.set(nil)
            try await delivery.register("u1", "d2", token: "0202020202020202")
            try await delivery.change(.push)
            try await delivery.deliver()
            let reached = delivery.apns.statistics.received == 2
            try await check(answer.effect, delivery, reached: reached, logged: log.count(of: "APNs refused a push"))
        }
    }

    /// - Parameter reached: Whether another device of the topic got a push.
    private func check(
        _ effect: APNsAnswer.Effect, _ delivery: DeliveryHarness, reached: Bool, logged: Int
    ) async throws {
        func count(_ condition: String) async throws -> Bool {
            try await delivery.store.integer(
                "SELECT count(*) FROM registration WHERE device_id = 'd1' AND \(condition)") == 1
        }
        let waits = "channel = 1 AND token IS NOT NULL AND changed > sent AND listed_at < 'infinity'"
        func retried(from first: Int, to last: Int) -> String {
            "retry_at BETWEEN now() + interval '\(first) s' AND now() + interval '\(last) s'"
        }
        switch effect {
        case .accepted: #expect(try await count("sent = 1 AND answer = 200") && reached && logged == 0)
        case .forget:
            #expect(
                try await count("channel = 0 AND token IS NULL AND token_digest IS NULL AND listed_at = 'infinity'"))
            #expect(reached && logged == 0)
        case .slowDevice:
            #expect(try await count("\(waits) AND \(retried(from: 0, to: 200))") && reached && logged == 0)
        case .slowTopic, .renew:
            #expect(try await count("\(waits) AND \(retried(from: 0, to: 200))"))
            #expect(!reached && logged == (effect == .renew ? 1 : 0))
        case .badToken, .wrongDevice, .broken:
            #expect(try await count("\(waits) AND \(retried(from: 200, to: 300))") && reached && logged == 1)
        case .wrongKey:
            #expect(try await count("\(waits) AND \(retried(from: 200, to: 300))") && !reached && logged == 1)
        }
    }

    @Test("The service's delay outlasts the back-off of the device and of the topic", arguments: [429, 503])
    func retryAfter(_ status: Int) async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            let reason = status == 429 ? "TooManyRequests" : "ServiceUnavailable"
            delivery.apns.set { _ in
                .answer(APNsAnswer(status: status, reason: reason, retryAfter: .seconds(3_000)))
            }
            try await delivery.change()
            try await delivery.deliver()
            #expect(
                try await delivery.store.integer(
                    "SELECT count(*) FROM registration WHERE retry_at > now() + interval '2900 s'") == 1)
        }
    }

    @Test("A provider token that the service considers expired is replaced, and the push is repeated")
    func renewed() async throws {
        let clock = TestClock(Timestamp.now() - .seconds(25 * 60))
        let key = APNsStandIn.makeKey()
        try await withDelivery { delivery in
            let accounts = try delivery.accounts(
                ["a": APNsKey(teamID: "TEAM", keyID: "KEY", privateKeyPEM: key)], now: { clock.now })
            let first = try #require(await accounts["a"]?.token.text())
            clock.advance(by: .seconds(21 * 60))
            delivery.apns.set { push in
                push.headers["authorization"] == "bearer \(first)"
                    ? .answer(APNsAnswer(status: 403, reason: "ExpiredProviderToken")) : nil
            }
            try delivery.apns.trust(key, keyID: "KEY", teamID: "TEAM")
            let client = APNsClient(
                accounts: accounts, urls: [.production: delivery.apns.url], timeout: Patience.limit)
            let address = APNsAddress(
                token: Array(repeating: 1, count: 32), environment: .production, topic: DeliveryHarness.topic)
            let answer = try await client.send(APNsPush(app: "a", address: address, isUrgent: true))
            #expect(answer.status == 200)
            #expect(delivery.apns.statistics.received == 2 && delivery.apns.statistics.accepted == 1)
        }
    }

    @Test("The stand-in refuses provider tokens of another key and expired ones")
    func standInChecks() async throws {
        try await withDelivery { delivery in
            let address = APNsAddress(
                token: Array(repeating: 1, count: 32), environment: .production, topic: DeliveryHarness.topic)
            func send(_ key: String, issued age: Duration) async throws -> APNsAnswer {
                let accounts = try delivery.accounts(
                    ["a": APNsKey(teamID: "TEAM", keyID: "KEY", privateKeyPEM: key)],
                    now: { Timestamp.now() - age })
                return try await APNsClient(
                    accounts: accounts, urls: [.production: delivery.apns.url], timeout: Patience.limit
                ).send(APNsPush(app: "a", address: address, isUrgent: true))
            }
            #expect(try await send(APNsStandIn.makeKey(), issued: .zero).reason == "InvalidProviderToken")
            let key = APNsStandIn.makeKey()
            try delivery.apns.trust(key, keyID: "KEY", teamID: "TEAM")
            #expect(try await send(key, issued: .seconds(3_700)).reason == "ExpiredProviderToken")
            #expect(try await send(key, issued: .seconds(3_000)).status == 200)
        }
    }

    @Test("A push that a GOAWAY left out goes over a new connection, and is no failure")
    func goAway() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            let pushes = Tally()
            delivery.apns.set { _ in
                pushes.add()
                return pushes.count == 1 ? .goAway : nil
            }
            try await delivery.change()
            try await delivery.mark()
            #expect(try await delivery.service.notify())
            #expect(delivery.metrics.deliveryPushes.total(["effect": "unanswered"]) == 0)
            #expect(delivery.apns.statistics.accepted == 1 && delivery.apns.statistics.connections == 2)
        }
    }

    @Test("A service that refuses connections makes the topic rest")
    func refused() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            var configuration = delivery.configuration
            configuration.apnsURLs = [.production: "https://localhost:1"]
            configuration.timeout = .seconds(2)
            try await delivery.change()
            try await delivery.mark()
            #expect(try await delivery.makeServiceWith(configuration, DeliveryPulse()).notify())
            #expect(delivery.metrics.deliveryPushes.total(["effect": "unanswered"]) == 1)
            #expect(try await delivery.waiting() == 1)
        }
    }
}
