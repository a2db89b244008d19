// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Retirement of a kind with a due backlog, which is no longer claimed.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct RetirementBacklogTests {
    @Test func aKindWithMoreDueThanTheHighWaterMarkIsRetiredToItsEnd() async throws {
        try await withWorker {
            $0.sweepChunk = 7
            $0.bulkHighWater = 10
        } _: { worker in
            try await worker.store.place((0..<40).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.sql("UPDATE work SET lane = 3")
            _ = try await worker.store.store.retire(app: TestKinds.app, kind: "Purchases")
            for _ in 0..<30 {
                try await worker.sweep()
                try await worker.drain()
                if try await worker.store.integer("SELECT count(*) FROM timeline") == 0 { break }
            }
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 0)
            #expect(try await worker.store.integer("SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL") == 0)
            #expect(worker.provider.requests.isEmpty, "the retired kind is not fetched")
        }
    }
}
