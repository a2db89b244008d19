import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite(
    "Batches that marked the same timelines in another order lock them first", .timeLimit(.minutes(5))
)
struct LockOrderTests {
    private func apply(_ events: [FreshetEvent], _ applier: BatchApplier, _ store: TestStore) async throws {
        var fold = BatchFold(directory: try await store.directory())
        for (index, event) in events.enumerated() {
            fold.add(BatchEvent(record: index, position: .at(index), time: Timestamp(microseconds: 1), event: event))
        }
        _ = try await applier.apply(fold, advancing: []) { rejected in
            DeadLetter(
                topic: "test", partition: 0, offset: Int64(rejected.record), app: rejected.app, code: rejected.code,
                error: rejected.message, key: nil, headers: [], payload: nil)
        }
    }

    private func push(_ audience: Audience) -> FreshetEvent {
        .push(ReloadRequest(app: TestKinds.app, audience: audience, kinds: .all, reason: .push))
    }

    /// The statement that waits for the rows of `timeline_state`, which the test holds.
    private func waiting(_ events: [FreshetEvent], _ applier: BatchApplier, _ store: TestStore) async throws -> Bool {
        let (applying, locksFirst) = try await store.locking("timeline_state") {
            let applying = Task { try await apply(events, applier, store) }
            try await store.waitUntilBlocked()
            let locksFirst = try await store.integer(
                """
                SELECT count(*) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%AS i (sort, app_id,%'
                """)
            return (applying, locksFirst == 1)
        }
        try await applying.value
        return locksFirst
    }

    @Test("After a deadlock, and for so many transactions, whatever they write")
    func locksFirst() async throws {
        try await withStore { store in
            _ = try await store.place((0..<4).map { .test("w\($0)", user: "u\($0)", device: "d\($0)") })
            try await store.settle()
            let applier = BatchApplier(pool: store.pool, audienceLimit: 1_000)
            let marks = [push(.user("u1")), push(.device("d2"))]
            let view = FreshetEvent.viewed(app: TestKinds.app, widget: "w3")
            // Places a widget, and marks others.
            func both(_ name: String) -> [FreshetEvent] { [.placed(.test(name, user: "u5")), push(.user("u1"))] }
            #expect(try await !waiting(marks, applier, store), "nobody has met anybody yet")
            #expect(try await !waiting(both("w5"), applier, store))

            try await store.fail(writesTo: "timeline_state", with: "40P01", times: 1)
            await #expect(throws: PostgresError.self) { try await apply(marks, applier, store) }
            try await store.healFaults()
            #expect(try await waiting(both("w6"), applier, store))
            #expect(try await waiting(marks, applier, store))
            #expect(try await waiting([view], applier, store))
            #expect(try await waiting(marks + [view], applier, store))
        }
    }

    @Test("Views are locked with the marks, each audience once for what it is")
    func locked() async throws {
        try await withStore { store in
            var fold = BatchFold(directory: try await store.directory())
            let events = [push(.user("u1")), .viewed(app: TestKinds.app, widget: "w3"), push(.widget("w1"))]
            for (index, event) in events.enumerated() {
                fold.add(
                    BatchEvent(record: index, position: .at(index), time: Timestamp(microseconds: 1), event: event))
            }
            #expect(fold.locked.marks.map(\.audienceID) == ["u1", "w1", "w3"])
            #expect(fold.locked.sorts == [.user, .widget, .widget])
            #expect(fold.marks.marks.count == 2)
        }
    }

    @Test("Only a deadlock counts, and it is forgotten after so many transactions")
    func counts() {
        let order = LockOrder()
        for error in [CancellationError(), PostgresError(.server, "m", sqlState: "40001")] as [any Error] {
            order.note(error)
            #expect(!order.isWanted())
        }
        for _ in 0..<2 {
            order.note(PostgresError(.server, "m", sqlState: "40P01"))
            for _ in 0..<LockOrder.transactions { #expect(order.isWanted()) }
            #expect(!order.isWanted())
        }
    }
}
