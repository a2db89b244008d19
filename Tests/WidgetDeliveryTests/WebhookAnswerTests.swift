// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
import PostgresClient
import ReloadWorkers
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

extension WebhookTests {
    @Test("A request that a proxy has not taken is sent again, and is no failure")
    func notTaken() async throws {
        let known = try await withStore { try await $0.directory() }
        let app = try #require(known.apps[TestKinds.app])
        try await withGoAwayServer(requestsPerConnection: 1) { _ in
            Array("{}".utf8)
        } _: { server in
            let egress = EgressGuard(try EgressPolicy(allowing: ["127.0.0.1", "localhost", "::1"]))
            var limits = ConnectionLimits(connectTimeout: Patience.limit, readTimeout: Patience.limit)
            try TestCertificates.withAuthorityFile { try limits.trust(roots: $0) }
            let http = HTTPClient(
                eventLoopGroupProvider: .singleton,
                configuration: ProviderClient.configuration(egress: egress, limits: limits))
            let webhook = WebhookClient(http: http, egress: egress, timeout: Patience.limit)
            let url = server.url + "/webhook"
            let answers = try await withThrowingTaskGroup(of: WebhookClient.Answer.self) { group in
                for _ in 0..<8 { group.addTask { try await webhook.send([], to: url, of: app) } }
                return try await group.reduce(into: []) { $0.append($1) }
            }
            try await http.shutdown()
            #expect(answers.map(\.status) == Array(repeating: 200, count: 8) && answers.allSatisfy(\.isAccepted))
            #expect(server.refused.count > 0 && server.answered.count == 8)
        }
    }

    @Test("A webhook that answers 410 is disabled at once, until it is resumed")
    func gone() async throws {
        try await withWebhook { delivery, backend in
            backend.respond(to: .options) { _ in .status(410) }
            try await delivery.change()
            try await delivery.deliver()
            let failing = try await delivery.store.pool.query(.failingWebhooks())
            #expect(failing.count == 1 && failing[0].disabledAt != nil && failing[0].error.contains("410"))
            #expect(
                backend.requests(to: .options).count == 1
                    && delivery.metrics.deliveryWebhookDevices.total(["outcome": "accepted"]) == 0)
            #expect(try await delivery.waiting() == 0)
            backend.respond(to: .options) { _ in .body([]) }
            #expect(try await !delivery.store.pool.query(.enableWebhook(app: TestKinds.app)).isEmpty)
            #expect(try await delivery.store.store.relistDevices(app: TestKinds.app, notifiedSince: nil) == 2)
            try await delivery.deliver()
            #expect(backend.requests(to: .options).count == 2)
        }
    }

    @Test("A webhook that has failed and then answers 410 is disabled")
    func goneLater() async throws {
        let disabled = "SELECT count(*) FROM webhook WHERE disabled_at IS NOT NULL"
        try await withWebhook { delivery, backend in
            for status in [500, 410] {
                #expect(try await delivery.store.integer(disabled) == 0)
                backend.respond(to: .options) { _ in .status(status) }
                try await delivery.change()
                try await delivery.makeDue()
                try await delivery.deliver()
            }
            #expect(try await delivery.store.integer(disabled) == 1)
        }
    }
}
