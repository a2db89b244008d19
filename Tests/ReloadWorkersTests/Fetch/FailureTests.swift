// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// After any failure of a provider the last good timeline stays, its request stays pending, and it is retried with
/// growing delays.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct FailureTests {
    struct Fault: Sendable {
        let name: String
        let reason: ProviderFailure.Reason
        let answer: StubProvider.Script

        init(_ name: String, _ reason: ProviderFailure.Reason, _ answer: @escaping StubProvider.Script) {
            self.name = name
            self.reason = reason
            self.answer = answer
        }
    }

    static let faults: [Fault] = [
        Fault("status 500", .status) { _ in .status(500) },
        Fault("redirect", .status) { _ in .status(307, headers: ["location": "/widgets/timelines"]) },
        Fault("garbage", .invalid) { _ in .body(Array("<html>".utf8)) },
        Fault("empty", .invalid) { _ in .body([]) },
        Fault("invalid UTF-8", .invalid) { _ in .body([0x7B, 0x22, 0xFF, 0x22, 0x7D]) },
        Fault("not JSON by its type", .invalid) { request in
            let document: JSONValue = ["timelines": .array(request.ids.map { .stubTimeline($0) })]
            return .body(document.encoded, contentType: "text/html")
        },
        Fault("too much, announced", .tooLarge) { _ in .body(Array(repeating: 32, count: 70_000)) },
        Fault("too much, streamed", .tooLarge) { _ in .stream(bytes: 1 << 20) },
        Fault("for others only", .missing) { _ in .timelines([.stubTimeline(TimelineID(high: 1, low: 2))]) },
        Fault("nothing", .missing) { _ in .timelines([]) },
        Fault("twice", .duplicate) { .timelines(($0.ids + $0.ids).map { .stubTimeline($0) }) },
        Fault("no entries", .invalid) { request in
            .timelines(request.ids.map { ["id": .string($0.description), "policy": "never", "entries": []] })
        },
        Fault("an error of its own", .provider) { .timelines($0.ids.map { .stubError($0, code: "unavailable") }) },
    ]

    @Test func anyFailureOfAProviderKeepsTheLastGoodTimeline() async throws {
        try await withWorker {
            $0.maximumResponseBytes = 65_536
        } _: { worker in
            for (index, fault) in Self.faults.enumerated() {
                try await expectMending(of: fault, user: "u\(index)", worker.another())
            }
        }
    }

    @Test("The latest error of a single timeline is kept with its code and message beside the provider's health")
    func itemErrors() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            worker.provider.respond { request in
                .timelines(
                    request.ids.enumerated().map { $0 == 0 ? .stubError($1, code: "noCard") : .stubTimeline($1) })
            }
            try await worker.turn()
            let record = try #require(worker.context.protection.records(of: TestKinds.app).values.first)
            #expect(record.itemFailure?.hasPrefix("noCard: ") == true, "\(record)")
            #expect(record.itemFailedAt != nil && record.failure == nil)
        }
    }

    @Test func anAnswerThatComesTooLateIsAFailure() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            worker.provider.respond { _ in
                try await Gate().pass()
                return .status(200)
            }
            try await worker.store.sql(
                "UPDATE kind_definition SET definition = jsonb_set(definition, '{timeout}', '0.2')")
            try await worker.turn()
            #expect(worker.metrics.failures == [.timeout: 1])
        }
    }

    private func expectMending(of fault: Fault, user: String, _ worker: TestWorker) async throws {
        worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "good") }) }
        let id = try await worker.store.place([.test("w-\(user)", user: user)])[0]
        try await worker.drain()
        let good = try await worker.store.detail(id)

        worker.provider.respond(fault.answer)
        try await worker.store.markUser(user)
        try await worker.turn()
        let failed = try await worker.store.detail(id)
        #expect(worker.metrics.failures == [fault.reason: 1], "\(fault.name)")
        #expect(failed.content == good.content && failed.revision == good.revision, "\(fault.name)")
        #expect(failed.attempts == 1 && failed.decision == .failed, "\(fault.name)")
        #expect(failed.isStale && failed.requested == good.requested + 1, "\(fault.name)")
        #expect(worker.publisher.messages(of: id).count == 1, "\(fault.name)")

        worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "new") }) }
        try await worker.store.passTime(100)
        try await worker.turn()
        let mended = try await worker.store.detail(id)
        #expect(!mended.isStale && mended.attempts == 0, "\(fault.name)")
        #expect(mended.text.contains("new"), "\(fault.name)")
    }

    @Test func oneTimelinesErrorCostsOnlyThatOne() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place((0..<4).map { .test("w\($0)", user: "u\($0)") })
            worker.provider.respond { request in
                .timelines(
                    request.ids.compactMap { id in
                        switch ids.firstIndex(of: id) {
                        case 0: .stubError(id, code: "gone", retryAfter: 1_200)
                        case 1: nil
                        default: .stubTimeline(id)
                        }
                    } + [.stubTimeline(TimelineID(high: 7, low: 7))])
            }
            try await worker.turn()
            let failed = try await worker.store.detail(ids[0])
            #expect(try #require(failed.secondsToDue) > 1_000, "the provider asked for twenty minutes")
            #expect(try await worker.store.detail(ids[1]).attempts == 1)
            for id in ids[2...] { #expect(try await !worker.store.detail(id).isStale) }
            #expect(worker.metrics.failures == [.provider: 1, .missing: 1])
            #expect(worker.log.count(of: "were not asked for") == 1 && worker.metrics.completed == 2)
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline WHERE content IS NOT NULL") == 2)
        }
    }

    @Test func aWholeBatchWaitsAsLongAsItsProviderAsks() async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.provider.respond { _ in .status(503, headers: ["retry-after": "900"]) }
            try await worker.turn()
            #expect(try #require(await worker.store.detail(id).secondsToDue) > 700)
            // A free request does not shorten the delay either.
            try await worker.store.markUser("u1", lane: .interactive)
            #expect(try #require(await worker.store.detail(id).secondsToDue) > 700)
        }
    }

    @Test func retryAfterIsBelievedOnlyUpToALimit() async throws {
        try await withWorker {
            $0.maximumRetryAfter = .seconds(1_000)
        } _: { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            worker.provider.respond { _ in .status(503, headers: ["retry-after": "99999999999"]) }
            try await worker.turn()
            let seconds = try #require(await worker.store.detail(id).secondsToDue)
            #expect(seconds > 800 && seconds < 1_200)
        }
    }

    @Test func attemptsAreCountedAndTheBackOffGrows() async throws {
        try await withWorker { first in
            // Its clock stands still, since a slow claim would make the retry later.
            let worker = first.another(clock: WorkerClock(HandClock()))
            let id = try await worker.store.place([.test("w1")])[0]
            worker.provider.respond { _ in .status(500) }
            for attempt in 1...6 {
                #expect(try await worker.turn() == 1)
                let detail = try await worker.store.detail(id)
                #expect(detail.attempts == attempt)
                let bound = worker.context.configuration.providerBackoff.bound(attempt: attempt)
                // The grid that retries share makes one later by a fortieth of its delay at most.
                #expect(Duration.seconds(try #require(detail.secondsToDue)) <= bound * 1.025)
                try await worker.store.passTime(1_000)
            }
        }
    }

    @Test func aProviderAtAPrivateAddressIsNotCalled() async throws {
        try await withWorker(allowing: ["10.0.0.0/8"]) { worker in
            try await worker.store.place([.test("w1")])
            try await worker.turn()
            #expect(worker.metrics.failures == [.refused: 1])
            #expect(worker.provider.requests.isEmpty)
        }
    }

    @Test func aDeadProviderIsAConnectionFailure() async throws {
        try await withWorker { worker in
            try await worker.store.place([.test("w1")])
            try await worker.store.sql(
                """
                UPDATE kind_definition
                SET definition = jsonb_set(definition, '{providerURL}', '"http://127.0.0.1:1/dead"')
                """)
            try await worker.turn()
            #expect(worker.metrics.failures == [.connection: 1])
        }
    }
}
