// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest
@testable import ReloadWorkers

@Suite("Hand-over within one process", .serialized, .tags(.database), .timeLimit(.patience))
struct LocalHandOverTests {
    /// Creates an open hand-over and a kind's row.
    private func withHandOver(
        configure: (inout WorkerConfiguration) -> Void = { _ in },
        _ body: (LocalHandOver, TestWorker, Int32) async throws -> Void
    ) async throws {
        // With the default timeout, kinds have the configured lease.
        try await withWorker(timeout: KindDefinition.defaultTimeout, configure: configure) { worker in
            try await worker.directory.refresh()
            let handOver = LocalHandOver()
            handOver.open(worker.pipeline)
            try await body(handOver, worker, try await worker.store.kindID("Purchases"))
        }
    }

    @Test("Room is a quarter of the maximum at once, up to the maximum, and released when the hand-over is accepted")
    func room() async throws {
        try await withHandOver {
            $0.maximumTimelinesInFlight = 20
        } _: { handOver, worker, kind in
            let grant = try #require(handOver.reserve([kind, 9_999]))
            #expect(grant.shares == [HandOver.Share(kindIDs: [kind], timelines: 5)])
            #expect(grant.lease == worker.context.configuration.lease)
            for _ in 0..<3 { #expect(handOver.reserve([kind])?.timelines == 5) }
            #expect(handOver.reserve([kind]) == nil && worker.context.leases.held == 20)
            #expect(!handOver.areBusy, "reserved room is no work")
            handOver.accept(grant, nil)
            #expect(worker.context.leases.held == 15 && handOver.reserve([kind]) != nil)
        }
    }

    @Test("Room is that of the providers' free slots, which kinds of one provider share")
    func slots() async throws {
        try await withHandOver {
            ($0.concurrency, $0.providerConcurrency) = (6, 4)
        } _: { handOver, worker, kind in
            try await worker.store.redefine { $0.maxBatch = 10 }
            try await worker.directory.refresh()
            let dueDate = try await worker.store.kindID("DueDate")
            let context = worker.context
            func room(_ kinds: Set<Int32>) -> [HandOver.Share] {
                guard let grant = handOver.reserve(kinds) else { return [] }
                handOver.accept(grant, nil)
                return grant.shares
            }
            #expect(room([kind]) == [HandOver.Share(kindIDs: [kind], timelines: 40)])
            #expect(room([kind, dueDate]) == [HandOver.Share(kindIDs: [kind, dueDate].sorted(), timelines: 40)])
            let provider = ProviderKey(try #require(worker.directory.directory().kinds[kind]))
            for _ in 0..<3 { #expect(context.slots.begin(provider, .push, limit: 4)) }
            #expect(room([kind]) == [HandOver.Share(kindIDs: [kind], timelines: 10)])
            let other = ProviderKey(appID: provider.appID, app: "a", url: "http://other")
            for _ in 0..<3 { #expect(context.slots.begin(other, .push, limit: 4)) }
            #expect(room([kind]).isEmpty, "the process has no free slot")
        }
    }

    @Test("Pushes that reach many widgets each lease no more timelines than the process may hold; all are fetched")
    func largeAudiences() async throws {
        try await withHandOver {
            $0.maximumTimelinesInFlight = 200
        } _: { handOver, worker, _ in
            try await worker.store.place(
                (0..<20).flatMap { user in
                    (0..<50).map { .test("w\(user)-\($0)", user: "u\(user)", configuration: #"{"n":\#($0)}"#) }
                })
            try await worker.store.settle()
            var fold = BatchFold(directory: try await worker.store.directory())
            for user in 0..<20 {
                let push = ReloadRequest(app: TestKinds.app, audience: .user("u\(user)"), kinds: .all, reason: .push)
                let position = EventPosition(topic: 0, partition: 0, offset: Int64(user))
                fold.add(BatchEvent(record: user, position: position, time: Sample.now, event: .reload(push)))
            }
            let grant = try #require(handOver.reserve(fold.urgentKinds))
            let outcome = try await BatchApplier(pool: worker.store.pool, audienceLimit: 1_000)
                .apply(fold, advancing: [], handOver: grant) { _ in fatalError("no event is rejected") }
            #expect(outcome.marked == 1_000 && outcome.claim?.count == 50 && outcome.lists > 0)
            handOver.accept(grant, outcome.claim)
            #expect(worker.context.leases.held <= 200)
            #expect(
                try await worker.store.integer(
                    "SELECT sum(cardinality(timelines)) FROM work WHERE lease IS NOT NULL") == 50)
            try await worker.finish()
            try await worker.drain()
            #expect(worker.metrics.completed == 1_000 && worker.metrics.failures.isEmpty)
            #expect(worker.provider.requests.allSatisfy { $0.ids.count <= 100 })
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A closed hand-over grants nothing and drops late claims")
    func closed() async throws {
        try await withHandOver { handOver, worker, kind in
            let grant = try #require(handOver.reserve([kind]))
            handOver.close()
            #expect(handOver.reserve([kind]) == nil)
            handOver.accept(grant, Claim(token: 9, lists: [Sample.list(1, [Sample.timeline(10, kindID: kind)])]))
            #expect(worker.metrics.claims.total() == 0)
            #expect(LocalHandOver().reserve([kind]) == nil, "the hand-over was never opened")
        }
    }

    @Test("Unknown, paused and retired kinds are refused; slow kinds get a longer lease")
    func kinds() async throws {
        try await withHandOver { handOver, worker, kind in
            #expect(handOver.reserve([9_999]) == nil)
            for change in ["retired_at", "paused_at"] {
                try await worker.store.sql("UPDATE kind SET \(change) = now() WHERE id = \(kind)")
                try await worker.directory.refresh()
                #expect(handOver.reserve([kind]) == nil, "\(change)")
                try await worker.store.sql("UPDATE kind SET \(change) = NULL WHERE id = \(kind)")
            }
            try await worker.store.redefine { $0.timeout = .seconds(60) }
            try await worker.directory.refresh()
            #expect(worker.context.leases.held == 0)
            #expect(handOver.reserve([kind])?.lease == .seconds(90))
        }
    }

    @Test("Nothing is granted while the provider rests or has no free slot, or the output is down")
    func busy() async throws {
        try await withHandOver {
            $0.protection.consecutiveFailures = 1
            $0.providerConcurrency = 1
        } _: { handOver, worker, kind in
            let context = worker.context
            let provider = ProviderKey(try #require(worker.directory.directory().kinds[kind]))
            #expect(context.slots.begin(provider, .push, limit: 1))
            #expect(handOver.reserve([kind]) == nil, "no slot")
            context.slots.end(provider, .push)
            #expect(handOver.reserve([kind]) != nil)

            worker.publisher.respond { _ in .testTimeout }
            _ = await context.output.publish([context.removedMessage(TimelineID(high: 1, low: 1), revision: 1)])
            #expect(handOver.reserve([kind]) == nil, "the output is down")
            worker.publisher.respond { _ in nil }
            _ = await context.output.publish([context.removedMessage(TimelineID(high: 1, low: 1), revision: 1)])
            #expect(handOver.reserve([kind]) != nil)

            guard
                case .go(let ticket) = context.protection.begin(
                    provider, held: HeldSlots(), lane: .push, at: context.clock.elapsed)
            else {
                Issue.record("the provider is healthy")
                return
            }
            context.protection.recordFailure(ticket, ProviderFailure(.connection, "refused"), at: context.clock.elapsed)
            #expect(handOver.reserve([kind]) == nil, "it rests")
        }
    }
}
