import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("How a backlog is applied follows from what its events come to", .timeLimit(.minutes(5)))
struct BatchShapeTests {
    @Test(
        "Small transactions only for several sorts of audience that hardly fold, parts for what does not fold much",
        arguments: [
            // marks, events, statements, in small ones, in parts
            (800, 1_000, 2, true, true), (1_000, 1_000, 3, true, true), (799, 1_000, 3, false, true),
            (1_000, 1_000, 1, false, true), (500, 1_000, 1, false, true), (499, 1_000, 1, false, false),
            (10, 1_000, 3, false, false), (0, 0, 0, false, true),
        ])
    func rules(_ marks: Int, _ events: Int, _ statements: Int, _ isBetterSmall: Bool, _ isDivisible: Bool) {
        let shape = BatchShape(marks: marks, events: events, statements: statements)
        #expect(shape.isBetterSmall == isBetterSmall)
        #expect(shape.isDivisible == isDivisible)
    }

    @Test("Requests of several sorts that do not fold go in small transactions, each event once")
    func small() async throws {
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
            let service = ingest.service(configure: { configuration in
                configuration.mixedMarks = 50
            })
            try await ingest.running([service]) { try await ingest.waitUntilApplied(people) }
            #expect(service.statistics.snapshot.batches >= people / 50)
            #expect(service.statistics.snapshot.events == people)
            #expect(
                try await ingest.store.integer(
                    "SELECT count(*) FROM timeline_state WHERE requested <> 2 OR due_at > now()") == 0)
        }
    }
}
