// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import SampleProvider
import TestSupport
import Testing
import WidgetModel

@testable import WidgetDelivery
@testable import WidgetStore

@Suite("Device tokens at rest", .timeLimit(.patience))
struct TokenTests {
    private static let token = "abcdef0123456789"
    private static let old = (id: "k1", secret: [UInt8](repeating: 9, count: 32))
    private static let new = (id: "k2", secret: [UInt8](repeating: 8, count: 32))

    @Test("Neither logs nor stored results contain a token, whatever fails")
    func secrecy() async throws {
        let log = RecordedLog()
        let faults: [APNsStandIn.Fault] = [
            .answer(APNsAnswer(status: 400, reason: "DeviceTokenNotForTopic")),
            .answer(APNsAnswer(status: 403, reason: "InvalidProviderToken")),
            .answer(APNsAnswer(status: 404, reason: "BadPath")), .reset, .goAway, .cut, .hang, .stall, .trickle,
        ]
        try await withDelivery(logger: log.logger) { delivery in
            try await delivery.store.place([.test("w1")])
            for (index, fault) in faults.enumerated() {
                try await delivery.register(token: Self.token, at: Timestamp(microseconds: Int64(index)))
                delivery.apns.set { _ in fault }
                try await delivery.change()
                try await delivery.mark()
                let service = delivery.makeService(timeout: fault.isSilent ? .seconds(5) : Patience.limit)
                // The time limit may end before the push arrives; then it is sent again.
                let received = delivery.apns.statistics.received
                while delivery.apns.statistics.received == received {
                    try await delivery.makeDue()
                    _ = try await service.notify()
                }
            }
            // A missing key is an error, too.
            try await delivery.store.sql("UPDATE registration SET token_key = 'k9'")
            try await delivery.makeDue()
            _ = try await delivery.makeService().notify()
            #expect(delivery.apns.statistics.received >= faults.count)
            #expect(log.count(of: "InvalidProviderToken") == 1 && log.count(of: "k9") == 1)
            #expect(log.lines.allSatisfy { !$0.description.lowercased().contains(Self.token) })
            let stored = try await delivery.store.integer(
                """
                SELECT count(*) FROM registration r
                WHERE to_jsonb(r)::text ILIKE '%\(Self.token)%' OR position('\\x\(Self.token)'::bytea IN r.token) > 0
                """)
            #expect(stored == 0)
            let shown = try await delivery.store.pool.query(.listRegistrations(app: TestKinds.app, user: "u1"))
            #expect(shown.count == 1)
            for device in shown {
                #expect(!String(decoding: device.json.encoded, as: UTF8.self).contains(Self.token))
            }
        }
    }

    @Test("After a rotation every token is sealed with the new key, and the old one can be removed")
    func rotation() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", device: "d2")])
            try await delivery.register("u1", "d1", token: Self.token)
            try await delivery.register("u1", "d2", token: "0202020202020202")
            let during = try #require(DeviceTokenKeys([Self.new, Self.old]))
            let store = delivery.store.store
            let first = try await store.resealTokens(with: during)
            #expect(first.resealed == 2 && first.unreadable == [:])
            let second = try await store.resealTokens(with: during)
            #expect(second.resealed == 0 && second.unreadable == [:])
            let uses = try await delivery.store.pool.query(.tokenKeysInUse())
            #expect(uses.map(\.key) == ["k2"] && uses.map(\.devices) == [2])
            var configuration = delivery.configuration
            configuration.tokenKeys = DeviceTokenKeys([Self.new])
            try await delivery.change()
            try await delivery.mark()
            while try await delivery.makeServiceWith(configuration, DeliveryPulse()).notify() {}
            #expect(Set(delivery.apns.statistics.byToken.keys) == [Self.token, "0202020202020202"])
        }
    }

    @Test("A token whose key is missing stays unchanged and is counted; a newer registration is not overwritten")
    func partial() async throws {
        try await withDelivery { delivery in
            try await delivery.register("u1", "d1", token: Self.token)
            let other = try #require(DeviceTokenKeys([Self.new]))
            let result = try await delivery.store.store.resealTokens(with: other)
            #expect(result.resealed == 0 && result.unreadable == ["k1": 1])
            let stored = try await delivery.store.pool.query(.tokensToReseal(except: "k2", after: 0))
            let before = try #require(stored.first)
            try await delivery.register("u1", "d1", token: "0303030303030303", at: Timestamp(microseconds: 2))
            let late: ResealedToken = (
                id: before.id, old: before.sealed, new: try other.seal([1, 2, 3], for: before.owner)
            )
            #expect(try await delivery.store.pool.query(.resealTokens([late])).isEmpty)
        }
    }
}
