// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import SampleProvider
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Concurrent registrations and deliveries", .timeLimit(.patience))
struct RegistrationTests {
    private static let devices = 40
    private static let rounds = 40

    @Test("Registrations, marks and fetches lock devices in the same order, so that they do not deadlock")
    func lockOrder() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place(
                (10..<(10 + Self.devices)).map { .test("w\($0)", user: "u\($0)", device: "d\($0)", kind: "Weather") })
            // The order of the IDs differs from that of the names.
            for index in (10..<(10 + Self.devices)).reversed() { try await register([index], at: 1, delivery) }
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask {
                    for round in 0..<Self.rounds {
                        try await register(Array(10..<(10 + Self.devices)), at: round + 2, delivery)
                    }
                }
                group.addTask {
                    for _ in 0..<Self.rounds {
                        try await delivery.change()
                        try await delivery.mark()
                    }
                }
                group.addTask {
                    for _ in 0..<Self.rounds {
                        try await delivery.store.sql(
                            "UPDATE registration SET recorded_at = NULL WHERE device_id = 'd10'")
                        try await delivery.record("w10", "w49", "w30")
                    }
                }
                try await group.waitForAll()
            }
            #expect(
                try await delivery.store.integer("SELECT count(*) FROM registration WHERE changed = \(Self.rounds)")
                    == Self.devices)
        }
    }

    @Test("A device keeps its back-off when it registers the same token again, but not with another token")
    func backoff() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register(at: Timestamp(microseconds: 1))
            try await delivery.change()
            try await delivery.mark()
            try await delivery.store.sql(
                """
                UPDATE registration SET attempts = 3, retry_at = now() + interval '1 hour',
                    listed_at = now() + interval '1 hour'
                """)
            let waiting = """
                SELECT count(*) FROM registration
                WHERE attempts = 3 AND retry_at > now() + interval '50 minutes'
                    AND listed_at > now() + interval '50 minutes'
                """
            try await delivery.register(at: Timestamp(microseconds: 2))
            #expect(try await delivery.store.integer(waiting) == 1)
            try await delivery.register(token: "0807060504030201", at: Timestamp(microseconds: 3))
            #expect(
                try await delivery.store.integer(
                    "SELECT count(*) FROM registration WHERE attempts = 0 AND listed_at <= now()") == 1)
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 1)
        }
    }

    @Test(
        "When two users register one token concurrently, the later event's user gets it",
        arguments: [true, false])
    func sameToken(isFirstLater: Bool) async throws {
        try await withDelivery { delivery in
            let address = APNsAddress(token: Array(1...8), environment: .production, topic: DeliveryHarness.topic)
            func write(_ user: String, at time: Int64) -> RegistrationWrite {
                RegistrationWrite(
                    appID: 1, user: user, device: "d1", time: Timestamp(microseconds: time), isOrderedByArrival: false,
                    channel: .apns(address), token: DeviceTokenKeys.Sealed(keyID: "k1", bytes: [1]))
            }
            let (first, second) = (write("u1", at: isFirstLater ? 2 : 1), write("u2", at: isFirstLater ? 1 : 2))
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await delivery.store.pool.withTransaction { connection in
                    _ = try await connection.query(.lockTokens(of: [first]))
                    _ = try await connection.query(.writeRegistrations([first]))
                    _ = try await connection.query(.releaseTokens(of: [first]))
                    group.addTask { _ = try await delivery.write(second) }
                    try await delivery.store.waitUntilBlocked()
                }
                try await group.waitForAll()
            }
            let holders = "SELECT count(*) FROM registration WHERE channel = 1"
            #expect(try await delivery.store.integer(holders) == 1)
            #expect(
                try await delivery.store.integer("\(holders) AND user_id = '\(isFirstLater ? "u1" : "u2")'") == 1)
        }
    }

    @Test("A time that was stored ahead keeps no token from another user, and no row of a device for ever")
    func storedAhead() async throws {
        try await withDelivery { delivery in
            try await delivery.register("u1", at: Timestamp(microseconds: 1))
            try await delivery.store.sql("UPDATE registration SET registered_at = 'infinity'")
            try await delivery.register("u2", at: Timestamp(microseconds: 2))
            #expect(
                try await delivery.store.integer(
                    "SELECT count(*) FROM registration WHERE user_id = CASE channel WHEN 0 THEN 'u1' ELSE 'u2' END")
                    == 2)
            _ = try await delivery.store.pool.execute(.deleteOldDelivery(limit: 10))
            #expect(try await delivery.store.integer("SELECT count(*) FROM registration") == 1)
        }
    }

    @Test("Users that register one token repeatedly leave it with one of them")
    func manyOfOneToken() async throws {
        try await withDelivery { delivery in
            try await withThrowingTaskGroup(of: Void.self) { group in
                for user in 1...8 {
                    group.addTask {
                        for round in 0..<10 {
                            try await delivery.register(
                                "u\(user)", at: Timestamp(microseconds: Int64(round * 10 + user)))
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(
                try await delivery.store.integer("SELECT count(*) FROM registration WHERE token IS NOT NULL") == 1)
            #expect(
                try await delivery.store.integer(
                    "SELECT count(*) FROM registration WHERE token IS NOT NULL AND user_id = 'u8'") == 1)
        }
    }

    private func register(_ indexes: [Int], at time: Int, _ delivery: DeliveryHarness) async throws {
        let writes = indexes.map { index in
            RegistrationWrite(
                appID: 1, user: "u\(index)", device: "d\(index)", time: Timestamp(microseconds: Int64(time)),
                isOrderedByArrival: false, channel: .webhook)
        }
        _ = try await delivery.store.pool.query(.writeRegistrations(writes))
    }
}
