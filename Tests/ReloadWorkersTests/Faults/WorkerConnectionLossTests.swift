// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import PostgresClient
import TestSupport
import Testing
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

extension TestWorker {
    /// Another worker with the same provider and Kafka that reaches the same database through a proxy.
    func through(_ proxied: TestStore.Proxied) -> TestWorker {
        another(pool: proxied.pool) {
            $0.databaseBackoff = Backoff(base: .milliseconds(1), cap: .milliseconds(2))
            $0.publishRetryDelay = .zero
        }
    }

    /// Checks invariants 4 and 5: stored content is whole, and published with the highest revision.
    func expectPublishedIsStored(_ ids: [TimelineID], content: String, _ comment: String) async throws {
        for id in ids {
            let detail = try await store.detail(id)
            let last = publisher.messages(of: id).last
            try #require(detail.text.contains(content), "\(comment): stored")
            try #require(last?.value?.contains(content) == true, "\(comment): published")
            try #require(last?.revision == detail.revision, "\(comment): the last message carries the stored content")
            let isLeased = try await store.isLeased(id)
            try #require(!detail.isStale && !isLeased, "\(comment)")
        }
    }
}

/// Checks that no rendered generation decreases (invariant 3).
struct GenerationWatch {
    private var highest: [Int] = []

    /// Highest rendered request of each timeline, in order of the IDs.
    mutating func look(_ store: TestStore, _ ids: [TimelineID], _ comment: String) async throws {
        var now: [Int] = []
        for id in ids {
            now.append(
                try await store.integer(
                    """
                    SELECT rendered + generation FROM timeline WHERE identity = '\(id)'
                    """))
        }
        for (old, new) in zip(highest, now) { try #require(new >= old, "\(comment): decreased") }
        highest = now
    }
}

@Suite(.tags(.database), .timeLimit(.patience))
struct WorkerConnectionLossTests {
    private static let cuts: [@Sendable (Int) -> TestProxy.MessageCut] = [
        { TestProxy.MessageCut(.toServer, $0) }, { TestProxy.MessageCut(.toServer, $0, isPassedOn: true) },
        { TestProxy.MessageCut(.toClient, $0) },
    ]

    /// Cuts at each message in turn, until a round finishes without a cut.
    private func atEveryMessage(
        _ proxy: TestProxy, atLeast: Int, _ round: (TestProxy.MessageCut) async throws -> Void
    ) async throws {
        for makeCut in Self.cuts {
            var number = 0
            repeat {
                number += 1
                try await round(makeCut(number))
            } while !proxy.isCutToCome
            proxy.cut(nil)
            #expect(number > atLeast, "\(makeCut(number)) was never reached")
        }
    }

