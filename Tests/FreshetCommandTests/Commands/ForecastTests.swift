// SPDX-License-Identifier: Apache-2.0

import Charts
import FreshetService
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI
@testable import WidgetStore
@testable import freshet

struct ForecastTests {
    private static let start = Timestamp(rfc3339: "2026-06-22T22:00:00Z") ?? .distantPast

    private static func row(
        _ kind: String, _ hour: Int?, _ scheduled: Int, leased: Int = 0, paused: Bool = false, retired: Bool = false,
        provider: String = "https://a.example.com", app: String = "a"
    ) -> DueReloads {
        DueReloads(
            app: app, kind: kind, provider: provider, isPaused: paused, isRetired: retired, hour: hour,
            scheduled: scheduled, leased: leased, start: start, readAt: start + .seconds(60))
    }

    @Test("Kinds of a provider are summed by hour; paused, retired and leased timelines are listed separately")
    func grouping() {
        let forecast = Forecast(
            [
                Self.row("K1", -1, 5, leased: 2), Self.row("K1", 3, 1_000), Self.row("K2", 3, 500),
                Self.row("K3", 1, 40, paused: true), Self.row("K4", 2, 7, retired: true),
                Self.row("K1", nil, 0, provider: "https://b.example.com"), Self.row("K1", 0, 9, app: "b"),
            ], hours: 6)
        #expect(forecast.providers.count == 3)
        let first = forecast.providers[0]
        #expect(first.kinds == ["K1", "K2", "K3", "K4"])
        #expect(first.now == 5 && first.hours == [0, 0, 0, 1_500, 0, 0])
        #expect(first.leased == 2 && first.paused == 40 && first.retired == 7 && first.total == 1_505)
        #expect(forecast.total == 1_514)
        #expect(forecast.json["providers"]?.arrayValue?.first?["hours"]?.arrayValue?[3]["reloads"] == 1_500)
        #expect(
            forecast.json["providers"]?.arrayValue?.first?["hours"]?.arrayValue?[3]["from"] == "2026-06-23T01:00:00Z")
    }

    @Test("The chart is scaled over all providers, at most 80 columns wide, with numbers")
    func chart() {
        let forecast = Forecast(
            [
                Self.row("K1", -1, 1), Self.row("K1", 0, 1_234_567), Self.row("K1", 2, 617_284),
                Self.row("K2", 1, 617_283, leased: 1, provider: "https://b.example.com"),
            ], hours: 24)
        let lines = forecast.lines
        #expect(
            lines.prefix(6) == [
                "a · https://a.example.com · K1",
                "  now                  1  ▏",
                "  06-22 22:00  1,234,567  " + String(repeating: "█", count: 54),
                "  06-22 23:00          0",
                "  06-23 00:00    617,284  " + String(repeating: "█", count: 27),
                "  1,851,852 scheduled",
            ], "\(lines)")
        #expect(lines.contains("  617,283 scheduled, 1 being fetched"))
        #expect(lines.last == "2,469,135 reloads scheduled in 24 h")
        #expect(lines.allSatisfy { $0.count <= Forecast.width })
        #expect(lines.map(\.count).max() == Forecast.width)
    }

    @Test("Empty forecasts say that nothing is scheduled or registered")
    func empty() {
        let idle = Forecast([Self.row("K1", nil, 0)], hours: 24)
        #expect(
            idle.lines == ["a · https://a.example.com · K1", "  0 scheduled", "", "0 reloads scheduled in 24 h"])
        #expect(Forecast([], hours: 24).lines == ["no kinds are registered"])
    }

    @Test("The length of a bar is its share, and a small share is visible")
    func bars() {
        let bars: [(Int, String)] = [(0, ""), (1, "▏"), (1_000, "████"), (500, "██"), (531, "██▏"), (625, "██▌")]
        for (number, bar) in bars { #expect(Chart.bar(number, of: 1_000, columns: 4) == bar) }
        #expect(Chart.bar(5, of: 0, columns: 4) == "")
    }

    @Test("Numbers are formatted for people")
    func texts() {
        for (number, text) in [(0, "0"), (999, "999"), (1_000, "1,000"), (-1_234_567, "-1,234,567")] {
            #expect(Figure.grouped(number) == text)
        }
    }
}

struct KindReportTests {
    @Test("The days of a kind are added up; a kind without counts has zeros")
    func report() throws {
        var first = KindCounters()
        first.reloaded = 2
        first.bytesSpared = 1_500
        first.messagesSpared = 1
        var second = KindCounters()
        second.reloaded = 3
        second.roundHours = 4
        let devices = DeviceTotals(devices: 3, waiting: 1, silent: 2)
        let delivery = DeliveryReport(days: 2, kinds: [], devices: devices)
        let report = KindReport(
            [
                KindStatistics(kind: "A", isRetired: false, day: "2026-06-21", counters: first),
                KindStatistics(kind: "A", isRetired: false, day: "2026-06-22", counters: second),
                KindStatistics(kind: "B", isRetired: true, day: nil, counters: KindCounters()),
            ], delivery: delivery)
        #expect(
            report.table.lines == [
                "KIND         REQUESTS  ASKED  RELOADED  UNCHANGED  FAILED  DEFERRED  SLEPT  SPARED             LINTS",
                "A            0         0      5         0          0       0         0      1.5 kB, 1 message  roundHour 4",
                "B (retired)  0         0      0         0          0       0         0      -                  -",
            ])
        let kinds = try #require(report.json(app: "a", days: 2)["kinds"]?.arrayValue)
        #expect(kinds.map { $0["total"]?["reloaded"] } == [5, 0])
        let days = try #require(kinds[0]["byDay"]?.arrayValue)
        #expect(days.map { $0["day"] } == ["2026-06-21", "2026-06-22"])
        #expect(kinds[1]["byDay"] == JSONValue.array([]))
    }
}
