// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Urgent timelines do not wait behind patient ones when they are stored.
@Suite("Storing by urgency", .tags(.database), .timeLimit(.patience))
struct UrgentStoreTests {
    @Test("A single reload is stored while the statement of a patient lane waits")
    func passesBulk() async throws {
        try await withWorker(maxBatch: 1) { worker in
            let ids = try await worker.store.place((1...4).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            for user in ["u1", "u2", "u3"] { try await worker.store.markUser(user, lane: .bulk) }
            #expect(try await worker.claim() == 3)
            let locked = Gate()
            let release = Gate()
            async let holding: Void = worker.store.pool.withTransaction { connection in
                try await connection.simple(
                    "SELECT FROM timeline WHERE user_id IN ('u1', 'u2', 'u3') ORDER BY id FOR UPDATE")
                locked.open()
                try await release.pass()
            }
            try await locked.pass()
            async let storing: Void = worker.finish()
            // A statement that waits for locks occupies the only patient slot.
            try await worker.store.waitUntilBlocked()
            try await worker.store.markUser("u4", lane: .push)
            do {
                try await worker.start()
                try await eventually("the single reload is stored") {
                    try await worker.store.detail(ids[3]).content != nil
                }
                #expect(try await worker.store.detail(ids[0]).content == nil, "the others still wait")
            } catch {
                release.open()
                throw error
            }
            release.open()
            _ = try await (holding, storing)
            for id in ids { #expect(try await worker.store.detail(id).decision == .reloaded) }
        }
    }
}
