// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Reloads of everyone during an earlier one.
@Suite("Reloads of everyone, one after another", .serialized, .tags(.database), .timeLimit(.patience))
struct SweepConvergenceTests {
    @Test("A sweep whose generation increases runs to the end, then from the start to the place of the increase")
    func round() async throws {
        try await withWorker(maxBatch: 30) {
            $0.sweepChunk = 10
        } _: { worker in
            let ids = try await worker.store.place((0..<30).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            try await worker.store.bumpKind("Purchases")
            // The first third is listed and rendered, the second only listed; then the generation increases.
            _ = try await worker.sweeper.pass()
            try await worker.drain()
            let first = Set(worker.provider.requestedIDs)
            #expect(first.count == 10)
            _ = try await worker.sweeper.pass()
            try await worker.store.bumpKind("Purchases")
            try await worker.sweep()
            try await worker.drain()
            let fetches = Dictionary(grouping: worker.provider.requestedIDs) { $0 }.mapValues(\.count)
            for id in ids { #expect(fetches[id] == (first.contains(id) ? 2 : 1)) }
            #expect(try await worker.store.stale() == 0)
            #expect(try await worker.store.integer("SELECT count(*) FROM sweep") == 0)
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("Under repeated bumps each timeline is rendered at most once per bump")
    func keepsUp() async throws {
        try await withWorker(maxBatch: 20) { configuration in
            configuration.sweepChunk = 10
            configuration.bulkHighWater = 400
        } _: { worker in
            let ids = try await worker.store.place((0..<60).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            let bumps = 4
            for _ in 0..<bumps {
                try await worker.store.bumpKind("Purchases")
                try await worker.sweep()
                try await worker.turn()
            }
            repeat { try await worker.sweep() } while try await worker.turn() > 0
            #expect(try await worker.store.stale() == 0)
            let fetches = Dictionary(grouping: worker.provider.requestedIDs) { $0 }.mapValues(\.count)
            #expect(Set(fetches.keys) == Set(ids))
            #expect(fetches.values.allSatisfy { $0 <= bumps })
            // At most 20 per bump were rendered before the last one, and so are rendered again.
            #expect(worker.provider.requestedIDs.count <= 60 + (bumps - 1) * 20)
        }
    }
}
