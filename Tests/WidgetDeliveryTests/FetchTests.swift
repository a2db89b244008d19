// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import SampleProvider
import TestSupport
import Testing
import WidgetModel

@testable import WidgetDelivery
@testable import WidgetStore

@Suite("Acknowledgement by pull", .timeLimit(.patience))
struct FetchTests {
    private func totals(
        _ delivery: DeliveryHarness, objectives: FreshnessObjectives = FreshnessObjectives(general: .seconds(30))
    ) async throws -> [DeliveryTotals] {
        try await delivery.store.pool.query(
            .deliveryTotals(of: (1...9).map { Int32($0) }, hours: 1, objectives: objectives))
    }

    /// Moves all recorded times into the past.
    private func age(_ delivery: DeliveryHarness, by interval: String) async throws {
        try await delivery.store.sql(
            """
            UPDATE delivery_statistics SET bucket = bucket - interval '\(interval)';
            UPDATE registration SET recorded_at = recorded_at - interval '\(interval)',
                sent_at = sent_at - interval '\(interval)', first_sent_at = first_sent_at - interval '\(interval)',
                fetched_at = fetched_at - interval '\(interval)',
                stale_since = ARRAY(SELECT s - interval '\(interval)' FROM unnest(stale_since) WITH ORDINALITY x (s, n) ORDER BY n);
            UPDATE timeline SET stored_at = stored_at - interval '\(interval)'
            """)
    }

    private func revision(_ delivery: DeliveryHarness) async throws -> Int64 {
        Int64(try await delivery.store.integer("SELECT max(content_revision) FROM timeline"))
    }

    private func registration(_ delivery: DeliveryHarness) async throws -> Registration {
        try #require(try await delivery.store.pool.query(.listRegistrations(app: TestKinds.app, user: "u1")).first)
    }

    private static let hour = FreshnessObjectives(general: .seconds(3_600))

