import PostgresClient
import ReloadWorkers
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Webhooks of apps", .timeLimit(.patience))
struct WebhookTests {
    /// A delivery whose first app has a webhook, at an address of the stub that answers 200.
    private func withWebhook(
        patience: Duration = .seconds(3 * 86_400), _ body: (DeliveryHarness, StubProvider) async throws -> Void
    ) async throws {
        try await withStubProvider { backend in
            backend.respond(to: .options) { _ in .body([]) }
            let configuration = DeliveryConfiguration.test { configuration in
                configuration.webhooks = [TestKinds.app: backend.url + ProviderEndpoint.options.path]
                configuration.webhookPatience = patience
                configuration.restBackoff = Backoff(base: .microseconds(1), cap: .microseconds(1))
            }
            try await withDelivery(configuration) { delivery in
                try await delivery.store.place([
                    .test("w1"), .test("w2", kind: "DueDate"), .test("w3", user: "u2", device: "d2"),
                    .test("w4", user: "u3", device: "d3"),
                ])
                for (user, device) in [("u1", "d1"), ("u2", "d2")] {
                    try await delivery.write(
                        RegistrationWrite(
                            appID: 1, user: user, device: device, time: Timestamp(microseconds: 1),
                            isOrderedByArrival: false, channel: .webhook))
                }
                try await body(delivery, backend)
            }
        }
    }

    @Test("The backend is told, in one signed request, which widgets of which devices have changed")
    func told() async throws {
        try await withWebhook { delivery, backend in
            try await delivery.change()
            try await delivery.deliver()
            let requests = backend.requests(to: .options)
            let request = try #require(requests.first)
            #expect(requests.count == 1)
            let document = try JSONValue.parse(request.body)
            #expect(document["app"] == .string(TestKinds.app))
            let devices = try #require(document["devices"]?.arrayValue)
            #expect(Set(devices.compactMap { $0["device"]?.stringValue }) == ["d1", "d2"])
            let first = try #require(devices.first { $0["user"] == "u1" })
            let widgets = try #require(first["widgets"]?.arrayValue)
            #expect(widgets.compactMap { $0["widget"]?.stringValue } == ["w1", "w2"])
            #expect(widgets.first?["kind"] == "Purchases" && (widgets.first?["revision"]?.numberValue?.int64 ?? 0) > 0)
            let signature = WebhookSignature(secret: Array(repeating: 7, count: 32)).sign(
                id: try #require(request.headers["webhook-id"]),
                timestamp: try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) }), body: request.body)
            #expect(request.headers["webhook-signature"] == signature)
            #expect(try await delivery.waiting() == 0)
        }
    }

    @Test("After a failure the devices are told later, together with what has changed meanwhile")
    func failure() async throws {
        try await withWebhook { delivery, backend in
            backend.respond(to: .options) { _ in .status(500) }
            try await delivery.change()
            try await delivery.deliver()
            #expect(try await delivery.waiting() == 2)
            #expect(try await delivery.store.pool.query(.failingWebhooks()).first?.disabledAt == nil)
            #expect(try await delivery.store.integer("SELECT count(*) FROM webhook") == 1)
            try await delivery.change()
            backend.respond(to: .options) { _ in .body([]) }
            try await delivery.makeDue()
            try await delivery.deliver()
            #expect(backend.requests(to: .options).count == 2)
            #expect(try await delivery.waiting() == 0)
            #expect(try await delivery.store.integer("SELECT count(*) FROM webhook") == 0)
        }
    }

    @Test("One that fails for too long is disabled, until it is resumed")
    func disabled() async throws {
        try await withWebhook(patience: .zero) { delivery, backend in
            backend.respond(to: .options) { _ in .status(500) }
            for _ in 0..<2 {
                try await delivery.change()
                try await delivery.makeDue()
                try await delivery.deliver()
            }
            #expect(try await delivery.store.pool.query(.failingWebhooks()).first?.disabledAt != nil)
            #expect(try await delivery.waiting() == 0)
            let asked = backend.requests(to: .options).count
            try await delivery.change()
            while try await delivery.service.mark() {}
            try await delivery.makeDue()
            try await delivery.deliver()
            #expect(backend.requests(to: .options).count == asked)

            backend.respond(to: .options) { _ in .body([]) }
            #expect(try await !delivery.store.pool.query(.enableWebhook(app: TestKinds.app)).isEmpty)
            #expect(try await delivery.store.store.relistDevices(app: TestKinds.app, toldSince: nil) == 2)
            try await delivery.deliver()
            #expect(backend.requests(to: .options).count == asked + 1)
            #expect(try await delivery.store.integer("SELECT sum(changed - sent) FROM registration") == 0)
        }
    }

    @Test("A replay tells devices again that were told since a time, and no others")
    func replay() async throws {
        try await withWebhook { delivery, backend in
            try await delivery.change()
            try await delivery.deliver()
            try await delivery.store.sql(
                "UPDATE registration SET sent_at = now() - interval '1 hour' WHERE device_id = 'd2'")
            let since = try #require(try await delivery.store.pool.query(.databaseTime()).first) - .seconds(60)
            #expect(try await delivery.store.store.relistDevices(app: TestKinds.app, toldSince: since) == 1)
            try await delivery.deliver()
            let last = try #require(backend.requests(to: .options).last)
            let devices = try JSONValue.parse(last.body)["devices"]?.arrayValue ?? []
            #expect(devices.compactMap { $0["device"]?.stringValue } == ["d1"])
            #expect(backend.requests(to: .options).count == 2)
        }
    }
}
