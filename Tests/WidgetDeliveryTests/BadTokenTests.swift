// SPDX-License-Identifier: Apache-2.0

import JSON
import Logging
import PostgresClient
import SampleProvider
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Tokens that Apple's service does not know", .timeLimit(.patience))
struct BadTokenTests {
    private static let unknown = APNsStandIn.Fault.answer(APNsAnswer(status: 400, reason: "BadDeviceToken"))

    /// Creates a delivery whose environments have servers of their own.
    private func withEnvironments(
        logger: Logger = Logger(label: "test") { _ in SwiftLogNoOpLogHandler() },
        _ body: (DeliveryHarness, DeliveryService) async throws -> Void
    ) async throws {
        try await withDelivery(logger: logger) { delivery in
            try await body(delivery, other(delivery))
        }
    }

    /// Creates the delivery of another process.
    private func other(_ delivery: DeliveryHarness) -> DeliveryService {
        var configuration = delivery.configuration
        configuration.apnsURLs[.sandbox] = delivery.apns.sandboxURL
        return delivery.makeServiceWith(configuration, DeliveryPulse())
    }

    /// Sends to all waiting devices, as if their back-off were over.
    private func deliver(_ delivery: DeliveryHarness, _ service: DeliveryService) async throws {
        try await delivery.makeDue()
        while try await service.notify() {}
    }

    /// Sends a change to one device, as if its back-off were over.
    private func deliver(to device: String, _ delivery: DeliveryHarness, _ service: DeliveryService) async throws {
        try await delivery.store.sql(
            """
            DELETE FROM delivery;
            UPDATE registration SET changed = changed + 1, listed_at = now() WHERE device_id = '\(device)';
            INSERT INTO delivery (app_id, due_at, ready_at, registrations)
            SELECT app_id, listed_at, listed_at, ARRAY[id] FROM registration WHERE device_id = '\(device)'
            """)
        while try await service.notify() {}
    }

    /// Dates the latest answers as those of one list, which may be stored one after another.
    private func dateAlike(_ delivery: DeliveryHarness) async throws {
        try await delivery.store.sql("UPDATE registration SET tried_at = now()")
    }

    private func place(_ count: Int, _ delivery: DeliveryHarness) async throws {
        try await delivery.store.place((0..<count).map { .test("w\($0)", user: "u\($0)", device: "d\($0)") })
        for index in 0..<count {
            let token = String(1_000_000 + index) + "000000000"
            try await delivery.register("u\(index)", "d\(index)", token: token)
        }
        try await delivery.change()
        try await delivery.mark()
    }

    private func tokens(_ delivery: DeliveryHarness) async throws -> Int {
        try await delivery.store.integer("SELECT count(*) FROM registration WHERE token IS NOT NULL")
    }

