import Logging
import ServiceLifecycle
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

/// The whole service: woken, stopped, cancelled.
@Suite(.serialized, .tags(.database), .timeLimit(.minutes(5)))
struct WorkerServiceTests {
    private func service(
        of worker: TestWorker, _ configuration: WorkerConfiguration, _ signal: WorkSignal,
        fetching wrap: (any ProviderFetching) -> any ProviderFetching = { $0 }
    ) -> WorkerService {
        WorkerService(
            configuration: configuration, pool: worker.store.pool, directory: worker.directory,
            fetcher: wrap(worker.context.fetcher), publisher: worker.publisher, signal: signal,
            statistics: worker.context.statistics, logger: .silent)
    }

    /// A service that looks by itself only every hour, so that a test sees what wakes it.
    private func withService(
        graceTime: Duration = .seconds(20), pollInterval: Duration = .seconds(3_600), maxBatch: Int = 100,
        fetching wrap: @escaping @Sendable (any ProviderFetching) -> any ProviderFetching = { $0 },
        _ body: @escaping @Sendable (TestWorker, WorkSignal, ServiceGroup) async throws -> Void
    ) async throws {
        try await withWorker(maxBatch: maxBatch) { worker in
            var configuration = worker.context.configuration
            configuration.graceTime = graceTime
            configuration.pollInterval = pollInterval
            let signal = WorkSignal()
            let group = ServiceGroup(
                services: [service(of: worker, configuration, signal, fetching: wrap)], logger: .silent)
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await group.run() }
                do {
                    try await body(worker, signal, group)
                } catch {
                    tasks.cancelAll()
                    throw error
                }
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
            }
        }
    }

    @Test func aSignalWakesItAndAGenerationBumpIsSwept() async throws {
        try await withService { worker, signal, _ in
            try await worker.store.place((0..<30).map { .test("w\($0)", user: "u\($0)") })
            signal.signal()
            try await worker.publisher.published.reaches(30)
            try await worker.store.bumpKind("Purchases")
            worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: "anew") }) }
            signal.signal()
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
        // One timeline a request, eight slots a provider, nobody signals after the first time.
        try await withService(maxBatch: 1) { worker, signal, _ in
            try await worker.store.place((0..<60).map { .test("w\($0)", user: "u\($0)") })
            signal.signal()
            try await worker.publisher.published.reaches(60)
            #expect(worker.provider.requests.count == 60)
        }
    }

    /// Notices, in the task of a batch, that the service was told to stop: the service itself was told just before.
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

    @Test func stoppingFinishesWhatIsInFlight() async throws {
        let told = Gate()
        let wrap = { @Sendable (fetcher: any ProviderFetching) in StopNoticingFetcher(fetcher: fetcher, told: told) }
        try await withService(fetching: wrap) { worker, signal, group in
            let id = try await worker.store.place([.test("w1")])[0]
            let gate = Gate()
            worker.provider.respond { request in
                try await gate.pass()
                return .timelines(request.ids.map { .stubTimeline($0) })
            }
            signal.signal()
            try await worker.provider.received.reaches(1)
            // Returns before the services are told.
            await group.triggerGracefulShutdown()
            try await told.pass()
            try await worker.store.place([.test("w2", user: "u2")])
            signal.signal()
            gate.open()
            try await worker.publisher.published.reaches(1)
            #expect(worker.publisher.messages.map(\.timeline) == [id], "nothing is claimed any more")
        }
    }

    @Test func whatIsNotDoneWithinTheGraceTimeIsGivenBack() async throws {
        try await withWorker { worker in
            var configuration = worker.context.configuration
            configuration.graceTime = .milliseconds(50)
            let id = try await worker.store.place([.test("w1")])[0]
            worker.provider.respond { _ in
                try await Gate().pass()
                return .status(200)
            }
            let group = ServiceGroup(
                services: [service(of: worker, configuration, WorkSignal())], logger: .silent)
            async let running: Void = group.run()
            try await worker.provider.received.reaches(1)
            await group.triggerGracefulShutdown()
            try await running
            let detail = try await worker.store.detail(id)
            #expect(!detail.isLeased && detail.decision == .released && detail.attempts == 0)
            #expect(try #require(detail.secondsToDue) <= 0, "another worker may take it at once")
            #expect(worker.counts.released == 1 && worker.counts.failed.isEmpty)
        }
    }

    @Test func cancellationGivesBackToo() async throws {
        try await withWorker { worker in
            let ids = try await worker.store.place([.test("w1"), .test("w2", user: "u2")])
            worker.provider.respond { _ in
                try await Gate().pass()
                return .status(200)
            }
            let service = service(of: worker, worker.context.configuration, WorkSignal())
            let running = Task { try await service.run() }
            try await worker.provider.received.reaches(1)
            running.cancel()
            try await running.value
            for id in ids {
                let detail = try await worker.store.detail(id)
                #expect(!detail.isLeased && detail.decision == .released)
            }
        }
    }

    @Test func twoServicesShareTheWork() async throws {
        try await withWorker(maxBatch: 10) { worker in
            let ids = try await worker.store.place((0..<300).map { .test("w\($0)", user: "u\($0)") })
            let other = worker.another()
            let services = [worker, other].map { service(of: $0, worker.context.configuration, WorkSignal()) }
            let group = ServiceGroup(services: services, logger: .silent)
            async let running: Void = group.run()
            try await worker.publisher.published.reaches(300)
            await group.triggerGracefulShutdown()
            try await running
            #expect(Set(worker.provider.requestedIDs) == Set(ids))
            #expect(worker.provider.requestedIDs.count == 300, "none of them twice")
        }
    }
}
