import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Reloads of everyone become due work in paced chunks.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct SweeperTests {
    private func configure(_ configuration: inout WorkerConfiguration) {
        configuration.sweepChunk = 20
        configuration.bulkHighWater = 50
    }

    private func due(_ store: TestStore, lane: ReloadLane) async throws -> Int {
        try await store.integer(
            "SELECT count(*) FROM timeline_state WHERE due_at <= now() AND NOT leased AND lane = \(lane.rawValue)")
    }

    @Test func aReloadOfEveryoneIsPacedUnderTheHighWaterMarkAndConverges() async throws {
        try await withWorker(maxBatch: 30, configure: configure) { worker in
            let ids = try await worker.store.place((0..<200).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.bumpKind("Purchases")

            var passes = 0
            while try await worker.sweeper.pass().marked > 0 {
                passes += 1
                #expect(try await due(worker.store, lane: .bulk) <= 50)
                #expect(worker.context.sweepDemand.isAwaited, "the rest waits for room")
                try await worker.turn()
            }
            #expect(passes >= 4)
            try await worker.drain()
            #expect(Set(worker.provider.requestedIDs) == Set(ids))
            #expect(worker.provider.requestedIDs.count == 200, "each of them once")
            #expect(
                try await worker.store.integer(
                    "SELECT count(*) FROM timeline_state WHERE rendered_kind_generation = 1 AND swept_generation = 1")
                    == 200)
            #expect(worker.counts.swept == 200)
        }
    }

    @Test func aFullBacklogIsLeftAlone() async throws {
        try await withWorker(configure: configure) { worker in
            try await worker.store.place((0..<200).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.bumpKind("Purchases")
            #expect(try await worker.sweeper.pass().marked == 50)
            let pass = try await worker.sweeper.pass()
            #expect(pass.marked == 0 && pass.isHeldBack)
            #expect(try await due(worker.store, lane: .bulk) == 50)
        }
    }

    @Test func singleReloadsGoAheadOfAReloadOfEveryone() async throws {
        try await withWorker(maxBatch: 10) { configuration in
            configuration.concurrency = 1
        } _: { worker in
            let ids = try await worker.store.place((0..<200).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.bumpKind("Purchases")
            _ = try await worker.sweeper.pass()
            try await worker.store.markUser("u150")
            try await worker.store.markUser("u180")
            try await worker.turn()
            #expect(Set(worker.provider.requestedIDs).isSuperset(of: [ids[150], ids[180]]))
        }
    }

    @Test func singleReloadsAreClaimedAndFetchedByThemselves() async throws {
        try await withWorker(maxBatch: 10) { worker in
            let ids = try await worker.store.place((0..<50).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.bumpKind("Purchases")
            _ = try await worker.sweeper.pass()
            try await worker.store.markUser("u30")
            let works = try await worker.claim()
            #expect(worker.counts.claims == 2)
            let batches = works.compactMap {
                if case .reload(let batch) = $0 { batch.timelines.map(\.id) } else { nil }
            }
            #expect(batches.first == [ids[30]])
            // Of the provider's eight slots bulk holds half at the most.
            #expect(batches.dropFirst().map(\.count) == [10, 10, 10, 10])
            await worker.run(works)
        }
    }

    @Test func aBumpInTheMiddleOfASweepConverges() async throws {
        try await withWorker(configure: configure) { worker in
            try await worker.store.place((0..<100).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.bumpKind("Purchases")
            #expect(try await worker.sweeper.pass().marked == 50)
            try await worker.turn()
            try await worker.store.bumpKind("Purchases")
            try await worker.store.bumpApp()
            while try await worker.sweeper.pass().marked > 0 { try await worker.drain() }
            #expect(try await worker.store.pool.query(Overview())[0].stale == 0)
            let fetches = worker.provider.requestedIDs.count
            #expect(fetches >= 100 && fetches <= 150, "only those that were rendered before the second bump are again")
        }
    }

    @Test func aBumpOfTheAppReachesAllItsKindsAndNoOtherApp() async throws {
        try await withWorker { worker in
            try await worker.store.place([
                .test("w1"), .test("w2", kind: "DueDate"), .test("w3", kind: "Weather"),
                .test("w1", app: TestKinds.otherApp),
            ])
            try await worker.store.settle()
            try await worker.store.bumpApp()
            #expect(try await worker.sweeper.pass().marked == 3)
            try await worker.drain()
            #expect(worker.provider.requestedIDs.count == 3)
        }
    }

    @Test func timelinesBeingFetchedAreSweptOnceTheyAreDone() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let works = try await worker.claim()
            try await worker.store.bumpKind("Purchases")
            let pass = try await worker.sweeper.pass()
            #expect(pass.marked == 0 && pass.isHeldBack)
            await worker.run(works)
            #expect(try await worker.sweeper.pass().marked == 1)
            try await worker.drain()
            #expect(try await !worker.store.detail(id).isStale)
        }
    }

    @Test func theSweepPassesOverFailingTimelinesAndKeepsTheirBackOff() async throws {
        try await withWorker(configure: configure) { worker in
            let ids = try await worker.store.place((0..<60).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.sql("UPDATE timeline_state SET retry_at = now() + interval '1 hour'")
            try await worker.store.bumpKind("Purchases")
            // None of them comes due, so none of them fills the backlog.
            #expect(try await worker.sweeper.pass().marked == 50)
            #expect(try await worker.sweeper.pass().marked == 10)
            #expect(try await due(worker.store, lane: .bulk) == 0)
            let detail = try await worker.store.detail(ids[0])
            #expect(try #require(detail.secondsToDue) > 3_500)
        }
    }

    @Test func aBudgetedReloadOfEveryoneWaitsForTheSpacing() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.bumpKind("Purchases", isFree: false)
            #expect(try await worker.sweeper.pass().marked == 1)
            let detail = try await worker.store.detail(id)
            #expect(try #require(detail.secondsToDue) > 290)
            #expect(detail.lane == .bulk)
        }
    }
}

struct SweepRoomTests {
    private func room(chunk: Int, highWater: Int, _ backlogs: [Int32: Int]) -> SweepRoom {
        var configuration = WorkerConfiguration()
        configuration.sweepChunk = chunk
        configuration.bulkHighWater = highWater
        return SweepRoom(configuration, backlogs: backlogs)
    }

    @Test func aChunkIsNeverMoreThanTheRoom() {
        let room = room(chunk: 20, highWater: 50, [1: 38, 2: 41, 3: 50])
        #expect(room.chunk(of: 1) == 12)
        #expect(room.chunk(of: 2) == nil, "less than half a chunk is not worth a statement")
        #expect(room.chunk(of: 3) == nil)
        #expect(room.chunk(of: 4) == 20)
        #expect(room.chunk(of: [1, 4]) == 12)
        #expect(room.chunk(of: [1, 2]) == nil)
        #expect(room.chunk(of: []) == 20)
    }

    @Test func whatIsMarkedTakesRoom() {
        var room = room(chunk: 20, highWater: 50, [:])
        room.marked(45, of: [1])
        #expect(room.chunk(of: 1) == nil)
        #expect(room.chunk(of: 2) == 20)
    }

    @Test func aHighWaterMarkBelowTheChunkIsTheChunk() {
        let room = room(chunk: 1_000, highWater: 10, [1: 4, 2: 6])
        #expect(room.chunk(of: 1) == 6)
        #expect(room.chunk(of: 2) == nil)
    }
}
