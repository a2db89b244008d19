import Foundation
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import freshet

@Suite("Synthetic populations", .timeLimit(.minutes(5)))
struct LoadPopulationTests {
    @Test("a scattered order has every number once", arguments: [1, 2, 10, 97, 1_000, 6_700_417])
    func order(count: Int) {
        let order = ScatteredOrder(count)
        let some = min(count, 100_000)
        let numbers = Set((0..<some).map { order[$0] })
        #expect(numbers.count == some && numbers.allSatisfy { (0..<count).contains($0) })
    }

    @Test("content is canonical JSON of the size that is asked for", arguments: [0, 200, 650, 5_000])
    func content(bytes: Int) throws {
        let text = LoadPopulation.content(123_456, version: 7, bytes: bytes)
        #expect(text.utf8.count >= bytes && text.utf8.count < bytes + 20 || bytes == 0)
        let value = try JSONValue.parse(Array(text.utf8))
        #expect(String(decoding: value.encoded, as: UTF8.self) == text)
        #expect(LoadPopulation.content(1, version: 1, bytes: 650) != LoadPopulation.content(1, version: 2, bytes: 650))
        #expect(LoadPopulation.hash(1, version: 1) != LoadPopulation.hash(1, version: 2))
        #expect(LoadPopulation.hash(1, version: 1) != LoadPopulation.hash(2, version: 1))
    }

    /// A filled database of the bank's people.
    private func withFilled(
        _ count: Int, contentBytes: Int = 100, _ body: (LoadPopulation, WidgetStore) async throws -> Void
    ) async throws {
        let world = LoadWorld(users: count, widgetsPerUser: 1, kinds: 2)
        try await withStore([world.definition(provider: "http://127.0.0.1:9")]) { store in
            let population = try LoadPopulation(
                world: world, contentBytes: contentBytes, directory: try await store.directory())
            _ = try await store.store.fill(population.rows(0..<count), connections: 2)
            try await body(population, store.store)
        }
    }

    @Test("the statements of ingest and workers take every filled timeline through, and the API reads it")
    func rounds() async throws {
        try await withFilled(200) { population, store in
            let statements = StatementRounds(
                population: population, pool: store.pool, batch: 50, contentBytes: 100, sweepChunk: 20)
            var times = StatementTimes()
            for start in stride(from: 0, to: 200, by: 50) {
                try await statements.reload(Array(start..<(start + 50)), version: 1, &times)
            }
            try await statements.reload(Array(0..<50), version: 2, &times)
            for index in 0..<10 { try await statements.read(index, &times) }
            try await statements.bump(&times)
            try await statements.sweep(version: 1, &times)
            #expect(times.timelines == 250 && times.summary("claim").samples == 5)
            #expect(times.summary("read").samples == 10 && times.summary("global").samples == 1)
            #expect(times.summary("sweep").samples == 2 && times.summary("claim swept").samples == 1)
            let overview = try #require(try await store.pool.query(Overview()).first)
            #expect(overview.requested == 200 + 250 && overview.leased == 0 && overview.due == 0)
            // A chunk of each of the two kinds is rendered at the new generation.
            #expect(overview.stale == 200 - 40)
        }
    }

    @Test("growth: a curve of every statement over all sizes")
    func growth() async throws {
        let world = LoadWorld(users: 400, widgetsPerUser: 1, kinds: 2)
        try await withStore([world.definition(provider: "http://127.0.0.1:9")]) { store in
            let population = try LoadPopulation(world: world, contentBytes: 80, directory: try await store.directory())
            let growth = LoadGrowth(
                sizes: [100, 400], rounds: 2, batch: 20, saveBytes: 80, population: population, store: store.store)
            let report = try await growth.run { indices in
                try await store.store.fill(
                    population.rows(indices), connections: 1, isExtension: indices.lowerBound > 0)
            }
            #expect(report.points.map(\.timelines) == [100, 400])
            #expect(try await store.integer("SELECT count(*) FROM widget") == 400)
            for name in GrowthReport.statements {
                let curve = try #require(report.json["curves"]?[name]?.arrayValue)
                #expect(curve.count == 2 && report.points.allSatisfy { $0.warm.summary(name).samples > 0 }, "\(name)")
            }
            #expect(report.json["ratios"]?["claimP99"]?.numberValue != nil)
            #expect(report.json["drain"]?.arrayValue?.count == 2)
            let page = GrowthPage(report: report, time: Timestamp(microseconds: 0)).text
            #expect(
                page.components(separatedBy: "<svg").count == 8 && page.components(separatedBy: "<polyline").count == 21
            )
            #expect(!page.contains("nan") && !page.contains("http"))
        }
    }

    @Test("churn: what each pass left in the tables")
    func churn() async throws {
        try await withFilled(100) { population, store in
            let report = try await LoadChurn(
                timelines: 100, passes: 2, batch: 30, population: population, store: store
            ).run()
            #expect(report.points.count == 2 && report.points.allSatisfy { $0.times.timelines == 100 })
            #expect(report.points.allSatisfy { $0.walBytes > 0 && $0.tables.count == 4 })
            #expect(report.json["passes"]?.arrayValue?.count == 2)
        }
    }

    @Test("storage parameters are taken for the tables of widgets and timelines only")
    func storage() {
        #expect(TableStorage("timeline_state: fillfactor=70")?.sql == "ALTER TABLE timeline_state SET ( fillfactor=70)")
        for text in ["app: fillfactor=70", "timeline_state", "timeline_state: x=1); DROP TABLE app; --", ""] {
            #expect(TableStorage(text) == nil, "\(text)")
        }
    }

    @Test("ratios compare the largest size with the smallest")
    func ratios() {
        func point(_ timelines: Int, _ milliseconds: Int) -> GrowthReport.Point {
            var times = StatementTimes()
            times.record("claim", .milliseconds(milliseconds))
            times.timelines = timelines
            times.busy = .seconds(milliseconds)
            return GrowthReport.Point(
                timelines: timelines, fill: FillReport(counts: FillCounts(), sizes: []), cold: StatementTimes(),
                warm: times)
        }
        let report = GrowthReport(batch: 1, rounds: 1, points: [point(100, 10), point(1_000, 20), point(400, 15)])
        #expect(abs((report.ratio("claim") ?? 0) - 1.5) < 0.01)
        #expect(abs((report.drainRatio ?? 0) - 400.0 / 15 / 10) < 0.001)
        #expect(report.ratio("save") == nil)
        #expect(
            ScaleText.number(1.005) == "1.00" && ScaleText.number(12.34) == "12.34" && ScaleText.number(0.07) == "0.07")
    }
}
