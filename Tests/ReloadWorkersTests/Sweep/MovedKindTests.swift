// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A kind whose timelines get a new identity: the sweeper moves the widgets, the workers fetch the new timelines.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct MovedKindTests {
    @Test func widgetsMoveUnderTheHighWaterMarkAndTheOldTimelinesAreBuried() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 8
            configuration.bulkHighWater = 20
            configuration.definitionGrace = .zero
        } _: { worker in
            let old = try await worker.store.place((0..<60).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            try await worker.store.apply(try await worker.store.changing("Purchases") { $0.variesBy = [.timeZone] })
            for _ in 0..<400 {
                let isProgress = try await worker.sweeper.pass()
                #expect(try await worker.store.lists(ready: .bulk) <= 3)
                // Widgets stay readable: the old timeline serves its content until the widget has moved.
                #expect(
                    try await worker.store.integer(
                        """
                        SELECT count(*) FROM widget w JOIN timeline t ON t.id = w.timeline_id
                        WHERE t.locale IS NOT NULL AND t.content IS NULL
                        """) == 0)
                if try await worker.turn() == 0, !isProgress { break }
            }
            for (rows, count) in [("kind_change", 0), ("timeline", 60), ("timeline WHERE locale IS NOT NULL", 0)] {
                #expect(try await worker.store.integer("SELECT count(*) FROM \(rows)") == count, "\(rows)")
            }
            #expect(try await worker.store.stale() == 0)
            for id in old { #expect(worker.publisher.messages(of: id).map { $0.value == nil } == [false, true]) }
            #expect(worker.provider.requestedIDs.count == 120, "each timeline is fetched once")
            #expect(worker.metrics.collected.total() == 60)
        }
    }

    @Test func aPausedKindDoesNotMove() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.store.apply(try await worker.store.changing("Purchases") { $0.variesBy = [] })
            _ = try await worker.store.store.pause(app: TestKinds.app, kind: "Purchases")
            #expect(try await !worker.sweeper.pass())
            #expect(try await worker.store.widget("w1")?.timelineID == id)
            _ = try await worker.store.store.resume(app: TestKinds.app, kind: "Purchases")
            try await worker.sweep()
            #expect(try await worker.store.widget("w1")?.timelineID != id)
            #expect(try await worker.store.integer("SELECT count(*) FROM kind_change") == 1, "it waits for stragglers")
        }
    }

    @Test func twoProcessesMoveOneKindTogether() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 10
            configuration.definitionGrace = .zero
        } _: { worker in
            try await worker.store.place((0..<200).map { .test("w\($0)", user: "u\($0 % 50)", kind: "Weather") })
            try await worker.store.place((0..<100).map { .test("p\($0)", user: "u\($0)") })
            try await worker.drain()
            try await worker.store.apply(try await worker.store.changing("Weather") { $0.sharing = .perUser })
            try await worker.store.apply(try await worker.store.changing("Purchases") { $0.sharing = .shared })
            let workers = [worker, worker.another()]
            try await eventually("all widgets have moved") {
                try await withThrowingTaskGroup(of: Void.self) { group in
                    for worker in workers {
                        group.addTask {
                            _ = try await worker.sweeper.pass()
                            try await worker.turn()
                        }
                    }
                    try await group.waitForAll()
                }
                return try await worker.store.integer("SELECT count(*) FROM kind_change") == 0
            }
            try await worker.drain()
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 51)
            #expect(try await worker.store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 300)
            #expect(
                try await worker.store.integer(
                    """
                    SELECT count(*) FROM widget w JOIN timeline t ON t.id = w.timeline_id JOIN kind k ON k.id = w.kind_id
                    WHERE (k.name = 'Weather') <> (t.user_id IS NOT NULL) OR t.user_id <> w.user_id
                    """) == 0)
            #expect(try await worker.store.stale() == 0)
        }
    }
}
