// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("State that only a newer version can read stops nothing else", .timeLimit(.patience))
struct UnreadableRowTests {
    @Test("Workers go on with the other kinds, and with the unreadable one once its definition can be read")
    func definition() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2", kind: "DueDate")])
            try await worker.store.overwrite("Purchases", with: #"{"sharing":"perHousehold"}"#)
            try await worker.drain()
            #expect(worker.publisher.messages.map(\.timeline) == [ids[1]])
            #expect(worker.metrics.databaseErrors.total() == 0)
            #expect(worker.directory.directory().unreadable.values.map(\.name) == ["Purchases"])
            try await worker.store.overwrite("Purchases", with: #"{"sharing":"perUser"}"#)
            try await worker.drain()
            #expect(worker.publisher.messages.map(\.timeline) == [ids[1], ids[0]])
        }
    }

    @Test("A list whose kind is not in the directory goes back, and is ready again after a delay")
    func unknownKind() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            let kind = try await worker.store.kindID("Purchases")
            let requests = ReloadLane.allCases.map { ClaimRequest(KindLane(kindID: kind, lane: $0), lists: 9) }
            let claim = try #require(
                Claim(try await worker.store.pool.query(.claimLists(requests, lease: .seconds(30)))))
            worker.pipeline.enter(claim, .empty, startedAt: .zero, leaseEnds: .seconds(3_600))
            #expect(worker.context.leases.held == 0)
            while await worker.pipeline.closer.endSome() {}
            #expect(
                try await worker.store.integer(
                    "SELECT count(*) FROM work WHERE lease IS NULL AND leases = 0 AND ready_at > now()") == 1)
        }
    }

    @Test("A row of an unknown family goes back, and the other rows of its list are stored")
    func family() async throws {
        try await withWorker { worker in
            // One transaction appends one list.
            let ids = try await worker.store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            #expect(try await worker.store.integer("SELECT count(*) FROM work") == 1)
            try await worker.store.sql("UPDATE timeline SET family = 77 WHERE user_id = 'u1'")
            try await worker.turn()
            #expect(Set(worker.publisher.messages.map(\.timeline)) == [ids[0], ids[2]])
            #expect(worker.metrics.databaseErrors.total() == 0 && worker.metrics.unreadableTimelines.total() == 1)
            // Left to a newer version for a while.
            #expect(
                try await worker.store.integer(
                    "SELECT count(*) FROM work WHERE lease IS NULL AND ready_at > now() + interval '10 s'") == 1)

            // The newer version reads it.
            try await worker.store.sql(
                "UPDATE timeline SET family = 0 WHERE user_id = 'u1'; UPDATE work SET ready_at = now()")
            try await worker.turn()
            #expect(worker.publisher.messages.map(\.timeline).contains(ids[1]))
            #expect(try await worker.store.integer("SELECT count(*) FROM work") == 0)
        }
    }
}
