// SPDX-License-Identifier: Apache-2.0

import JSON
import Logging
import ServiceLifecycle
import Synchronization
import TestSupport
import Testing
import Waiting
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// The worker service: waking, stopping, cancellation.
@Suite(.serialized, .tags(.database), .timeLimit(.patience))
struct WorkerServiceTests {
    /// Runs a service with a polling interval of an hour, so that only signals wake it.
    private func withService(
        graceTime: Duration = Patience.limit, pollInterval: Duration = .seconds(3_600), maxBatch: Int = 100,
        fetching wrap: @escaping @Sendable (any ProviderFetching) -> any ProviderFetching = { $0 },
        _ body: @escaping @Sendable (TestWorker, WorkSignals, ServiceGroup) async throws -> Void
    ) async throws {
        try await withWorker(maxBatch: maxBatch) { worker in
            let service = TestService(beside: worker, fetcher: wrap(worker.context.fetcher)) {
                $0.graceTime = graceTime
                $0.pollInterval = pollInterval
            }
            let group = ServiceGroup(services: [service.service], logger: .silent)
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await group.run() }
                do {
                    try await body(worker, service.signals, group)
                } catch {
                    tasks.cancelAll()
                    throw error
                }
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
            }
            #expect(try await worker.store.integer("SELECT count(*) FROM work WHERE lease IS NOT NULL") == 0)
        }
    }

    @Test func aSignalWakesItAndAGenerationBumpIsSwept() async throws {
        try await withService { worker, signals, _ in
            try await worker.store.place((0..<30).map { .test("w\($0)", user: "u\($0)") })
            signals.signalAll()
            try await worker.publisher.published.reaches(30)
            try await worker.store.bumpKind("Purchases")
            worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "anew") }) }
            signals.signalAll()
            try await worker.publisher.published.reaches(60)
        }
    }

    @Test func withoutASignalItLooksAtAnInterval() async throws {
        try await withService(pollInterval: .milliseconds(20)) { worker, _, _ in
            try await worker.store.place([.test("w1")])
            try await worker.publisher.published.reaches(1)
        }
    }

    @Test func aFreedSlotIsUsedAtOnce() async throws {
        // One timeline per request, eight slots per provider, no signals after the first one.
        try await withService(maxBatch: 1) { worker, signals, _ in
            try await worker.store.place((0..<60).map { .test("w\($0)", user: "u\($0)") })
            signals.signalAll()
            try await worker.publisher.published.reaches(60)
            #expect(worker.provider.requests.count == 60)
        }
    }

    /// Waits, within a batch's task, for the notice to stop, which the service itself received just before.
    private struct StopNoticingFetcher: ProviderFetching {
        let fetcher: any ProviderFetching
        let told: Gate

        func fetch(_ call: ProviderCall) async throws -> [UInt8] {
            try await withGracefulShutdownHandler {
                try await fetcher.fetch(call)
            } onGracefulShutdown: {
                told.open()
            }
        }
    }

    @Test func stoppingFinishesWorkInFlight() async throws {
        let told = Gate()
        let wrap = { @Sendable (fetcher: any ProviderFetching) in StopNoticingFetcher(fetcher: fetcher, told: told) }
        try await withService(fetching: wrap) { worker, signals, group in
            let id = try await worker.store.place([.test("w1")])[0]
            let gate = Gate()
            worker.provider.respond { request in
                try await gate.pass()
                return .timelines(request.ids.map { .stubTimeline($0) })
            }
            signals.signalAll()
            try await worker.provider.received.reaches(1)
            // Returns before the services stop.
            await group.triggerGracefulShutdown()
            try await told.pass()
            try await worker.store.place([.test("w2", user: "u2")])
            signals.signalAll()
            gate.open()
            try await worker.publisher.published.reaches(1)
            #expect(worker.publisher.messages.map(\.timeline) == [id], "a stopping service claims nothing")
        }
    }

    @Test("After a failover, claims in memory are dropped, and their timelines are fetched again with new tokens")
    func failover() async throws {
        try await withService(pollInterval: .milliseconds(50)) { worker, signals, _ in
            let id = try await worker.store.place([.test("w1")])[0]
            let gate = Gate()
            worker.provider.respond { request in
                try await gate.pass()
                return .timelines(request.ids.map { .stubTimeline($0, content: "of lost history") })
            }
            signals.signalAll()
            try await worker.provider.received.reaches(1)
            // The claim was replicated in time, so the lease holds in the new history too.
            try await worker.store.failOver()
            try await eventually("the tokens jump") {
                try await worker.store.integer("SELECT (last_value > 4294967296)::int FROM token") == 1
            }
            worker.provider.respond { request in .timelines(request.ids.map { .stubTimeline($0, content: "anew") }) }
            gate.open()
            try await worker.publisher.published.reaches(1)
            let messages = worker.publisher.messages
            #expect(messages.map(\.timeline) == [id])
            #expect(messages.allSatisfy { $0.value?.contains("anew") == true && $0.revision > 1 << 32 })
            #expect(worker.provider.requests.count == 2)
        }
    }

    @Test("After a failover, a new timeline without a row gets a tombstone, and the others their content again")
    func lostRow() async throws {
        try await withService(pollInterval: .milliseconds(50)) { worker, signals, _ in
            let ids = try await worker.store.place([.test("w1"), .test("w2", configuration: #"{"n":2}"#)])
            signals.signalAll()
            try await worker.publisher.published.reaches(2)
            // Otherwise, the claim is dropped, which also finds the row's message.
            try await eventually("the lists end") { try await worker.store.lists() == 0 }
            try await worker.store.sql(
                """
                DELETE FROM widget WHERE timeline_id = (SELECT id FROM timeline WHERE identity = '\(ids[0])');
                DELETE FROM timeline WHERE identity = '\(ids[0])'
                """)
            try await worker.store.failOver()
            try await eventually("both are published") { worker.publisher.messages.count == 4 }
            let (lost, kept) = (worker.publisher.messages(of: ids[0]), worker.publisher.messages(of: ids[1]))
            #expect(lost.count == 2 && lost.last?.value == nil)
            #expect(kept.count == 2 && kept.last?.value != nil && kept.last?.revision == kept.first?.revision)
        }
    }

    @Test("Work left after the grace time is given back", arguments: [ReloadLane.interactive, .bulk])
    func workLeft(lane: ReloadLane) async throws {
        try await withWorker { worker in
            let id = try await worker.store.place([.test("w1")])[0]
            if lane == .bulk {
                try await worker.store.settle()
                try await worker.store.bumpKind("Purchases")
            }
            let before = worker.provider.requests.count
            worker.provider.respond { _ in
                try await Gate().pass()
                return .status(200)
            }
            let service = TestService(beside: worker) { $0.graceTime = .milliseconds(50) }
            let group = ServiceGroup(services: [service.service], logger: .silent)
            async let running: Void = group.run()
            try await worker.provider.received.reaches(before + 1)
            await group.triggerGracefulShutdown()
            try await running
            #expect(try await worker.store.detail(id).attempts == 0)
            #expect(
                try await worker.store.integer(
                    "SELECT count(*) FROM work WHERE lease IS NULL AND leases = 0 AND ready_at <= now()") == 1,
                "another worker may claim it at once")
            #expect(service.metrics.failures.isEmpty)
        }
    }

    /// Records the priorities of the tasks that send requests.
    private final class PriorityRecorder: ProviderFetching {
        let fetcher: any ProviderFetching
        let priorities = Mutex<Set<UInt8>>([])

        init(_ fetcher: any ProviderFetching) {
            self.fetcher = fetcher
        }

        func fetch(_ call: ProviderCall) async throws -> [UInt8] {
            priorities.withLock { _ = $0.insert(Task.currentPriority.rawValue) }
            return try await fetcher.fetch(call)
        }
    }

    @Test("Requests of patient lanes run at a lower priority")
    func priorities() async throws {
        try await withWorker { worker in
            let recorder = PriorityRecorder(worker.context.fetcher)
            try await serving([TestService(beside: worker, fetcher: recorder)]) {
                try await worker.store.place([.test("w1")])
                try await worker.publisher.published.reaches(1)
                let urgent = recorder.priorities.withLock { $0 }
                #expect(urgent.count == 1 && !urgent.contains(TaskPriority.utility.rawValue))
                try await worker.store.bumpKind("Purchases")
                worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "anew") }) }
                try await worker.publisher.published.reaches(2)
                #expect(recorder.priorities.withLock { $0 } == urgent.union([TaskPriority.utility.rawValue]))
            }
        }
    }

    @Test func cancellationGivesBackToo() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            worker.provider.respond { _ in
                try await Gate().pass()
                return .status(200)
            }
            let service = TestService(beside: worker)
            let running = Task { try await service.service.run() }
            try await worker.provider.received.reaches(1)
            running.cancel()
            try await running.value
            for id in ids { #expect(try await !worker.store.isLeased(id)) }
            #expect(try await worker.store.lists(ready: .interactive) == 1)
        }
    }

    @Test("Requests before a fetch cause one fetch, and those during it exactly one more")
    func coalescing() async throws {
        try await withService { worker, signals, _ in
            let gate = Gate()
            worker.provider.respond { request in
                try await gate.pass()
                return .timelines(request.ids.map { .stubTimeline($0) })
            }
            // The service may claim at once; later requests then arrive during the fetch.
            let id = try await worker.store.place([.test("w1")])[0]
            for _ in 0..<5 { try await worker.store.markUser("u1") }
            signals.signalAll()
            try await worker.provider.received.reaches(1)
            for _ in 0..<5 {
                try await worker.store.markUser("u1")
                signals.signalAll()
            }
            gate.open()
            try await worker.store.settles()
            #expect(worker.provider.requests.count == 2)
            #expect(try await worker.store.detail(id).rendered == 11)
            #expect(try await worker.store.unappointed() == 0)
        }
    }

    @Test("After mixed work a service leaves no leased list, no held room and no audit finding")
    func leavesNothing() async throws {
        try await withWorker(maxBatch: 7, minimumSpacing: .zero) {
            $0.publishRetryDelay = .milliseconds(20)
            $0.providerBackoff = Backoff(base: .milliseconds(20), cap: .milliseconds(50))
            $0.pollInterval = .milliseconds(50)
            $0.maximumTimelinesInFlight = 30
        } _: { worker in
            let failing = Tally()
            worker.provider.respond { request in
                failing.add()
                if failing.count.isMultiple(of: 5) { return .status(500) }
                return .timelines(request.ids.map { .stubTimeline($0, content: .string("\(failing.count)")) })
            }
            let lost = Tally()
            worker.publisher.respond { _ in
                lost.add()
                return lost.count.isMultiple(of: 6) ? .testTimeout : nil
            }
            let services = (0..<2).map { _ in
                TestService(beside: worker) { $0.outputBackoff = Backoff(base: .zero, cap: .zero) }
            }
            let ids = try await worker.store.placeApart(40)
            try await serving(services) {
                for round in 0..<6 {
                    for user in 0..<40 where (user + round).isMultiple(of: 2) {
                        try await worker.store.markUser("u\(user)", lane: round == 3 ? .interactive : .push)
                    }
                    if round == 2 { try await worker.store.bumpKind("Purchases") }
                    if round == 4 { for id in ids[..<10] { try await worker.store.removeWidgets(showing: id) } }
                    for service in services { service.signals.signalAll() }
                }
                try await worker.store.settles()
            }
            #expect(try await worker.store.integer("SELECT count(*) FROM timeline") == 30)
            for id in ids[10...] {
                let detail = try await worker.store.detail(id)
                #expect(worker.publisher.messages(of: id).last?.revision == detail.revision)
            }
            for id in ids[..<10] { #expect(worker.publisher.messages(of: id).last?.value == nil) }
            #expect(try await worker.store.unappointed() == 0)
        }
    }
}
