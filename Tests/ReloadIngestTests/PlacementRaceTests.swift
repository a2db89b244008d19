// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest

@Suite("Processes that place and remove widgets of one timeline concurrently", .timeLimit(.patience))
struct PlacementRaceTests {
    private let at = Timestamp(microseconds: 1_700_000_000_000_000)

    private func apply(_ events: [FreshetEvent], at time: Timestamp, in store: TestStore) async throws {
        var fold = BatchFold(directory: try await store.directory())
        for (offset, event) in events.enumerated() {
            fold.add(BatchEvent(record: offset, position: .at(offset), time: time, event: event))
        }
        let outcome = try await BatchApplier(pool: store.pool, audienceLimit: 100)
            .apply(fold, advancing: [], deadLetter: HandOverTests.noLetter)
        #expect(outcome.rejected.isEmpty)
    }

    private func removal(_ widget: String) -> FreshetEvent { .removed(app: TestKinds.app, widget: widget) }

    @Test("Removing a timeline's last two widgets in concurrent transactions orphans it once")
    func departures() async throws {
        try await withStore { store in
            // The kind is shared: widgets of two people show one timeline.
            try await store.place([
                .test("w1", user: "u1", device: "d1", kind: "Weather"),
                .test("w2", user: "u2", device: "d2", kind: "Weather"),
            ])
            try await store.settle()
            #expect(try await store.integer("SELECT count(*) FROM timeline") == 1)
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await store.pool.withTransaction { connection in
                    // Both transactions have removed their own widget and wait for the timeline's row.
                    try await connection.simple("SELECT 1 FROM timeline FOR UPDATE")
                    for widget in ["w1", "w2"] {
                        group.addTask { try await apply([removal(widget)], at: at, in: store) }
                    }
                    try await store.waitUntilBlocked(2)
                }
                try await group.waitForAll()
            }
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 1)
            #expect(try await store.integer("SELECT count(*) FROM work WHERE lane = 3") == 1)
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("Removing one of two widgets keeps the timeline")
    func oneOfTwo() async throws {
        try await withStore { store in
            try await store.place([
                .test("w1", user: "u1", kind: "Weather"), .test("w2", user: "u2", kind: "Weather"),
            ])
            try await store.settle()
            try await apply([removal("w1")], at: at, in: store)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 0)
            #expect(try await store.integer("SELECT count(*) FROM work") == 0)
        }
    }

    @Test("A widget that returns to an orphaned timeline revives it with a request")
    func revived() async throws {
        try await withStore { store in
            let placement = WidgetPlacement.test("w1")
            try await store.place([placement])
            try await store.settle()
            try await apply([removal("w1")], at: at, in: store)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE orphaned") == 1)
            try await apply([.placed(placement)], at: at + .seconds(1), in: store)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM timeline WHERE NOT orphaned AND requested = 2 AND listed_lane = 0") == 1)
            #expect(try await store.integer("SELECT cause_reason FROM timeline") == Int(ReloadReason.placed.rawValue))
            #expect(try await store.unappointed() == 0)
        }
    }

    /// The buried timeline of a widget that was placed, rendered and removed.
    private func buried(
        _ placement: WidgetPlacement, in store: TestStore
    ) async throws -> (id: TimelineID, row: Int64, orphans: [TimelineRevision]) {
        let id = try await store.place([placement])[0]
        try await store.settle()
        try await apply([removal(placement.widget)], at: at, in: store)
        let row = try #require(try await store.row(of: id))
        return (id, row, try await store.pool.query(.buryOrphans([row])))
    }

    /// Events for a timeline that is being collected.
    @Test("During a timeline's collection a placement waits and creates it anew, and a request has no effect")
    func collected() async throws {
        try await withStore { store in
            let placement = WidgetPlacement.test("w1")
            let (id, row, orphans) = try await buried(placement, in: store)
            let ingest = IngestRetry(store: store)
            try await withThrowingTaskGroup(of: Void.self) { group in
                try await store.pool.withTransaction { connection in
                    #expect(try await connection.query(.lockOrphans(orphans)) == [row])
                    group.addTask {
                        try await ingest.untilApplied {
                            try await apply([.placed(placement)], at: at + .seconds(1), in: store)
                        }
                    }
                    try await store.waitUntilBlocked()
                    // A request during the collection marks nothing and does not wait.
                    let request = ReloadRequest(app: TestKinds.app, audience: .user("u1"), kinds: .all, reason: .push)
                    try await apply([.reload(request)], at: at, in: store)
                    #expect(try await connection.query(.collectTimelines([row])).isEmpty)
                }
                try await group.waitForAll()
            }
            #expect(
                await ingest.failures == ["40001"], "the collection fails the first try, and the second one succeeds")
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE identity = '\(id)'") == 1)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE id = \(row)") == 0)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM widget w JOIN timeline t ON t.id = w.timeline_id WHERE NOT t.orphaned") == 1)
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("An unknown widget is removed and placed in concurrent transactions without losing the later removal")
    func unknown() async throws {
        try await withStore { store in
            let ingest = IngestRetry(store: store)
            for number in 0..<20 {
                let widget = "w\(number)"
                async let removed: Void = ingest.untilApplied {
                    try await apply([removal(widget)], at: at + .seconds(1), in: store)
                }
                async let placed: Void = ingest.untilApplied {
                    try await apply([.placed(.test(widget))], at: at, in: store)
                }
                _ = try await (removed, placed)
            }
            #expect(try await store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NULL") == 20)
            #expect(try await store.unappointed() == 0)
        }
    }

    @Test("A placement that comes first prevents the timeline's collection")
    func protected() async throws {
        try await withStore { store in
            let (id, _, orphans) = try await buried(WidgetPlacement.test("w1"), in: store)
            try await store.pool.withTransaction { connection in
                _ = try await connection.query(.lockPlacedTimelines([id]))
                let skipped = try await store.pool.query(.lockOrphans(orphans))
                #expect(skipped.isEmpty, "its list is returned")
            }
        }
    }
}

/// Applies events like the service, with retries after transient errors.
private actor IngestRetry {
    let store: TestStore
    private(set) var failures: [String] = []

    init(store: TestStore) {
        self.store = store
    }

    func untilApplied(_ body: @Sendable () async throws -> Void) async throws {
        while true {
            do {
                return try await body()
            } catch let error as PostgresError where error.isRetriable && failures.count < 100 {
                failures.append(error.sqlState ?? "?")
            }
        }
    }
}
