import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// What somebody may be waiting for is not stored behind what nobody waits for.
@Suite(.tags(.database), .timeLimit(.minutes(5)))
struct UrgentSaveTests {
    @Test("a single reload is stored while every place for the saves of a reload of everyone is taken")
    func passesBulk() async throws {
        try await withWorker(maxBatch: 1) { worker in
            let ids = try await worker.store.place((1...4).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            for user in ["u1", "u2", "u3"] { try await worker.store.markUser(user, lane: .bulk) }
            let bulk = try await worker.claim()
            #expect(bulk.count == 3)

            let locked = Gate()
            let release = Gate()
            async let holding: Void = worker.store.pool.withTransaction { connection in
                for id in ids.prefix(3) { _ = try await connection.query(LockTimelines([id])) }
                locked.open()
                try await release.pass()
            }
            try await locked.pass()
            async let storing: Void = worker.run(bulk)
            // A statement that waits for the locks has the one place that there is.
            try await worker.store.waitUntilBlocked()
            #expect(worker.context.saves(of: .bulk).running == 1)

            try await worker.store.markUser("u4", lane: .push)
            async let single: Int = worker.turn()
            do {
                try await eventually("the single one is stored") {
                    try await worker.store.detail(ids[3]).content != nil
                }
                #expect(try await worker.store.detail(ids[0]).content == nil, "the others still wait")
            } catch {
                release.open()
                throw error
            }
            release.open()
            _ = try await (holding, storing, single)
            for id in ids { #expect(try await worker.store.detail(id).decision == .reloaded) }
        }
    }
}
