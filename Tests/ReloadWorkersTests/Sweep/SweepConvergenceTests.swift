import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Reloads of everyone that come while an earlier one is still being worked through.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct SweepConvergenceTests {
    /// The ids of timelines that the sweeper has made due up to a generation.
    private func swept(_ generation: Int, _ ids: [TimelineID], in store: TestStore) async throws -> Set<TimelineID> {
        var found: Set<TimelineID> = []
        for id in ids {
            let count = try await store.integer(
                """
                SELECT count(*) FROM timeline_state
                WHERE timeline_id = '\(id)' AND swept_generation = \(generation)
                """)
            if count == 1 { found.insert(id) }
        }
        return found
    }

    @Test("generations bumped again in the middle of a sweep converge without starving the tail")
    func again() async throws {
        try await withWorker(maxBatch: 30) { worker in
            let store = worker.store
            let ids = try await store.place((0..<30).map { .test("w\($0)", user: "u\($0)") })
            let kindID = try await store.kindID("Purchases")
            try await store.settle()

            // The first third is swept and rendered, the second only swept; then the generation moves on.
            try await store.bumpKind("Purchases")
            #expect(try await store.pool.execute(SweepKind(kindID: kindID, limit: 10)) == 10)
            let first = try await swept(1, ids, in: store)
            try await worker.drain()
            #expect(Set(worker.provider.requestedIDs) == first)
            #expect(try await store.pool.execute(SweepKind(kindID: kindID, limit: 10)) == 10)
            let second = try await swept(1, ids, in: store).subtracting(first)
            let last = Set(ids).subtracting(first).subtracting(second)
            #expect(second.count == 10 && last.count == 10)
            try await store.bumpKind("Purchases")

            // The tail, which no sweep has reached yet, goes before those that were swept for the first bump.
            #expect(try await store.pool.execute(SweepKind(kindID: kindID, limit: 10)) == 10)
            #expect(try await swept(2, ids, in: store) == last)
            // A third bump changes nothing of that order.
            try await store.bumpApp()
            #expect(try await store.pool.execute(SweepKind(kindID: kindID, limit: 20)) == 20)
            #expect(try await swept(3, ids, in: store) == first.union(second))
            #expect(try await store.pool.execute(SweepKind(kindID: kindID, limit: 30)) == 10)
            #expect(try await store.pool.execute(SweepKind(kindID: kindID, limit: 30)) == 0)
            #expect(try await swept(3, ids, in: store) == Set(ids))
            #expect(try await store.pool.query(KindsToSweep(highWater: 10)).isEmpty)

            // Due once each, however often they were swept.
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM timeline_state WHERE due_at <= now() AND lane = 3 AND NOT leased") == 30)
            try await worker.drain()
            let fetches = Dictionary(grouping: worker.provider.requestedIDs) { $0 }.mapValues(\.count)
            for id in ids { #expect(fetches[id] == (first.contains(id) ? 2 : 1)) }
            #expect(
                try await store.integer(
                    """
                    SELECT count(*) FROM timeline_state
                    WHERE rendered_kind_generation = 2 AND rendered_app_generation = 1 AND swept_generation = 3
                        AND due_at > now()
                    """) == 30)
            #expect(try await store.pool.query(Overview())[0].stale == 0)
        }
    }

    @Test("the sweeper, bumped again and again while the workers keep up, renders each timeline once a bump at most")
    func keepsUp() async throws {
        try await withWorker(maxBatch: 20) { configuration in
            configuration.sweepChunk = 10
            configuration.bulkHighWater = 20
        } _: { worker in
            let ids = try await worker.store.place((0..<60).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            let bumps = 4
            for _ in 0..<bumps {
                try await worker.store.bumpKind("Purchases")
                _ = try await worker.sweeper.pass()
                try await worker.turn()
            }
            while try await worker.sweeper.pass().marked > 0 { try await worker.drain() }
            try await worker.drain()
            #expect(try await worker.store.pool.query(Overview())[0].stale == 0)
            let fetches = Dictionary(grouping: worker.provider.requestedIDs) { $0 }.mapValues(\.count)
            #expect(Set(fetches.keys) == Set(ids))
            #expect(fetches.values.allSatisfy { $0 <= bumps })
            // No more than 20 a bump were rendered before the last one, and so again after it.
            #expect(worker.provider.requestedIDs.count <= 60 + (bumps - 1) * 20)
        }
    }
}