    @Test func aBatchSurvivesTheLossOfItsConnectionAtAnyMessage() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            try await worker.store.throughProxy { proxied in
                let faulty = worker.through(proxied)
                var generations = GenerationWatch()
                var round = 0
                try await atEveryMessage(proxied.proxy, atLeast: 8) { cut in
                    round += 1
                    let content = "round-\(round)."
                    worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: .string(content)) }) }
                    for user in 0..<3 { try await worker.store.markUser("u\(user)") }
                    proxied.proxy.cut(cut)
                    // A claim whose answer is lost throws an error; its lists are claimed again after the lease.
                    _ = try? await faulty.turn()
                    if !proxied.proxy.isCutToCome { proxied.proxy.cut(nil) }
                    try await generations.look(worker.store, ids, "\(cut)")
                    try await heal(worker, ids, "\(cut)")
                    try await generations.look(worker.store, ids, "\(cut), healed")
                    try await worker.expectPublishedIsStored(ids, content: content, "\(cut)")
                }
            }
        }
    }

    /// A worker stores and publishes content and dies. The next one fetches the content of before, stores it and loses
    /// its connection. The published content must finally be the stored one.
    @Test func contentRestoredAfterACrashIsPublishedAgain() async throws {
        try await withWorker { worker in
            worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "usual.") }) }
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.throughProxy { proxied in
                let faulty = worker.through(proxied)
                var generations = GenerationWatch()
                try await atEveryMessage(proxied.proxy, atLeast: 8) { cut in
                    try await worker.store.markUser("u1")
                    try await dieAfterPublishing(worker, content: "other.")
                    try await worker.store.endLeases()
                    // The next worker fetches the earlier content.
                    worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "usual.") }) }
                    try await worker.store.markUser("u1")
                    proxied.proxy.cut(cut)
                    _ = try? await faulty.turn()
                    if !proxied.proxy.isCutToCome { proxied.proxy.cut(nil) }
                    try await generations.look(worker.store, [id], "\(cut)")
                    try await heal(worker, [id], "\(cut)")
                    try await worker.expectPublishedIsStored([id], content: "usual.", "\(cut)")
                }
            }
        }
    }

    /// Expires the leases and works until nothing is stale. The server may notice a lost client late, and holds its
    /// locks until then.
    private func heal(_ worker: TestWorker, _ ids: [TimelineID], _ comment: String) async throws {
        try await eventually("\(comment): nothing is stale") {
            try await worker.store.endLeases()
            try await worker.store.passTime(2)
            try await worker.drain()
            for id in ids where try await worker.store.detail(id).isStale { return false }
            return try await worker.store.lists() == 0
        }
    }

    /// Claims, stores and publishes once.
    private func dieAfterPublishing(_ worker: TestWorker, content: String) async throws {
        worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: .string(content)) }) }
        let published = worker.publisher.messages.count
        let dying = worker.another()
        #expect(try await dying.claim() == 1)
        try await dying.finish(endsLists: false)
        #expect(worker.publisher.messages.count == published + 1)
    }

    @Test func aSweepSurvivesTheLossOfItsConnectionAtAnyMessage() async throws {
        try await withWorker(maxBatch: 50) {
            $0.sweepChunk = 10
            $0.bulkHighWater = 1_000
        } _: { worker in
            let ids = try await worker.store.place((0..<12).map { .test("w\($0)", user: "u\($0)") })
            try await worker.drain()
            try await worker.store.throughProxy { proxied in
                let faulty = worker.through(proxied)
                var generations = GenerationWatch()
                var round = 0
                var requested = try await worker.store.integer("SELECT sum(requested) FROM timeline")
                try await atEveryMessage(proxied.proxy, atLeast: 8) { cut in
                    round += 1
                    let content = "round-\(round)."
                    worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: .string(content)) }) }
                    try await worker.store.bumpKind("Purchases")
                    // A reload of everyone with `matching` is a recorded sweep, whose events each timeline counts once.
                    try await worker.store.apply(
                        [
                            .reload(
                                ReloadRequest(
                                    app: TestKinds.app, audience: .everyone,
                                    kinds: KindScope(names: ["Purchases"]) ?? .all,
                                    matching: WidgetConfiguration(storedCanonical: "{}"), reason: .foreground))
                        ], at: Timestamp(microseconds: 1))
                    proxied.proxy.cut(cut)
                    _ = try? await faulty.sweeper.pass()
                    if !proxied.proxy.isCutToCome { proxied.proxy.cut(nil) }
                    // The server may notice the lost client late, and holds its locks until then.
                    try await eventually("\(cut): the sweep ends") {
                        try await worker.sweep()
                        try await worker.drain()
                        return try await worker.store.integer(
                            """
                            SELECT (SELECT count(*) FROM sweep) + (SELECT count(*) FROM timeline t
                                JOIN kind k ON k.id = t.kind_id WHERE t.generation < k.generation)
                            """) == 0
                    }
                    try await generations.look(worker.store, ids, "\(cut)")
                    try await worker.expectPublishedIsStored(ids, content: content, "\(cut)")
                    let counted = try await worker.store.integer("SELECT sum(requested) FROM timeline")
                    let added = counted - requested
                    requested = counted
                    try #require(
                        added == 0 || added == 12, "\(cut): the sweep's event was counted for \(added) of 12 timelines")
                }
            }
        }
    }
}
