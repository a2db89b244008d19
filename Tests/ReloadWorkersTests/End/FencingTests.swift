// SPDX-License-Identifier: Apache-2.0

import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// A worker without a lease changes no row, and its messages are superseded.
@Suite("Lost leases", .serialized, .tags(.database), .timeLimit(.patience))
struct FencingTests {
    /// A provider that answers the first request with "old" when the gate opens, and later ones at once with "new".
    ///
    /// - Returns: Number of requests whose answers are decided.
    private func hold(_ provider: StubProvider, _ gate: Gate) -> Tally {
        let decided = Tally()
        provider.respond { request in
            guard decided.add() == 1 else {
                return .timelines(request.ids.map { .stubTimeline($0, content: "new") })
            }
            try await gate.pass()
            return .timelines(request.ids.map { .stubTimeline($0, content: "old") })
        }
        return decided
    }

    /// Runs `body` while the first batch of messages is under way.
    private func onFirstPublish(_ worker: TestWorker, _ body: @escaping @Sendable () async throws -> Void) {
        let first = Tally()
        worker.publisher.respond { _ in
            if first.add() == 1 { try? await body() }
            return nil
        }
    }

    @Test("An expired lease is claimed again, and the first result is discarded")
    func expired() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let gate = Gate()
            let decided = hold(slow.provider, gate)
            async let late: Int = slow.turn()
            try await decided.reaches(1)

            let quick = slow.another()
            #expect(try await quick.turn() == 0, "the lease is valid")
            try await slow.store.endLeases()
            #expect(try await quick.turn() == 1)
            gate.open()
            _ = try await late

