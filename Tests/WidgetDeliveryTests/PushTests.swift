// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import JSON
import NIOCore
import NIOHTTP1
import PostgresClient
import ReloadWorkers
import SampleProvider
import Synchronization
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Pushes to devices", .timeLimit(.patience))
struct PushTests {
    @Test("A change notifies each device that shows it once")
    func once() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([
                .test("w1"), .test("w2", kind: "DueDate"), .test("w3", device: "d2"),
                .test("w4", user: "u2", device: "d3"),
            ])
            try await delivery.register("u1", "d1", token: "0101010101010101")
            try await delivery.register("u1", "d2", token: "0202020202020202")
            try await delivery.change()
            try await delivery.deliver()
            let statistics = delivery.apns.statistics
            #expect(statistics.byToken == ["0101010101010101": 1, "0202020202020202": 1])
            #expect(statistics.refused.isEmpty)
            #expect(try await delivery.waiting() == 0)
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery") == 0)
            #expect(try await delivery.store.integer("SELECT count(*) FROM registration WHERE answer = 200") == 2)
            #expect(try await delivery.store.integer("SELECT sum(changes) FROM delivery_statistics") == 3)
            #expect(try await delivery.store.integer("SELECT min(pushes) FROM registration") == 1)
        }
    }

    @Test("A push has type, topic, collapse ID, expiration and payload; its priority follows the urgency")
    func headers() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", device: "d2")])
            try await delivery.register("u1", "d1", token: "0101010101010101")
            let pushes = Mutex<[APNsStandIn.Push]>([])
            delivery.apns.set { push in
                pushes.withLock { $0.append(push) }
                return nil
            }
            try await delivery.change(.foreground)
            try await delivery.deliver()
            try await delivery.register("u1", "d2", token: "0202020202020202")
            try await delivery.change(.push)
            try await delivery.deliver()
            let received = pushes.withLock { $0 }
            #expect(received.map { $0.headers["apns-priority"] } == ["10", "5"])
            let day = Timestamp.now().microseconds / 1_000_000 + 86_400
            for push in received {
                #expect(push.headers["apns-push-type"] == "widgets" && push.topic == DeliveryHarness.topic)
                #expect(push.headers["apns-collapse-id"] == "freshet-widgets")
                #expect(push.body == #"{"aps":{"content-changed":true}}"#)
                let expiration = try #require(push.headers["apns-expiration"].flatMap { Int64($0) })
                #expect(abs(expiration - day) < 300)
            }
        }
    }

    @Test("Apps of different teams use connections of their own, for the service refuses two teams on one")
    func teams() async throws {
        let other = APNsKey(teamID: "OTHER", keyID: "KEY2", privateKeyPEM: APNsStandIn.makeKey())
        try await withDelivery(.test { $0.apnsKeys = [TestKinds.otherApp: other] }) { delivery in
            try await delivery.store.place([.test("w1"), .test("w1", app: TestKinds.otherApp, kind: "Purchases")])
            try await delivery.register(token: "0101010101010101")
            try await delivery.register(token: "0202020202020202", app: 2)
            for _ in 0..<2 {
                try await delivery.change()
                try await delivery.makeDue()
                try await delivery.deliver()
            }
            let statistics = delivery.apns.statistics
            #expect(statistics.accepted == 4 && statistics.refused.isEmpty && statistics.connections == 2)
            #expect(
                [TestKinds.app, TestKinds.otherApp].map {
                    delivery.metrics.deliveryPushes.total(["app": $0, "effect": "accepted"])
                } == [2, 2])
        }
    }

    @Test("The service refuses a second team and a quick change of the provider token on a connection")
    func sharedConnection() async throws {
        try await withDelivery { delivery in
            let keys = ["TEAM", "OTHER"].map {
                APNsKey(teamID: $0, keyID: "K\($0)", privateKeyPEM: APNsStandIn.makeKey())
            }
            for key in keys { try delivery.apns.trust(key.privateKeyPEM, keyID: key.keyID, teamID: key.teamID) }
            let accounts = try delivery.accounts(["a": keys[0]])
            let http = try #require(accounts["a"]).http
            let client = APNsClient(
                accounts: accounts, urls: [.production: delivery.apns.url], timeout: Patience.limit)
            let address = APNsAddress(token: [1], environment: .production, topic: DeliveryHarness.topic)
            func send(_ key: APNsKey, age: Duration) async throws -> String? {
                let token = try await ProviderToken(key, now: { Timestamp.now() - age }).text()
                let push = APNsPush(app: "a", address: address, isUrgent: false)
                let (_, body) = try await http.exchange(
                    client.request(push, token), timeout: Patience.limit, upTo: 4_096)
                return try? JSONValue.parse(Array(body.readableBytesView))["reason"]?.stringValue
            }
            #expect(try await send(keys[0], age: .seconds(3_000)) == nil)
            #expect(try await send(keys[1], age: .zero) == "InvalidProviderToken")
            #expect(try await send(keys[0], age: .seconds(2_000)) == "TooManyProviderTokenUpdates")
            #expect(try await send(keys[0], age: .seconds(1_000)) == nil)
            #expect(delivery.apns.statistics.connections == 1)
        }
    }

    @Test("A push for an app without a key is an error that names the setting")
    func noKey() async throws {
        try await withDelivery { delivery in
            let client = APNsClient(accounts: try delivery.accounts([:]), urls: [:], timeout: .seconds(10))
            let address = APNsAddress(token: [1], environment: .production, topic: DeliveryHarness.topic)
            await #expect { try await client.send(APNsPush(app: "b", address: address, isUrgent: false)) } throws: {
                "\($0)".contains("delivery.apnsKeys") && "\($0)".contains("\"b\"")
            }
        }
    }

    @Test("Changes within the window are one push, and a change during its sending is another one")
    func window() async throws {
        try await withDelivery(.test { $0.policy.window = .seconds(600) }) { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await delivery.register()
            try await delivery.change(.push)
            try await delivery.change(.push)
            try await delivery.deliver()
            #expect(delivery.apns.statistics.received == 0)
            #expect(try await delivery.store.integer("SELECT changed FROM registration") == 2)
            try await delivery.makeDue()
            let device = try await delivery.claim()
            try await delivery.change(.push)
            try await delivery.mark()
            try await delivery.settle(.accepted, device)
            #expect(try await delivery.store.integer("SELECT changed - sent FROM registration") == 1)
            #expect(try await delivery.waiting() == 1)
        }
    }

    @Test("A change for which a person waits is pushed at once, and a second one at the end of the window")
    func urgent() async throws {
        try await withDelivery(.test { $0.policy.window = .seconds(600) }) { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change(.push)
            try await delivery.mark()
            try await delivery.change(.foreground)
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 1)
            try await delivery.change(.foreground)
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 1)
            #expect(
                try await delivery.store.integer(
                    """
                    SELECT count(*) FROM registration
                    WHERE listed_at BETWEEN sent_at + interval '600 s' AND sent_at + interval '600.3 s'
                    """) == 1)
        }
    }

    @Test("A change for which a person waits is exempt from the spacing, also during a push")
    func urgentMeanwhile() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change(.push)
            try await delivery.mark()
            let device = try await delivery.claim()
            #expect(!device.isUrgent)
            try await delivery.change(.foreground)
            try await delivery.mark()
            try await delivery.settle(.accepted, device)
            #expect(
                try await delivery.store.integer(
                    "SELECT count(*) FROM registration WHERE listed_at < now() + interval '1 s' AND eligible_at > listed_at"
                )
                    == 1)
        }
    }

    @Test("A second push waits for the spacing unless a person waits for the change")
    func spacing() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change(.push)
            try await delivery.deliver()
            try await delivery.change(.push)
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 1)
            #expect(try await delivery.waiting() == 1)
            try await delivery.change(.foreground)
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 2)
            #expect(try await delivery.waiting() == 0)
        }
    }

    @Test("Changes that the device has fetched cause no push")
    func fetched() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await delivery.register()
            // Before the devices are marked, and after.
            try await delivery.change()
            try await delivery.record("w1")
            try await delivery.mark()
            try await delivery.store.sql("UPDATE registration SET recorded_at = now() - interval '61 seconds'")
            try await delivery.record("w2")
            try await delivery.deliver()
            #expect(delivery.apns.statistics.received == 0)
            #expect(delivery.metrics.deliverySpared.total() == 1)
            #expect(try await delivery.waiting() == 0)
        }
    }

    @Test("An invalid token is deleted unless the device was registered later")
    func forgotten() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", device: "d2")])
            let since = Timestamp(microseconds: 10_000_000)
            try await delivery.register("u1", "d1", token: "0101010101010101", at: Timestamp(microseconds: 5))
            try await delivery.register("u1", "d2", token: "0202020202020202", at: Timestamp(microseconds: 20_000_000))
            delivery.apns.set { _ in .answer(APNsAnswer(status: 410, reason: "Unregistered", since: since)) }
            try await delivery.change()
            try await delivery.deliver()
            #expect(
                try await delivery.store.integer(
                    "SELECT count(*) FROM registration WHERE channel = 0 AND token IS NULL AND device_id = 'd1'") == 1)
            #expect(try await delivery.waiting() == 1)
            // The answer about the old token does not affect the new one.
            try await delivery.register("u1", "d1", token: "0303030303030303", at: Timestamp(microseconds: 30_000_000))
            delivery.apns.set(nil)
            try await delivery.makeDue()
            try await delivery.deliver()
            #expect(Set(delivery.apns.statistics.byToken.keys) == ["0202020202020202", "0303030303030303"])
        }
    }

    @Test("When another user signs in on a device, its token belongs only to the new user")
    func moved() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", user: "u2")])
            try await delivery.register("u1", at: Timestamp(microseconds: 1))
            try await delivery.register("u2", at: Timestamp(microseconds: 2))
            try await delivery.change()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 1)
            #expect(
                try await delivery.store.integer("SELECT count(*) FROM registration WHERE token IS NOT NULL") == 1)
            // An older event does not restore the registration.
            #expect(try await delivery.register("u2", at: Timestamp(microseconds: 1)) == 0)
        }
    }

    @Test(
        "After a fault, a later push follows the change",
        arguments: [
            APNsStandIn.Fault.answer(APNsAnswer(status: 503, reason: "ServiceUnavailable")),
            .answer(APNsAnswer(status: 429, reason: "TooManyRequests", retryAfter: .seconds(9))),
            .answer(APNsAnswer(status: 400, reason: "DeviceTokenNotForTopic")),
            .answer(APNsAnswer(status: 403, reason: "InvalidProviderToken")), .reset, .goAway, .cut, .hang, .stall,
            .trickle,
        ])
    func faults(_ fault: APNsStandIn.Fault) async throws {
        try await withDelivery(
            .test {
                if fault.isSilent { $0.timeout = .seconds(2) }
                $0.restBackoff = Backoff(base: .microseconds(1), cap: .microseconds(1))
            }
        ) { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            delivery.apns.set { _ in fault }
            try await delivery.change()
            try await delivery.mark()
            // The time limit may end before the push arrives; then it is sent again.
            var pushes = 0
            while delivery.apns.statistics.received == 0 {
                try await delivery.makeDue()
                _ = try await delivery.service.notify()
                pushes += 1
            }
            #expect(delivery.apns.statistics.accepted == 0)
            #expect(try await delivery.waiting() == 1)
            #expect(try await delivery.store.integer("SELECT changed - sent FROM registration") == 1)
            let missing = pushes - delivery.apns.statistics.received
            delivery.apns.set(nil)
            // Another process does not know about the rest that the service requests.
            try await delivery.makeDue()
            _ = try await delivery.makeService(timeout: Patience.limit).notify()
            #expect((1...max(1, 1 + missing)).contains(delivery.apns.statistics.accepted))
            #expect(try await delivery.waiting() == 0)
        }
    }

    @Test("Nothing is sent to a resting topic, and nothing is lost")
    func rest() async throws {
        let rest = Backoff(base: .seconds(600), cap: .seconds(600))
        try await withDelivery(.test { ($0.restBackoff, $0.policy.backoff) = (rest, rest) }) { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", device: "d2")])
            try await delivery.register("u1", "d1", token: "0101010101010101")
            delivery.apns.set { _ in .answer(APNsAnswer(status: 503)) }
            try await delivery.change()
            try await delivery.deliver()
            try await delivery.register("u1", "d2", token: "0202020202020202")
            try await delivery.change()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.received == 1)
            #expect(try await delivery.waiting() == 2)
        }
    }

    @Test("The devices of a shared timeline are marked in chunks and notified once each")
    func shared() async throws {
        try await withDelivery(.test { $0.chunk = 10 }) { delivery in
            try await delivery.store.place(
                (0..<35).map { .test("w\($0)", user: "u\($0)", device: "d\($0)", kind: "Weather") })
            for index in 0..<35 {
                try await delivery.register(
                    "u\(index)", "d\(index)", token: "00000000000000" + String(hexadecimal: [UInt8(index)]))
            }
            try await delivery.change()
            try await delivery.deliver()
            let counts = delivery.apns.statistics.byToken.values
            #expect(counts.count == 35 && counts.allSatisfy { $0 == 1 })
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery_change") == 0)
        }
    }

    @Test("Another app's change causes no notification")
    func tenants() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1", app: TestKinds.otherApp)])
            try await delivery.register()
            try await delivery.change()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.received == 0)
        }
    }

    @Test("A token that replaces another one during a push gets a push, too")
    func replaced() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register(at: Timestamp(microseconds: 1))
            try await delivery.change()
            try await delivery.mark()
            let device = try await delivery.claim()
            try await delivery.register(token: "0909090909090909", at: Timestamp(microseconds: 2))
            try await delivery.settle(.accepted, device)
            try await delivery.makeDue()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.byToken == ["0909090909090909": 1])
        }
    }

    @Test("A device that registers repeatedly gets no push before its spacing ends")
    func registeredAgain() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register(at: Timestamp(microseconds: 1))
            for time in 2..<6 {
                try await delivery.change(.push)
                try await delivery.deliver()
                try await delivery.register(at: Timestamp(microseconds: Int64(time)))
                try await delivery.deliver()
            }
            #expect(delivery.apns.statistics.accepted == 1)
            #expect(try await delivery.waiting() == 1)
        }
    }
}
