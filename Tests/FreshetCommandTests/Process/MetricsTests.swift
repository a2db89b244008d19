import Foundation
import FreshetClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

/// What `/metrics` of a running process says, read as strictly as Prometheus would; and that the alerts and the dashboard
/// ask for nothing else.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct MetricsTests {
    private static let sick = "com.example.sick"

    /// Its provider answers nobody.
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
            time: WallClock.now())
    }

    private static func push(_ app: String = Installation.app, kinds: KindScope = .all) -> OutgoingEvent {
        OutgoingEvent(
            .push(ReloadRequest(app: app, audience: .user("user of w1"), kinds: kinds, reason: .push)),
            time: WallClock.now())
    }

    @Test("every metric is there after real work, with the labels it should have, and says what was done")
    func everyMetric() async throws {
        try await withInstallation { installation in
            let folder = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).yaml")
            try Self.manifest.write(to: folder, atomically: true, encoding: .utf8)
            defer { try? FileManager.default.removeItem(at: folder) }
            #expect(try await installation.freshet("kinds", "apply", folder.path).status == 0)
            let (process, ready) = try await installation.run(
                "--set", "health.port=0", "--set", "metrics.interval=1s", "--set", "workers.retryCap=1s",
                "--set", "metrics.overdueAfter=100ms", "--set",
                "delivery.webhooks=\(Installation.app)=http://127.0.0.1:1/")
            let health = HealthProbe(port: Int(try #require(ready["healthPort"]?.numberValue?.int64)))

            let device = DeviceRegistration(user: "user of w1", device: "device of w1", channel: .webhook)
            try await installation.publish([
                OutgoingEvent(.deviceRegistered(app: Installation.app, device), time: WallClock.now())
            ])
            try await eventually("the device is registered") {
                try await installation.store.integer("SELECT count(*) FROM app WHERE delivers") == 1
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
            try await eventually("the sick provider is left alone", every: .milliseconds(300)) {
                // Each request fails by itself: a batch would be one failure.
                try await installation.publish([Self.placed("w\(next) sick", app: Self.sick, kind: "Sick")])
                next += 1
                return try await health.metricsPage().sum(MetricCatalogue.breakersOpened.name) > 0
            }
            try await eventually("what was done is counted, and what is sampled was read") {
                let page = try await health.metricsPage()
                return page.sum(MetricCatalogue.reloadLatency.name + "_count", ["reason": "push"]) >= 1
                    && page.value(
                        MetricCatalogue.timelineAge.name,
                        [
                            "app": Installation.app, "kind": "DueDate", "percentile": "99",
                        ]) != nil
                    && page.sum(MetricCatalogue.oldestOverdue.name) > 0
                    && page.sum(MetricCatalogue.deadLettersWaiting.name) == 1
                    && page.families[MetricCatalogue.kindOldestDue.name] != nil
                    && page.sum(MetricCatalogue.deliveryChanges.name) > 0
            }

            let page = try await health.metricsPage()
            for metric in MetricCatalogue.all {
                guard let family = page.families[metric.name] else {
                    Issue.record("\(metric.name) is missing")
                    continue
                }
                #expect(family.sort == metric.instrument.name, "\(metric.name)")
                #expect(family.labelNames == Set(metric.labels), "\(metric.name)")
            }
            #expect(Set(page.families.keys).isSubset(of: MetricCatalogue.byName.keys))

            // In a running process counts go on; these are of what has ended.
            let topics = Set(
                ["widgets", "pushes", "app-changes", "donations"].map { installation.kafka.name("freshet.\($0)") })
            let lag = try #require(page.families[MetricCatalogue.ingestLag.name])
            #expect(Set(lag.samples.compactMap { $0.labels["topic"] }) == topics)
            let events = MetricCatalogue.ingestEvents.name
            #expect(page.value(events, ["type": "push.received", "outcome": "applied"]) == 1)
            #expect(page.value(events, ["type": "push.received", "outcome": "dead_letter"]) == 1)
            #expect(page.value(events, ["type": "widget.placed", "outcome": "applied"]).map { $0 >= 5 } == true)
            #expect(page.value(events, ["type": "widget.removed", "outcome": "applied"]) == 0)
            #expect(page.value(MetricCatalogue.ingestDeadLetters.name, ["cause": "unknownKind"]) == 1)
            #expect(page.value(MetricCatalogue.deadLettersWaiting.name, ["cause": "unknownKind"]) == 1)
            #expect(page.sum(MetricCatalogue.ingestApplySeconds.name + "_count") >= 2)
            #expect(page.sum(MetricCatalogue.ingestBatchEvents.name + "_sum") == page.sum(events))
            #expect(page.sum(MetricCatalogue.stored.name) >= 3)
            #expect(page.sum(MetricCatalogue.reloadLatency.name + "_count", ["reason": "placed"]) >= 3)
            #expect(page.sum(MetricCatalogue.reloadLatency.name + "_sum") < 3_600)
            #expect(page.value(MetricCatalogue.providerRequests.name, ["outcome": "connection"]).map { $0 > 0 } == true)
            #expect(page.sum(MetricCatalogue.providerRequests.name, ["outcome": "answered"]) >= 1)
            #expect(
                page.value(
                    MetricCatalogue.decisions.name,
                    ["app": Installation.app, "kind": "DueDate", "decision": "reloaded"]
                ).map { $0 >= 3 } == true)
            #expect(
                page.value(
                    MetricCatalogue.breakerState.name, ["app": Self.sick, "provider": "http://127.0.0.1:1/sick"])
                    != nil)
            #expect(page.value(MetricCatalogue.poolConnections.name, ["state": "maximum"]) == 8)
            #expect(page.sum(MetricCatalogue.samples.name, ["outcome": "failed"]) == 0)
            #expect(page.value(MetricCatalogue.ingestPartitions.name) == 32)
            #expect(page.value(MetricCatalogue.buildInfo.name, ["version": "0.1.0", "role": "all"]) == 1)
            #expect(page.sum(MetricCatalogue.liveTuples.name, ["table": "timeline"]) >= 0)
            #expect(page.sum(MetricCatalogue.xminSeconds.name) < 3_600)

            try Self.checkQueries(against: page)
            process.send(signal: SIGTERM)
            _ = try await process.end()
        }
    }

    @Test("a reading that fails is counted, and what was read stays as it was")
    func failedSample() async throws {
        try await withInstallation { installation in
            let (process, ready) = try await installation.run(
                "--role", "workers", "--set", "health.port=0", "--set", "metrics.interval=1s")
            let health = HealthProbe(port: Int(try #require(ready["healthPort"]?.numberValue?.int64)))
            try await eventually("the queues are read") {
                try await health.metricsPage().sum(
                    MetricCatalogue.samples.name, ["sample": "waiting", "outcome": "done"]) > 0
            }
            try await installation.store.sql("ALTER TABLE diversion RENAME TO diversion_elsewhere")
            try await eventually("the failure is counted") {
                try await health.metricsPage().sum(
                    MetricCatalogue.samples.name, ["sample": "waiting", "outcome": "failed"]) > 0
            }
            let page = try await health.metricsPage()
            #expect(page.value(MetricCatalogue.divertedApps.name) == 0)
            #expect(page.sum(MetricCatalogue.samples.name, ["sample": "queues", "outcome": "failed"]) == 0)
            #expect(!page.families.keys.contains { $0.hasPrefix("freshet_ingest") })
            process.send(signal: SIGTERM)
            _ = try await process.end()
        }
    }

    // MARK: Alerts and dashboards

    @Test("every alert says what is wrong, and where its page in the runbook is")
    func alerts() throws {
        let queries = try ObservedQueries()
        #expect(queries.alerts.count >= 10)
        let guide = try Repository.path("deploy/README.md").map { try String(contentsOfFile: $0, encoding: .utf8) }
        if let guide { #expect(guide.contains("s|https://runbook.invalid|"), "the guide says how to set it") }
        let runbook = try Repository.path("deploy/runbook.md").map { try String(contentsOfFile: $0, encoding: .utf8) }
        for (alert, annotations) in queries.alerts {
            #expect(annotations["summary"]?.isEmpty == false, "\(alert)")
            // An operator puts in where the runbook is read, by this beginning (deploy/README.md).
            #expect(
                annotations["runbook_url"] == "https://runbook.invalid/runbook.md#\(alert.lowercased())", "\(alert)")
            guard let runbook else { continue }
            #expect(
                runbook.split(separator: "\n").contains { $0.hasPrefix("#") && $0.hasSuffix(" \(alert)") },
                "the runbook has no heading \(alert)")
        }
    }

    @Test(
        "the alerts and the dashboard name nothing that the catalogue does not have, and each of its metrics somewhere")
    func queriesAndCatalogue() throws {
        let queries = try ObservedQueries()
        let exposed = Set(
            MetricCatalogue.all.flatMap { metric in
                if case .histogram = metric.instrument {
                    return ["_bucket", "_sum", "_count"].map { metric.name + $0 }
                }
                return [metric.name]
            })
        let asked = Set(queries.names.keys)
        #expect(asked.subtracting(exposed).subtracting(queries.recorded).isEmpty)
        for metric in MetricCatalogue.all {
            #expect(asked.contains { $0.hasPrefix(metric.name) }, "nobody looks at \(metric.name)")
        }
    }

    @Test(
        "what workers are scaled by is a metric that is exposed, with its labels, under the name that the autoscaler asks for"
    )
    func autoscaling() throws {
        let queries = try ObservedQueries()
        #expect(!queries.scaling.isEmpty)
        for rule in queries.scaling {
            let metric = try #require(MetricCatalogue.byName[rule.series], "\(rule.series) is not in the catalogue")
            // Those of the scrape's targets, which Prometheus puts on.
            let labels = Set(metric.labels).union(["namespace", "service", "pod", "instance", "job"])
            #expect(rule.labels.isSubset(of: labels), "\(rule.series): \(rule.labels)")
            #expect(rule.labels.contains("lane"))
            #expect(queries.scaledBy.contains(rule.name), "nobody asks for \(rule.name)")
        }
        #expect(queries.scaledBy == Set(queries.scaling.map(\.name)))
        #expect(
            ObservedQueries.labels(in: #"max by (<<.GroupBy>>) (<<.Series>>{<<.LabelMatchers>>,lane=~"a,b=c", x!=""})"#)
                == ["lane", "x"])
    }

    @Test("the names in a query are found, and the values of labels are not taken for names")
    func names() {
        let query = #"sum by (le) (rate(freshet_a_bucket{x="freshet_b"}[5m])) > freshet:c * freshet_d_total"#
        #expect(ObservedQueries.metrics(in: query) == ["freshet_a_bucket", "freshet:c", "freshet_d_total"])
    }

    /// Every metric that the alerts and the dashboard name is one that the page has, or that the rules record.
    private static func checkQueries(against page: PrometheusPage) throws {
        let queries = try ObservedQueries()
        #expect(queries.names.count > 20)
        for (name, places) in queries.names {
            #expect(
                page.sampleNames.contains(name) || queries.recorded.contains(name),
                "\(name), which \(places.sorted().joined(separator: ", ")) asks for, is not exposed")
        }
    }
}

extension HealthProbe {
    func metricsPage() async throws -> PrometheusPage {
        try PrometheusPage(try await metricsText())
    }
}
