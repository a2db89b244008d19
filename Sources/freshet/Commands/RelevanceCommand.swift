// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Charts
import Foundation
import FreshetService
import JSON
import WidgetModel
import WidgetStore

struct RelevanceCommand: AsyncParsableCommand {
    static let configuration = CommandConfiguration(
        commandName: "relevance", abstract: "Shows how relevant widgets are when.", subcommands: [Show.self])

    struct Show: AppCommand {
        static let configuration = CommandConfiguration(
            abstract: "Draws a widget's relevance during a day, from its stored timeline.",
            discussion: """
                Scores compare only within one widget. At 0 and below it is never rotated to. The rank of a score, from \
                0 to 1, is that among all scores above 0 that are recorded of the widget's timelines: its stack is \
                planned by it.

                Examples:
                  freshet relevance show --app com.example.bank --widget w1
                  freshet relevance show --app com.example.bank --widget w1 --day tomorrow --svg day.svg
                """)

        @Option(help: "The widget's id.")
        var widget: String

        @Option(help: "Day in the widget's time zone, \(OptionText.dateForm); today by default.")
        var day: String?

        @Option(help: "Write the chart to this file as SVG.")
        var svg: String?

        @OptionGroup var options: AppOptions

        func validate() throws {
            if let day, OptionText.date(day, .utc) == nil {
                throw ValidationError("--day \(Text.quoted(day)): expected \(OptionText.dateForm)")
            }
        }

        func run(_ store: WidgetStore, _ settings: Settings) async throws {
            let found = try await store.widget(widget, of: app)
            let detail = try await store.timeline(ofWidget: widget, of: app)
            guard let content = detail.content else {
                throw CommandFailure(.failure, "the widget \(Text.quoted(widget)) has no timeline yet")
            }
            let curve: RelevanceCurve
            do throws(JSONError) {
                curve = try RelevanceCurve(timeline: content)
            } catch {
                throw CommandFailure(.failure, "the stored timeline \(detail.id) is not JSON: \(error)")
            }
            let record = try await store.relevance(of: widget, app: app) ?? RelevanceRecord()
            let zone = found.environment.timeZone
            guard let clock = LocalClock(timeZone: zone) else {
                throw CommandFailure(.failure, "the time zone \(Text.quoted(zone)) is not known here")
            }
            let date = OptionText.date(day ?? "today", clock, now: detail.readAt) ?? clock.date(detail.readAt)
            let chart = RelevanceDay(
                title: "\(detail.kind) \(widget)", date: date, clock: clock,
                curve: record.curve(after: curve), ranks: RelevanceRanks(record.history, with: record.curve))
            if let svg { try chart.chart.document.save(to: svg) }
            output.print(chart.json, or: chart.text)
        }
    }
}

/// Relevance of a widget during a day of its time zone.
struct RelevanceDay {
    let title: String
    /// `2026-06-22`
    let date: String
    let clock: LocalClock
    let curve: RelevanceCurve
    /// Ranks of the scores, by which stacks are planned.
    let ranks: RelevanceRanks

    private var range: Range<Timestamp> { clock.day(of: date) ?? .distantPast..<(.distantFuture) }
    private var steps: [RelevanceCurve.Step] { curve.steps(in: range) }
    private var name: String { "\(title), \(date) (\(clock.timeZone))" }

    var chart: Chart {
        func hours(_ time: Timestamp) -> Double { (time - range.lowerBound) / .seconds(3_600) }
        let (steps, length) = (steps, range.upperBound - range.lowerBound)
        let top = steps.map(\.score).max() ?? 0
        var chart = Chart(
            label: "\(name), highest score \(Self.number(top))", range: 0..<hours(range.upperBound),
            scale: .linear(endingAt: top > 0 ? top : 1),
            series: [Chart.Series("score", .steps, points: steps.map { (hours($0.from), $0.score) })])
        chart.ticks = (0..<8).map { range.lowerBound + length * $0 / 8 }.map { (hours($0), clock.clock($0)) }
        chart.format = Self.number
        chart.position = { [clock, range] in clock.text(range.lowerBound + .seconds(3_600) * $0) }
        return chart
    }

    /// The chart, in columns of a quarter of an hour, and the list of the steps.
    var text: String {
        let (steps, chart) = (steps, chart)
        guard !steps.isEmpty else { return "\(name)\nThe timeline says nothing about relevance on this day." }
        let isRelevant = steps.contains { $0.score > 0 }
        let lines = [name] + (isRelevant ? chart.text(columns: 96, rows: 8) : [])
        let list = steps.map { step -> String in
            let rank =
                step.score > 0
                ? "rank \(Self.number((ranks.rank(of: step.score) * 100).rounded() / 100))" : "not relevant"
            return "\(clock.clock(step.from))  \(Self.number(step.score))  \(rank)"
        }
        return (lines + list).joined(separator: "\n")
    }

    private static func number(_ score: Double) -> String { score.formatted(.number.grouping(.never)) }

    var json: JSONValue {
        [
            "day": .string(date), "timeZone": .string(clock.timeZone),
            "steps": .array(
                steps.map {
                    [
                        "from": .string($0.from.rfc3339), "score": JSONNumber($0.score).map { .number($0) } ?? .null,
                        "rank": .rounded(ranks.rank(of: $0.score)),
                    ]
                }),
        ]
    }
}
