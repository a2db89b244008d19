// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Reloads of everyone, split into paced chunks of bulk lists.
@Suite("Reloads of everyone", .serialized, .tags(.database), .timeLimit(.patience))
struct SweeperTests {
    /// Two lists of twenty.
    private func configure(_ configuration: inout WorkerConfiguration) {
        configuration.sweepChunk = 20
        configuration.bulkHighWater = 400
    }

    private func place(_ count: Int, _ worker: TestWorker) async throws -> [TimelineID] {
        let ids = try await worker.store.place((0..<count).map { .test("w\($0)", user: "u\($0)") })
        try await worker.store.settle()
        return ids
    }

    @Test(
        "A reload of everyone stays below the high-water mark, reaches each timeline once and leaves no audit finding"
    )
    func paced() async throws {
        try await withWorker(maxBatch: 30, configure: configure) { worker in
            let ids = try await place(200, worker)
            try await worker.store.bumpKind("Purchases")
            var rounds = 0
            repeat {
                try await worker.sweep()
                #expect(try await worker.store.lists() <= 2)
                rounds += 1
            } while try await worker.turn() > 0
            #expect(rounds >= 5)
            #expect(Set(worker.provider.requestedIDs) == Set(ids))
            #expect(worker.provider.requestedIDs.count == 200, "each timeline is fetched once")
            #expect(worker.metrics.swept.total() == 200)
            let (stale, lists) = try await (worker.store.stale(), worker.store.lists())
            let sweeps = try await worker.store.integer("SELECT count(*) FROM sweep")
            #expect([stale, lists, sweeps, try await worker.store.unappointed()] == [0, 0, 0, 0])
        }
    }

    @Test("A kind with a full backlog is not changed")
    func fullBacklog() async throws {
        try await withWorker(configure: configure) { worker in
            _ = try await place(200, worker)
            try await worker.store.bumpKind("Purchases")
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 40)
            #expect(try await !worker.sweeper.pass())
            #expect(try await worker.store.lists(ready: .bulk) == 2)
        }
    }

    @Test("Single reloads overtake a reload of everyone")
    func singlesFirst() async throws {
        try await withWorker(maxBatch: 10) { configuration in
            configuration.concurrency = 1
        } _: { worker in
            let ids = try await place(200, worker)
            try await worker.store.bumpKind("Purchases")
            try await worker.sweep()
            try await worker.store.markUser("u150")
            try await worker.store.markUser("u180")
            try await worker.turn()
            #expect(Set(worker.provider.requests[0].ids) == [ids[150], ids[180]])
        }
    }

    @Test("A single reload is fetched at once and not repeated for the reload of everyone")
    func singlesApart() async throws {
        try await withWorker(maxBatch: 10) { worker in
            let ids = try await place(50, worker)
            try await worker.store.bumpKind("Purchases")
            try await worker.sweep()
            try await worker.store.markUser("u30")
            _ = try await worker.claim()
            #expect(worker.metrics.claims.total() == 2)
            try await worker.finish()
            #expect(worker.provider.requests.contains { $0.ids == [ids[30]] })
            #expect(Set(worker.provider.requestedIDs) == Set(ids) && worker.provider.requestedIDs.count == 50)
        }
    }

    @Test("A generation that increases in the middle of a sweep converges")
    func raised() async throws {
        try await withWorker(configure: configure) { worker in
            _ = try await place(100, worker)
            try await worker.store.bumpKind("Purchases")
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 40)
            try await worker.turn()
            try await worker.store.bumpKind("Purchases")
            try await worker.store.bumpApp()
            repeat { try await worker.sweep() } while try await worker.turn() > 0
            #expect(try await worker.store.stale() == 0)
            let fetches = worker.provider.requestedIDs.count
            #expect(fetches >= 100 && fetches <= 140, "only timelines rendered before the second bump repeat")
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A reload of all of an app's kinds affects no other app")
    func app() async throws {
        try await withWorker { worker in
            try await worker.store.place([
                .test("w1"), .test("w2", kind: "DueDate"), .test("w3", kind: "Weather"),
                .test("w1", app: TestKinds.otherApp),
            ])
            try await worker.store.settle()
            try await worker.store.bumpApp()
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 3)
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 3)
        }
    }

    @Test("A timeline that is being fetched during a reload of everyone is fetched once more")
    func duringTheFetch() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            _ = try await worker.claim()
            try await worker.store.bumpKind("Purchases")
            try await worker.sweep()
            #expect(worker.metrics.swept.total() == 1)
            try await worker.finish()
            #expect(try await worker.store.detail(id).isStale)
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
            #expect(worker.provider.requests.count == 2)
        }
    }

    @Test("A timeline already rendered for the generation of its list is not fetched again")
    func renderedMeanwhile() async throws {
        try await withWorker { worker in
            let id = try await place(1, worker)[0]
            try await worker.store.bumpKind("Purchases")
            try await worker.store.markUser("u0")
            try await worker.turn()
            try await worker.sweep()
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
            #expect(worker.provider.requests.count == 1)
        }
    }

    @Test("Failing timelines keep their back-off through a reload of everyone")
    func backOff() async throws {
        try await withWorker(configure: configure) { worker in
            let ids = try await place(60, worker)
            try await worker.store.sql("UPDATE timeline SET retry_at = now() + interval '1 hour'")
            try await worker.store.bumpKind("Purchases")
            repeat { try await worker.sweep() } while try await worker.turn() > 0
            #expect(worker.provider.requests.isEmpty && worker.metrics.swept.total() == 60)
            #expect(try await worker.store.lists(ready: .bulk) == 0)
            #expect(try #require(await worker.store.detail(ids[0]).secondsToDue) > 3_500)
            #expect(try await worker.store.unappointed() == 0)
            try await worker.store.passTime(3_700)
            try await worker.drain()
            #expect(try await worker.store.stale() == 0)
        }
    }

    @Test("A budgeted reload of everyone waits for the spacing of each timeline")
    func deferred() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.bumpKind("Purchases", isFree: false)
            try await worker.sweep()
            try await worker.drain()
            let detail = try await worker.store.detail(id)
            #expect(detail.isStale && worker.provider.requests.count == 1)
            #expect(try #require(detail.secondsToDue) > 200)
            #expect(try await worker.store.unappointed() == 0)
            try await worker.store.passTime(400)
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
            #expect(worker.provider.requests.count == 2)
        }
    }

    @Test("Cancelling a reload of everyone stops its fetches, and a later reload works")
    func cancelled() async throws {
        try await withWorker(configure: configure) { worker in
            _ = try await place(60, worker)
            try await worker.store.bumpKind("Purchases")
            try await worker.sweep()
            _ = try await worker.claim()
            _ = try await worker.store.store.cancelWork(app: TestKinds.app, kind: "Purchases")
            try await worker.finish()
            let fetched = worker.provider.requestedIDs.count
            try await worker.sweep()
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == fetched && fetched <= 40)
            #expect(try await worker.store.lists() == 0)
            #expect(try await worker.store.stale() == 0)
            try await worker.store.bumpKind("Purchases")
            repeat { try await worker.sweep() } while try await worker.turn() > 0
            #expect(worker.provider.requestedIDs.count == fetched + 60)
        }
    }
}
