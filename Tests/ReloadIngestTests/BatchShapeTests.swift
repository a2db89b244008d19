import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("How a backlog is applied follows from what its events come to", .timeLimit(.minutes(5)))
struct BatchShapeTests {
    @Test(
        "In parts beside each other, if it does not fold much",
        arguments: [(1_000, 1_000, true), (500, 1_000, true), (499, 1_000, false), (10, 1_000, false), (0, 0, true)])
    func rules(_ marks: Int, _ events: Int, _ isDivisible: Bool) {
        #expect(BatchShape(marks: marks, events: events).isDivisible == isDivisible)
    }

    @Test("Requests of several sorts of audience go in the same transactions, each event once")
    func severalSorts() async throws {
        try await IngestHarness.lend(partitions: 1, maximumBatch: 1_000) { ingest in
            let people = 600
            _ = try await ingest.store.place(
                (0..<people).map { .test("w\($0)", user: "u\($0)", device: "d\($0)") })
            try await ingest.store.settle()
            try await ingest.publish(
                (0..<people).map { index in
                    let audience = index % 2 == 0 ? Audience.user("u\(index)") : .device("d\(index)")
                    return .push(
                        ReloadRequest(app: TestKinds.app, audience: audience, kinds: .all, reason: .push))
                })
            let service = ingest.service()
            try await ingest.running([service]) { try await ingest.waitUntilApplied(people) }
            #expect(service.statistics.snapshot.events == people)
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM timeline_state WHERE requested <> 2 OR due_at > now()") == 0)
        }
    }
}
