// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Requests before a fetch cause one fetch, and those during it exactly one more.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct CoalescingTests {
    /// Runs a closure while the provider holds its answer, and then ends the work.
    private func whileFetching(_ worker: TestWorker, request: Int, _ body: () async throws -> Void) async throws {
        let gate = Gate()
        worker.provider.respond { request in
            try await gate.pass()
            return .timelines(request.ids.map { .stubTimeline($0) })
        }
        async let drained: Void = worker.drain()
        try await worker.provider.received.reaches(request)
        try await body()
        gate.open()
        try await drained
    }

    @Test func requestsBeforeTheFetchAreOne() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            for _ in 0..<5 { try await worker.store.markUser("u1", events: 3) }
            try await worker.drain()
            let detail = try await worker.store.detail(id)
            #expect(worker.provider.requests.count == 1)
            #expect(detail.requested == 16 && detail.rendered == 16)
        }
    }

    @Test func requestsDuringTheFetchAreOneMore() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await whileFetching(worker, request: 1) {
                for _ in 0..<5 { try await worker.store.markUser("u1") }
                #expect(try await worker.store.lists() == 1, "its leased list covers the request")
            }
            #expect(worker.provider.requests.count == 2)
            let detail = try await worker.store.detail(id)
            #expect(!detail.isStale && detail.requested == 6)
        }
    }

    @Test func aRequestDuringTheFetchWakesTheClaimLoop() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            _ = try await worker.claim()
            try await worker.store.markUser("u1")
            let version = worker.context.signals.timelines.version
            try await worker.finish()
            #expect(worker.context.signals.timelines.version != version)
        }
    }

    @Test func generationsAreThoseFromBeforeTheFetch() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await whileFetching(worker, request: 1) {
                try await worker.store.bumpKind("Purchases")
                try await worker.store.bumpApp()
            }
            #expect(worker.provider.requests.count == 2)
            #expect(try await !worker.store.detail(id).isStale)
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("A request in a more urgent lane than a fetch under way is fetched once afterwards")
    func betterLane() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            try await worker.drain()
            try await worker.store.markUser("u1", lane: .bulk)
            try await whileFetching(worker, request: 2) {
                try await worker.store.markUser("u1", lane: .interactive)
                #expect(try await worker.store.lists() == 2, "the urgent lane has a separate list")
                // The same process claims that list while the timeline is in flight.
                try await worker.start()
                #expect(worker.context.leases.held == 2)
            }
            #expect(worker.provider.requests.count == 3)
            let detail = try await worker.store.detail(id)
            #expect(!detail.isStale && detail.rendered == 3)
            #expect(try await worker.store.lists() == 0)
        }
    }
}
