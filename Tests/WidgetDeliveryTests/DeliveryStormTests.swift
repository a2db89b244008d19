// SPDX-License-Identifier: Apache-2.0

import SampleProvider
import Synchronization
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Delivery under faults", .timeLimit(.patience))
struct DeliveryStormTests {
    private static let devices = 40
    private static let rounds = 6
    private static let kills = 3

    /// Times of accepted pushes by token, with faults in a fixed order.
    private final class Service: Sendable {
        private struct State {
            var received = 0
            var accepted: [String: [ContinuousClock.Instant]] = [:]
            var isFaulty = true
        }

        private let state = Mutex(State())

        var accepted: [String: [ContinuousClock.Instant]] { state.withLock { $0.accepted } }
        var count: Int { accepted.values.reduce(0) { $0 + $1.count } }

        func answer(_ push: APNsStandIn.Push) -> APNsStandIn.Fault? {
            state.withLock { state in
                state.received += 1
                if state.isFaulty, let fault = Self.fault(state.received) { return fault }
                state.accepted[push.token, default: []].append(.now)
                return nil
            }
        }

        func heal() { state.withLock { $0.isFaulty = false } }

        private static func fault(_ number: Int) -> APNsStandIn.Fault? {
            if number.isMultiple(of: 31) { return .goAway }
            if number.isMultiple(of: 17) { return .hang }
            if number.isMultiple(of: 11) { return .reset }
            if number.isMultiple(of: 7) { return .answer(APNsAnswer(status: 503, reason: "ServiceUnavailable")) }
            if number.isMultiple(of: 5) { return .answer(APNsAnswer(status: 429, reason: "TooManyRequests")) }
            return nil
        }
    }

    private static let configuration = DeliveryConfiguration.test { configuration in
        configuration.policy.window = .milliseconds(20)
        configuration.policy.minimumSpacing = .zero
        configuration.policy.dailyBudget = 100_000
        configuration.policy.backoff = Backoff(base: .milliseconds(20), cap: .milliseconds(100))
        configuration.restBackoff = Backoff(base: .milliseconds(20), cap: .milliseconds(100))
        // Ends the pushes that hang. One that a slow machine answers later than this is sent twice.
        configuration.timeout = .seconds(1)
        configuration.lease = .seconds(60)
        configuration.pollInterval = .milliseconds(10)
    }

    @Test("An urgent change moves an appointment to now, unless its list may be claimed meanwhile")
    func soonAppointment() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.deliver()
            for (listed, isMoved) in [("200 milliseconds", false), ("1 hour", true)] {
                try await delivery.store.sql(
                    """
                    UPDATE registration SET sent_at = NULL, eligible_at = '-infinity', retry_at = '-infinity',
                        listed_at = now() + interval '\(listed)'
                    """)
                let before = try await delivery.store.integer(Self.listedAt)
                try await delivery.change()
                try await delivery.mark()
                let after = try await delivery.store.integer(Self.listedAt)
                #expect((after < before) == isMoved, "\(listed)")
            }
        }
    }

    private static let listedAt = "SELECT (extract(epoch FROM max(listed_at)) * 1000000)::int8 FROM registration"

    /// Runs two processes' deliveries until the body ends, and then cancels them at any point.
    private func withServices(_ services: [DeliveryService], _ body: () async throws -> Void) async throws {
        try await withThrowingTaskGroup(of: Void.self) { group in
            for service in services { group.addTask { try await service.run() } }
            try await body()
            group.cancelAll()
        }
    }

    /// Number of devices that wait for a push, and of changes whose devices are not marked.
    private static let unsent = """
        SELECT (SELECT count(*) FROM registration WHERE changed > sent) + (SELECT count(*) FROM delivery_change)
        """

    /// Counts the pushes of each device that were not answered within the time limit.
    private static let countUnanswered = """
        CREATE TABLE unanswered (device text PRIMARY KEY, pushes int NOT NULL);
        CREATE FUNCTION count_unanswered() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO unanswered AS u VALUES (NEW.device_id, 1)
            ON CONFLICT (device) DO UPDATE SET pushes = u.pushes + 1;
            RETURN NULL;
        END $$;
        CREATE TRIGGER count_unanswered AFTER UPDATE ON registration FOR EACH ROW
            WHEN (NEW.answer = 0 AND NEW.attempts > OLD.attempts) EXECUTE FUNCTION count_unanswered()
        """

    @Test(
        "Refusals, hangs, resets, closed connections and dead processes lose no change and cause no storm")
    func storm() async throws {
        try await withDelivery(Self.configuration) { delivery in
            let service = Service()
            delivery.apns.set { service.answer($0) }
            try await delivery.store.place(
                (0..<Self.devices).map { .test("w\($0)", user: "u\($0)", device: "d\($0)") })
            for index in 0..<Self.devices {
                try await delivery.register(
                    "u\(index)", "d\(index)", token: "00000000000000" + String(hexadecimal: [UInt8(index)]))
            }
            try await delivery.store.sql(Self.countUnanswered)
            var lastChange = ContinuousClock.now
            for _ in 0..<Self.kills {
                try await withServices([delivery.makeService(), delivery.makeService()]) {
                    for _ in 0..<Self.rounds {
                        let before = service.count
                        lastChange = .now
                        try await delivery.change(.push)
                        try await eventually("some devices get a push") { service.count > before }
                    }
                }
                // The leases of the dead processes end.
                try await delivery.store.sql("UPDATE delivery SET ready_at = now() WHERE lease IS NOT NULL")
            }
            service.heal()
            let patient = (0..<2).map { _ in delivery.makeService(timeout: Patience.limit) }
            try await withServices(patient) {
                try await eventually("every device is notified of the last change") {
                    try await delivery.store.integer(Self.unsent) == 0
                }
            }
            let accepted = service.accepted
            #expect(accepted.count == Self.devices)
            let changes = Self.rounds * Self.kills
            for (token, times) in accepted {
                #expect(try #require(times.last) > lastChange)
                // A process that dies between a push and its record leaves the push to another one, and a push whose
                // answer comes too late is sent again.
                let index = try #require([UInt8](hexadecimal: token)?.last)
                let unanswered = "SELECT coalesce(sum(pushes), 0) FROM unanswered WHERE device = 'd\(index)'"
                let repeated = try await Self.kills + delivery.store.integer(unanswered)
                #expect(times.count <= changes + repeated)
                let tooSoon = zip(times, times.dropFirst()).count { $1 - $0 < Self.configuration.policy.window }
                #expect(tooSoon <= repeated)
            }
            #expect(
                try await delivery.store.integer("SELECT count(*) FROM registration WHERE changed = \(changes)")
                    == Self.devices)
            #expect(try await delivery.waiting() == 0)
        }
    }
}
