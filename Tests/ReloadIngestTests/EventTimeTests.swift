import KafkaClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Times of events from clocks and in units that are wrong", .timeLimit(.patience))
struct EventTimeTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)

    @Test(
        "A timestamp of a message that is not in milliseconds counts as none", arguments: [1_000, 1_000_000] as [Int64])
    func unusableTimestamp(factor: Int64) async throws {
        let timestamp = 1_700_000_000_000 * factor
        try await IngestHarness.lend(partitions: 1) { ingest in
            let viewed = FreshetEvent.viewed(app: TestKinds.app, widget: "w1")
            let donated = FreshetEvent.interactionDonated(
                app: TestKinds.app, user: "u1",
                DonatedInteraction(kind: "Purchases", timeZone: "Europe/London"))
            let untimed = [
                .placed(.test("w2")), viewed, donated,
                .configured(app: TestKinds.app, widget: "w1", configuration: .empty),
            ]
            try await ingest.running([ingest.service()]) {
                try await ingest.publish([.placed(.test("w1"))], at: at, timestamp: timestamp)
                try await ingest.publish(untimed, timestamp: timestamp)
                try await ingest.publish([ingest.push("u1")], timestamp: timestamp)
                try await ingest.waitUntilApplied(6)
                #expect(try await ingest.letters("code = 'missingAttribute' AND message_time = \(timestamp)") == 4)
                #expect(try await ingest.store.widget("w1")?.changedAt == at)
                // A later change has its effect.
                try await ingest.publish([.removed(app: TestKinds.app, widget: "w1")], at: at + .seconds(1))
                try await ingest.waitUntilApplied(7)
                #expect(try await ingest.store.widget("w1")?.timelineID == nil)
            }
            // A replay takes the time at which the letter was kept.
            let filter = DeadLetterFilter(owner: .app(TestKinds.app), causes: [.invalid])
            #expect(try await ingest.replayer.replay(filter).failures == [:])
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM widget WHERE id = 'w2' AND changed_at BETWEEN now() - interval '1 hour' AND now()"
                ) == 1)
        }
    }
}
