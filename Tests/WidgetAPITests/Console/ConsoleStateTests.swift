// SPDX-License-Identifier: Apache-2.0

import Charts
import JSON
import Metrics
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("The console tells what does not work", .tags(.api), .timeLimit(.patience))
struct ConsoleStateTests {
    private static let own: UInt128 = 1
    private static let pages = ["", "/doctor", "/kinds", "/widgets", "/dead-letters", "/providers", "/simulator"]

    /// Passes a signed-in browser to the closure.
    private static func withBrowser(
        _ apps: [AppDefinition] = TestKinds.apps(), checks: [ReadinessCheck] = [],
        console: ConsoleConfiguration? = nil,
        _ body: @escaping @Sendable (TestStore, ConsoleClient) async throws -> Void
    ) async throws {
        var console = try console ?? .test()
        console.process = own
        try await withStore(apps) { store in
            try await store.place([.test("w1")])
            try await withAPI(store, checks: checks, console: console) { api in
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(api.token).status == 303)
                try await body(store, browser)
            }
        }
    }

    // MARK: Readiness

    @Test("Every page names what its process is not ready for, and the doctor counts it as a problem")
    func readiness() async throws {
        let checks = [ReadinessCheck(name: "postgres") { nil }, ReadinessCheck(name: "kafka") { "no broker answers" }]
        try await Self.withBrowser(checks: checks) { _, browser in
            for page in Self.pages + ["/kinds/Unknown"] {
                let text = try await browser.get("/console\(page)").text
                #expect(text.contains("<strong>kafka</strong> (this process): does not work"), "\(page)")
                #expect(!text.contains("no broker answers"), "reasons are for the operator of the only app")
            }
            #expect(try await browser.get("/console").text.contains("Not ready: kafka"))
            #expect(try await browser.get("/console/doctor").text.contains("1 problem, "))
        }
    }

    @Test("Pages name what other processes report, and roles that no process reports; not what stopped processes did")
    func others() async throws {
        try await Self.withBrowser { store, browser in
            func report(_ id: UInt128, _ role: String, _ obstacles: [ProcessObstacle] = []) async throws {
                _ = try await store.pool.execute(.reportProcess(id, role: role, obstacles: obstacles))
            }
            let banner = "role=\"alert\""
            #expect(try await !browser.get("/console/kinds").text.contains(banner), "no process reports yet")
            let kafka = ProcessObstacle(name: "kafka", reason: "no broker answers")
            try await report(Self.own, "api", [ProcessObstacle(name: "old", reason: "from before")])
            try await report(2, "ingest", [kafka, ProcessObstacle(name: "ingest", reason: "an app's secret")])
            try await report(3, "ingest", [kafka])
            let text = try await browser.get("/console/kinds").text
            #expect(text.contains("kafka</strong> (2 processes of the role ingest): does not work"))
            #expect(text.contains("workers</strong> (no process): no process of this role reports"))
            #expect(!text.contains("from before"), "the page's own process is ready now")
            #expect(!text.contains("an app&#39;s secret") && text.contains("an administrator sees the reason"))
            for id in [2, 3] as [UInt128] { _ = try await store.pool.execute(.forgetProcess(id)) }
            try await report(4, "all")
            #expect(try await !browser.get("/console/kinds").text.contains(banner))
        }
    }

    // MARK: The verdict

    @Test("The overview begins with what is overdue, failing and stale, each with a link to a filtered list")
    func verdict() async throws {
        try await Self.withBrowser { store, browser in
            try await store.place([.test("w2", user: "u2"), .test("w3", kind: "DueDate")])
            _ = try await store.pool.query(.registerWorker(1))
            let app = try #require(try await store.directory().apps[TestKinds.app])
            let outage = BreakerState(
                app: app.name, appID: app.id, provider: "http://127.0.0.1:1/bank", rest: .seconds(30),
                message: "answered with status 503")
            _ = try await store.pool.execute(.recordBreakers([outage], worker: 1))
            // As worker processes report them; this one has no workers.
            let date = try #require(Timestamp(rfc3339: "2026-06-22T10:00:05Z"))
            let failures = [("p", app.name, "the connection is refused"), ("r", "com.example.other", "secret")].map {
                ReportedFailure(app: $1, provider: "http://\($0).example.com", message: $2, at: date)
            }
            let item = ReportedFailure(
                app: app.name, provider: "http://q.example.com", message: "busy: try later", at: .now())
            _ = try await store.pool.execute(.reportProcess(7, role: "all", obstacles: [], failures: failures + [item]))
            try await store.sql(
                """
                UPDATE timeline SET listed_at = now() - interval '2 minutes' WHERE user_id = 'u1';
                UPDATE timeline SET attempts = 1 WHERE user_id = 'u2';
                UPDATE work SET due_at = now() - interval '2 minutes', ready_at = due_at
                """)
            let text = try await browser.get("/console").text
            let verdict = try #require(text.firstRange(of: "id=\"verdict\"")?.lowerBound)
            let figures = try #require(text.firstRange(of: "id=\"figures\"")?.lowerBound)
            #expect(verdict < figures)
            let lines = String(text[verdict..<figures])
            for part in [
                "http://p.example.com failed <time datetime=\"2026-06-22T10:00:05Z\" title=\"2026-06-22 10:00:05 UTC\"",
                "the connection is refused", "answered with status 503; it gets no requests until",
                "busy: try later",
                "href=\"/console/widgets?state=overdue\">Overdue: 2 widgets, the oldest for 2 min",
                "href=\"/console/widgets?state=failing\">Failed at the last fetch: 1 widget",
            ] { #expect(lines.contains(part), "\(part): \(lines)") }
            #expect(!lines.contains("r.example.com"))
            let found = try await browser.get("/console/widgets?state=failing").text
            #expect(found.contains(">w2</a>") && !found.contains(">w1</a>"))
            #expect(found.contains("<strong>2</strong> overdue"))
            let kinds = try await browser.get("/console/kinds?state=overdue").text
            #expect(kinds.contains(">DueDate</a>") && !kinds.contains(">Weather</a>"))
            #expect(try await browser.get("/console/widgets?state=late").text.contains("expected one of paused"))
        }
    }

    @Test("Without the database the overview has its verdict alone")
    func unread() async throws {
        try await Self.withBrowser(checks: [ReadinessCheck(name: "postgres") { "no connection" }]) { _, browser in
            let text = try await browser.get("/console").text
            #expect(text.contains("Not ready: postgres") && text.contains("the database cannot be read"))
            #expect(!text.contains("id=\"figures\""))
        }
    }

    @Test("Beyond the widgets that are counted the verdict does not say that all is well")
    func truncated() {
        var states = WidgetStates()
        #expect(ConsoleVisit.calm(states) == "Every widget is up to date")
        states.isTruncated = true
        #expect(
            ConsoleVisit.calm(states)
                == "Nothing is wrong with the first \(ConsolePage.grouped("10000")) widgets")
    }

    @Test("Without anything wrong the verdict says so")
    func calm() async throws {
        try await Self.withBrowser { store, browser in
            try await store.sql(
                """
                DELETE FROM work;
                UPDATE timeline SET content_revision = 1, rendered = requested, listed_at = 'infinity'
                """)
            #expect(try await browser.get("/console").text.contains("class=\"good\">Every widget is up to date"))
        }
    }

    // MARK: Tenants

    @Test("The overview of one of several apps has its own figures only; that of the only app has the installation's")
    func tenants() async throws {
        let metrics = MetricRegistry()
        let history = MetricHistory()
        for (app, age) in [(TestKinds.app, 40.0), (TestKinds.otherApp, 77_777)] {
            metrics.kindOldestDue(app, "Purchases").set(age)
            metrics.deliveryChanges(app, "Purchases", "1h").set(100)
            metrics.deliveryMissed(app, "Purchases", "1h").set(app == TestKinds.app ? 4 : 93)
        }
        metrics.ingestOldest("freshet.pushes").set(55_555)
        history.record(metrics)
        for isShared in [true, false] {
            let apps = Array(TestKinds.apps().prefix(isShared ? 2 : 1))
            try await Self.withBrowser(apps, console: .test { $0.history = history }) { _, browser in
                let text = try await browser.get("/console").text
                #expect(text.contains("No figures of this process yet: Timelines of"))
                #expect(text.contains("<strong>40 s</strong>") && text.contains("<strong>4 %</strong>"))
                #expect(!text.contains("77\u{202F}777") && !text.contains("93 %"))
                #expect(text.contains("55\u{202F}555") == !isShared)
                #expect(text.contains("Throughput") == !isShared)
                let providers = try await browser.get("/console/providers").text
                #expect(providers.contains("Latency of the last hour") == !isShared)
            }
        }
    }

    // MARK: Alerts

    @Test("A chart is ok within its limit, and fires once its figures have been over the thresholds for long enough")
    func alerts() {
        func state(_ values: [Double?], every seconds: Double = 60, of number: Double = 200) -> AlertChart.State {
            let count = Double(values.count - 1)
            let points = values.enumerated().map { (x: (Double($0) - count) * seconds, value: $1) }
            return AlertChart(
                title: "t", unit: "s", lines: [Chart.Series("l", .line, points: points)], alert: .timelinesOverdue,
                limit: 60, thresholds: [100], minimum: (Chart.Series("n", .line, points: [(x: 0, value: number)]), 100)
            ).state
        }
        #expect(state([]) == .unknown && state([nil]) == .unknown)
        #expect(state([200, 200, 10]) == .ok)
        #expect(state([90, 90, 90, 90, 90, 90, 90]) == .exceeded)
        #expect(state([200, 200]) == .exceeded, "not for five minutes")
        #expect(state(Array(repeating: 200, count: 7)) == .firing)
        #expect(state([200, 200, 200, 200, 10, 200, 200]) == .exceeded)
        #expect(state(Array(repeating: 200, count: 7), of: 100) == .exceeded, "too few")
    }
}
