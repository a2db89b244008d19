import JSON
import TestSupport
import Testing
import WidgetModel

@testable import freshet

@Suite("Charts of relevance")
struct RelevanceChartTests {
    private func day(_ name: String, _ zone: String = "Europe/Berlin") throws -> LocalDay {
        try #require(LocalDay(name, timeZone: zone, now: .distantPast))
    }

    private func time(_ text: String) -> Timestamp { Timestamp(rfc3339: text) ?? .distantPast }

    @Test("A day begins and ends at midnight in its time zone, also when the clocks change")
    func days() throws {
        let summer = try day("2026-06-22")
        #expect(summer.range == time("2026-06-21T22:00:00Z")..<time("2026-06-22T22:00:00Z"))
        #expect(summer.clock(time("2026-06-22T07:41:00Z")) == "09:41")
        let short = try day("2026-03-29")
        #expect(short.range.upperBound - short.range.lowerBound == .seconds(23 * 3_600))
        let today = try #require(LocalDay(nil, timeZone: "America/New_York", now: time("2026-06-23T02:00:00Z")))
        #expect(today.name == "2026-06-22")
        #expect(LocalDay(nil, timeZone: "Europe/Nowhere", now: time("2026-06-23T02:00:00Z")) == nil)
        for text in ["2026-6-22", "2026-02-30", "22-06-2026", "today", "2026-06-2x"] {
            #expect(!LocalDay.isValid(text), "\(text)")
        }
        #expect(LocalDay.isValid("2028-02-29"))
    }

    private func chart() throws -> RelevanceChart {
        let points = [("06:15", 0.0), ("07:41", 52.6), ("10:30", 16.29)].map {
            RelevanceCurve.Point(date: time("2026-06-22T\($0.0):00Z"), score: $0.1, duration: .seconds(1_800))
        }
        let curve = RelevanceCurve(points)
        return RelevanceChart(
            title: "Purchases w1", day: try day("2026-06-22"), curve: curve,
            ranks: RelevanceRanks(RelevanceHistory(), with: curve))
    }

    @Test("E: the terminal shows the day's curve, and each step in local time")
    func text() throws {
        let lines = try chart().text.split(separator: "\n")
        #expect(lines.first == "Purchases w1, 2026-06-22 (Europe/Berlin)")
        // There is nothing until 9:41, in the 39th quarter of an hour.
        #expect(lines[1] == "52.6 │" + String(repeating: " ", count: 38) + "███")
        #expect(lines[8].hasSuffix("██") && lines[8].contains("0 │"))
        #expect(lines[9].hasPrefix("     └00:00       03:00"))
        #expect(
            lines.suffix(5) == [
                "08:15  0  not relevant", "09:41  52.6  rank 0.83", "10:11  0  not relevant", "12:30  16.29  rank 0.5",
                "13:00  0  not relevant",
            ])
    }

    @Test("A day without relevance in the timeline has no chart")
    func nothing() throws {
        let nothing = RelevanceCurve([])
        let chart = RelevanceChart(
            title: "w1", day: try day("2026-06-22"), curve: nothing,
            ranks: RelevanceRanks(RelevanceHistory(), with: nothing))
        #expect(chart.text.hasSuffix("The timeline says nothing about relevance on this day."))
        #expect(chart.json["steps"] == [])
    }

    @Test("SVG has the steps as one path and escaped names; JSON has the names unchanged")
    func formats() throws {
        var chart = try chart()
        #expect(
            chart.svg.contains(
                "M330.0 240.0H387.3L387.3 0.0H407.3L407.3 240.0H500.0L500.0 165.7H520.0L520.0 240.0H960.0"))
        let step = try JSONValue.parse(Array(#"{"from":"2026-06-22T07:41:00Z","score":52.6,"rank":0.833}"#.utf8))
        #expect(chart.json["steps"]?.arrayValue?[1] == step)
        chart = RelevanceChart(title: "<a>&", day: chart.day, curve: chart.curve, ranks: chart.ranks)
        #expect(chart.svg.contains("<title>&lt;a&gt;&amp;, 2026-06-22"))
    }
}
