import Metrics
import PostgresClient
import TestSupport
import Testing
import WidgetAPI
import WidgetModel
import WidgetStore

@testable import FreshetService

@Suite(.timeLimit(.patience)) struct MetricBridgeTests {
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
            let bridge = MetricBridge()
            for total in [3, 3, 5, 2] { bridge.count(Self.total, total, [("kind", "a")]) }
            bridge.count(Self.total, 0, [("kind", "b")])
        }
        #expect(page.value(Self.total.name, ["kind": "a"]) == 7)
        #expect(page.value(Self.total.name, ["kind": "b"]) == 0)
    }

    @Test("a gauge that is not set any more is not shown any more")
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

    @Test(
        "a kind that the directory learns of late is counted once: what was another's stays there, the rest is its own")
    func lateKind() async throws {
        try await withStore { store in
            let late = try #require(try await DirectoryCache(pool: store.pool).refresh().kinds.first)
            let own = late.value.definition.name
            let directory = DirectoryCache(pool: store.pool)
            let kinds = KindLabels(directory: directory, limit: 10)
            let totals = KindTotals(kinds)
            let registry = PrometheusRegistry([Self.total, Self.gauge])
            let bridge = MetricBridge()
            // As the exposed counter is fed: of the late kind, and of one that is never known.
            func follow(_ counted: Int, _ unknown: Int) {
                var (first, second) = (KindCounters(), KindCounters())
                first.reloaded = counted
                second.reloaded = unknown
                withMetricsFactory(registry) {
                    for (labels, value) in totals.follow([late.key: first, -1: second]) {
                        bridge.count(Self.total, value.reloaded, [("kind", labels[1].1)])
                    }
                }
            }
            follow(3, 10)
            follow(5, 10)
            #expect(try PrometheusPage(registry.text).value(Self.total.name, ["kind": "other"]) == 15)
            _ = try await directory.refresh()
            follow(5, 10)
            follow(7, 11)
            let page = try PrometheusPage(registry.text)
            #expect(page.value(Self.total.name, ["kind": "other"]) == 16)
            #expect(page.value(Self.total.name, ["kind": own]) == 2)
        }
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
