import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("Hand-over within one process", .serialized, .tags(.database), .timeLimit(.patience))
struct HandOverDeskTests {
    /// Creates an open desk and a kind's row.
    private func withDesk(
        configure: (inout WorkerConfiguration) -> Void = { _ in },
        _ body: (HandOverDesk, TestWorker, Int32) async throws -> Void
    ) async throws {
        // With the default timeout, kinds have the configured lease.
        try await withWorker(timeout: KindDefinition.defaultTimeout, configure: configure) { worker in
            try await worker.directory.refresh()
            let desk = HandOverDesk()
            desk.open(worker.pipeline)
            try await body(desk, worker, try await worker.store.kindID("Purchases"))
        }
    }

    @Test("Room is granted up to the limit, and released when the hand-over is accepted")
    func room() async throws {
        try await withDesk {
            $0.maximumTimelinesInFlight = 20
        } _: { desk, worker, kind in
            let grant = try #require(desk.reserve(7, of: [kind, 9_999]))
            #expect(grant.timelines == 7 && grant.statement.kindIDs == [kind])
            #expect(grant.statement.lease == worker.context.configuration.lease)
            #expect(desk.reserve(14, of: [kind]) == nil && desk.reserve(13, of: [kind]) != nil)
            desk.accept(grant, nil)
            #expect(worker.context.leases.held == 13 && desk.reserve(7, of: [kind]) != nil)
        }
    }

    @Test("A closed desk grants nothing and drops late claims")
    func closed() async throws {
        try await withDesk { desk, worker, kind in
            let grant = try #require(desk.reserve(1, of: [kind]))
            desk.close()
            #expect(desk.reserve(1, of: [kind]) == nil)
            desk.accept(grant, Claim(token: 9, lists: [Sample.list(1, [Sample.timeline(10, kindID: kind)])]))
            #expect(worker.counts.claims == 0)
            #expect(HandOverDesk().reserve(1, of: [kind]) == nil, "the desk was never opened")
        }
    }

    @Test("Unknown, paused and retired kinds are refused; slow kinds get a longer lease")
    func kinds() async throws {
        try await withDesk { desk, worker, kind in
            #expect(desk.reserve(1, of: [9_999]) == nil)
            for change in ["retired_at", "paused_at"] {
                try await worker.store.sql("UPDATE kind SET \(change) = now() WHERE id = \(kind)")
                try await worker.directory.refresh()
                #expect(desk.reserve(1, of: [kind]) == nil, "\(change)")
                try await worker.store.sql("UPDATE kind SET \(change) = NULL WHERE id = \(kind)")
            }
            try await worker.store.redefine { $0.timeout = .seconds(60) }
            try await worker.directory.refresh()
            #expect(worker.context.leases.held == 0)
            #expect(desk.reserve(1, of: [kind])?.statement.lease == .seconds(90))
        }
    }

    @Test("Nothing is granted while the provider rests or has no free slot, or the output is down")
    func busy() async throws {
        try await withDesk {
            $0.protection.consecutiveFailures = 1
            $0.providerConcurrency = 1
        } _: { desk, worker, kind in
            let context = worker.context
            let provider = ProviderKey(
                appID: try #require(worker.directory.directory().kinds[kind]).appID, url: worker.provider.url)
            #expect(context.slots.begin(provider, .push, limit: 1))
            #expect(desk.reserve(1, of: [kind]) == nil, "no slot")
            context.slots.end(provider, .push)
            #expect(desk.reserve(1, of: [kind]) != nil)

            worker.publisher.respond { _ in .testTimeout }
            _ = await context.output.publish([context.messages.removed(TimelineID(high: 1, low: 1), revision: 1)])
            #expect(desk.reserve(1, of: [kind]) == nil, "the output is down")
            worker.publisher.respond { _ in nil }
            _ = await context.output.publish([context.messages.removed(TimelineID(high: 1, low: 1), revision: 1)])
            #expect(desk.reserve(1, of: [kind]) != nil)

            guard
                case .go(let ticket) = context.protection.begin(
                    provider, app: TestKinds.app, held: HeldSlots(), lane: .push, at: context.clock.elapsed)
            else {
                Issue.record("the provider is healthy")
                return
            }
            context.protection.failed(ticket, ProviderFailure(.connection, "refused"), at: context.clock.elapsed)
            #expect(desk.reserve(1, of: [kind]) == nil, "it rests")
        }
    }
}
