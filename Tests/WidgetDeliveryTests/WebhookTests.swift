// SPDX-License-Identifier: Apache-2.0

import JSON
import NIOCore
import NIOPosix
import PostgresClient
import ReloadWorkers
import SampleProvider
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import WidgetDelivery

@Suite("Webhooks of apps", .timeLimit(.patience))
struct WebhookTests {
    /// Creates a delivery whose first app has a webhook at a stub that answers 200.
    func withWebhook(
        patience: Duration = .seconds(3 * 86_400), batch: Int = 100,
        _ body: (DeliveryHarness, StubProvider) async throws -> Void
    ) async throws {
        try await withStubProvider { backend in
            backend.respond(to: .options) { _ in .body([]) }
            let configuration = DeliveryConfiguration.test { configuration in
                configuration.webhooks = [TestKinds.app: backend.url + ProviderEndpoint.options.path]
                configuration.webhookPatience = patience
                configuration.webhookBatch = batch
                configuration.restBackoff = Backoff(base: .microseconds(1), cap: .microseconds(1))
                configuration.policy.backoff = Backoff(base: .seconds(600), cap: .seconds(86_400))
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

    @Test("The backend gets one signed request with the changed widgets of the devices")
    func request() async throws {
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
            let signature = ProviderClient.signature(
                secrets: [Array(repeating: 7, count: 32)], id: try #require(request.headers["webhook-id"]),
                timestamp: try #require(request.headers["webhook-timestamp"].flatMap { Int64($0) }), body: request.body)
            #expect(request.headers["webhook-signature"] == signature)
            #expect(try await delivery.waiting() == 0)
        }
    }

    @Test("After a failure the devices are sent later, together with later changes")
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

    @Test("A retry keeps its webhook-id; further changes and a replay have another one")
    func ids() async throws {
        try await withWebhook { delivery, backend in
            let since = try #require(try await delivery.store.pool.query(.databaseTime()).first) - .seconds(60)
            backend.respond(to: .options) { _ in .status(500) }
            try await delivery.change()
            try await delivery.deliver()
            try await delivery.makeDue()
            // Once, since the retry after a second failure may be due at once.
            #expect(try await delivery.service.notify())
            try await delivery.change()
            try await delivery.mark()
            backend.respond(to: .options) { _ in .body([]) }
            try await delivery.makeDue()
            try await delivery.deliver()
            #expect(try await delivery.store.store.relistDevices(app: TestKinds.app, notifiedSince: since) == 2)
            try await delivery.deliver()
            let ids = backend.requests(to: .options).compactMap { $0.headers["webhook-id"] }
            #expect(ids.count == 4 && ids[0] == ids[1] && Set(ids).count == 3)
        }
    }

    @Test("A batch that was accepted is settled although the database fails for another one")
    func independent() async throws {
        try await withWebhook(batch: 1) { delivery, backend in
            backend.respond(to: .options) { request in
                String(decoding: request.body, as: UTF8.self).contains(#""d1""#) ? .body([]) : .status(500)
            }
            try await delivery.store.sql(
                """
                CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'no'; END $$;
                CREATE TRIGGER refuse BEFORE INSERT ON webhook FOR EACH ROW EXECUTE FUNCTION refuse()
                """)
            try await delivery.change()
            try await delivery.mark()
            await #expect(throws: PostgresError.self) { try await delivery.service.notify() }
            let sent = "SELECT count(*) FROM registration WHERE sent = changed AND device_id"
            #expect(try await delivery.store.integer("\(sent) = 'd1'") == 1)
            #expect(try await delivery.store.integer("\(sent) = 'd2'") == 0)
        }
    }

    @Test("Devices of a batch are ordered by ID, regardless of the list's order")
    func order() async throws {
        try await withWebhook { delivery, _ in
            try await delivery.change()
            try await delivery.mark()
            let list = try await delivery.store.store.claimDelivery(lease: .seconds(60), except: [])
            let devices = try #require(list).devices
            #expect(devices.count == 2)
            let groups = [devices, devices.reversed()].map { DeliveryGroups($0).webhooks.map { $0.map(\.id) } }
            #expect(groups[0] == groups[1] && groups[0] == [devices.map(\.id).sorted()])
        }
    }

    @Test("A webhook that fails for too long is disabled until it is resumed")
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
            try await delivery.mark()
            try await delivery.makeDue()
            try await delivery.deliver()
            #expect(backend.requests(to: .options).count == asked)

            backend.respond(to: .options) { _ in .body([]) }
            #expect(try await !delivery.store.pool.query(.enableWebhook(app: TestKinds.app)).isEmpty)
            #expect(try await delivery.store.store.relistDevices(app: TestKinds.app, notifiedSince: nil) == 2)
            try await delivery.deliver()
            #expect(backend.requests(to: .options).count == asked + 1)
            #expect(try await delivery.store.integer("SELECT sum(changed - sent) FROM registration") == 0)
        }
    }

    /// Has the backend refuse requests with device d2.
    private func refuseSecond(_ backend: StubProvider) {
        backend.respond(to: .options) { request in
            String(decoding: request.body, as: UTF8.self).contains(#""d2""#) ? .status(500) : .body([])
        }
    }

    @Test("A device that alone is refused waits longer each time")
    func refusedDevice() async throws {
        try await withWebhook(batch: 1) { delivery, backend in
            refuseSecond(backend)
            try await delivery.change()
            try await delivery.mark()
            for round in 1...6 {
                for device in ["d1", "d2"] {
                    try await delivery.store.sql(
                        """
                        UPDATE registration SET changed = changed + 1,
                            listed_at = CASE WHEN device_id = '\(device)' THEN now() ELSE 'infinity' END
                        """)
                    try await delivery.makeDue()
                    try await delivery.deliver()
                }
                let delay = try await delivery.store.integer(
                    "SELECT extract(epoch FROM retry_at - now())::int FROM registration WHERE device_id = 'd2'")
                #expect(delay >= 300 << (round - 1) - 100, "round \(round)")
            }
        }
    }

    @Test("A device that has failed ten times counts as stuck, and others of the request do not")
    func stuck() async throws {
        try await withWebhook { delivery, backend in
            backend.respond(to: .options) { _ in .status(500) }
            try await delivery.change()
            try await delivery.mark()
            try await delivery.store.sql("UPDATE registration SET attempts = 10 WHERE device_id = 'd2'")
            // After a failure one request goes first, and the other waits for its result.
            for _ in 0..<2 {
                try await delivery.makeDue()
                try await delivery.deliver()
            }
            let devices = delivery.metrics.deliveryWebhookDevices
            let stuck = devices.total(["app": TestKinds.app, "outcome": "stuck"])
            #expect(stuck > 0 && stuck < devices.total(["app": TestKinds.app, "outcome": "failed"]))
        }
    }

    @Test("After three failures devices are sent alone, so that one that is refused does not hold up the others")
    func alone() async throws {
        try await withWebhook { delivery, backend in
            refuseSecond(backend)
            try await delivery.change()
            try await delivery.mark()
            // After a failure one request goes first, whichever it is, and the others wait for its result.
            let unsent = "SELECT count(*) FROM registration WHERE changed > sent AND device_id"
            while try await delivery.store.integer("\(unsent) = 'd1'") == 1 {
                try await delivery.makeDue()
                try await delivery.deliver()
            }
            let bodies = backend.requests(to: .options).map { String(decoding: $0.body, as: UTF8.self) }
            #expect(bodies.count { $0.contains(#""d1""#) && $0.contains(#""d2""#) } == 3)
            #expect(bodies.count { $0.contains(#""d1""#) } == 4)
            #expect(try await delivery.store.integer("\(unsent) = 'd2'") == 1)
            #expect(try await delivery.waiting() == 1)
        }
    }

    @Test("A webhook that fails for all of its devices is disabled, and its devices keep their changes")
    func outage() async throws {
        try await withWebhook { delivery, backend in
            backend.respond(to: .options) { _ in .status(500) }
            try await delivery.change()
            try await delivery.deliver()
            try await delivery.store.sql(
                """
                UPDATE registration SET changed_at = now() - interval '73 hours';
                UPDATE webhook SET failing_since = now() - interval '73 hours' + interval '2 s'
                """)
            try await delivery.makeDue()
            try await delivery.deliver()
            #expect(try await delivery.store.pool.query(.failingWebhooks()).first?.disabledAt != nil)
            #expect(try await delivery.store.integer("SELECT count(*) FROM registration WHERE changed > sent") == 2)
        }
    }

    @Test("Two failures with nothing sent in between are not a period of failures")
    func pause() async throws {
        try await withWebhook { delivery, backend in
            backend.respond(to: .options) { _ in .status(500) }
            try await delivery.change()
            try await delivery.deliver()
            try await delivery.store.sql(
                "UPDATE webhook SET failing_since = now() - interval '90 hours', failed_at = now() - interval '80 hours'"
            )
            try await delivery.makeDue()
            try await delivery.deliver()
            let webhook = try #require(try await delivery.store.pool.query(.failingWebhooks()).first)
            #expect(webhook.disabledAt == nil && webhook.failingSince > Timestamp.now() - .seconds(3_600))
        }
    }

    @Test("A replay sends all widgets of exactly the devices that were notified since a given time")
    func replay() async throws {
        try await withWebhook { delivery, backend in
            try await delivery.store.place([.test("w5", user: "u9", device: "d9")])
            try await delivery.register("u9", "d9")
            try await delivery.change()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 1)
            try await delivery.record("w1", "w2", "w3")
            try await delivery.store.sql(
                "UPDATE registration SET sent_at = now() - interval '1 hour' WHERE device_id = 'd2'")
            let since = try #require(try await delivery.store.pool.query(.databaseTime()).first) - .seconds(1_800)
            #expect(try await delivery.store.store.relistDevices(app: TestKinds.app, notifiedSince: since) == 1)
            try await delivery.deliver()
            let last = try #require(backend.requests(to: .options).last)
            let devices = try JSONValue.parse(last.body)["devices"]?.arrayValue ?? []
            #expect(devices.compactMap { $0["device"]?.stringValue } == ["d1"])
            #expect(devices.first?["widgets"]?.arrayValue?.count == 2)
            #expect(backend.requests(to: .options).count == 2)
            // Devices with a token are not reported to the backend, and a replay is not a change.
            #expect(delivery.apns.statistics.accepted == 1)
            #expect(try await delivery.store.integer("SELECT sum(changes) FROM delivery_statistics") == 4)
        }
    }

    @Test("A replay is paced: lists of 500 devices follow one another")
    func pacedReplay() async throws {
        try await withDelivery { delivery in
            try await delivery.store.sql(
                """
                INSERT INTO registration (app_id, user_id, device_id, registered_at, channel, changed, sent, sent_at)
                SELECT 1, 'u' || n, 'd', now(), 2, 1, 1, now() FROM generate_series(1, 1200) n
                """)
            let replayed = try await delivery.store.store.relistDevices(
                app: TestKinds.app, notifiedSince: .distantPast, every: .seconds(600))
            #expect(replayed == 1_200)
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery") == 3)
            #expect(try await delivery.store.integer("SELECT count(*) FROM delivery WHERE ready_at > now()") == 2)
            #expect(
                try await delivery.store.integer(
                    "SELECT count(*) FROM delivery WHERE ready_at > now() + interval '1000 s'") == 1)
        }
    }

    @Test("A backend that hangs does not delay another app's devices")
    func hangingBackend() async throws {
        try await withStallingServer { url in
            let configuration = DeliveryConfiguration.test {
                $0.webhooks = [TestKinds.otherApp: url]
                $0.timeout = .seconds(600)
                $0.lease = .seconds(1_200)
                $0.pollInterval = .milliseconds(10)
            }
            try await withDelivery(configuration) { delivery in
                try await delivery.store.place([.test("mine")])
                try await delivery.register()
                try await delivery.store.sql(
                    """
                    INSERT INTO registration (app_id, user_id, device_id, registered_at, channel, changed, listed_at,
                        replays)
                    SELECT 2, 'u' || n, 'd', now(), 2, 1, now() - interval '1 hour', true FROM generate_series(1, 50) n;
                    INSERT INTO delivery (app_id, due_at, ready_at, registrations)
                    SELECT 2, listed_at, listed_at, ARRAY[id] FROM registration WHERE app_id = 2
                    """)
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask { try await delivery.service.run() }
                    try await eventually("half of the lists hang") {
                        try await delivery.store.integer("SELECT count(*) FROM delivery WHERE lease IS NOT NULL") >= 8
                    }
                    try await delivery.change()
                    try await eventually("the other app's device is notified") {
                        delivery.apns.statistics.accepted == 1
                    }
                    #expect(
                        try await delivery.store.integer(
                            "SELECT count(*) FROM delivery WHERE app_id = 2 AND lease IS NOT NULL") == 8)
                    group.cancelAll()
                }
            }
        }
    }

    @Test("A success ends the period of failures, also in a process that has seen none")
    func recovered() async throws {
        try await withWebhook(patience: .seconds(60)) { delivery, backend in
            try await delivery.store.sql(
                """
                INSERT INTO webhook (app_id, failing_since, failed_at, error)
                VALUES (1, now() - interval '1 day', now(), 'answered with 500')
                """)
            try await delivery.change()
            try await delivery.deliver()
            #expect(try await delivery.store.integer("SELECT count(*) FROM webhook") == 0)
            backend.respond(to: .options) { _ in .status(500) }
            try await delivery.change()
            try await delivery.deliver()
            #expect(try await delivery.store.pool.query(.failingWebhooks()).map(\.disabledAt) == [nil])
        }
    }

    @Test("An answer that exceeds the time limit is a failure")
    func stalled() async throws {
        try await withStallingServer { url in
            let configuration = DeliveryConfiguration.test {
                $0.webhooks = [TestKinds.app: url]
                $0.timeout = .milliseconds(300)
            }
            try await withDelivery(configuration) { delivery in
                try await delivery.store.place([.test("w1")])
                try await delivery.write(
                    RegistrationWrite(
                        appID: 1, user: "u1", device: "d1", time: Timestamp(microseconds: 1),
                        isOrderedByArrival: false, channel: .webhook))
                try await delivery.change()
                try await delivery.mark()
                #expect(try await delivery.service.notify())
                #expect(try await delivery.store.integer("SELECT count(*) FROM webhook") == 1)
                #expect(try await delivery.waiting() == 1)
            }
        }
    }
}
