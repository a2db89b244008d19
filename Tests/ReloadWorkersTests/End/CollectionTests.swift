// SPDX-License-Identifier: Apache-2.0

import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Timelines that no widget shows are collected: first the tombstone is published, then the row is deleted.
@Suite("Collection", .serialized, .tags(.database), .timeLimit(.patience))
struct CollectionTests {
    @Test("An orphaned timeline gets a tombstone and is deleted")
    func buried() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            try await worker.drain()
            try await worker.store.removeWidgets(showing: ids[0])
            try await worker.drain()
            #expect(try await worker.store.timeline(ids[0]) == nil)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 1)
            let last = try #require(worker.publisher.messages(of: ids[0]).last)
            #expect(last.value == nil)
            let content = worker.publisher.messages(of: ids[0])[0]
            #expect(last.revision > content.revision, "late content is older")
            #expect(worker.metrics.collected.total() == 1 && worker.metrics.providerRequests.total() == 1)
            #expect(worker.context.leases.held == 0)
            #expect(try await worker.store.lists() == 0)
        }
    }

    @Test("A timeline that is placed again during its collection stays and is published again")
    func placedAgain() async throws {
        try await withWorker {
            $0.publishRetryDelay = .zero
        } _: { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.removeWidgets(showing: id)
            worker.publisher.respond { messages in
                if messages.allSatisfy({ $0.value == nil }) { _ = try? await worker.store.place([.test("w9")]) }
                return nil
            }
            try await worker.drain()
            let detail = try await worker.store.detail(id)
            #expect(!detail.timeline.state.isOrphaned && !detail.isStale)
            #expect(worker.metrics.collected.total() == 0)
            let last = try #require(worker.publisher.messages(of: id).last)
            #expect(last.value != nil, "content follows the tombstone")
            #expect(last.revision == detail.revision)
            #expect(try await worker.store.lists() == 0)
        }
    }

    @Test("A tombstone after another worker's message is not the last message")
    func lateTombstone() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            try await slow.drain()
            try await slow.store.removeWidgets(showing: id)
            let other = slow.another()
            slow.publisher.respond { messages in
                guard messages.allSatisfy({ $0.value == nil }) else { return nil }
                // While the tombstone is under way its lease expires, and another worker publishes the timeline, which
                // a widget shows again.
                _ = try? await slow.store.place([.test("w9")])
                try? await slow.store.endLeases()
                try? await other.drain()
                return nil
            }
            try await slow.turn()
            try await slow.drain()
            let messages = slow.publisher.messages(of: id)
            #expect(messages.contains { $0.value == nil })
            let stored = try await slow.store.detail(id).revision
            #expect(messages.last?.revision == stored)
        }
    }

    @Test("A fetch that began before a tombstone is discarded after it; the timeline is fetched and published again")
    func fetchedAcrossTheTombstone() async throws {
        try await withWorker {
            $0.publishRetryDelay = .zero
        } _: { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            _ = try await worker.claim()
            try await worker.store.removeWidgets(showing: id)
            let row = try #require(try await worker.store.row(of: id))
            let tombstone = try #require(try await worker.store.pool.query(.buryOrphans([row])).first)
            try await worker.store.place([.test("w2")])
            try await worker.finish()
            #expect(worker.metrics.fenced.total() == 1)
            try await worker.drain()
            let messages = worker.publisher.messages(of: id)
            #expect(messages.count == 1 && messages[0].value != nil)
            #expect(messages[0].revision > tombstone.revision, "consumers that have seen the tombstone show it")
            #expect(try await worker.store.detail(id).revision == messages[0].revision)
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A fetch that fails after another worker has buried the timeline leaves it an appointment")
    func failedAcrossTheTombstone() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            _ = try await worker.claim()
            try await worker.store.removeWidgets(showing: id)
            // Only its first list is to find it: the removal's is gone.
            try await worker.store.sql("DELETE FROM work WHERE lease IS NULL")
            let row = try #require(try await worker.store.row(of: id))
            _ = try await worker.store.pool.query(.buryOrphans([row]))
            worker.provider.respond { _ in .status(500) }
            try await worker.finish()
            #expect(try await worker.store.unappointed() == 0)
            try await worker.drain()
            #expect(try await worker.store.timeline(id) == nil, "collected")
        }
    }

    @Test("A timeline whose tombstone fails stays, and its list is returned")
    func withoutTombstone() async throws {
        try await withWorker {
            $0.publishRetryDelay = .seconds(3_600)
        } _: { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.removeWidgets(showing: id)
            worker.publisher.respond { _ in .testTimeout }
            try await worker.turn()
            let detail = try await worker.store.detail(id)
            #expect(detail.timeline.state.isOrphaned && detail.content != nil)
            #expect(try await worker.store.lists() == 1)
            #expect(try await worker.store.lists(ready: .bulk) == 0, "the list is returned with a delay")
            #expect(try await !worker.store.isLeased(id))
        }
    }

    @Test("A locked row is collected later")
    func locked() async throws {
        try await withWorker {
            $0.publishRetryDelay = .zero
        } _: { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            try await worker.drain()
            for id in ids { try await worker.store.removeWidgets(showing: id) }
            _ = try await worker.claim()
            try await worker.store.pool.withTransaction { connection in
                try await connection.simple("SELECT FROM timeline WHERE identity = '\(ids[0])' FOR UPDATE")
                try await worker.finish()
                #expect(worker.metrics.collected.total() == 1)
            }
            try await worker.drain()
            #expect(worker.metrics.collected.total() == 2)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 0)
            #expect(try await worker.store.lists() == 0)
        }
    }

    @Test("A widget that is removed during the fetch leaves no row or list behind")
    func removedDuringTheFetch() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            _ = try await worker.claim()
            try await worker.store.removeWidgets(showing: id)
            try await worker.finish()
            try await worker.drain()
            #expect(try await worker.store.timeline(id) == nil)
            #expect(try #require(worker.publisher.messages(of: id).last).value == nil)
        }
    }
}
