// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import SampleProvider
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Lists of devices", .timeLimit(.patience))
struct DeviceListTests {
    @Test("A push that hangs does not keep its list's accepted pushes unsettled")
    func hanging() async throws {
        try await withDelivery(
            .test {
                $0.timeout = .seconds(600)
                $0.lease = .seconds(1_200)
            }
        ) { delivery in
            for index in 1...3 {
                try await delivery.store.place([.test("w\(index)", device: "d\(index)")])
                try await delivery.register("u1", "d\(index)", token: "000000000000000\(index)")
            }
            delivery.apns.set { $0.token == "0000000000000002" ? .stall : nil }
            try await delivery.change()
            try await delivery.mark()
            try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { _ = try? await delivery.service.notify() }
                try await eventually("the accepted pushes are settled") { try await delivery.waiting() == 1 }
                #expect(
                    try await delivery.store.integer("SELECT count(*) FROM registration WHERE sent = changed") == 2)
                group.cancelAll()
            }
        }
    }

    @Test("The devices of a resting topic stay on their list, without a write for each")
    func restingTogether() async throws {
        try await withDelivery { delivery in
            for index in 1...3 {
                try await delivery.store.place([.test("w\(index)", device: "d\(index)")])
            }
            try await delivery.register("u1", "d1", token: "0000000000000001")
            delivery.apns.set { _ in .answer(APNsAnswer(status: 503, retryAfter: .seconds(3_000))) }
            try await delivery.change()
            try await delivery.deliver()
            for index in 2...3 { try await delivery.register("u1", "d\(index)", token: "000000000000000\(index)") }
            try await delivery.change()
            try await delivery.mark()
            let versions = "SELECT sum(xmin::text::int8) FROM registration WHERE device_id <> 'd1'"
            let before = try await delivery.store.integer(versions)
            #expect(try await delivery.service.notify())
            #expect(try await delivery.store.integer(versions) == before)
            #expect(try await delivery.waiting() == 3)
            #expect(
                try await delivery.store.integer(
                    """
                    SELECT count(*) FROM delivery
                    WHERE ready_at > now() + interval '2000 s' AND cardinality(registrations) = 2
                    """
                ) == 1)
            delivery.apns.set(nil)
            try await delivery.store.sql("UPDATE delivery SET ready_at = now()")
            while try await delivery.makeService().notify() {}
            #expect(delivery.apns.statistics.accepted == 3)
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery") == 0)
        }
    }

    @Test("The list of a dead process is taken over when its lease expires")
    func died() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.mark()
            let device = try await delivery.claim()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.received == 0)
            try await delivery.store.sql("UPDATE delivery SET ready_at = now()")
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 1)
            // The first process's result arrives too late and has no effect.
            let late = DeliveryOutcome(verdict: .forget(since: nil), answer: 410).result(
                of: device, at: device.claimedAt, resting: nil, policy: DeliveryPolicy(), jitter: 0)
            #expect(try await delivery.store.pool.query(.recordDeliveries([late], window: .zero)).isEmpty)
            #expect(try await delivery.store.integer("SELECT count(*) FROM registration WHERE channel = 1") == 1)
        }
    }

    @Test(
        "A process whose lease is over, or ends before a push could, sends nothing and leaves the list to another one",
        arguments: [Duration.zero, .seconds(10)])
    func leaseOver(_ lease: Duration) async throws {
        let short = DeliveryConfiguration.test { configuration in
            configuration.lease = lease
            configuration.timeout = .seconds(10)
        }
        try await withDelivery(short) { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.mark()
            #expect(try await delivery.service.notify())
            #expect(delivery.apns.statistics.received == 0)
            #expect(try await delivery.waiting() == 1)
            try await delivery.store.sql("UPDATE delivery SET ready_at = now()")
            #expect(try await delivery.makeService(timeout: Patience.limit).notify())
            #expect(delivery.apns.statistics.accepted == 1)
            #expect(try await delivery.waiting() == 0)
        }
    }
}