    @Test("A token of the sandbox that was registered for production is found there once, and remembered")
    func sandbox() async throws {
        let log = RecordedLog()
        try await withEnvironments(logger: log.logger) { delivery, service in
            delivery.apns.set { $0.environment == .sandbox ? nil : Self.unknown }
            try await place(1, delivery)
            try await deliver(delivery, service)
            #expect(delivery.apns.statistics.received == 2 && delivery.apns.statistics.accepted == 1)
            #expect(log.count(of: "belongs to the other environment") == 1)
            let device = try #require(
                try await delivery.store.pool.query(.listRegistrations(app: TestKinds.app, user: "u0")).first)
            #expect(device.environment == "sandbox" && device.answer == 200)
            // The app registers the device at each start.
            try await delivery.register("u0", "d0", token: "1000000000000000", at: Timestamp(microseconds: 2))
            try await delivery.change()
            try await delivery.mark()
            try await deliver(delivery, service)
            #expect(delivery.apns.statistics.received == 3 && delivery.apns.statistics.accepted == 2)
            // Another token may be of any environment.
            try await delivery.register("u0", "d0", token: "0a0a", at: Timestamp(microseconds: 3))
            try await delivery.change()
            try await delivery.mark()
            try await deliver(delivery, service)
            #expect(delivery.apns.statistics.received == 5 && delivery.apns.statistics.accepted == 3)
        }
    }

    @Test("A token that both environments do not know is forgotten at the second attempt, if others are accepted")
    func dead() async throws {
        let log = RecordedLog()
        try await withEnvironments(logger: log.logger) { delivery, service in
            delivery.apns.set { $0.token == "1000000000000000" ? Self.unknown : nil }
            try await place(5, delivery)
            try await deliver(delivery, service)
            #expect(try await tokens(delivery) == 5)
            #expect(delivery.apns.statistics.received == 6 && delivery.apns.statistics.accepted == 4)
            #expect(log.count(of: "APNs refused a push") == 1)
            #expect(delivery.metrics.deliveryPushes.total(["effect": "badToken"]) == 1)
            #expect(
                try await delivery.store.integer(
                    "SELECT count(*) FROM registration WHERE retry_at >= now() + interval '290 s'") == 1)
            try await dateAlike(delivery)
            try await delivery.change()
            try await delivery.mark()
            try await deliver(delivery, service)
            #expect(try await tokens(delivery) == 4 && log.count(of: "a device token is forgotten") == 1)
            #expect(delivery.apns.statistics.received == 11)
            #expect(delivery.metrics.deliveryPushes.total(["effect": "forget"]) == 1)
        }
    }

    @Test("The first answer about a token does not erase it, though most tokens of its topic are accepted")
    func firstAnswer() async throws {
        try await withEnvironments { delivery, service in
            func deliverChange() async throws {
                try await delivery.change()
                try await delivery.mark()
                try await deliver(delivery, service)
                try await dateAlike(delivery)
            }
            delivery.apns.set { $0.token == "1000000000000000" ? Self.unknown : nil }
            try await place(6, delivery)
            try await deliver(delivery, service)
            try await dateAlike(delivery)
            for _ in 0..<2 { try await deliverChange() }
            #expect(try await tokens(delivery) == 5)
            // The service has said of another token of the topic that it is unknown, and has accepted many since.
            delivery.apns.set { $0.token == "1000001000000000" ? Self.unknown : nil }
            try await deliverChange()
            #expect(try await tokens(delivery) == 5)
            try await deliverChange()
            #expect(try await tokens(delivery) == 4)
        }
    }

    @Test("No token is forgotten while the service knows none of the topic")
    func wrongTopic() async throws {
        let log = RecordedLog()
        try await withEnvironments(logger: log.logger) { delivery, service in
            delivery.apns.set { _ in Self.unknown }
            try await place(500, delivery)
            for _ in 0..<3 { try await deliver(delivery, service) }
            #expect(try await tokens(delivery) == 500)
            #expect(delivery.apns.statistics.received == 2_000)
            #expect(delivery.metrics.deliveryPushes.total(["effect": "badToken"]) == 1_500)
            #expect(log.count(of: "APNs refused a push") == 1)
            let route = try #require(try await delivery.store.pool.query(.registeredRoutes()).first)
            #expect(route.devices == 500 && route.badTokens == 500)
        }
    }

    @Test("A token stays unknown until the other environment has answered")
    func undecided() async throws {
        try await withEnvironments { delivery, service in
            delivery.apns.set { push in
                push.environment == .production
                    ? Self.unknown : .answer(APNsAnswer(status: 503, reason: "ServiceUnavailable"))
            }
            try await place(1, delivery)
            for _ in 0..<3 { try await deliver(delivery, service) }
            #expect(delivery.apns.statistics.received == 6)
            let device = try #require(
                try await delivery.store.pool.query(.listRegistrations(app: TestKinds.app, user: "u0")).first)
            #expect(device.reason == "BadDeviceToken; sandbox: status 503 ServiceUnavailable")
            delivery.apns.set { $0.environment == .sandbox ? nil : Self.unknown }
            try await deliver(delivery, service)
            #expect(delivery.apns.statistics.accepted == 1 && delivery.apns.statistics.received == 8)
        }
    }

    @Test("A token that is dead in the other environment is forgotten at once")
    func deadInOther() async throws {
        try await withEnvironments { delivery, service in
            delivery.apns.set { push in
                push.environment == .production
                    ? Self.unknown : .answer(APNsAnswer(status: 410, reason: "Unregistered"))
            }
            try await place(1, delivery)
            try await deliver(delivery, service)
            #expect(try await tokens(delivery) == 0)
        }
    }

    @Test("The service's id of the last push is stored, whatever the answer is", arguments: [200, 429])
    func identifier(_ status: Int) async throws {
        try await withEnvironments { delivery, service in
            let id = "EFDE0000-1111-2222-3333-444455556666"
            delivery.apns.set { _ in .answer(APNsAnswer(status: status, reason: "TooManyRequests", apnsID: id)) }
            try await place(1, delivery)
            try await deliver(delivery, service)
            let device = try #require(
                try await delivery.store.pool.query(.listRegistrations(app: TestKinds.app, user: "u0")).first)
            #expect(device.answer == status && device.apnsID == id)
            #expect(device.json["apnsID"]?.stringValue == id)
        }
    }

    @Test("A process forgets a token that it has not seen, by what others have been told of the topic")
    func byOthers() async throws {
        try await withEnvironments { delivery, service in
            delivery.apns.set { $0.token == "1000000000000000" ? Self.unknown : nil }
            try await place(5, delivery)
            try await deliver(delivery, service)
            try await dateAlike(delivery)
            // Only the device with the unknown token waits.
            try await deliver(delivery, other(delivery))
            #expect(try await tokens(delivery) == 4)
        }
    }

    @Test("A process whose own pushes are accepted forgets no token of a topic of which others know few")
    func notByItself() async throws {
        try await withEnvironments { delivery, service in
            delivery.apns.set { $0.token == "1000004000000000" ? nil : Self.unknown }
            try await place(5, delivery)
            try await deliver(delivery, service)
            let other = other(delivery)
            for _ in 0..<2 {
                try await delivery.change()
                try await delivery.mark()
                try await deliver(delivery, other)
            }
            #expect(try await tokens(delivery) == 5)
        }
    }

    @Test("No token is forgotten when all of a topic become unknown at once", arguments: [30, 60, 100])
    func allAtOnce(_ count: Int) async throws {
        try await withEnvironments { delivery, service in
            func deliverChange() async throws {
                try await delivery.change()
                try await delivery.mark()
                try await deliver(delivery, service)
            }
            try await place(count, delivery)
            for _ in 0..<5 { try await deliverChange() }
            #expect(delivery.apns.statistics.accepted >= count * 5)
            delivery.apns.set { _ in Self.unknown }
            for _ in 0..<3 { try await deliverChange() }
            #expect(try await tokens(delivery) == count)
        }
    }

    @Test("No token is forgotten when all of a topic become unknown, and its devices are notified one after another")
    func oneByOne() async throws {
        try await withEnvironments { delivery, service in
            try await place(30, delivery)
            for _ in 0..<5 {
                try await delivery.change()
                try await delivery.mark()
                try await deliver(delivery, service)
            }
            delivery.apns.set { _ in Self.unknown }
            for index in 0..<30 {
                for _ in 0..<2 { try await deliver(to: "d\(index)", delivery, service) }
            }
            #expect(try await tokens(delivery) == 30)
            #expect(delivery.metrics.deliveryPushes.total(["effect": "badToken"]) == 60)
        }
    }

    @Test("A token of which the other environment has not said that it is unknown speaks against no other one")
    func undecidedOthers() async throws {
        try await withEnvironments { delivery, service in
            let dead = "1000000000000000"
            delivery.apns.set { push in
                if push.token == "1000004000000000" { return nil }
                guard push.environment == .sandbox, push.token != dead else { return Self.unknown }
                return .answer(APNsAnswer(status: 503, reason: "ServiceUnavailable"))
            }
            try await place(5, delivery)
            for _ in 0..<3 {
                try await deliver(to: "d1", delivery, service)
                try await deliver(to: "d2", delivery, service)
            }
            try await deliver(to: "d0", delivery, service)
            try await deliver(to: "d4", delivery, service)
            try await deliver(to: "d0", delivery, service)
            #expect(try await tokens(delivery) == 4)
        }
    }
}
