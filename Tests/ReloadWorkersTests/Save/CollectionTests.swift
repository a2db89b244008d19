import KafkaClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Timelines that no widget shows are buried: first the tombstone, then the rows.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct CollectionTests {
    @Test func anOrphanIsBuriedAndDeleted() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            try await worker.drain()
            try await worker.store.removeWidgets(showing: ids[0])
            try await worker.drain()
            #expect(try await worker.store.timeline(ids[0]) == nil)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 1)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline_content") == 1)
            let last = try #require(worker.publisher.messages(of: ids[0]).last)
            #expect(last.value == nil)
            #expect(last.revision > worker.publisher.messages(of: ids[0])[0].revision)
            #expect(worker.counts.collected == 1 && worker.counts.requests == 1)
            #expect(worker.context.inFlight.leases.isEmpty)
        }
    }

    @Test func aTimelinePlacedAgainDuringItsBurialLivesAndIsPublishedAnew() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.removeWidgets(showing: id)
            worker.publisher.respond { messages in
                if messages.allSatisfy({ $0.value == nil }) { _ = try? await worker.store.place([.test("w9")]) }
                return nil
            }
            try await worker.turn()
            let revived = try await worker.store.detail(id)
            #expect(!revived.isOrphaned && !revived.isLeased && revived.publishedHash == nil)
            #expect(worker.counts.collected == 0)
            try await worker.drain()
            let detail = try await worker.store.detail(id)
            let last = try #require(worker.publisher.messages(of: id).last)
            #expect(last.value != nil, "its tombstone is not the last word")
            #expect(last.revision == worker.publisher.messages(of: id).map(\.revision).max())
            #expect(detail.publishedHash == detail.storedHash && !detail.isStale)
        }
    }

    @Test func aTombstoneThatComesAfterAnothersMessageIsNotTheLastWord() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            try await slow.drain()
            try await slow.store.removeWidgets(showing: id)
            slow.publisher.respond { messages in
                guard messages.allSatisfy({ $0.value == nil }) else { return nil }
                // While the tombstone is on its way, its lease ends, and another worker publishes the timeline that a
                // widget shows again.
                _ = try? await slow.store.place([.test("w9")])
                try? await slow.store.passTime(31)
                try? await slow.another().drain()
                return nil
            }
            try await slow.turn()
            #expect(try await slow.store.detail(id).publishedHash == nil)
            try await slow.drain()
            let messages = slow.publisher.messages(of: id)
            #expect(messages.map { $0.value == nil } == [false, false, true, false])
            #expect(try #require(messages.last).revision == messages.map(\.revision).max())
            let detail = try await slow.store.detail(id)
            #expect(detail.publishedHash == detail.storedHash && !detail.isLeased)
        }
    }

    @Test func withoutItsTombstoneItStays() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.removeWidgets(showing: id)
            worker.publisher.respond { _ in .testTimeout }
            try await worker.turn()
            let detail = try await worker.store.detail(id)
            #expect(detail.isOrphaned && !detail.isLeased && detail.content != nil)
            #expect(try #require(detail.secondsToDue) > 0)
        }
    }

    @Test func aWidgetRemovedDuringTheFetchLeavesNothingBehind() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let works = try await worker.claim()
            try await worker.store.removeWidgets(showing: id)
            await worker.run(works)
            try await worker.drain()
            #expect(try await worker.store.timeline(id) == nil)
            #expect(try #require(worker.publisher.messages(of: id).last).value == nil)
        }
    }
}