            let detail = try await slow.store.detail(id)
            #expect(detail.text.contains("new"))
            #expect(slow.publisher.messages(of: id).map(\.revision) == [detail.revision])
            #expect(slow.metrics.fenced.total() == 1 && slow.metrics.stored.total() == 0 && slow.metrics.completed == 0)
            #expect(quick.metrics.stored.total() == 1 && detail.decision == .reloaded)
            #expect(try await slow.store.lists() == 0)
        }
    }

    @Test("A late failure does not end the next claim")
    func lateFailure() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            _ = try await slow.claim()
            try await slow.store.endLeases()
            let quick = slow.another()
            _ = try await quick.claim()
            slow.provider.respond { _ in .status(500) }
            try await slow.finish()
            #expect(try await slow.store.isLeased(id))
            #expect(try await slow.store.detail(id).attempts == 0)
            slow.provider.respond { .timelines($0.ids.map { .stubTimeline($0) }) }
            try await quick.finish()
            #expect(try await slow.store.detail(id).decision == .reloaded)
        }
    }

    @Test("After a message under a lost lease the stored content is published last")
    func publishedUnderALostLease() async throws {
        try await withWorker { slow in
            slow.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "old") }) }
            let id = try await slow.store.place([.test("w1")])[0]
            let quick = slow.another()
            onFirstPublish(slow) {
                // The lease expires during the publishing, and another worker does the same work.
                slow.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "new") }) }
                try await slow.store.endLeases()
                try await slow.store.markUser("u1")
                try await quick.drain()
            }
            try await slow.turn()
            #expect(try await slow.store.lists() == 1, "the list of suspects may be claimed by any worker")
            try await slow.drain()
            let detail = try await slow.store.detail(id)
            #expect(detail.text.contains("new"))
            let last = try #require(slow.publisher.messages(of: id).last)
            #expect(last.revision == detail.revision && last.value?.contains("new") == true)
            #expect(try await slow.store.lists() == 0)
        }
    }

    @Test("A timeline collected during the publishing gets its tombstone last")
    func collectedMeanwhile() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let other = slow.another()
            onFirstPublish(slow) {
                try await slow.store.removeWidgets(showing: id)
                try await slow.store.endLeases()
                try await other.drain()
            }
            try await slow.turn()
            #expect(try await slow.store.timeline(id) == nil)
            #expect(try #require(slow.publisher.messages(of: id).last).value == nil)
            try await slow.drain()
            #expect(try await slow.store.lists() == 0)
        }
    }

    @Test("A timeline collected and placed again during the publishing has its new content published last")
    func placedAgainMeanwhile() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let other = slow.another()
            onFirstPublish(slow) {
                try await slow.store.removeWidgets(showing: id)
                try await slow.store.endLeases()
                try await other.drain()
                slow.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "second life") }) }
                try await slow.store.sql("DELETE FROM widget")
                #expect(try await slow.store.place([.test("w1")]) == [id])
                try await other.drain()
            }
            try await slow.turn()
            try await slow.drain()
            let last = try #require(slow.publisher.messages(of: id).last)
            #expect(last.value?.contains("second life") == true)
            #expect(try await slow.store.detail(id).revision == last.revision)
        }
    }

    @Test(
        "A list that the same process claims again while it works on it is worked on again, and leaves nothing behind"
    )
    func claimedAgainByTheSameProcess() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let gate = Gate()
            let decided = hold(worker.provider, gate)
            async let turn: Int = worker.turn()
            try await decided.reaches(1)
            try await worker.store.endLeases()
            try await worker.start()
            #expect(worker.context.leases.held == 2)
            gate.open()
            _ = try await turn
            #expect(worker.context.leases.held == 0 && worker.metrics.fenced.total() == 1)
            let detail = try await worker.store.detail(id)
            #expect(detail.text.contains("new") && !detail.isStale)
            #expect(worker.publisher.messages(of: id).map(\.revision) == [detail.revision])
            #expect(try await worker.store.lists() == 0)
        }
    }

    @Test("The next lease holder publishes the content that a killed worker stored")
    func killedBeforePublishing() async throws {
        try await withWorker { slow in
            let id = try await slow.store.place([.test("w1")])[0]
            let (stored, forever) = (Gate(), Gate())
            slow.publisher.respond { _ in
                stored.open()
                try? await forever.pass()
                return .testTimeout
            }
            async let dying: Int = slow.turn()
            try await stored.pass()
            try await slow.store.endLeases()
            slow.publisher.respond { _ in nil }
            let next = slow.another()
            try await next.drain()
            let detail = try await slow.store.detail(id)
            #expect(slow.publisher.messages(of: id).map(\.revision) == [detail.revision])
            #expect(next.metrics.providerRequests.total() == 0, "stored content is not fetched again")
            #expect(try await slow.store.lists() == 0)
            forever.open()
            _ = try await dying
        }
    }

    @Test("While other workers are registered, messages are compared before their list ends")
    func comparedBesideOthers() async throws {
        try await withWorker { slow in
            let quick = slow.another()
            try await slow.register()
            try await quick.register()
            let id = try await slow.store.place([.test("w1")])[0]
            onFirstPublish(slow) {
                // Another worker stores and publishes the same timeline through another list before this message.
                slow.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "new") }) }
                try await slow.store.markUser("u1")
                try await quick.drain()
            }
            try await slow.turn()
            let detail = try await slow.store.detail(id)
            #expect(detail.text.contains("new"))
            let messages = slow.publisher.messages(of: id)
            #expect(messages.count == 3, "the stored content follows the late message")
            #expect(messages.last?.revision == detail.revision)
            #expect(try await slow.store.lists() == 0)
        }
    }

    @Test("A timeline orphaned during its publishing ends with a tombstone above its content's revision")
    func orphanedMeanwhile() async throws {
        try await withWorker { worker in
            try await worker.register()
            try await worker.another().register()
            let id = try await worker.store.place([.test("w1")])[0]
            onFirstPublish(worker) { try await worker.store.removeWidgets(showing: id) }
            try await worker.turn()
            let messages = worker.publisher.messages(of: id)
            #expect(messages.map { $0.value == nil } == [false, true])
            #expect(try #require(messages.last).revision > messages[0].revision)
            try await worker.drain()
            #expect(try await worker.store.timeline(id) == nil)
        }
    }

    @Test("All timelines of a list that was leased before are compared, including superseded ones")
    func leasedBefore() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            // The previous holder of an old list may have stored these and died.
            try await worker.store.sql(
                """
                INSERT INTO work (kind_id, lane, due_at, ready_at, leases, timelines)
                SELECT min(kind_id), 1, now(), now(), 1, array_agg(id) FROM timeline
                """)
            let before = worker.publisher.messages.count
            #expect(try await worker.turn() == 0)
            #expect(worker.publisher.messages.count == before + 3)
            for id in ids {
                let stored = try await worker.store.detail(id).revision
                #expect(worker.publisher.messages(of: id).last?.revision == stored)
            }
            #expect(try await worker.store.lists() == 0)
        }
    }
}

extension TestStore {
    /// Expires all leases.
    func endLeases() async throws {
        try await sql("UPDATE work SET ready_at = now() - interval '1 ms' WHERE lease IS NOT NULL")
    }
}
