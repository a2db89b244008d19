import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Pausing apps and kinds", .timeLimit(.minutes(5)))
struct PauseTests {
    @Test("Pausing is repeatable, keeps its first time, and names what is not there")
    func repeatable() async throws {
        try await withStore { store in
            let first = try #require(try await store.store.pause(app: TestKinds.app, kind: "Purchases"))
            #expect(first.isChanged && first.pausedAt != nil && !first.isAppPaused)
            let again = try #require(try await store.store.pause(app: TestKinds.app, kind: "Purchases"))
            #expect(!again.isChanged && again.pausedAt == first.pausedAt)
            let app = try #require(try await store.store.pause(app: TestKinds.app))
            #expect(app.isChanged && app.pausedAt != nil)

            let kinds = try await store.pool.query(ListKinds(app: TestKinds.app))
            #expect(kinds.allSatisfy { $0.isPaused && $0.appPausedAt == app.pausedAt })
            #expect(kinds.filter { $0.pausedAt != nil }.map(\.definition.name) == ["Purchases"])
            #expect(try await store.pool.query(ListKinds(app: TestKinds.otherApp)).allSatisfy { !$0.isPaused })

            let resumed = try #require(try await store.store.resume(app: TestKinds.app, kind: "Purchases"))
            #expect(resumed.isChanged && resumed.pausedAt == nil && resumed.isAppPaused)
            #expect(try await store.store.resume(app: TestKinds.app)?.isChanged == true)
            #expect(try await store.store.resume(app: TestKinds.app)?.isChanged == false)
            #expect(try await store.pool.query(ListKinds()).allSatisfy { !$0.isPaused })

            #expect(try await store.store.pause(app: "com.example.nobody") == nil)
            #expect(try await store.store.pause(app: TestKinds.app, kind: "Nothing") == nil)
            #expect(try await store.store.resume(app: TestKinds.otherApp, kind: "Weather") == nil)
        }
    }

    @Test("Resuming wakes the workers of other processes, also when it changes nothing")
    func wakes() async throws {
        try await withStore { store in
            let listener = PostgresListener(
                configuration: store.pool.configuration, channels: [NotifyDue.channel],
                logger: Logger(label: "test") { _ in SwiftLogNoOpLogHandler() })
            let running = Task { try await listener.run() }
            var notifications = listener.notifications.makeAsyncIterator()
            #expect(await notifications.next() == .reconnected)
            for _ in 1...2 {
                _ = try await store.store.resume(app: TestKinds.app)
                #expect(await notifications.next() == .received(channel: NotifyDue.channel, payload: ""))
            }
            running.cancel()
            try await running.value
        }
    }

    @Test("What is paused is not counted as due and cannot be claimed; marks go on")
    func due() async throws {
        try await withStore { store in
            try await store.place([
                .test("w1"), .test("w2", kind: "DueDate"), .test("w1", app: TestKinds.otherApp),
            ])
            func due() async throws -> Int {
                try await store.pool.query(DueWork(limit: 10)).reduce(0) { $0 + $1.count }
            }
            #expect(try await due() == 3)
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            #expect(try await due() == 2)
            let directory = try await store.directory()
            let app = try #require(directory.apps[TestKinds.app])
            let purchases = try #require(directory.kind("Purchases", of: app)).id
            let claim = ClaimTimelines(
                [ClaimWish(kindID: purchases, lane: .interactive, count: 10)], lease: .seconds(30))
            #expect(try await store.pool.query(claim).isEmpty)
            _ = try await store.store.pause(app: TestKinds.app)
            _ = try await store.store.resume(app: TestKinds.app, kind: "Purchases")
            #expect(try await due() == 1, "the app's pause holds all its kinds")
            #expect(try await store.pool.query(claim).isEmpty)
            _ = try await store.store.resume(app: TestKinds.app)
            #expect(try await due() == 3)
            #expect(try await store.pool.query(claim).count == 1)
        }
    }

    @Test("Neither a bump nor a placement is lost while the kind is paused; it is only not swept")
    func sweep() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            try await store.settle()
            _ = try await store.store.pause(app: TestKinds.app, kind: "Purchases")
            let app = try #require(try await store.directory().apps[TestKinds.app])
            _ = try await store.pool.execute(BumpApps([GenerationBump(id: app.id, events: 1, isFree: true)]))
            let kinds = try await store.pool.query(KindsToSweep(highWater: 10)).map(\.kindID)
            #expect(kinds.count == 1)
            let paused = try #require(try await store.directory().kind("Purchases", of: app)).id
            #expect(try await store.pool.execute(SweepKind(kindID: paused, limit: 10)) == 0)
            _ = try await store.store.resume(app: TestKinds.app, kind: "Purchases")
            #expect(try await store.pool.query(KindsToSweep(highWater: 10)).count == 2)
            #expect(try await store.pool.execute(SweepKind(kindID: paused, limit: 10)) == 1)
        }
    }
}
