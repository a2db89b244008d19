// SPDX-License-Identifier: Apache-2.0

import Charts
import Foundation
import TestSupport
import Testing
import WidgetModel

@testable import WidgetAPI

@Suite("Charts and times of pages", .tags(.api))
struct ConsoleChartTests {
    private static func chart(_ values: [Double?], limit: Double? = nil) -> Chart {
        let points = values.enumerated().map { (x: Double($0), value: $1) }
        var chart = Chart(
            label: "c", range: 0..<Double(values.count - 1), scale: .linear(upTo: 10),
            series: [Chart.Series("due for", .line, points: points)])
        chart.limit = limit
        return chart
    }

    private static func count(_ part: String, in text: String) -> Int { text.components(separatedBy: part).count - 1 }

    // MARK: Charts

    @Test("A point without neighbours is a circle, and so is the latest one; a gap interrupts the line")
    func points() {
        let lone = Self.chart([1, nil, 3, nil, 4, 5]).svg.text
        #expect(Self.count("<circle class=\"dot s1\"", in: lone) == 3)
        #expect(lone.contains("d=\"M800 90L1000 75\"") && lone.contains("cx=\"40%\""))
        #expect(Self.count("<circle", in: Self.chart([1, 2, 3]).svg.text) == 1)
    }

    @Test("A line over the limit is drawn again in the colour of a breach, cut off at the limit")
    func breach() {
        let over = Self.chart([1, 9, 1], limit: 5).svg.text
        #expect(over.contains("<svg class=\"lines breach\" y=\"11\" width=\"100%\" height=\"77\""))
        #expect(over.contains("viewBox=\"0 -3 1000 77\""))
        #expect(!Self.chart([1, 4, 1], limit: 5).svg.text.contains("breach"))
        #expect(Self.chart([1, 9], limit: 5).svg.text.contains("class=\"dot s1 over\""))
    }

    @Test("The pointer finds the position and the values with their unit, also where points are close together")
    func values() {
        var chart = Self.chart((0..<600).map { $0 == 305 ? 9 : Double($0 % 5) })
        chart.unit = "s"
        chart.format = { "\($0)" }
        #expect(!chart.svg.text.contains("samples"))
        chart.position = { "at \(Int($0))" }
        #expect(Self.count("<g><rect", in: chart.svg.text) == 60)
        let highest = "at 300<tspan x=\"100%\" dy=\"14\">due for 9.0 s</tspan>"
        #expect(chart.svg.text.contains(highest) && chart.svg.text.contains("10.0 s</text>"))
    }

    @Test("Numbers of things have whole labels")
    func whole() {
        #expect(ChartScale.linear(upTo: 1, isWhole: true).ticks == [0, 1])
        #expect(ChartScale.linear(upTo: 0, isWhole: true).ticks == [0, 1])
        #expect(ChartScale.linear(upTo: 1).ticks == [0, 0.5, 1])
        #expect(ConsoleVisit.ticks(ofMinutes: 60).map(\.text) == ["now", "20 min ago", "40 min ago", "60 min ago"])
        #expect(ConsoleVisit.ticks(ofMinutes: 1).map(\.text) == ["now", "1 min ago"])
    }

    // MARK: Times

    private static let now = Timestamp(rfc3339: "2026-06-22T10:00:00Z") ?? .distantPast

    @Test(
        "Times are relative in the largest unit of which there are two",
        arguments: [
            ("2026-06-22T10:00:00.5Z", "now"), ("2026-06-22T09:58:01Z", "119 s ago"),
            ("2026-06-22T09:58:00Z", "2 min ago"), ("2026-06-22T12:01:00Z", "2 h from now"),
            ("2026-06-20T10:00:00Z", "2 d ago"), ("1970-01-01T00:00:00Z", "56 years ago"),
        ])
    func distance(time: String, text: String) throws {
        #expect(try #require(Timestamp(rfc3339: time)).distance(from: Self.now) == text)
    }

    @Test("Each time in a sentence becomes an element with the exact time; the rest is escaped")
    func sentences() {
        func plain(_ text: String) -> String {
            HTML.times(in: text, from: Self.now).text.replacing(/<time [^>]*>([^<]*)<\/time>/) { "[\($0.1)]" }
        }
        #expect(
            plain("due since 2026-06-22T09:00:00Z: next at 2026-06-22T10:00:30.25Z (in 30 s) <b>")
                == "due since [60 min ago]: next [30 s from now] &lt;b&gt;")
        #expect(plain("at 2026-06-22T09:00:00Z (1 h 0 min ago) at 9") == "[60 min ago] at 9")
        #expect(plain("2026-13-22T09:00:00Z (late)") == "2026-13-22T09:00:00Z (late)")
        let element = HTML.times(in: "2026-06-22T09:00:00Z", from: Self.now).text
        #expect(element.hasPrefix("<time datetime=\"2026-06-22T09:00:00Z\" title=\"2026-06-22 09:00:00 UTC\""))
    }
}
