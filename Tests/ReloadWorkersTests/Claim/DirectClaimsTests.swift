import PostgresClient
import ServiceLifecycle
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import ReloadWorkers

@Suite("What ingest claims as it marks", .timeLimit(.minutes(5)))
struct DirectClaimsTests {
    private func mark(_ store: TestStore, _ user: String, kind: String = "Purchases") async throws -> TimelineMark {
        let directory = try await store.directory()
        let app = try #require(directory.apps[TestKinds.app])
        return TimelineMark(
            appID: app.id, audienceID: user, kindID: try await store.kindID(kind), matching: nil, events: 1,
            urgency: .free, lane: ReloadLane.push.rawValue, cause: TestStore.cause, reason: .foreground)
    }

    private func requests(_ worker: TestWorker) -> Int {
        worker.context.inFlight.capacity(worker.context.configuration).capacity.requests
    }

    /// Claims that are open, as if the claim loop had looked and left nothing behind.
    private func opened(_ worker: TestWorker) -> DirectClaims {
        let direct = DirectClaims()
        direct.open(worker.context)
        direct.note(LeftBehind())
        return direct
    }

    @Test("Nothing is granted before the loop has looked, nor when it could not look, nor after the end")
    func times() async throws {
        try await withWorker { worker in
            let directory = try await worker.store.directory()
            let kind = try await worker.store.kindID("Purchases")
            let direct = DirectClaims()
            #expect(direct.grant([kind], of: directory) == nil)
            direct.open(worker.context)
            #expect(direct.grant([kind], of: directory) == nil)
            direct.note(LeftBehind())
            let grant = try #require(direct.grant([kind], of: directory))
            #expect(grant.marks.kindIDs == [kind])
            direct.note(.unknown)
            #expect(direct.grant([kind], of: directory) == nil)
            direct.note(LeftBehind())
            direct.close()
            #expect(direct.grant([kind], of: directory) == nil)
            // What was promised before is given up.
            direct.settle(grant, [])
            #expect(requests(worker) == worker.context.configuration.concurrency)
        }
    }

