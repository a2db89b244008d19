// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Failures to publish.
@Suite("Output", .serialized, .tags(.database), .timeLimit(.patience))
struct OutputTests {
    @Test("Unpublished content is stored, its list is returned, and the next holder publishes it")
    func laterPublished() async throws {
        try await withWorker {
            $0.outputBackoff = Backoff(base: .zero, cap: .zero)
            $0.publishRetryDelay = .seconds(3_600)
        } _: { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.publisher.respond { _ in .testTimeout }
            try await worker.turn()
            let detail = try await worker.store.detail(id)
            #expect(detail.content != nil && detail.attempts == 0 && !detail.isStale)
            #expect(try await worker.store.lists() == 1)
            #expect(try await worker.store.lists(ready: .interactive) == 0)
            #expect(try await worker.store.integer("SELECT leases FROM work") == 1, "the lease counts")
            #expect(worker.metrics.unpublished.total() == 1)

            worker.publisher.respond { _ in nil }
            try await worker.store.passTime(4_000)
            try await worker.turn()
            #expect(worker.publisher.messages(of: id).map(\.revision) == [detail.revision])
            #expect(worker.metrics.stored.total() == 1 && worker.metrics.providerRequests.total() == 1)
            #expect(try await worker.store.lists() == 0)
        }
    }

    @Test("While the output is down, only small probes are claimed, one at a time")
    func probes() async throws {
        try await withWorker(maxBatch: 10) {
            $0.outputBackoff = Backoff(base: .seconds(60), cap: .seconds(60))
        } _: { worker in
            try await worker.store.placeApart(50)
            worker.publisher.respond { _ in .testTimeout }
            try await worker.turn()
            #expect(worker.metrics.claimed.total() == 50)
            try await worker.store.passTime(2)
            #expect(try await worker.turn() == 0, "the output is down")
        }
        try await withWorker(maxBatch: 10) {
            $0.outputBackoff = Backoff(base: .zero, cap: .zero)
            // The returned lists, with superseded timelines, do not become ready while the marks below run.
            $0.publishRetryDelay = .seconds(3_600)
        } _: { worker in
            try await worker.store.placeApart(50)
            worker.publisher.respond { _ in .testTimeout }
            try await worker.turn()
            for user in 0..<50 { try await worker.store.markUser("u\(user)") }
            let probe = try await worker.claim()
            #expect(probe > 0 && probe <= 10, "a probe is small")
            #expect(try await worker.claim() == 0, "one probe at a time")
            worker.publisher.respond { _ in nil }
            try await worker.finish()
            try await worker.store.passTime(4_000)
            try await worker.drain()
            #expect(worker.context.output.allowance() == .everything)
            #expect(try await worker.store.lists() == 0)
        }
    }

    @Test("A probe that finds nothing to publish is followed by another")
    func emptyProbe() async throws {
        try await withWorker {
            $0.outputBackoff = Backoff(base: .zero, cap: .zero)
        } _: { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            try await worker.drain()
            worker.publisher.respond { _ in .testTimeout }
            worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "new") }) }
            try await worker.store.markUser("u1")
            try await worker.turn()
            #expect(worker.context.output.allowance() != .everything)
            // The lists are superseded: they cause no fetch and no message.
            try await worker.store.sql("DELETE FROM work")
            try await worker.store.markUser("u2")
            try await worker.store.sql("UPDATE timeline SET listed_at = 'infinity'")
            #expect(try await worker.turn() == 0)
            worker.publisher.respond { _ in nil }
            try await worker.store.markUser("u2")
            try await worker.drain()
            #expect(try await worker.store.detail(ids[1]).text.contains("new"))
            #expect(worker.context.output.allowance() == .everything)
        }
    }

    @Test("A timeline that Kafka refuses for its size is stored and counted, and not retried")
    func tooLarge() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.publisher.respond { _ in .testTooLarge }
            try await worker.drain()
            let detail = try await worker.store.detail(id)
            #expect(detail.content != nil && detail.attempts == 0 && !detail.isStale)
            #expect(worker.metrics.unpublished.total() == 1 && worker.publisher.messages.isEmpty)
            #expect(worker.context.output.allowance() == .everything, "the output works")
            #expect(try await worker.store.lists() == 0)
        }
    }

    @Test("Nothing is published when the lease is about to expire")
    func lateInTheLease() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let timeline = try await worker.store.detail(id).timeline
            let kind = try #require(try await worker.store.directory().kinds[timeline.kindID])
            var job = TimelineJob(
                timeline, of: Sample.claim(kind: kind, leaseEnds: worker.context.clock.elapsed + .seconds(4)))
            job.content = Array("{}".utf8)
            job.written = WrittenTimeline(timeline)
            var batch = try #require(TimelineBatch([job], Sample.provider))
            await worker.context.publish(&batch)
            #expect(batch.jobs[0].published == nil)
            #expect(batch.jobs[0].returnDelay == worker.context.configuration.publishRetryDelay)
            #expect(worker.publisher.messages.isEmpty)
        }
    }

    @Test("An error that is fatal to a producer's client is handled like other failures")
    func fatal() async throws {
        try await withWorker {
            $0.outputBackoff = Backoff(base: .seconds(3_600), cap: .seconds(3_600))
        } _: { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.publisher.respond { _ in .testFatal }
            try await worker.turn()
            #expect(try await !worker.store.isLeased(id), "the timeline is published later")
            guard case .nothing = worker.context.output.allowance() else {
                Issue.record("claims continue although the output is down")
                return
            }
        }
    }
}

extension TestStore {
    /// Places widgets of users `u0`, `u1`, … in separate transactions, so that each timeline has its own list.
    @discardableResult
    func placeApart(_ count: Int) async throws -> [TimelineID] {
        var ids: [TimelineID] = []
        for user in 0..<count { ids += try await place([.test("w\(user)", user: "u\(user)")]) }
        return ids
    }
}
