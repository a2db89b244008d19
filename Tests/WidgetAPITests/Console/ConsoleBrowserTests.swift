import Foundation
import HummingbirdTesting
import JSON
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
        let now = WallClock.now()
        for minute in 0..<60 {
            let wave = 50 + minute * 7 % 40
            let page = """
                freshet_ingest_events_total{outcome="applied",type="push"} \(minute * 6_000 + wave * 20)
                freshet_workers_stored_timelines_total \(minute * 4_000 + wave * 9)
                freshet_workers_published_timelines_total \(minute * 3_900 + wave * 8)
                freshet_ingest_lag_messages{topic="a"} \(wave)
                freshet_work_lists_ready{lane="interactive"} \(wave / 10)
                freshet_work_lists_ready{lane="scheduled"} \(wave / 2)
                freshet_work_lists_ready{lane="bulk"} \(wave * 2)
                freshet_provider_breakers_open \(minute / 50)
                freshet_dead_letters_waiting{cause="invalid"} \(minute / 7)
                freshet_delivery_changes{app="a",kind="k",window="1h"} 1000
                freshet_delivery_missed{app="a",kind="k",window="1h"} \(wave)
                freshet_delivery_changes{app="a",kind="k",window="6h"} 6000
                freshet_delivery_missed{app="a",kind="k",window="6h"} \(wave * 2)
                freshet_reload_latency_seconds_bucket{le="0.1",reason="push"} \(minute * 500)
                freshet_reload_latency_seconds_bucket{le="0.5",reason="push"} \(minute * 900 + wave)
                freshet_reload_latency_seconds_bucket{le="+Inf",reason="push"} \(minute * 1_000 + wave)
                freshet_provider_request_seconds_bucket{le="0.05"} \(minute * 50)
                freshet_provider_request_seconds_bucket{le="+Inf"} \(minute * 60)
                """
            history.record(page, at: now - .seconds(60) * (59 - minute))
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
                return .success(apps)
            }
            $0.providerHealth = { _ in
                [
                    "http://127.0.0.1:1/bank": [
                        "breaker": "open", "style": "bad", "limit": 12, "milliseconds": 85,
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
            for offset in 1...3 {
                try await store.keepLetter(Int64(offset), kind: offset == 1 ? "Purchases" : "Nothing")
            }
            let changes = TimelineChanges()
            changes.set(isLive: true)
            try await withAPI(
                store, changes: changes, configurations: StubConfigurations(), console: try Self.console(), isLive: true
            ) { api in
                let port = try #require(api.client.port)
                let pipe = FileManager.default.temporaryDirectory.appending(path: "freshet-console-\(UUID())").path()
                let viewer = try await api.viewer()
                try await withThrowingTaskGroup(of: Void.self) { group in
                    group.addTask {
                        try await Self.answer(pipe) { change in
                            guard change == "store" else { return try await store.keepLetter(9) }
                            try await store.saveStored(Self.timeline, id, hash: 9)
                            changes.changed([.timeline(id)])
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
