// SPDX-License-Identifier: Apache-2.0

import Metrics
import TestSupport
import Testing
import WidgetModel

@Suite(.timeLimit(.patience)) struct MetricRegistryTests {
    private let metrics = MetricRegistry()

    private var page: PrometheusPage { get throws { try PrometheusPage(metrics.page) } }

    // MARK: Metrics of the catalogue

    @Test("Counters, gauges and histograms have Prometheus' text format")
    func format() throws {
        metrics.apiRefusals("push \"x\"\\\n").increment(by: 12)
        metrics.apiRefusals("push \"x\"\\\n").increment(by: -3)
        metrics.deadLetterQuotaUse.set(0.5)
        for milliseconds in [50, 100, 101, 5_000_000] {
            metrics.reloadLatency("push").record(duration: .milliseconds(milliseconds))
        }
        for lines in [
            #"""
            # HELP freshet_api_refusals_total Requests beyond a quota: requests, events, reloads, connections or dead-letters.
            # TYPE freshet_api_refusals_total counter
            freshet_api_refusals_total{quota="push \"x\"\\\n"} 12

            """#,
            """
            # TYPE freshet_dead_letter_quota_use_ratio gauge
            freshet_dead_letter_quota_use_ratio 0.5

            """,
            """
            # TYPE freshet_reload_latency_seconds histogram
            freshet_reload_latency_seconds_bucket{reason="push",le="0.001"} 0

            """,
            """
            freshet_reload_latency_seconds_bucket{reason="push",le="0.1"} 2
            freshet_reload_latency_seconds_bucket{reason="push",le="0.25"} 3

            """,
            """
            freshet_reload_latency_seconds_bucket{reason="push",le="+Inf"} 4
            freshet_reload_latency_seconds_sum{reason="push"} 5000.251
            freshet_reload_latency_seconds_count{reason="push"} 4

            """,
        ] { #expect(metrics.page.contains(lines), "\(lines)") }
        #expect(try page.value("freshet_api_refusals_total", ["quota": "push \"x\"\\\n"]) == 12)
        #expect(try page.families["freshet_reload_latency_seconds"]?.labelNames == ["reason"])
    }

    @Test("A series is exposed once it is counted, set or begun, then at 0")
    func first() throws {
        #expect(try Set(page.families.keys) == [MetricRegistry.catalogue.droppedSeries.definition.name])
        metrics.begin("freshet_workers_")
        #expect(try page.value(MetricRegistry.catalogue.claims.definition.name) == 0)
        #expect(try page.families.count { $0.key.hasPrefix("freshet_ingest_") } == 0)
        metrics.ingestBatches.increment()
        #expect(try page.value(MetricRegistry.catalogue.ingestBatches.definition.name) == 1)
        #expect(try page.value(MetricRegistry.catalogue.ingestBlocked.definition.name) == nil)
        metrics.samples.begin(["ages", "lag"], ["done", "failed"])
        #expect(try page.families[MetricRegistry.catalogue.samples.definition.name]?.samples.count == 4)
        #expect(
            try page.value(MetricRegistry.catalogue.samples.definition.name, ["sample": "lag", "outcome": "failed"])
                == 0)
    }

    @Test("A reader sums the series with the labels that it names")
    func reading() {
        for (app, effect, count) in [("a", "accepted", 1), ("a", "forget", 2), ("b", "accepted", 4)] {
            metrics.deliveryPushes(app, effect).increment(by: count)
        }
        #expect(metrics.deliveryPushes.total() == 7 && metrics.deliveryPushes.total(["app": "a"]) == 3)
        #expect(metrics.deliveryPushes.total(["app": "b", "effect": "accepted"]) == 4)
        metrics.providerBatch.record(20)
        #expect(metrics.providerBatch.total() == 1, "recorded values are counted")
    }

    @Test("A total that is counted elsewhere does not go back")
    func totals() throws {
        for total in [3, 5, 2] { metrics.poolWaits.raise(to: Int64(total)) }
        for total in [0.5, 1.25, 1] { metrics.poolWaitSeconds.raise(to: total) }
        #expect(try page.value(MetricRegistry.catalogue.poolWaits.definition.name) == 5)
        #expect(try page.value(MetricRegistry.catalogue.poolWaitSeconds.definition.name) == 1.25)
    }

    @Test("Replaced gauges that have no value any more are not exposed")
    func replaced() throws {
        metrics.kindOldestDue.replace([["app", "a"]: 1, ["app", "b"]: 2])
        metrics.kindOldestDue.replace([["app", "b"]: 3, ["app", "c"]: 4])
        let name = MetricRegistry.catalogue.kindOldestDue.definition.name
        #expect(try page.families[name]?.samples.count == 2)
        #expect(try page.value(name, ["app": "app", "kind": "b"]) == 3)
    }

    @Test("A metric has a bounded number of series; the others are counted")
    func bounds() throws {
        for user in 0..<2_010 { metrics.apiRefusals("\(user)").increment() }
        #expect(try page.families[MetricRegistry.catalogue.apiRefusals.definition.name]?.samples.count == 2_000)
        #expect(try page.value(MetricRegistry.catalogue.droppedSeries.definition.name) == 10)
    }

    @Test("A limited number of kinds have series, and they keep them; the others share one")
    func kinds() {
        let metrics = MetricRegistry(kinds: 2)
        let kinds = ["a", "b", "c", "d"]
        let first = kinds.map { metrics.labels(app: "app", kind: $0) }
        #expect(first == [["app", "a"], ["app", "b"], ["other", "other"], ["other", "other"]])
        #expect(kinds.reversed().map { metrics.labels(app: "app", kind: $0) } == first.reversed())
    }

    // MARK: Metrics of libraries

    @Test("The order of labels does not matter")
    func sameSeries() throws {
        metrics.makeCounter(label: "a_total", dimensions: [("x", "1"), ("y", "2")]).increment(by: 1)
        metrics.makeCounter(label: "a_total", dimensions: [("y", "2"), ("x", "1")]).increment(by: 2)
        #expect(try page.value("a_total", ["x": "1", "y": "2"]) == 3)
    }

    @Test("A metric outside the catalogue gets a name that Prometheus allows")
    func names() throws {
        metrics.makeMeter(label: "9 http.server-requests", dimensions: [("a:b", "c")]).set(Int64(1))
        #expect(try page.value("_9_http_server_requests", ["a_b": "c"]) == 1)
    }

    @Test("A metric has one type and one set of labels; other series are counted")
    func oneType() throws {
        metrics.makeCounter(label: "a_total", dimensions: [("x", "1")]).increment(by: 1)
        metrics.makeMeter(label: "a_total", dimensions: [("x", "1")]).set(Int64(7))
        metrics.makeCounter(label: "a_total", dimensions: [("y", "1")]).increment(by: 1)
        metrics.makeCounter(label: MetricRegistry.catalogue.claims.definition.name, dimensions: []).increment(by: 1)
        #expect(try page.value("a_total", ["x": "1"]) == 1)
        #expect(try page.families["a_total"]?.samples.count == 1)
        #expect(try page.value(MetricRegistry.catalogue.claims.definition.name) == nil)
        #expect(try page.value(MetricRegistry.catalogue.droppedSeries.definition.name) == 3)
    }

    @Test("NaN and infinities have Prometheus' spelling")
    func numbers() throws {
        for (name, value) in [("nan", Double.nan), ("more", .infinity), ("less", -.infinity), ("tiny", 1e-7)] {
            metrics.makeMeter(label: name, dimensions: []).set(value)
        }
        let page = try page
        #expect(page.value("nan")?.isNaN == true)
        #expect(page.value("more") == .infinity)
        #expect(page.value("less") == -.infinity)
        #expect(page.value("tiny") == 1e-7)
    }

    @Test("The catalogue follows promtool's rules")
    func catalogue() {
        #expect(
            Set(MetricRegistry.catalogue.all.map(\.definition).map(\.name)).count
                == MetricRegistry.catalogue.all.map(\.definition).count)
        for metric in MetricRegistry.catalogue.all.map(\.definition) {
            #expect(metric.name.hasPrefix("freshet_"))
            #expect((metric.instrument == .counter) == metric.name.hasSuffix("_total"), "\(metric.name)")
            #expect(metric.help.hasSuffix("."), "\(metric.name)")
            if case .histogram(let bounds) = metric.instrument { #expect(bounds == bounds.sorted()) }
        }
    }
}

@Suite struct PrometheusPageTests {
    @Test(
        "Pages that Prometheus would refuse are refused",
        arguments: [
            "a 1\n",
            "# HELP a x\n# TYPE a gauge\na 1",
            "# HELP a x\n# TYPE a gauge\na{b=\"c} 1\n",
            "# HELP a x\n# TYPE a gauge\na 1\na 2\n",
            "# HELP a x\n# TYPE a gauge\nb 2\n",
            "# HELP a x\n# TYPE a counter\na 2\n",
            "# HELP a_total x\n# TYPE a_total gauge\na_total 2\n",
            "# HELP a x\n# TYPE a gauge\na one\n",
            "# HELP a x\n# TYPE a gauge\na 1\n# HELP a x\n# TYPE a gauge\na{b=\"c\"} 1\n",
            "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 3\nh_bucket{le=\"+Inf\"} 2\nh_sum 1\nh_count 2\n",
            "# HELP h x\n# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum 1\nh_count 1\n",
        ])
    func refused(_ text: String) {
        #expect(throws: PrometheusPage.Problem.self) { try PrometheusPage(text) }
    }
}