    /// A fetch of one of two changed widgets, 2,500 s after the change and 1,500 s after the push.
    private func withLateFetch(_ body: (DeliveryHarness) async throws -> Void) async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.deliver()
            try await delivery.store.sql(
                """
                UPDATE registration SET sent_at = now() - interval '1500 seconds',
                    first_sent_at = now() - interval '1500 seconds',
                    stale_since = ARRAY(SELECT now() - interval '2500 seconds' FROM unnest(stale_since))
                """)
            #expect(try await delivery.record("w1", objectives: Self.hour).isEmpty)
            try await body(delivery)
        }
    }

    @Test("A fetch is counted for its kind with its latency since the change and since the push")
    func latencies() async throws {
        try await withLateFetch { delivery in
            let totals = try await totals(delivery, objectives: Self.hour)
            #expect(totals.map(\.changes).reduce(0, +) == 2)
            let fetched = try #require(totals.first { $0.fetched == 1 })
            #expect(fetched.late == 0 && fetched.missed == 0)
            let (sinceChange, sincePush) = (
                DeliveryTotals.quantile(0.5, of: fetched.latencies),
                DeliveryTotals.quantile(0.5, of: fetched.pushLatencies)
            )
            // Within a power of two of milliseconds.
            #expect(try #require(sinceChange) > .seconds(2_097) && #require(sinceChange) < .seconds(4_195))
            #expect(try #require(sincePush) > .seconds(1_048) && #require(sincePush) < .seconds(2_098))
            let other = try #require(totals.first { $0.fetched == 0 })
            #expect(other.notFetched == 1)
        }
    }

    @Test("A fetch answers the device's push, and the device has its latency since the push by kind")
    func deviceLatency() async throws {
        try await withLateFetch { delivery in
            let device = try await registration(delivery)
            #expect(device.pushes == 1 && device.answeredPushes == 1)
            #expect(try #require(device.pushLatency(0.99)) >= .seconds(1_500))
            #expect(device.pushLatencies.map(\.kind) == ["Purchases"])
        }
    }

    @Test("Changes count as missed once, when they are older than the objective, even if they are fetched later")
    func missed() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.deliver()
            let objectives = FreshnessObjectives(general: .seconds(600))
            let young = try #require(try await totals(delivery, objectives: objectives).first)
            #expect(young.changes == 1 && young.due == 0 && young.missed == 0 && young.attained == nil)
            try await age(delivery, by: "20 minutes")
            let old = try #require(try await totals(delivery, objectives: objectives).first)
            #expect(old.due == 1 && old.missed == 1 && old.attained == 0)
            let lenient = try await totals(delivery, objectives: FreshnessObjectives(general: .seconds(3_600)))
            #expect(lenient.first?.due == 0)
            try await delivery.record("w1", objectives: objectives)
            let fetched = try #require(try await totals(delivery, objectives: objectives).first)
            #expect(fetched.changes == 1 && fetched.fetched == 1 && fetched.late == 1 && fetched.missed == 1)
            try await age(delivery, by: "50 minutes")
            #expect(try await totals(delivery).isEmpty)
        }
    }

    @Test("Of a kind that changes more than once a minute, a change is fetched when it is first served")
    func fast() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.deliver()
            let first = try await revision(delivery)
            try await age(delivery, by: "60 seconds")
            try await delivery.change()
            try await delivery.deliver()
            let second = try await revision(delivery)
            // The first change is 1800 s old and the newest 1000 s; the device fetched them after 100 s and 200 s.
            try await delivery.store.sql(
                """
                UPDATE registration SET stale_since = ARRAY[now() - interval '1800 seconds'],
                    first_sent_at = now() - interval '1800 seconds', sent_at = now() - interval '1000 seconds';
                UPDATE timeline SET stored_at = now() - interval '1000 seconds'
                """)
            let served = [(first, 1_700), (second, 800)].map { revision, seconds in
                ServedContent(app: TestKinds.app, widget: "w1", revision: revision, age: .seconds(seconds))
            }
            let objectives = FreshnessObjectives(general: .seconds(600))
            #expect(try await delivery.store.store.recordFetches(served, objectives: objectives).isEmpty)
            let totals = try #require(try await totals(delivery).first)
            #expect(totals.changes == 2 && totals.fetched == 2 && totals.late == 0)
            #expect(try #require(DeliveryTotals.quantile(0.99, of: totals.latencies)) < .seconds(525))
            #expect(try #require(DeliveryTotals.quantile(0.01, of: totals.pushLatencies)) < .seconds(525))
            #expect(try await delivery.store.integer("SELECT cardinality(stale_timelines) FROM registration") == 0)
        }
    }

    @Test(
        "Where the content has changed since a fetch, the earlier change is fetched and the newest leaves the timeline stale"
    )
    func changedSince() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.mark()
            let first = try await revision(delivery)
            try await delivery.change()
            try await delivery.mark()
            try await delivery.record("w1", revision: first)
            let totals = try #require(try await totals(delivery).first)
            #expect(totals.changes == 2 && totals.fetched == 1)
            #expect(
                try await delivery.store.integer("SELECT stale_revisions[1] FROM registration") == revision(delivery))
            try await age(delivery, by: "61 seconds")
            try await delivery.record("w1")
            #expect(try await self.totals(delivery).first?.fetched == 2)
        }
    }

    @Test("A change that is fetched before its device is marked counts once")
    func fetchedBeforeMark() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.mark()
            try await delivery.record("w1")
            try await age(delivery, by: "61 seconds")
            try await delivery.change()
            try await delivery.record("w1")
            try await delivery.mark()
            let totals = try #require(try await totals(delivery).first)
            #expect(totals.changes == 2 && totals.fetched == 2)
        }
    }

    @Test("A device's fetches are written once a minute; those in between are answered as not recorded")
    func once() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([
                .test("w1"), .test("w2", kind: "DueDate"), .test("w3", user: "u2", device: "d2"),
            ])
            try await delivery.register()
            try await delivery.change()
            try await delivery.deliver()
            #expect(try await delivery.record("w1", "w3").isEmpty)
            #expect(
                try await delivery.store.integer("SELECT count(*) FROM registration WHERE fetched_at IS NOT NULL") == 1)
            #expect(try await delivery.record("w2") == [0])
            try await delivery.store.sql("UPDATE registration SET recorded_at = now() - interval '61 seconds'")
            #expect(try await delivery.record("w1", "w2").isEmpty)
            #expect(try await delivery.store.integer("SELECT cardinality(fetched_timelines) FROM registration") == 2)
            #expect(try await delivery.store.integer("SELECT cardinality(stale_timelines) FROM registration") == 0)
            #expect(try await totals(delivery).map(\.fetched) == [1, 1])
        }
    }

    @Test("G: a device that fetched after the change gets no push, also when it had fetched seconds before")
    func sparedSoonAfter() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            #expect(try await delivery.record("w1").isEmpty)
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 0)
            try await delivery.change()
            #expect(try await delivery.record("w1").isEmpty, "it spares the push, so it does not wait for the minute")
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 0)
            // Without a fetch there is one.
            try await delivery.change()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 1)
        }
    }

    @Test("Changes before the fetch count as one, and content that has changed meanwhile stays stale")
    func gathered() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            for _ in 0..<3 {
                try await delivery.change()
                try await delivery.mark()
            }
            #expect(try await totals(delivery).map(\.changes) == [1])
            try await delivery.record("w1", revision: 0)
            #expect(try await totals(delivery).map(\.fetched) == [0])
            #expect(try await delivery.store.integer("SELECT cardinality(stale_timelines) FROM registration") == 1)
        }
    }

    @Test("A change that is marked while the fetch of older content is being recorded stays stale")
    func changedMeanwhile() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.mark()
            let old = Int64(try await delivery.store.integer("SELECT max(content_revision) FROM timeline"))
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await delivery.store.pool.withTransaction { connection in
                    try await connection.simple(
                        """
                        UPDATE timeline SET content_revision = nextval('token'), stored_at = now();
                        UPDATE registration SET changed = changed + 1
                        """)
                    group.addTask { try await delivery.record("w1", revision: old) }
                    try await delivery.store.waitUntilBlocked()
                }
                try await group.waitForAll()
            }
            #expect(try await totals(delivery).map(\.fetched).reduce(0, +) == 1)
            #expect(try await delivery.store.integer("SELECT cardinality(stale_timelines) FROM registration") == 1)
        }
    }

    @Test("A kind's own objective replaces the general one")
    func objectives() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.mark()
            try await delivery.store.sql(
                "UPDATE registration SET stale_since = ARRAY(SELECT now() - interval '40 s' FROM unnest(stale_since))")
            let due = try await delivery.store.integer("SELECT id FROM kind WHERE name = 'DueDate' AND app_id = 1")
            let objectives = FreshnessObjectives(general: .seconds(30), byKind: [Int32(due): .seconds(3_600)])
            try await delivery.record("w1", "w2", objectives: objectives)
            for totals in try await totals(delivery) { #expect(totals.late == (totals.kindID == due ? 0 : 1)) }
        }
    }

    @Test("Nothing is recorded for another app's widget of the same id")
    func tenants() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1")])
            try await delivery.register()
            try await delivery.change()
            try await delivery.record("w1", app: TestKinds.otherApp)
            #expect(
                try await delivery.store.integer("SELECT count(*) FROM registration WHERE fetched_at IS NOT NULL") == 0)
        }
    }

    @Test("A device without a fetch after its push counts as silent after the time limit")
    func silent() async throws {
        try await withDelivery { delivery in
            try await delivery.store.place([.test("w1"), .test("w2", device: "d2")])
            try await delivery.register("u1", "d1", token: "0101010101010101")
            try await delivery.register("u1", "d2", token: "0202020202020202")
            try await delivery.change()
            try await delivery.deliver()
            try await delivery.record("w1")
            try await delivery.store.sql(
                """
                UPDATE registration SET sent_at = sent_at - interval '1 hour',
                    first_sent_at = first_sent_at - interval '1 hour', fetched_at = fetched_at - interval '1 hour',
                    recorded_at = NULL
                """)
            // A further push does not make a silent device one that was notified only now.
            try await delivery.change()
            try await delivery.deliver()
            #expect(delivery.apns.statistics.accepted == 4)
            let totals = try await delivery.store.pool.query(.deviceTotals(silentFor: .seconds(1_800))).first
            #expect(totals == DeviceTotals(devices: 2, waiting: 0, silent: 1))
            try await delivery.record("w2")
            let after = try await delivery.store.pool.query(.deviceTotals(silentFor: .seconds(1_800))).first
            #expect(after == DeviceTotals(devices: 2, waiting: 0, silent: 0))
        }
    }
}