    @Test("Where urgent work of a provider has waited for long, nothing new of it goes before that")
    func fairness() async throws {
        try await withWorker { worker in
            let directory = try await worker.store.directory()
            let kind = try await worker.store.kindID("Purchases")
            let direct = opened(worker)
            func look(waited: Duration, of providers: [Int32: ClaimTarget]) {
                let due = [DueWork.Row(kindID: kind, lane: .push, count: 1, waited: waited)]
                direct.note(LeftBehind(due: due, targets: providers, plan: ClaimPlan()))
            }
            let targets = directory.claimTargets(of: [kind])
            look(waited: LeftBehind.patience, of: targets)
            #expect(direct.grant([kind], of: directory) == nil)
            // The same of another provider.
            let other = ClaimTarget(appID: 0, provider: ProviderKey(appID: 0, url: "http://other"), maxBatch: 1)
            look(waited: LeftBehind.patience, of: [kind: other])
            direct.settle(try #require(direct.grant([kind], of: directory)), [])
            look(waited: .zero, of: targets)
            direct.settle(try #require(direct.grant([kind], of: directory)), [])
        }
    }

    @Test("Room is kept from the grant to its settlement, and never promised twice")
    func room() async throws {
        func configure(_ configuration: inout WorkerConfiguration) {
            configuration.concurrency = 2
            configuration.providerConcurrency = 2
        }
        try await withWorker(configure: configure) { worker in
            let directory = try await worker.store.directory()
            let kinds = [try await worker.store.kindID("Purchases"), try await worker.store.kindID("DueDate")]
            let weather = try await worker.store.kindID("Weather")
            let direct = opened(worker)
            let first = try #require(direct.grant([kinds[0]], of: directory))
            #expect(requests(worker) == 1)
            // One slot is left, for one of two kinds.
            let second = try #require(direct.grant(Set(kinds), of: directory))
            #expect(second.marks.kindIDs.count == 1)
            #expect(direct.grant([weather], of: directory) == nil)
            direct.settle(first, [])
            direct.settle(first, [])
            #expect(requests(worker) == 1, "a grant is settled once")
            #expect(direct.grant([weather], of: directory) != nil)
            direct.settle(second, [])
            #expect(requests(worker) == 1)
        }
    }

    @Test("Kinds that are paused, retired or unknown get no grant, nor does anything while the output is down")
    func refused() async throws {
        try await withWorker { worker in
            let kind = try await worker.store.kindID("Purchases")
            let direct = opened(worker)
            #expect(direct.grant([kind + 1_000], of: try await worker.store.directory()) == nil)
            #expect(direct.grant([], of: try await worker.store.directory()) == nil)
            for change in ["paused_at = now()", "paused_at = NULL, retired_at = now()"] {
                try await worker.store.sql("UPDATE kind SET \(change) WHERE id = \(kind)")
                #expect(direct.grant([kind], of: try await worker.store.directory()) == nil, "\(change)")
            }
        }
    }

    /// A service that looks by itself only every hour, and that nobody signals.
    private func withService(_ body: @escaping @Sendable (TestWorker, DirectClaims) async throws -> Void) async throws {
        try await withWorker(developerMode: true) { worker in
            var configuration = worker.context.configuration
            configuration.pollInterval = .seconds(3_600)
            let direct = DirectClaims()
            let service = WorkerService(
                configuration: configuration, pool: worker.store.pool, directory: worker.directory,
                fetcher: worker.context.fetcher, publisher: worker.publisher,
                statistics: worker.context.statistics, direct: direct, logger: .silent)
            let group = ServiceGroup(services: [service], logger: .silent)
            try await withThrowingTaskGroup(of: Void.self) { tasks in
                tasks.addTask { try await group.run() }
                do {
                    try await body(worker, direct)
                } catch {
                    tasks.cancelAll()
                    throw error
                }
                await group.triggerGracefulShutdown()
                try await tasks.waitForAll()
            }
        }
    }

    @Test("They are fetched, stored, published and completed, though nobody looks for them")
    func served() async throws {
        try await withService { worker, direct in
            let ids = try await worker.store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            try await worker.store.settle()
            let directory = try await worker.store.directory()
            let kind = try await worker.store.kindID("Purchases")
            for round in 1...2 {
                worker.provider.respond { .timelines($0.ids.map { .stubTimeline($0, content: .string("\(round)")) }) }
                var granted: DirectGrant?
                try await eventually("the loop has looked, and left nothing behind") {
                    granted = direct.grant([kind], of: directory)
                    return granted != nil
                }
                let grant = try #require(granted)
                var marks: [TimelineMark] = []
                for user in 0..<3 { marks.append(try await mark(worker.store, "u\(user)")) }
                let rows = try await worker.store.pool.query(MarkAndClaimUsers(marks, limit: 100, grant: grant.marks))
                let claimed = rows.compactMap(\.timeline)
                #expect(claimed.count == 3)
                direct.settle(grant, claimed)
                try await worker.publisher.published.reaches(3 * round)
                for id in ids {
                    try await eventually("it is completed") {
                        let detail = try await worker.store.timeline(id)
                        return detail.map { !$0.isLeased && !$0.isStale } ?? false
                    }
                }
            }
            #expect(worker.provider.requests.count == 2, "one request for all")
        }
    }

    @Test("What is handed over while the workers stop is given back")
    func stopping() async throws {
        try await withWorker(developerMode: true) { worker in
            let ids = try await worker.store.place([.test("w1", user: "u1")])
            try await worker.store.settle()
            let direct = opened(worker)
            let grant = try #require(
                direct.grant([try await worker.store.kindID("Purchases")], of: try await worker.store.directory()))
            let mark = try await mark(worker.store, "u1")
            let rows = try await worker.store.pool.query(MarkAndClaimUsers([mark], limit: 100, grant: grant.marks))
            direct.close()
            direct.settle(grant, rows.compactMap(\.timeline))
            // Not run, but known to be held: the service gives back what it holds.
            #expect(worker.context.inFlight.leases.map(\.id) == ids)
            #expect(requests(worker) == worker.context.configuration.concurrency)
        }
    }
}
