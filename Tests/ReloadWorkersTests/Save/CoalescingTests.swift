import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Any number of requests before a fetch are one; what comes during it is exactly one more.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct CoalescingTests {
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
            let gate = Gate()
            worker.provider.respond { request in
                try await gate.pass()
                return .timelines(request.ids.map { .stubTimeline($0) })
            }
            async let drained: Void = worker.drain()
            try await worker.provider.received.reaches(1)
            for _ in 0..<5 { try await worker.store.markUser("u1") }
            #expect(try #require(await worker.store.detail(id).secondsToDue) > 0, "a leased timeline is not due")
            gate.open()
            try await drained
            #expect(worker.provider.requests.count == 2)
            let detail = try await worker.store.detail(id)
            #expect(!detail.isStale && detail.requested == 6)
        }
    }

    @Test func aRequestDuringTheFetchWakesTheClaimLoop() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            let works = try await worker.claim()
            try await worker.store.markUser("u1")
            let mark = worker.context.signal.mark(.timelines)
            await worker.run(works)
            #expect(worker.context.signal.mark(.timelines) != mark)
        }
    }

    @Test func generationsAreThoseFromBeforeTheFetch() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            let gate = Gate()
            worker.provider.respond { request in
                try await gate.pass()
                return .timelines(request.ids.map { .stubTimeline($0) })
            }
            async let drained: Void = worker.drain()
            try await worker.provider.received.reaches(1)
            try await worker.store.bumpKind("Purchases")
            try await worker.store.bumpApp()
            gate.open()
            try await drained
            let behind = try await worker.store.detail(id)
            #expect(behind.renderedKindGeneration == 0 && behind.kindGeneration == 1)
            #expect(behind.renderedAppGeneration == 0 && behind.appGeneration == 1)
            #expect(behind.isStale)

            #expect(try await worker.sweeper.pass().marked == 1)
            try await worker.drain()
            #expect(worker.provider.requests.count == 2)
            #expect(try await !worker.store.detail(id).isStale)
        }
    }
}
