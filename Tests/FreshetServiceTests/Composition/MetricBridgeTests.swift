import Metrics
import TestSupport
import Testing
import WidgetAPI
import WidgetModel
import WidgetStore

@testable import FreshetService

@Suite(.timeLimit(.patience)) struct MetricBridgeTests {
    private static let total = MetricDefinition("freshet_test_total", .counter, labels: ["kind"], "Test.")
    private static let gauge = MetricDefinition("freshet_test", .gauge, labels: ["kind"], "Test.")

    /// Returns the page after the body has recorded metrics.
    private static func page(_ body: () -> Void) throws -> PrometheusPage {
        let registry = PrometheusRegistry([total, gauge])
        withMetricsFactory(registry) { body() }
        return try PrometheusPage(registry.text)
    }

    @Test("A counter follows a total, and adds a total that starts again")
    func following() throws {
        let page = try Self.page {
            let bridge = MetricBridge()
            for total in [3, 3, 5, 2] { bridge.count(Self.total, total, [("kind", "a")]) }
            bridge.count(Self.total, 0, [("kind", "b")])
        }
        #expect(page.value(Self.total.name, ["kind": "a"]) == 7)
        #expect(page.value(Self.total.name, ["kind": "b"]) == 0)
    }

    @Test("A gauge that is no longer set is not exposed")
    func gauges() throws {
        let page = try Self.page {
            let bridge = MetricBridge()
            bridge.replace(Self.gauge, [([("kind", "a")], 1), ([("kind", "b")], 2)])
            bridge.replace(Self.gauge, [([("kind", "b")], 3), ([("kind", "c")], 4)])
        }
        #expect(page.families[Self.gauge.name]?.samples.count == 2)
        #expect(page.value(Self.gauge.name, ["kind": "b"]) == 3)
        #expect(page.value(Self.gauge.name, ["kind": "c"]) == 4)
    }

    @Test("Counts of a kind are exposed completely once the directory knows it")
    func lateKind() async throws {
        try await withStore { store in
            let late = try #require(try await DirectoryCache(pool: store.pool).refresh().kinds.first)
            let directory = DirectoryCache(pool: store.pool)
            let kinds = KindLabels(directory: directory, limit: 10)
            func series() -> [Int] { kinds.series([(late.key, [], 3), (-1, [], 10)], combining: +).map(\.value) }
            #expect(series().isEmpty)
            _ = try await directory.refresh()
            #expect(series() == [3])
        }
    }

    @Test("kinds beyond the limit share a series")
    func sharing() async throws {
        try await withStore { store in
            let directory = DirectoryCache(pool: store.pool)
            let known = try await directory.refresh().kinds.keys.sorted()
            let kinds = KindLabels(directory: directory, limit: 1)
            let series = kinds.series(known.map { ($0, [], 1) }, combining: +)
            #expect(series.count == 2 && series.map(\.value).reduce(0, +) == known.count)
        }
    }

    @Test("A limited number of kinds have series, and they keep them")
    func kinds() async throws {
        try await withStore { store in
            let directory = DirectoryCache(pool: store.pool)
            let known = try await directory.refresh().kinds.keys.sorted()
            let labels = KindLabels(directory: directory, limit: 2)
            let first = known.map { labels.labels(of: $0)?.map(\.1) }
            #expect(first.count { $0 != ["other", "other"] } == 2)
            #expect(known.reversed().map { labels.labels(of: $0)?.map(\.1) } == first.reversed())
        }
    }
}
