// SPDX-License-Identifier: Apache-2.0

import Synchronization
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// Failing providers with real claims and requests: poisonous timelines are isolated, overloaded providers are spared,
/// and no request is lost.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct ProtectedReloadTests {
    private func placeUsers(_ count: Int, _ worker: TestWorker, from first: Int = 0) async throws -> [TimelineID] {
        try await worker.store.place((first..<(first + count)).map { .test("w\($0)", user: "u\($0)") })
    }

    // MARK: Leases

    @Test("A batch whose lease ends before its request goes back: no attempt, and nothing is held against the provider")
    func lateBatch() async throws {
        try await withWorker(timeout: .seconds(10)) { worker in
            let clock = HandClock()
            let late = worker.another(clock: WorkerClock(clock)) { $0.protection.consecutiveFailures = 1 }
            let ids = try await placeUsers(5, worker)
            for left in [Duration.zero, .seconds(9), .seconds(-1)] {
                #expect(try await late.claim() == 5)
                // What is left beside the publishing is less than a request may take.
                clock.advance(by: .seconds(30) - worker.context.output.longestPublish - left)
                try await late.finish()
                #expect(worker.provider.requests.isEmpty)
            }
            #expect(late.metrics.decisions.total(["decision": "released"]) == 15)
            #expect(late.metrics.failures.isEmpty && late.metrics.breakersOpened.total() == 0)
            #expect(late.context.protection.records(of: TestKinds.app).isEmpty, "nothing is recorded of the provider")
            for id in ids {
                let detail = try await worker.store.detail(id)
                #expect(detail.attempts == 0 && detail.decision != .failed)
            }
            #expect(try await worker.store.integer("SELECT max(leases) FROM work") == 0, "as if it was never leased")
            #expect(try await late.turn() == 5 && late.metrics.completed == 5)
        }
    }

    // MARK: Poison

    /// Reaction of a provider to a batch with a poisonous timeline.
    static let poisons: [@Sendable () -> StubProvider.Answer] = [
        { .status(500) }, { .status(400) }, { .status(422) }, { .body(Array("{\"timelines\": [".utf8)) },
        { .stream(bytes: 1 << 20) },
    ]

    @Test(arguments: poisons.indices)
    func thePoisonousTimelineFailsAloneWithinTheSameLease(index: Int) async throws {
        try await withWorker {
            $0.maximumResponseBytes = 65_536
        } _: { worker in
            let ids = try await placeUsers(20, worker)
            let poison = ids[13]
            worker.provider.respond { request in
                request.ids.contains(poison)
                    ? Self.poisons[index]() : .timelines(request.ids.map { .stubTimeline($0) })
            }
            #expect(try await worker.turn() == 20)
            for id in ids where id != poison {
                let detail = try await worker.store.detail(id)
                #expect(!detail.isStale && detail.attempts == 0)
            }
            let failed = try await worker.store.detail(poison)
            #expect(failed.isStale && failed.attempts == 1)
            // An answer that is too large is halved without a search for the cause.
            #expect(try await worker.store.rule(of: poison) == (index == 4 ? .providerTooLarge : .providerPoison))
            #expect(worker.metrics.completed == 19)
            #expect(worker.metrics.providerRequests.total() <= 1 + 2 * 5)
            #expect(worker.metrics.breakersOpened.total() == 0, "the provider is healthy")
        }
    }

    @Test func anOutageIsNotMultiplied() async throws {
        try await withWorker { worker in
            let ids = try await placeUsers(20, worker)
            worker.provider.respond { _ in .status(500) }
            try await worker.turn()
            #expect(
                worker.provider.requests.map(\.ids.count) == [20, 10, 10, 1], "the batch, its halves and one timeline")
            #expect(worker.metrics.failures == [.status: 20] && worker.metrics.poisonous.total() == 0)
            for id in ids { #expect(try await worker.store.detail(id).attempts == 1) }
        }
    }

    /// Answer of a gateway whose provider crashed or never answered, as in an outage.
    @Test(arguments: [502, 504])
    func aTimelineThatBreaksItsProviderIsFoundInTheEnd(status: Int) async throws {
        try await withWorker { worker in
            let poison = try await placeUsers(40, worker)[17]
            worker.provider.respond { request in
                request.ids.contains(poison) ? .status(status) : .timelines(request.ids.map { .stubTimeline($0) })
            }
            for attempt in 1...4 {
                #expect(worker.provider.requestedIDs.count <= 40 * (attempt - 1), "an outage causes no extra requests")
                try await worker.turn()
                #expect(worker.metrics.breakersOpened.total() == 0)
                #expect(try await worker.store.detail(poison).attempts == attempt)
                // All are due at once, so that jitter does not separate them.
                try await worker.store.passTime(1_000)
            }
            #expect(worker.metrics.completed == 39)
            #expect(try await worker.store.rule(of: poison) == .providerPoison)
        }
    }

    @Test func aRestThatIsAskedForIsNoPoison() async throws {
        try await withWorker {
            $0.protection.openBackoff = Backoff(base: .microseconds(1), cap: .microseconds(1))
        } _: { worker in
            _ = try await placeUsers(2, worker)
            worker.provider.respond { _ in .status(503) }
            for _ in 0..<6 {
                try await worker.turn()
                try await worker.store.passTime(1_000)
            }
            #expect(worker.provider.requests.count >= 6 && worker.provider.requests.allSatisfy { $0.ids.count == 2 })
        }
    }

    @Test func retriesDoNotFailFreshTimelines() async throws {
        try await withWorker { worker in
            let poison = try await placeUsers(1, worker)[0]
            worker.provider.respond { request in
                request.ids.contains(poison) ? .status(500) : .timelines(request.ids.map { .stubTimeline($0) })
            }
            try await worker.turn()
            #expect(
                try await worker.store.rule(of: poison) == .providerStatus,
                "the cause of a single failure may be the provider")
            try await worker.store.passTime(1_000)
            let fresh = try await placeUsers(5, worker, from: 1)
            #expect(try await worker.turn() == 6)
            #expect(worker.provider.requests.count == 3)
            #expect(worker.provider.requests.contains { Set($0.ids) == Set(fresh) })
            #expect(worker.metrics.completed == 5)
        }
    }

    @Test func aTimelineThatFailsAgainAndAgainLeavesItsProviderAlone() async throws {
        try await withWorker {
            $0.protection.consecutiveFailures = 2
        } _: { worker in
            _ = try await placeUsers(1, worker)
            worker.provider.respond { _ in .status(500) }
            for _ in 0..<6 {
                #expect(try await worker.turn() == 1)
                try await worker.store.passTime(1_000)
            }
            #expect(worker.metrics.breakersOpened.total() == 0)
        }
    }

    // MARK: Sizes

    @Test func aBatchThatIsTooLargeIsHalvedAndTheSizeRemembered() async throws {
        try await withWorker(minimumSpacing: .zero) { worker in
            let ids = try await placeUsers(16, worker)
            worker.provider.respond { request in
                request.ids.count > 5 ? .status(413) : .timelines(request.ids.map { .stubTimeline($0) })
            }
            try await worker.turn()
            for id in ids { #expect(try await !worker.store.detail(id).isStale) }
            #expect(worker.provider.requests.map(\.ids.count) == [16, 8, 4, 4, 4, 4])
            #expect(worker.metrics.failures.isEmpty)
            for user in 0..<16 { try await worker.store.markUser("u\(user)") }
            try await worker.drain()
            #expect(worker.provider.requests.dropFirst(6).allSatisfy { $0.ids.count <= 5 })
            #expect(worker.metrics.completed == 32)
        }
    }

    // MARK: Breaker

    /// A provider that works again after failures that opened its breaker, with five further timelines due.
    private func withOpenBreaker(
        _ body: (_ worker: TestWorker, _ clock: HandClock, _ later: [TimelineID]) async throws -> Void
    ) async throws {
        try await withWorker(maxBatch: 1) {
            $0.protection.consecutiveFailures = 3
            $0.protection.openBackoff = Backoff(base: .seconds(3), cap: .seconds(3))
        } _: { first in
            let clock = HandClock()
            let worker = first.another(clock: WorkerClock(clock))
            worker.provider.respond { _ in .status(502) }
            _ = try await placeUsers(5, worker)
            try await worker.turn()
            #expect(worker.metrics.breakersOpen.total() == 1 && worker.metrics.breakersOpened.total() == 1)
            let later = try await placeUsers(5, worker, from: 5)
            worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0) }) }
            try await body(worker, clock, later)
        }
    }

    @Test func aProviderThatFailsIsLeftAlone() async throws {
        try await withOpenBreaker { worker, _, later in
            let asked = worker.provider.requests.count
            #expect(try await worker.turn() == 0, "nothing is claimed")
            for id in later {
                let detail = try await worker.store.detail(id)
                #expect(detail.attempts == 0 && detail.isStale)
            }
            #expect(worker.provider.requests.count == asked)
        }
    }

    @Test func aProviderThatFailsIsAskedAgainWhenAProbeSucceeds() async throws {
        try await withOpenBreaker { worker, clock, _ in
            let asked = worker.provider.requests.count
            clock.advance(by: .seconds(3))
            #expect(try await worker.turn() > 0, "a probe is claimed")
            // After a successful probe the rest of its list may follow.
            #expect(worker.provider.requests.count > asked)
            #expect(worker.provider.requests[asked].ids.count == 1)
            #expect(worker.metrics.breakersOpen.total() == 0)
            try await worker.store.passTime(1_000)
            try await worker.drain()
            #expect(worker.metrics.completed == 10)
        }
    }

    @Test func aProviderThatAsksForARestGetsItWholly() async throws {
        for status in [429, 503] {
            try await withWorker { worker in
                _ = try await placeUsers(1, worker)
                worker.provider.respond { _ in .status(status, headers: ["retry-after": "600"]) }
                try await worker.turn()
                let other = try await placeUsers(1, worker, from: 1)[0]
                #expect(try await worker.turn() == 0)
                #expect(try await worker.store.detail(other).attempts == 0)
                #expect(worker.provider.requests.count == 1)
            }
        }
    }

    @Test func oneTimelinesRetryAfterIsThatTimelinesOnly() async throws {
        try await withWorker { worker in
            let ids = try await placeUsers(2, worker)
            worker.provider.respond { request in
                .timelines(
                    request.ids.map { $0 == ids[0] ? .stubError($0, code: "busy", retryAfter: 600) : .stubTimeline($0) }
                )
            }
            try await worker.turn()
            #expect(try #require(await worker.store.detail(ids[0]).secondsToDue) > 400)
            #expect(try await !worker.store.detail(ids[1]).isStale)
            _ = try await placeUsers(1, worker, from: 2)
            #expect(try await worker.turn() == 1, "the provider is asked normally")
        }
    }

    @Test func errorsOfTimelinesNeverOpenTheBreaker() async throws {
        try await withWorker(maxBatch: 1) {
            $0.protection.consecutiveFailures = 2
        } _: { worker in
            worker.provider.respond { .timelines($0.ids.map { .stubError($0, code: "gone") }) }
            for round in 0..<5 {
                _ = try await placeUsers(3, worker, from: round * 3)
                try await worker.turn()
            }
            #expect(worker.metrics.breakersOpened.total() == 0)
            // Some may have been retried by now.
            #expect(Array(worker.metrics.failures.keys) == [.provider])
            #expect(worker.metrics.failures[.provider, default: 0] >= 15)
        }
    }

    @Test("Lists of a resting provider are returned unchanged, and their leases do not count")
    func restingProviderGivesBack() async throws {
        try await withWorker(maxBatch: 1) {
            $0.protection.consecutiveFailures = 1
            $0.protection.openBackoff = Backoff(base: .seconds(60), cap: .seconds(60))
            // The failed timeline's next attempt, at a random time, comes after the end of the test.
            $0.providerBackoff = Backoff(base: .seconds(360_000), cap: .seconds(360_000))
            $0.concurrency = 1
            $0.providerConcurrency = 1
        } _: { worker in
            // The first request of the list opens the breaker; no others are made.
            let ids = try await placeUsers(5, worker)
            worker.provider.respond { _ in .status(502) }
            #expect(try await worker.turn() == 5)
            #expect(
                worker.provider.requests.count == 1 && worker.metrics.decisions.total(["decision": "released"]) == 4)
            #expect(worker.metrics.failures.values.reduce(0, +) == 1)
            #expect(try await worker.store.integer("SELECT count(*) FROM work WHERE leases = 0 AND lease IS NULL") == 2)
            #expect(try await worker.store.lists(ready: .interactive) == 0, "at the breaker's next probe")
            for id in ids { #expect(try await worker.store.detail(id).isStale) }
            #expect(worker.context.leases.held == 0 && worker.context.slots.all.isEmpty)
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    // MARK: Retries

    @Test func beyondTheRetryBudgetWhatFailedWaitsAndIsNotDropped() async throws {
        try await withWorker {
            $0.protection.retryFloor = 2
            $0.protection.consecutiveFailures = 100
        } _: { worker in
            let ids = try await placeUsers(6, worker)
            worker.provider.respond { _ in .status(502) }
            try await worker.turn()
            try await worker.store.passTime(1_000)
            try await worker.turn()
            #expect(worker.provider.requests.map(\.ids.count) == [6, 2])
            #expect(worker.metrics.retriesRefused.total() == 4)
            var attempts = 0
            for id in ids {
                let detail = try await worker.store.detail(id)
                attempts += Int(detail.attempts)
                #expect(detail.isStale)
            }
            #expect(try await worker.store.unappointed() == 0)
            #expect(attempts == 6 + 2, "timelines without a retry have not failed again")
        }
    }

    @Test func retriesThatSucceedAreNotHeldBack() async throws {
        try await withWorker {
            // One request after the other.
            $0.providerConcurrency = 1
            $0.concurrency = 1
            $0.protection.retryFloor = 30
            $0.protection.consecutiveFailures = 100
        } _: { worker in
            _ = try await placeUsers(100, worker)
            worker.provider.respond { _ in .status(502) }
            try await worker.turn()
            worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0) }) }
            try await worker.store.passTime(1_000)
            try await worker.turn()
            #expect(worker.metrics.completed == 100)
            #expect(worker.metrics.retriesRefused.total() == 0)
        }
    }

    // MARK: Isolation

    @Test func aProviderThatHangsLeavesOthersTheirPace() async throws {
        try await withStubProvider { sick in
            let gate = Gate()
            sick.respond { _ in
                try await gate.pass()
                return .status(500)
            }
            try await withWorker(minimumSpacing: .zero) { worker in
                try await worker.store.sql(
                    """
                    UPDATE kind_definition d
                    SET definition = jsonb_set(definition, '{providerURL}', '"\(sick.url)"')
                    FROM kind k JOIN app a ON a.id = k.app_id WHERE k.id = d.kind_id AND a.name = '\(TestKinds.otherApp)'
                    """)
                try await worker.store.place([.test("sick", app: TestKinds.otherApp)])
                let well = try await worker.store.place([.test("well")])[0]
                #expect(try await worker.start() == 2)
                try await sick.received.reaches(1)
                // While one provider hangs, the other is reloaded repeatedly.
                try await worker.provider.received.reaches(1)
                try await eventually("the first timeline is stored") { try await !worker.store.detail(well).isStale }
                for round in 1...10 {
                    try await worker.store.markUser("u1")
                    try await worker.start()
                    try await eventually("round \(round) is stored") { try await !worker.store.detail(well).isStale }
                    #expect(worker.provider.requests.count == round + 1)
                }
                #expect(worker.metrics.failures.isEmpty, "the provider still hangs")
                gate.open()
                try await worker.finish()
                #expect(worker.metrics.failures == [.status: 1])
            }
        }
    }

    @Test func aTimelineIsNeverInTwoRequestsAtATime() async throws {
        try await withWorker(maxBatch: 3, minimumSpacing: .zero) { worker in
            let active = Mutex<Set<TimelineID>>([])
            let overlaps = Mutex(0)
            worker.provider.respond { request in
                let clashes = active.withLock { active in
                    defer { active.formUnion(request.ids) }
                    return active.intersection(request.ids).count
                }
                overlaps.withLock { $0 += clashes }
                for _ in 0..<20 { await Task.yield() }
                active.withLock { $0.subtract(request.ids) }
                return .timelines(request.ids.map { .stubTimeline($0) })
            }
            _ = try await placeUsers(20, worker)
            let workers = [worker, worker, worker.another()]
            try await withThrowingTaskGroup(of: Void.self) { group in
                for worker in workers {
                    group.addTask {
                        for round in 0..<10 {
                            for user in 0..<20 where (user + round).isMultiple(of: 3) {
                                try await worker.store.markUser("u\(user)")
                            }
                            try await worker.turn()
                        }
                    }
                }
                try await group.waitForAll()
            }
            #expect(overlaps.withLock { $0 } == 0)
            #expect(worker.provider.requests.count > 20)
        }
    }
}
