import KafkaClient
import Logging
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetRepresentation

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
}
