import ArgumentParser
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
                Scores compare only within one widget. At 0 and below it is never rotated to. The rank of a score, from 0 to 1, \
                is that among all scores that are recorded of the widget's timelines: its stack is planned by it.

                Examples:
                  freshet relevance show --app com.example.bank --widget w1
                  freshet relevance show --app com.example.bank --widget w1 --day 2026-06-22 --svg day.svg
                """)

        @Option(help: "The widget's id.")
        var widget: String

        @Option(help: "Day such as 2026-06-22 in the widget's time zone; today by default.")
        var day: String?

        @Option(help: "Write the chart to this file as SVG.")
        var svg: String?

        @OptionGroup var options: AppOptions

        func validate() throws {
            if let day, !LocalDay.isValid(day) {
                throw ValidationError("--day \(Text.quoted(day)): expected a date such as 2026-06-22")
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
            guard let local = LocalDay(day, timeZone: zone, now: detail.readAt) else {
                throw CommandFailure(.failure, "the time zone \(Text.quoted(zone)) is not known here")
            }
            let chart = RelevanceChart(
                title: "\(detail.kind) \(widget)", day: local, curve: record.curve(after: curve),
                ranks: RelevanceRanks(record.history, with: record.curve))
            if let svg { try chart.svg.save(to: svg) }
            output.print(chart.json, or: chart.text)
        }
    }
}
