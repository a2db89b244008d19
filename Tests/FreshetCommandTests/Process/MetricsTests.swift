// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

/// `/metrics` of a running process, parsed as strictly as Prometheus does, and the metrics in the alerts and the
/// dashboard.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct MetricsTests {
    private static let sick = "com.example.sick"

    /// Its provider does not exist.
    private static let manifest = """
        app: \(sick)
        developerMode: true
        provider: {url: "http://127.0.0.1:1/sick"}
        kinds:
          - {name: Sick, displayName: Sick, description: Sick, placeholder: {}}
        """

    private static func placed(_ widget: String, app: String = Installation.app, kind: String) -> OutgoingEvent {
        OutgoingEvent(
            .placed(
                WidgetPlacement(
                    app: app, widget: widget, user: "user of \(widget)", device: "device of \(widget)", kind: kind,
                    family: .systemSmall, environment: WidgetPlacement.test("w").environment)),
            time: Timestamp.now())
    }

    private static func push(_ app: String = Installation.app, kinds: KindScope = .all) -> OutgoingEvent {
        OutgoingEvent(
            .reload(ReloadRequest(app: app, audience: .user("user of w1"), kinds: kinds, reason: .push)),
            time: Timestamp.now())
    }

    @Test("After real work every metric is exposed with its labels and counts the work")
    func everyMetric() async throws {
        try await withInstallation { installation in
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).yaml")
            try Self.manifest.write(to: folder, atomically: true, encoding: .utf8)
            defer { try? FileManager.default.removeItem(at: folder) }
            #expect(try await installation.freshet("kinds", "apply", folder.path).status == 0)
            let (process, ready) = try await installation.run(
                "--set", "health.port=0", "--set", "metrics.interval=1s", "--set", "workers.retryCap=1s",
                "--set", "metrics.overdueAfter=100ms",
                "--set", "delivery.webhooks=\(Installation.app)=http://127.0.0.1:1/",
                "--set", "delivery.tokenKeys=k1=\(Data(repeating: 1, count: 32).base64EncodedString())")
            let health = HealthProbe(port: Int(try #require(ready["healthPort"]?.numberValue?.int64)))

            let address = APNsAddress(
                token: Array(1...8), environment: .production, topic: Installation.app + APNsAddress.topicSuffix)
            let devices = [("w1", DeliveryChannel.webhook), ("w2", .apns(address))].map { widget, channel in
                FreshetEvent.deviceRegistered(
                    app: Installation.app, user: "user of \(widget)", device: "device of \(widget)", channel: channel)
            }
            try await installation.publish(devices.map { OutgoingEvent($0, time: Timestamp.now()) })
            try await eventually("the devices are registered") {
                try await installation.store.integer("SELECT count(*) FROM registration") == 2
            }
            try await installation.publish(
                (1...3).map { Self.placed("w\($0)", kind: "DueDate") }
                    + [Self.placed("w1 sick", app: Self.sick, kind: "Sick")])
            try await eventually("placed widgets are rendered") {
                try await installation.store.integer("SELECT count(*) FROM timeline WHERE content IS NOT NULL") == 3
            }
            try await installation.publish([
                Self.push(), Self.push(Installation.app, kinds: .kinds(["NoSuchKind"])),
            ])
            var next = 2
            try await eventually("the failing provider rests", every: .milliseconds(300)) {
                // Each request fails separately: a batch would count as a single failure.
                try await installation.publish([Self.placed("w\(next) sick", app: Self.sick, kind: "Sick")])
                next += 1
                return try await health.metricsPage().sum(MetricRegistry.catalogue.breakersOpened.definition.name) > 0
            }
            try await eventually("the change on the device is counted") {
                try await installation.store.integer("SELECT count(*) FROM delivery_statistics") > 0
            }
            // A change belongs to a metric when its five minutes and the objective have passed.
            try await installation.store.sql("UPDATE delivery_statistics SET bucket = bucket - interval '10 minutes'")
            // The page that has everything: a later one may lack what is due or overdue only at times.
            var page = try PrometheusPage("")
            try await eventually("the work is counted, and sampled values are read") {
                page = try await health.metricsPage()
                return page.sum(MetricRegistry.catalogue.reloadLatency.definition.name + "_count", ["reason": "push"])
                    >= 1
                    && page.value(
                        MetricRegistry.catalogue.timelineAge.definition.name,
                        [
                            "app": Installation.app, "kind": "DueDate", "percentile": "99",
                        ]) != nil
                    && page.sum(MetricRegistry.catalogue.oldestOverdue.definition.name) > 0
                    && page.sum(MetricRegistry.catalogue.deadLettersWaiting.definition.name) == 1
                    && page.families[MetricRegistry.catalogue.kindOldestDue.definition.name] != nil
                    && page.sum(MetricRegistry.catalogue.deliveryChanges.definition.name) > 0
                    && page.sum(MetricRegistry.catalogue.deliveryPushes.definition.name, ["effect": "unusable"]) > 0
                    && page.sum(MetricRegistry.catalogue.deliveryWebhookDevices.definition.name, ["outcome": "failed"])
                        > 0
                    // The last widget of the failing provider was published a moment ago.
                    && page.sum(
                        MetricRegistry.catalogue.ingestEvents.definition.name,
                        ["type": "widget.placed", "outcome": "applied"]) >= 5
                    && page.sum(MetricRegistry.catalogue.ingestBatchEvents.definition.name + "_sum")
                        == page.sum(MetricRegistry.catalogue.ingestEvents.definition.name)
            }

            for metric in MetricRegistry.catalogue.all.map(\.definition) {
                guard let family = page.families[metric.name] else {
                    Issue.record("\(metric.name) is missing")
                    continue
                }
                #expect(family.sort == metric.instrument.name, "\(metric.name)")
                #expect(family.labelNames == Set(metric.labels), "\(metric.name)")
            }
            #expect(Set(page.families.keys).isSubset(of: MetricRegistry.catalogue.all.map(\.definition).map(\.name)))

            // Counts of the running process still change; these describe work that has ended.
            let topics = Set(
                ["widgets", "pushes", "app-changes", "donations"].map { installation.kafka.name("freshet.\($0)") })
            let lag = try #require(page.families[MetricRegistry.catalogue.ingestLag.definition.name])
            #expect(Set(lag.samples.compactMap { $0.labels["topic"] }) == topics)
            let catalogue = MetricRegistry.catalogue
            let events = catalogue.ingestEvents.definition.name
            let exact: [(name: String, labels: [String: String], value: Double)] = [
                (events, ["type": "push.received", "outcome": "applied"], 1),
                (events, ["type": "push.received", "outcome": "dead_letter"], 1),
                (events, ["type": "widget.removed", "outcome": "applied"], 0),
                (catalogue.ingestDeadLetters.definition.name, ["cause": "unknownKind"], 1),
                (catalogue.deadLettersWaiting.definition.name, ["cause": "unknownKind"], 1),
                (catalogue.poolConnections.definition.name, ["state": "maximum"], 8),
                (catalogue.ingestPartitions.definition.name, [:], 32),
                (catalogue.buildInfo.definition.name, ["version": "0.1.0", "role": "all"], 1),
            ]
            for (name, labels, value) in exact { #expect(page.value(name, labels) == value, "\(name) \(labels)") }
            let least: [(name: String, labels: [String: String], value: Double)] = [
                (events, ["type": "widget.placed", "outcome": "applied"], 5),
                (
                    catalogue.decisions.definition.name,
                    ["app": Installation.app, "kind": "DueDate", "decision": "reloaded"], 3
                ),
                (catalogue.providerRequests.definition.name, ["outcome": "connection"], 1),
                (
                    catalogue.breakerState.definition.name,
                    ["app": Self.sick, "provider": "http://127.0.0.1:1/sick"], 0
                ),
            ]
            for (name, labels, value) in least {
                #expect(try #require(page.value(name, labels), "\(name)") >= value, "\(name) \(labels)")
            }
            let sums: [(name: String, labels: [String: String], range: ClosedRange<Double>)] = [
                (catalogue.ingestApplySeconds.definition.name + "_count", [:], 2...(.infinity)),
                (catalogue.stored.definition.name, [:], 3...(.infinity)),
                (catalogue.reloadLatency.definition.name + "_count", ["reason": "placed"], 3...(.infinity)),
                (catalogue.reloadLatency.definition.name + "_sum", [:], 0...3_600),
                (catalogue.providerRequests.definition.name, ["outcome": "answered"], 1...(.infinity)),
                (catalogue.samples.definition.name, ["outcome": "failed"], 0...0),
                (catalogue.liveTuples.definition.name, ["table": "timeline"], 0...(.infinity)),
                (catalogue.xminSeconds.definition.name, [:], 0...3_600),
            ]
            for (name, labels, range) in sums {
                #expect(range.contains(page.sum(name, labels)), "\(name) \(labels)")
            }
            #expect(page.sum(catalogue.ingestBatchEvents.definition.name + "_sum") == page.sum(events))

            try Self.checkQueries(against: page)
            process.send(signal: SIGTERM)
            _ = try await process.end()
        }
    }

    @Test("A failed reading is counted, and the previous values stay")
    func failedSample() async throws {
        try await withInstallation { installation in
            let (process, ready) = try await installation.run(
                "--role", "workers", "--set", "health.port=0", "--set", "metrics.interval=1s")
            let health = HealthProbe(port: Int(try #require(ready["healthPort"]?.numberValue?.int64)))
            try await eventually("the queues are read") {
                try await health.metricsPage().sum(
                    MetricRegistry.catalogue.samples.definition.name, ["sample": "waiting", "outcome": "done"]) > 0
            }
            try await installation.store.sql("ALTER TABLE diversion RENAME TO diversion_elsewhere")
            try await eventually("the failure is counted") {
                try await health.metricsPage().sum(
                    MetricRegistry.catalogue.samples.definition.name, ["sample": "waiting", "outcome": "failed"]) > 0
            }
            let page = try await health.metricsPage()
            #expect(page.value(MetricRegistry.catalogue.divertedApps.definition.name) == 0)
            #expect(
                page.sum(MetricRegistry.catalogue.samples.definition.name, ["sample": "queues", "outcome": "failed"])
                    == 0)
            #expect(!page.families.keys.contains { $0.hasPrefix("freshet_ingest") })
            process.send(signal: SIGTERM)
            _ = try await process.end()
        }
    }

    // MARK: Alerts and dashboards

    @Test("Every alert has a summary and a link to its heading in the runbook")
    func alerts() throws {
        let queries = try ObservedQueries()
        #expect(queries.alerts.count >= 10)
        let guide = try Repository.path("deploy/README.md").map { try String(contentsOfFile: $0, encoding: .utf8) }
        if let guide { #expect(guide.contains("s|https://runbook.invalid|"), "the guide explains how to set it") }
        let runbook = try Repository.path("deploy/runbook.md").map { try String(contentsOfFile: $0, encoding: .utf8) }
        for (alert, annotations) in queries.alerts {
            #expect(annotations["summary"]?.isEmpty == false, "\(alert)")
            // Operators replace this prefix with the address of their runbook (deploy/README.md).
            #expect(
                annotations["runbook_url"] == "https://runbook.invalid/runbook.md#\(alert.lowercased())", "\(alert)")
            guard let runbook else { continue }
            #expect(
                runbook.split(separator: "\n").contains { $0.hasPrefix("#") && $0.hasSuffix(" \(alert)") },
                "the runbook has no heading \(alert)")
        }
    }

    @Test(
        "The alerts and the dashboard use only metrics of the catalogue, and each of them at least once")
    func queriesAndCatalogue() throws {
        let queries = try ObservedQueries()
        let exposed = Set(
            MetricRegistry.catalogue.all.map(\.definition).flatMap { metric in
                if case .histogram = metric.instrument {
                    return ["_bucket", "_sum", "_count"].map { metric.name + $0 }
                }
                return [metric.name]
            })
        let asked = Set(queries.names.keys)
        #expect(asked.subtracting(exposed).subtracting(queries.recorded).isEmpty)
        for metric in MetricRegistry.catalogue.all.map(\.definition) {
            #expect(asked.contains { $0.hasPrefix(metric.name) }, "\(metric.name) is not used")
        }
    }

    @Test(
        "The autoscaler scales workers by an exposed metric with its labels, under the adapter's name"
    )
    func autoscaling() throws {
        let queries = try ObservedQueries()
        #expect(!queries.scaling.isEmpty)
        for rule in queries.scaling {
            let metric = try #require(
                MetricRegistry.catalogue.all.map(\.definition).first { $0.name == rule.series },
                "\(rule.series) is not in the catalogue")
            // Prometheus adds the labels of the scrape's target.
            let labels = Set(metric.labels).union(["namespace", "service", "pod", "instance", "job"])
            #expect(rule.labels.isSubset(of: labels), "\(rule.series): \(rule.labels)")
            #expect(rule.labels.contains("lane"))
            #expect(queries.scaledBy.contains(rule.name), "no autoscaler uses \(rule.name)")
        }
        #expect(queries.scaledBy == Set(queries.scaling.map(\.name)))
        #expect(
            ObservedQueries.labels(in: #"max by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>,lane=~"a,b=c", x!=""})"#)
                == ["lane", "x"])
    }

    @Test("Names in a query are found, and label values are not mistaken for names")
    func names() {
        let query = #"sum by (le) (rate(freshet_a_bucket{x="freshet_b"}[5m])) > freshet:c * freshet_d_total"#
        #expect(ObservedQueries.metrics(in: query) == ["freshet_a_bucket", "freshet:c", "freshet_d_total"])
    }

    /// Checks that every metric in the alerts and the dashboard is on the page or recorded by the rules.
    private static func checkQueries(against page: PrometheusPage) throws {
        let queries = try ObservedQueries()
        #expect(queries.names.count > 20)
        for (name, places) in queries.names {
            #expect(
                page.sampleNames.contains(name) || queries.recorded.contains(name),
                "\(name), which \(places.sorted().joined(separator: ", ")) uses, is not exposed")
        }
    }
}

extension HealthProbe {
    func metricsPage() async throws -> PrometheusPage {
        try PrometheusPage(try await metricsText())
    }
}
