// SPDX-License-Identifier: Apache-2.0

import Charts
import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import freshet

@Suite("Charts of relevance")
struct RelevanceChartTests {
    private func time(_ text: String) -> Timestamp { Timestamp(rfc3339: text) ?? .distantPast }

    @Test(
        "A day begins and ends at midnight in its time zone, also when the clocks change",
        arguments: [
            (zone: "Europe/Berlin", day: "2026-06-22", from: "2026-06-21T22:00:00Z", to: "2026-06-22T22:00:00Z"),
            ("Europe/Berlin", "2026-03-29", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z"),
            // The first moment of this day in Cairo is 1:00.
            ("Africa/Cairo", "2026-04-24", "2026-04-23T22:00:00Z", "2026-04-24T21:00:00Z"),
            // Midnight comes twice in Havana when summer time ends.
            ("America/Havana", "2026-11-01", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"),
        ])
    func days(zone: String, day: String, from: String, to: String) throws {
        let clock = try #require(LocalClock(timeZone: zone))
        #expect(clock.day(of: day) == time(from)..<time(to))
    }

    @Test("Times and dates are those of the time zone; unknown ones are refused")
    func texts() throws {
        let berlin = try #require(LocalClock(timeZone: "Europe/Berlin"))
        #expect(berlin.clock(time("2026-06-22T07:41:00Z")) == "09:41")
        let newYork = try #require(LocalClock(timeZone: "America/New_York"))
        #expect(newYork.date(time("2026-06-23T02:00:00Z")) == "2026-06-22")
        #expect(LocalClock(timeZone: "Europe/Nowhere") == nil)
    }

    @Test("Only dates in full are days")
    func invalidDays() {
        for text in ["2026-6-22", "2026-02-30", "22-06-2026", "today", "2026-06-2x"] {
            #expect(LocalClock.utc.day(of: text) == nil, "\(text)")
        }
        #expect(LocalClock.utc.day(of: "2028-02-29") != nil)
    }

    private func day(_ curve: RelevanceCurve, title: String = "Purchases w1") throws -> RelevanceDay {
        RelevanceDay(
            title: title, date: "2026-06-22", clock: try #require(LocalClock(timeZone: "Europe/Berlin")), curve: curve,
            ranks: RelevanceRanks(RelevanceHistory(), with: curve))
    }

    private var curve: RelevanceCurve {
        let points = [("06:15", 0.0), ("07:41", 52.6), ("10:30", 16.29)].map {
            RelevanceCurve.Point(date: time("2026-06-22T\($0.0):00Z"), score: $0.1, duration: .seconds(1_800))
        }
        return RelevanceCurve(points)
    }

    @Test("E: the terminal shows the day's curve, and each step in local time")
    func text() throws {
        let lines = try day(curve).text.split(separator: "\n")
        #expect(lines.first == "Purchases w1, 2026-06-22 (Europe/Berlin)")
        // There is nothing until 9:41, in the 39th quarter of an hour.
        #expect(lines[1] == "52.6 │" + String(repeating: " ", count: 38) + "███")
        #expect(lines[8].hasSuffix("██") && lines[8].contains("0 │"))
        #expect(lines[9].hasPrefix("     └00:00       03:00"))
        #expect(
            lines.suffix(5) == [
                "08:15  0  not relevant", "09:41  52.6  rank 0.75", "10:11  0  not relevant", "12:30  16.29  rank 0.25",
                "13:00  0  not relevant",
            ])
    }

    @Test("A day without relevance in the timeline has no chart")
    func nothing() throws {
        let chart = try day(RelevanceCurve([]))
        #expect(chart.text.hasSuffix("The timeline says nothing about relevance on this day."))
        #expect(chart.json["steps"] == [])
    }

    @Test("SVG has the steps as areas and escaped names; JSON has the names unchanged")
    func formats() throws {
        let shown = try day(curve)
        let areas = shown.chart.document.components(separatedBy: "<rect class=\"area\"").dropFirst()
        #expect(areas.count == 2)
        #expect(areas.first?.hasPrefix(" x=\"40.347%\" width=\"2.083%\" y=\"34\" height=\"150\"/>") == true)
        let step = try JSONValue.parse(Array(#"{"from":"2026-06-22T07:41:00Z","score":52.6,"rank":0.75}"#.utf8))
        #expect(shown.json["steps"]?.arrayValue?[1] == step)
        #expect(try day(curve, title: "<a>&").chart.document.contains("<title>&lt;a&gt;&amp;, 2026-06-22"))
    }
}
