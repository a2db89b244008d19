// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import SampleProvider
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Liveness of the delivery's loops", .timeLimit(.patience))
struct DeliveryLivenessTests {
    /// Adds to the time since the last beats.
    private final class Skip: Sendable {
        private let skipped = Mutex(Duration.zero)
        var now: ContinuousClock.Instant { skipped.withLock { .now + $0 } }
        func skip(_ time: Duration) { skipped.withLock { $0 += time } }
    }

    private static let limit = Duration.seconds(300)

    /// Runs a delivery, and cancels it after the body.
    private func whileRunning(
        _ delivery: DeliveryHarness, _ pulse: DeliveryPulse, _ body: () async throws -> Void
    ) async throws {
        let service = delivery.makeServiceWith(delivery.configuration, pulse)
        let running = Task { try await service.run() }
        do { try await body() } catch {
            running.cancel()
            throw error
        }
        running.cancel()
        _ = await running.result
    }

    @Test("A loop that does not come back from a statement is silent, although the others go on")
    func stuck() async throws {
        try await withDelivery { delivery in
            let time = Skip()
            let pulse = DeliveryPulse { time.now }
            try await delivery.store.pool.withTransaction { holder in
                try await holder.simple("LOCK TABLE delivery_change IN ACCESS EXCLUSIVE MODE")
                try await whileRunning(delivery, pulse) {
                    try await delivery.store.waitUntilBlocked(1)
                    time.skip(Self.limit + .seconds(1))
                    try await eventually("another loop goes on") { (pulse.claim.silence ?? .zero) < Self.limit }
                    #expect(try #require(pulse.silence) > Self.limit)
                }
            }
        }
    }

    @Test("A push without an answer leaves the loops alive")
    func slow() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            delivery.apns.set { _ in .hang }
            try await delivery.change()
            let time = Skip()
            let pulse = DeliveryPulse { time.now }
            try await whileRunning(delivery, pulse) {
                try await eventually("the push is under way") { delivery.apns.statistics.received == 1 }
                time.skip(Self.limit + .seconds(1))
                try await eventually("all loops go on") { (pulse.silence ?? .zero) < Self.limit }
                #expect(delivery.apns.statistics.accepted == 0)
                #expect(try await delivery.waiting() == 1)
            }
        }
    }
}
