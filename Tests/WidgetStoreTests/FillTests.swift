import PostgresClient
import Synchronization
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite("Filling an empty database", .timeLimit(.patience))
struct FillTests {
    private static let environment = WidgetEnvironment(storedLocale: "en-GB", timeZone: "Europe/London")

    private static func population(_ store: TestStore, _ indices: Range<Int>) async throws -> FillPopulation {
        let directory = try await store.directory()
        let app = try #require(directory.apps[TestKinds.app])
        let kind = try #require(directory.kind("Purchases", of: app))
        @Sendable func placement(_ index: Int) -> WidgetPlacement {
            WidgetPlacement(
                app: app.name, widget: "w\(index)", user: "u\(index)", device: "d\(index)", kind: "Purchases",
                family: .systemSmall, environment: environment)
        }
        @Sendable func identity(_ index: Int) -> TimelineIdentity {
            TimelineIdentity(
                app: app.name, kind: "Purchases", sharing: .perUser, variesBy: .all, family: .systemSmall,
                configuration: .empty, environment: environment, user: "u\(index)")
        }
        return FillPopulation(
            timelines: indices,
            timeline: { index in
                FilledTimeline(
                    identity: identity(index), kind: kind, content: index % 2 == 0 ? #"{"entries":[]}"# : nil,
                    hash: ContentHash(high: UInt64(index), low: 1), nextReload: index % 3 == 0 ? .seconds(600) : nil)
            },
            widgets: indices,
            widget: { index in
                FilledWidget(placement: placement(index), kind: kind, timeline: index)
            })
    }

    private func indexes(_ store: TestStore) async throws -> [FillIndex] {
        try await store.pool.query(.fillIndexes())
    }

    @Test("every row is there, quiet and readable, and every index is as it was")
    func everything() async throws {
        try await withStore { store in
            let before = try await indexes(store)
            #expect(before.count >= 9 && Set(before.map(\.table)).count == 3)
            let seen = Mutex(0)
            let counts = try await store.store.fill(Self.population(store, 0..<25_000), connections: 3) { rows in
                seen.withLock { $0 = max($0, rows) }
            }
            #expect(counts.timelines == 25_000 && counts.widgets == 25_000 && seen.withLock { $0 } == 50_000)
            #expect(try await indexes(store) == before)
            #expect(try await store.integer("SELECT count(*) FROM timeline") == 25_000)
            #expect(try await store.integer("SELECT count(*) FROM widget") == 25_000)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE content IS NOT NULL") == 12_500)
            #expect(try await store.integer("SELECT count(*) FROM timeline WHERE listed_at = 'infinity'") == 16_666)
            #expect(try await store.integer("SELECT sum(cardinality(timelines)) FROM work") == 8_334)
            #expect(try await store.lists("cardinality(timelines) = 200") >= 41)
            #expect(try await store.unappointed() == 0)
            #expect(
                try await store.integer(
                    "SELECT count(*) FROM widget w JOIN timeline t ON t.id = w.timeline_id AND t.user_id = w.user_id")
                    == 25_000)
            let overview = try #require(try await store.pool.query(.overview()).first)
            #expect(overview.due == 0 && overview.stale == 0 && overview.leased == 0)
            // What an event would find by its identity.
            let id = try await Self.population(store, 0..<1).timeline(4).identity.id
            #expect(
                try await store.timeline(id)?.content.map { String(decoding: $0, as: UTF8.self) } == #"{"entries":[]}"#)
            // Others come behind them.
            try await store.place([.test("later", user: "later")])
        }
    }

    @Test("a filled timeline can be marked and claimed at once")
    func claimable() async throws {
        try await withStore { store in
            _ = try await store.store.fill(Self.population(store, 0..<10), connections: 1)
            let row = try await store.apply([try await store.mark(.user, "u3")])
            #expect(row.marked == 1 && row.due == 1)
            let list = try #require(try await store.claim(.push).first)
            #expect(list.timelines.map(\.user) == ["u3"])
            #expect(try await store.complete(list).count == 1)
        }
    }

    @Test("what holds a timeline is not filled, but can be extended")
    func refused() async throws {
        try await withStore { store in
            let population = try await Self.population(store, 0..<5)
            _ = try await store.store.fill(population, connections: 1)
            await #expect(throws: FillRefusal.notEmpty) { _ = try await store.store.fill(population, connections: 1) }
            let before = try await indexes(store)
            _ = try await store.store.fill(Self.population(store, 5..<9), connections: 1, isExtension: true)
            #expect(try await store.integer("SELECT count(*) FROM timeline") == 9)
            #expect(try await store.unappointed() == 0)
            #expect(try await indexes(store) == before)
        }
    }

    @Test("a fill that fails leaves every index behind it")
    func failed() async throws {
        try await withStore { store in
            let before = try await indexes(store)
            var population = try await Self.population(store, 0..<30_000)
            let timeline = population.timeline
            population.timeline = { index in
                var filled = timeline(index)
                // PostgreSQL cannot hold it.
                if index == 25_000 { filled.content = "\u{0}" }
                return filled
            }
            await #expect(throws: PostgresError.self) { _ = try await store.store.fill(population, connections: 2) }
            #expect(try await indexes(store) == before)
        }
    }
}
