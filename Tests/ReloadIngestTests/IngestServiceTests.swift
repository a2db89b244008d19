// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Ingest applies Kafka's messages", .timeLimit(.patience))
struct IngestServiceTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)

    @Test("Widget events, pushes, app changes and views take effect")
    func everySort() async throws {
        try await IngestHarness.lend { ingest in
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish(
                    [
                        .placed(.test("w1", user: "u1")), .placed(.test("w2", user: "u2", kind: "DueDate")),
                        .placed(.test("w3", user: "u3", kind: "Weather", configuration: #"{"city":"Oslo"}"#)),
                    ], at: at)
                try await ingest.waitUntilApplied(3)
                try await ingest.store.settle()
                try await ingest.publish([ingest.push("u1"), ingest.push("u1"), ingest.push("nobody")])
                try await ingest.publish([
                    .reload(
                        ReloadRequest(app: TestKinds.app, audience: .user("u2"), kinds: .all, reason: .foreground))
                ])
                try await ingest.publish(
                    [.viewed(app: TestKinds.app, widget: "w1"), .viewed(app: TestKinds.app, widget: "w1")],
                    at: at + .seconds(60), key: "u1")
                try await ingest.waitUntilApplied(9)
            }
            let values = [
                ("requested", "w1", 3), ("requested", "w2", 2), ("requested", "w3", 1),
                ("listed_lane", "w1", Int(ReloadLane.push.rawValue)),
                ("listed_lane", "w2", Int(ReloadLane.interactive.rawValue)), ("cause_topic", "w1", 0),
                ("(t.user_id IS NULL)::int", "w3", 1), ("extract(epoch FROM viewed_at)::int8", "w1", 1_700_000_060),
                // Further views within an hour of a counted view do not count; the two may be in one batch or in two.
                ("views", "w1", 1),
            ]
            for (column, widget, value) in values {
                let stored = try await ingest.store.integer(
                    "SELECT \(column) FROM widget w JOIN timeline t ON t.id = w.timeline_id WHERE w.id = '\(widget)'")
                #expect(stored == value, "\(column) of \(widget)")
            }
            #expect(try await ingest.store.unappointed() == 0)
            #expect(service.metrics.ingestEvents.total(["outcome": "applied"]) == 9)
            #expect(service.metrics.ingestDeadLetters.total() == 0)
        }
    }

    @Test("Events in structured mode are accepted")
    func structured() async throws {
        try await IngestHarness.lend { ingest in
            _ = try await ingest.store.place([.test("w1", user: "u1")])
            try await ingest.store.settle()
            let value = ingest.push("u1").structured(id: "1", source: "/tests", time: nil)
            _ = try await ingest.producer.send(
                KafkaMessage(
                    topic: ingest.configuration.topics.pushes, key: Array("u1".utf8), value: value,
                    headers: [KafkaHeader(name: "content-type", value: "application/cloudevents+json; charset=utf-8")]))
            try await ingest.running([ingest.service()]) { try await ingest.waitUntilApplied(1) }
            #expect(try await ingest.store.integer("SELECT max(requested) FROM timeline") == 2)
        }
    }

    @Test("A widget that is placed, configured, moved and removed leaves a tombstone and no visible timeline")
    func lifecycle() async throws {
        try await IngestHarness.lend(partitions: 1) { ingest in
            let globex = try WidgetConfiguration(json: Array(#"{"card":"globex"}"#.utf8))
            let sydney = WidgetEnvironment(storedLocale: "en-AU", timeZone: "Australia/Sydney")
            let service = ingest.service()
            try await ingest.running([service]) {
                try await ingest.publish([.placed(.test("w1", configuration: #"{"card":"acme"}"#))], at: at)
                try await ingest.waitUntilApplied(1)
                let first = try await ingest.store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned")
                #expect(first == 1)
                try await ingest.publish(
                    [.configured(app: TestKinds.app, widget: "w1", configuration: globex)], at: at + .seconds(1))
                try await ingest.waitUntilApplied(2)
                try await ingest.publish(
                    [
                        .environmentChanged(
                            app: TestKinds.app, device: "d1", environment: sydney, significantTimeChange: false)
                    ], at: at + .seconds(2))
                try await ingest.waitUntilApplied(3)
                #expect(
                    try await ingest.store.integer(
                        """
                        SELECT count(*) FROM widget w JOIN timeline t ON t.id = w.timeline_id
                        WHERE t.configuration = '{"card":"globex"}' AND w.time_zone = 'Australia/Sydney'
                        """) == 1)
                #expect(try await ingest.store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 2)
                #expect(try await ingest.store.integer("SELECT count(*) FROM timeline") == 3)
                // An older event that arrives late changes nothing.
                try await ingest.publish([.placed(.test("w1", configuration: "{}"))], at: at)
                try await ingest.publish([.removed(app: TestKinds.app, widget: "w1")], at: at + .seconds(3))
                try await ingest.waitUntilApplied(5)
            }
            #expect(try await ingest.store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 0)
            #expect(try await ingest.store.integer("SELECT count(*) FROM widget") == 1)
            #expect(try await ingest.store.integer("SELECT count(*) FROM timeline WHERE NOT orphaned") == 0)
            #expect(service.metrics.ingestDeadLetters.total() == 0)
        }
    }

    @Test("A reload of everyone updates one row; with a match or too many widgets it is one sweep row")
    func everyone() async throws {
        try await IngestHarness.lend(audienceLimit: 3) { ingest in
            let acme = try WidgetConfiguration(json: Array(#"{"card":"acme"}"#.utf8))
            _ = try await ingest.store.place(
                (0..<5).map { .test("w\($0)", user: "crowd", configuration: #"{"n":\#($0)}"#) })
            try await ingest.store.settle()
            func request(_ kinds: KindScope, _ matching: WidgetConfiguration? = nil) -> FreshetEvent {
                .reload(
                    ReloadRequest(
                        app: TestKinds.app, audience: .everyone, kinds: kinds, matching: matching, reason: .push))
            }
            try await ingest.publish([
                request(.all), request(.all), request(.kinds(["Purchases"])), request(.kinds(["Purchases"]), acme),
                ingest.push("crowd"),
            ])
            let service = ingest.service()
            try await ingest.running([service]) { try await ingest.waitUntilApplied(5) }
            let app = "SELECT id FROM app WHERE name = '\(TestKinds.app)'"
            for (kind, generation) in [("Purchases", 3), ("DueDate", 2), ("Weather", 2)] {
                #expect(
                    try await ingest.store.integer(
                        "SELECT generation FROM kind WHERE name = '\(kind)' AND app_id = (\(app))") == generation)
            }
            #expect(try await ingest.store.integer("SELECT count(*) FROM sweep WHERE generation IS NOT NULL") == 3)
            #expect(try await ingest.store.integer("SELECT count(*) FROM sweep WHERE generation IS NULL") == 2)
            #expect(try await ingest.store.integer("SELECT count(*) FROM sweep WHERE matching IS NOT NULL") == 1)
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM sweep WHERE audience = 1 AND audience_id = 'crowd'") == 1)
            // None of them touched a timeline.
            #expect(try await ingest.store.integer("SELECT count(*) FROM timeline WHERE requested > 1") == 0)
            #expect(service.metrics.ingestMarked.total() == 0)
        }
    }

    @Test("100,000 events for 1,000 timelines write at most 1,000 rows per batch")
    func folding() async throws {
        try await IngestHarness.lend { ingest in
            _ = try await ingest.store.place((0..<1000).map { .test("w\($0)", user: "u\($0)") })
            try await ingest.store.settle()
            let service = ingest.service()
            try await ingest.running([service]) {
                for round in 0..<20 {
                    try await ingest.publish((0..<5000).map { ingest.push("u\(($0 + round) % 1000)") })
                    try await ingest.waitUntilApplied((round + 1) * 5000 - 10_000)
                }
                try await ingest.waitUntilApplied(100_000)
            }
            #expect(service.metrics.ingestEvents.total(["outcome": "applied"]) == 100_000)
            let marked = service.metrics.ingestMarked.total()
            #expect(marked < 100_000 && marked <= service.metrics.ingestBatches.total() * 1000)
            // The events are folded, yet each is counted once.
            #expect(
                try await ingest.store.integer("SELECT sum(requested) - count(*) FROM timeline") == 100_000)
        }
    }
}
