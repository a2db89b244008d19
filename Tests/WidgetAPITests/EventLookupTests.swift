// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import Logging
import TestSupport
import Testing
import WidgetAPI
import WidgetEvents
import WidgetModel

@testable import WidgetStore

@Suite("Look-ups of the events in an explanation", .timeLimit(.patience))
struct EventLookupTests {
    @Test("A limited number of look-ups run at a time; further ones report that, and slots are released afterwards")
    func bounded() async throws {
        // No broker runs there, so each look-up takes until its time-out.
        let reader = KafkaReader(
            configuration: KafkaConfiguration(bootstrapServers: "127.0.0.1:1"),
            logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
        let lookup = EventLookup(
            reader: reader, topics: ["freshet.pushes"], sorts: [.pushes])
        func causes(_ count: Int) -> [ExplainedCause] {
            (0..<count).map { offset in
                ExplainedCause(
                    role: .request, position: EventPosition(topic: 0, partition: 0, offset: Int64(offset)),
                    reason: .push, appliedAt: nil)
            }
        }
        func refused(_ events: [ExplainedEvent]) -> Int {
            events.count { $0.lookup == .notLookedUp("too many look-ups at a time") }
        }
        // If one begins only after the time-out of another, fewer are refused.
        var events: [ExplainedEvent] = []
        try await eventually("twenty look-ups run at a time") {
            events = await lookup.events(causes(20), of: "a")
            #expect(events.count == 20 && refused(events) <= 4)
            return refused(events) == 4
        }
        for event in events {
            guard case .notLookedUp = event.lookup else {
                Issue.record("unexpected event: \(event)")
                continue
            }
        }
        #expect(refused(await lookup.events(causes(16), of: "a")) == 0)
    }

    @Test("Events that cannot be looked up take no slot")
    func without() async {
        let lookup = EventLookup(reader: nil, topics: ["freshet.pushes"], sorts: [.pushes])
        let cause = ExplainedCause(
            role: .request, position: EventPosition(topic: 0, partition: 0, offset: 1), reason: .push, appliedAt: nil)
        for _ in 0..<40 {
            #expect(
                await lookup.events([cause], of: "a").first?.lookup
                    == .notLookedUp("kafka.bootstrapServers is not set"))
        }
    }

    @Test("An event with an unusable timestamp is found, without a time")
    func unusableTimestamp() async throws {
        try await withKafka(topics: ["freshet.pushes"], partitions: 1) { kafka in
            let producer = try KafkaProducer(
                configuration: kafka.configuration, deliveryTimeout: Patience.delivery,
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let event = FreshetEvent.reload(
                ReloadRequest(app: "a", audience: .user("u1"), kinds: .all, reason: .push))
            let encoded = event.encode(id: "e1", source: "/tests", time: nil)
            let results = await producer.send([
                KafkaMessage(
                    topic: kafka.name("freshet.pushes"), partition: 0, value: encoded.value,
                    headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) },
                    timestampMilliseconds: 1_700_000_000_000_000_000)
            ])
            await producer.shutdown()
            let offset = try #require(try results.first?.get().offset)
            let lookup = EventLookup(
                reader: KafkaReader(
                    configuration: kafka.configuration, logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() }),
                topics: [kafka.name("freshet.pushes")], sorts: [.pushes])
            let cause = ExplainedCause(
                role: .request, position: EventPosition(topic: 0, partition: 0, offset: offset), reason: .push,
                appliedAt: nil)
            guard case .found(let envelope) = await lookup.events([cause], of: "a").first?.lookup else {
                Issue.record("the event was not found")
                return
            }
            #expect(envelope.id == "e1" && envelope.time == nil)
        }
    }
}
