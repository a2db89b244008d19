// SPDX-License-Identifier: Apache-2.0

import Foundation
import HummingbirdTesting
import JSON
import Metrics
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("The console in Chromium", .tags(.api), .timeLimit(.patience))
struct ConsoleBrowserTests {
    private static let timeline = """
        {"entries":[
        {"content":{"dark":{"text":"night"},"light":{"text":"day"}},"date":"2020-01-01T00:00:00Z","relevance":{"score":3}},
        {"content":"later","date":"2030-01-01T00:00:00Z","relevance":{"score":8},"url":"bank://later"}],"policy":"atEnd"}
        """

    /// An hour of samples, as from a busy process.
    private static func history() -> MetricHistory {
        let history = MetricHistory()
        let now = Timestamp.now()
        let metrics = MetricRegistry()
        for minute in 0..<60 {
            let wave = 50 + minute * 7 % 40
            metrics.ingestEvents("push.received", "applied").increment(by: 6_000 + wave * 20)
            metrics.stored.increment(by: 4_000 + wave * 9)
            metrics.published.increment(by: 3_900 + wave * 8)
            metrics.kindOldestDue(TestKinds.app, "k").set(minute < 40 ? 0 : 900 + wave)
            metrics.timelineAge(TestKinds.app, "k", "99").set(wave * 60)
            for (lane, lists) in [("interactive", wave / 10), ("scheduled", wave / 2), ("bulk", wave * 2)] {
                metrics.readyLists(lane).set(lists)
            }
            metrics.breakerState(TestKinds.app, "p").set(minute / 50)
            // A rate of the last minute alone.
            if minute >= 58 { metrics.decisions(TestKinds.app, "k", "reloaded").increment(by: 120) }
            metrics.deadLettersWaiting("invalid").set(minute / 7)
            for (window, changes) in [("1h", 1_000), ("6h", 6_000)] {
                metrics.deliveryChanges(TestKinds.app, "k", window).set(changes)
                metrics.deliveryMissed(TestKinds.app, "k", window).set(wave * changes / 1_000)
            }
            for (milliseconds, count) in [(100, 50), (500, 40 + wave), (700, 10)] {
                for _ in 0..<count { metrics.reloadLatency("push").record(duration: .milliseconds(milliseconds)) }
            }
            for milliseconds in [50, 50, 50, 60] { metrics.providerSeconds.record(.milliseconds(milliseconds)) }
            history.record(metrics, at: now - .seconds(60) * (59 - minute))
        }
        return history
    }

    private static func console() throws -> ConsoleConfiguration {
        try ConsoleConfiguration.test {
            $0.history = history()
            $0.runbook = "https://runbook.example.com/runbook.md"
            $0.findings = { _ in
                [
                    ["check": "kafka", "severity": "ok", "message": "all topics are there", "advice": .null],
                    [
                        "check": "providers", "severity": "problem", "message": "the provider cannot be reached",
                        "advice": "check that it runs",
                    ],
                ]
            }
            $0.readManifest = { _ in
                var apps = TestKinds.apps()
                apps.removeLast()
                apps[0].kinds[0].maxBatch = 7
                return apps
            }
            $0.providerHealth = { _ in
                [
                    "http://127.0.0.1:1/bank": [
                        "limit": 12, "milliseconds": 85,
                        "answeredAt": "2026-06-22T10:00:00Z", "failedAt": "2026-06-22T10:00:05Z",
                        "failure": "timeout: no answer within 10 s",
                    ]
                ]
            }
        }
    }

    /// Performs the script's requests for changes, which are files, until the script ends.
    private static func answer(_ pipe: String, _ change: (String) async throws -> Void) async throws {
        var number = 1
        while true {
            let request = "\(pipe).request.\(number)"
            guard let text = try? String(contentsOfFile: request, encoding: .utf8) else {
                try await Task.sleep(for: .milliseconds(20))
                continue
            }
            try await change(text)
            try Data().write(to: URL(filePath: "\(pipe).done.\(number)"))
            number += 1
        }
    }

    @Test(
        "An operator signs in, reads every page, uses each action and sees live changes, by mouse and keyboard",
        .enabled(if: HeadlessBrowser.isInstalled, "Chromium is not installed"))
    func use() async throws {
        try await withStore { store in
            try await store.defineIntent()
            let id = try #require(try await store.place([.test("w1", configuration: "{\"card\":\"acme\"}")]).first)
            try await store.saveStored(Self.timeline, id, hash: 3)
            try await store.saveSchedule(of: "u1", widget: "w1", revision: 7)
            try await store.sql(
                """
                UPDATE timeline SET history = (SELECT string_agg(decision_record(
                    now() - n * interval '1 minute', (CASE WHEN n % 2 = 1 THEN 3 ELSE 1 END)::int2,
                    (CASE WHEN n % 2 = 1 THEN 33 ELSE 4 END)::int2, 4::int2, 15 + n), '' ORDER BY n)
                    FROM generate_series(1, 50) n)
                """)
            let failing = try #require(try await store.place([.test("w2", user: "u2")]).first)
            try await store.sql("UPDATE timeline SET attempts = 1 WHERE identity = '\(failing)'")
            for offset in 1...3 {
                try await store.keepLetter(Int64(offset), kind: offset == 1 ? "Purchases" : "Nothing")
            }
            let changes = TimelineChanges()
            changes.set(isLive: true)
            let kafka = ReadinessCheck(name: "kafka") { "no broker answers" }
            try await withAPI(
                store, checks: [kafka], changes: changes, configurations: StubConfigurations(),
                console: try Self.console(), isLive: true
            ) { api in
                let port = try #require(api.client.port)
                let pipe = FileManager.default.temporaryDirectory.appending(path: "freshet-console-\(UUID())").path()
                let viewer = try await api.viewer()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        try await Self.answer(pipe) { change in
                            guard change == "store" else { return try await store.keepLetter(9) }
                            try await store.saveStored(Self.timeline, id, hash: 9)
                            changes.notify([.timeline(id)])
                        }
                    }
                    group.addTask {
                        try await HeadlessBrowser.run(
                            "Tests/WidgetAPITests/Console/console.py", "http://127.0.0.1:\(port)", api.token, viewer,
                            pipe)
                    }
                    try await group.next()
                    group.cancelAll()
                }
                #expect(try await store.integer("SELECT count(*) FROM kind WHERE paused_at IS NOT NULL") == 0)
                // A reload of the kind, one of the widget, and its configuration.
                let events = try api.published.events().map(\.event)
                #expect(events.count == 3)
                guard case .widget(.configured(let widget, let configuration))? = events.last?.change else {
                    Issue.record("no configuration: \(events)")
                    return
                }
                #expect(widget == "w1" && configuration.canonical.contains("groceries"))
            }
        }
    }
}
