import Metrics
import PostgresClient
import TestSupport
import Testing
import WidgetAPI
import WidgetModel
import WidgetStore

@testable import freshet

@Suite(.timeLimit(.minutes(5))) struct MetricLabelsTests {
    private static let total = MetricDefinition("freshet_test_total", .counter, labels: ["kind"], "Test.")
    private static let gauge = MetricDefinition("freshet_test", .gauge, labels: ["kind"], "Test.")

    /// The page after a body has told swift-metrics something.
    private static func page(_ body: () -> Void) throws -> PrometheusPage {
        let registry = PrometheusRegistry([total, gauge])
        withMetricsFactory(registry) { body() }
        return try PrometheusPage(registry.text)
    }

    @Test("a counter follows a total; one that begins anew is added")
    func following() throws {
        let page = try Self.page {
            let counters = FollowingCounters(Self.total)
            for total in [3, 3, 5, 2] { counters.follow(total, [("kind", "a")]) }
            counters.follow(0, [("kind", "b")])
        }
        #expect(page.value(Self.total.name, ["kind": "a"]) == 7)
        #expect(page.value(Self.total.name, ["kind": "b"]) == 0)
    }

    @Test("a gauge that is not set any more is not shown any more")
    func gauges() throws {
        let page = try Self.page {
            let gauges = GaugeSet(Self.gauge)
            gauges.replace([([("kind", "a")], 1), ([("kind", "b")], 2)])
            gauges.replace([([("kind", "b")], 3), ([("kind", "c")], 4)])
        }
        #expect(page.families[Self.gauge.name]?.samples.count == 2)
        #expect(page.value(Self.gauge.name, ["kind": "b"]) == 3)
        #expect(page.value(Self.gauge.name, ["kind": "c"]) == 4)
    }

    @Test("only so many kinds have series of their own, and they keep them")
    func kinds() async throws {
        try await withStore { store in
            let directory = DirectoryCache(pool: store.pool)
            let known = try await directory.refresh().kinds.keys.sorted()
            let labels = KindLabels(directory: directory, limit: 2)
            #expect(labels.labels(of: -1).map(\.1) == ["other", "other"])
            let first = known.map { labels.labels(of: $0).map(\.1) }
            #expect(first.count { $0 != ["other", "other"] } == 2)
            #expect(known.reversed().map { labels.labels(of: $0).map(\.1) } == first.reversed())
        }
    }
}
