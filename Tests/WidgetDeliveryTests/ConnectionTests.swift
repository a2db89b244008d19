// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import NIOCore
import NIOHTTP1
import ReloadWorkers
import SampleProvider
import Synchronization
import TestSupport
import Testing
import Waiting
import WidgetModel

@testable import WidgetDelivery

@Suite("Connections to Apple's service", .timeLimit(.patience))
struct ConnectionTests {
    private static let devices = 450

    private func place(_ delivery: DeliveryHarness) async throws {
        try await delivery.store.place(
            (0..<Self.devices).map { .test("w\($0)", user: "u\($0)", device: "d\($0)", kind: "Weather") })
        for index in 0..<Self.devices {
            try await delivery.register("u\(index)", "d\(index)", token: String(1_000_000 + index) + "000000000")
        }
        try await delivery.change()
        try await delivery.mark()
    }

    @Test("A server that resets streams without an error after their answers gets each push once, on one connection")
    func answeredStreams() async throws {
        try await withDelivery { delivery in
            delivery.apns.resetAnswered()
            try await place(delivery)
            while try await delivery.service.notify() {}
            let statistics = delivery.apns.statistics
            #expect(statistics.byToken.count == Self.devices && statistics.byToken.values.allSatisfy { $0 == 1 })
            #expect(statistics.connections == 1 && delivery.metrics.deliveryPushes.total(["effect": "unanswered"]) == 0)
            #expect(try await delivery.waiting() == 0)
        }
    }

    @Test("A connection on which too many pushes were reset is left, and the pushes go over a new one")
    func resets() async throws {
        let none = Backoff(base: .microseconds(1), cap: .microseconds(1))
        try await withDelivery(.test { $0.restBackoff = none }) { delivery in
            let resets = Mutex(0)
            delivery.apns.set { _ in
                resets.withLock { resets in
                    resets += 1
                    return resets <= 300 ? .reset : nil
                }
            }
            try await place(delivery)
            try await eventually("every device is notified") {
                try await delivery.makeDue()
                while try await delivery.service.notify() {}
                return try await delivery.waiting() == 0
            }
            #expect(delivery.apns.statistics.connections >= 2)
        }
    }

    @Test("A provider's connection on which too many requests were reset is left, too")
    func resetsOfProvider() async throws {
        try await withDelivery { delivery in
            delivery.apns.set { _ in .reset }
            let egress = EgressGuard(try EgressPolicy(allowing: ["127.0.0.0/8", "::1", "localhost"]))
            var configuration = ProviderClient.configuration(egress: egress, limits: try delivery.connectionLimits())
            configuration.httpVersion = .automatic
            let http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            let account = try delivery.accounts([
                TestKinds.app: try #require(delivery.configuration.apnsKeys.values.first)
            ])
            let token = try await #require(account[TestKinds.app]).token.text()
            let client = APNsClient(accounts: account, urls: delivery.configuration.apnsURLs, timeout: Patience.limit)
            let address = APNsAddress(token: [1, 2], environment: .production, topic: DeliveryHarness.topic)
            let push = APNsPush(app: TestKinds.app, address: address, isUrgent: true)
            for _ in 0..<300 {
                await #expect(throws: (any Error).self) {
                    try await http.exchange(client.request(push, token), timeout: Patience.limit, upTo: 4_096)
                }
            }
            #expect(delivery.apns.statistics.connections >= 2)
            try await http.shutdown()
        }
    }

    @Test("A push whose stream the server resets is sent once, since the server may have taken it")
    func resetOnce() async throws {
        try await withDelivery { delivery in
            let taken = Mutex(0)
            delivery.apns.set { _ in
                taken.withLock { $0 += 1 }
                return .reset
            }
            try await delivery.store.place([.test("w1", user: "u1", device: "d1", kind: "Weather")])
            try await delivery.register("u1", "d1", token: "1000001000000000")
            try await delivery.change()
            try await delivery.mark()
            while try await delivery.service.notify() {}
            #expect(taken.withLock { $0 } == 1 && delivery.metrics.deliveryPushes.total(["effect": "unanswered"]) == 1)
        }
    }

    @Test("A connection whose other end is gone is closed after the time limit of an answer")
    func deadConnection() async throws {
        try await withDelivery { delivery in
            var limits = try delivery.connectionLimits()
            limits.readTimeout = .seconds(7)
            var configuration = APNsAccounts.configuration(trusting: limits)
            let initializer = try #require(configuration.http2ConnectionDebugInitializer)
            let limit = Mutex<Int?>(nil)
            configuration.http2ConnectionDebugInitializer = { channel in
                initializer(channel).flatMap {
                    channel.getOption(.tcpOption(APNsAccounts.tcpUserTimeout))
                }.map { value in limit.withLock { $0 = value } }
            }
            let http = HTTPClient(eventLoopGroupProvider: .singleton, configuration: configuration)
            do {
                let request = HTTPClientRequest(url: delivery.apns.url)
                let answer = try await http.exchange(request, timeout: Patience.limit, upTo: 4_096)
                #expect(answer.response.status == .methodNotAllowed)
            } catch {
                try await http.shutdown()
                throw error
            }
            try await http.shutdown()
            #expect(limit.withLock { $0 } == 7_000)
        }
    }
}
