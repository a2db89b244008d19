// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A deleted kind: its widgets are removed and its timelines collected, and it can be created again.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct RetiredKindTests {
    private func retire(_ worker: TestWorker, _ kind: String = "Purchases") async throws {
        #expect(try await worker.store.store.retire(app: TestKinds.app, kind: kind)?.isChanged == true)
    }

    private func finish(_ worker: TestWorker) async throws {
        for _ in 0..<200 {
            let isProgress = try await worker.sweeper.pass()
            let claims = worker.metrics.claims.total()
            try await worker.turn()
            if !isProgress && worker.metrics.claims.total() == claims { return }
        }
        Issue.record("the retirement does not end")
    }

    @Test func everyTimelineGetsItsTombstoneUnderTheHighWaterMark() async throws {
        try await withWorker { configuration in
            configuration.sweepChunk = 7
            configuration.bulkHighWater = 20
        } _: { worker in
            let ids = try await worker.store.place((0..<60).map { .test("w\($0)", user: "u\($0)") })
            let other = try await worker.store.place([.test("d", kind: "DueDate")])[0]
            try await worker.drain()
            let fetched = worker.provider.requestedIDs.count
            try await worker.store.markUser("u7")
            try await retire(worker)
            for _ in 0..<200 {
                let isProgress = try await worker.sweeper.pass()
                #expect(try await worker.store.lists(ready: .bulk) <= 2)
                if try await worker.turn() == 0, !isProgress { break }
            }
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 1)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline WHERE content IS NOT NULL") == 1)
            for id in ids { #expect(worker.publisher.messages(of: id).last?.value == nil) }
            #expect(worker.publisher.messages(of: other).count == 1)
            #expect(worker.provider.requestedIDs.count == fetched, "the retired kind is not fetched")
            #expect(worker.metrics.collected.total() == 60)
            #expect(try await worker.store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 1)
        }
    }

    @Test func oneThatIsBeingFetchedIsCollectedAfterwards() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            _ = try await worker.claim()
            try await retire(worker)
            try await worker.sweep()
            try await worker.finish()
            try await finish(worker)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 0)
            #expect(worker.publisher.messages(of: id).last?.value == nil)
        }
    }

    @Test func oneWhoseWorkerWasKilledIsCollectedWhenTheLeaseEnds() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            _ = try await worker.another().claim()
            try await retire(worker)
            try await worker.sweep()
            try await worker.drain()
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 1)
            try await worker.store.endLeases()
            try await finish(worker)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 0)
        }
    }

    @Test func widgetsPlacedByAProcessUnawareOfTheRetirementAreDeletedToo() async throws {
        try await withWorker { worker in
            let old = try await worker.store.directory()
            try await worker.store.place([.test("w1")])
            try await worker.drain()
            try await retire(worker)
            try await finish(worker)
            let fetched = worker.provider.requestedIDs.count
            let late = try await worker.store.place([.test("w2", user: "u2")], known: old)[0]
            try await worker.store.sql("UPDATE kind_change SET pass_begins_at = now()")
            try await finish(worker)
            #expect(worker.provider.requestedIDs.count == fetched)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 0)
            #expect(worker.publisher.messages(of: late).allSatisfy { $0.value == nil })
        }
    }

    @Test func aKindThatIsMadeAnewStartsEmptyAndIsReloaded() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await retire(worker)
            let apps = TestKinds.apps(provider: worker.provider.url, timeout: .longestTimeout)
            await #expect(throws: KindConflict.self) { try await worker.store.apply(apps) }
            try await finish(worker)
            try await worker.store.apply(apps)
            try await worker.store.sql("DELETE FROM widget")
            #expect(try await worker.store.place([.test("w1")]) == [id])
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
            let messages = worker.publisher.messages(of: id)
            #expect(messages.map { $0.value == nil } == [false, true, false])
            #expect(messages.map(\.revision) == messages.map(\.revision).sorted())
        }
    }

    @Test("A pending request of a retired kind is examined once, and again only after its widgets are removed")
    func runsDry() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            try await worker.drain()
            try await retire(worker)
            try await worker.store.sql("UPDATE kind_change SET pass_begins_at = now() + interval '1 hour'")
            try await worker.store.markUser("u1")
            #expect(try await worker.store.lists() == 1)
            try await worker.drain()
            #expect(try await worker.store.lists() == 0 && worker.metrics.providerRequests.total() == 1)
            #expect(try await worker.store.unappointed() == 0)
            try await worker.store.sql("UPDATE kind_change SET pass_begins_at = now()")
            try await finish(worker)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 0)
        }
    }
}
