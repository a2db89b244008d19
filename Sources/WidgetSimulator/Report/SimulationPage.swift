// SPDX-License-Identifier: Apache-2.0

import Charts
import Foundation
package import WidgetModel

/// Simulates synthetic people and events.
///
/// - Parameter events: in the order of their times.
package func simulationReport(
    _ apps: [AppDefinition], events: [TimedEvent] = [], options: SimulationOptions,
    source: some TimelineSource = SyntheticSource()
) async throws -> SimulationReport {
    var simulation = Simulation(apps, options: options, source: source)
    var people = Population(of: apps, options)
    try await simulation.run(&people, others: events)
    return simulation.report
}

extension SimulationReport {
    /// One self-contained page with charts of simulations, without scripts.
    ///
    /// - Parameter reports: with their names; the first is the one that the others are compared with.
    package static func page(_ reports: [(name: String, report: SimulationReport)]) -> String {
        guard let first = reports.first?.report else { return "" }
        let options = first.options
        let title = "Simulation from \(options.from.rfc3339), \(options.days) days"
        let lead: HTML = """
            <p>\(options.people) synthetic people with seed \("\(options.seed)"); \(first.events) events for \(first.widgets) \
            widgets with \(first.timelines) timelines. Times are UTC.</p>
            """
        return HTML.report(title: title, lead: lead, body: HTML(reports.map { $0.report.section($0.name) }))
    }

    /// The tables and charts of the report, as an element.
    package func section(_ name: String) -> HTML {
        let charts = kinds.map(Self.dayChart) + providers.map(loadChart)
        return """
            <section><h2>\(name)</h2>\(kindTable)<div class="charts">\(HTML(charts))</div>\
            \(stackText)</section>
            """
    }

    // MARK: Tables

    private var kindTable: HTML {
        let titles = [
            "Kind", "Timelines", "Reloads a day", "Budgeted a day", "Budget", "Busiest day", "Deferred",
            "Wait p50, p95",
            "Age seen p50, p95, p99", "Stale views", "Stale for p95, p99",
        ]
        let span = AgeHistogram.span
        let rows = kinds.map { kind -> HTML in
            let cells = [
                "\(kind.timelines)", Self.decimal(kind.reloadsADay), Self.decimal(kind.budgetedADay),
                kind.budget.map { "\($0.range.lowerBound) to \($0.range.upperBound), mean \(Self.decimal($0.mean))" }
                    ?? "–",
                "\(kind.busiestDay)",
                KindTally.named(kind.deferrals).sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }
                    .joined(separator: ", "),
                "\(span(kind.waits.p50)), \(span(kind.waits.p95))",
                "\(span(kind.ages.p50)), \(span(kind.ages.p95)), \(span(kind.ages.p99))",
                kind.views > 0 ? Self.decimal(100 * Double(kind.staleViews) / Double(kind.views)) + " %" : "–",
                "\(span(kind.staleness.p95)), \(span(kind.staleness.p99))",
            ]
            return "<tr><th scope=\"row\">\(kind.title)</th>\(HTML(cells.map { "<td>\($0)</td>" }))</tr>"
        }
        return """
            <div class="scroll" tabindex="0" role="group" aria-label="Kinds"><table><thead><tr>\
            \(HTML(titles.map { "<th scope=\"col\">\($0)</th>" }))</tr></thead><tbody>\(HTML(rows))</tbody></table></div>
            """
    }

    private var stackText: HTML {
        guard stacks > 0 else { return "" }
        let turns = rotations.sorted { $0.key < $1.key }.map { "\($0.value) by \($0.key)" }
        let share = wanted > 0 ? Self.decimal(100 * Double(found) / Double(wanted)) + " %" : "–"
        return """
            <p>\(stacks) stacks, planned \(plans) times: \
            \(turns.isEmpty ? "no rotations" : turns.joined(separator: ", ")), \(suggestions) suggestions. \
            A wanted widget was on top in \(share) of \(wanted) cases.</p>
            """
    }

    // MARK: Charts

    private static func dayChart(_ kind: KindTally) -> HTML {
        chart(
            kind.days, "\(kind.title): timeline-days by budgeted reloads", first: "1", last: "\(kind.days.count)")
    }

    private func loadChart(_ provider: ProviderTally) -> HTML {
        guard provider.timelines > 0 else { return "" }
        let peak = time(ofHour: provider.peakHour)
        let loads = provider.timelinesByHour
        return Self.chart(
            loads, "\(provider.app), \(provider.url): timelines by hour, the most (\(loads.max() ?? 0)) at \(peak)",
            first: time(ofHour: 0), last: time(ofHour: loads.count))
    }

    /// Bars with texts under the first and the last one; empty without values.
    private static func chart(_ values: [Int], _ title: String, first: String, last: String) -> HTML {
        guard let most = values.max() else { return "" }
        var chart = Chart(
            label: title, range: 0..<Double(values.count), scale: .linear(upTo: Double(max(1, most))),
            series: [Chart.Series(title, .bars, points: values.enumerated().map { (Double($0), Double($1)) })])
        chart.ticks = [(0, first), (Double(values.count), last)]
        chart.format = { String(format: "%g", $0) }
        return chart.figure(title)
    }

    fileprivate static func decimal(_ value: Double) -> String { String(format: "%.1f", value) }
}

extension AgeHistogram {
    /// Seconds in words.
    package static func span(_ seconds: Int?) -> String {
        guard let seconds else { return "–" }
        switch seconds {
        case ..<100: return "\(seconds) s"
        case ..<6_000: return "\(seconds / 60) min"
        case ..<172_800: return SimulationReport.decimal(Double(seconds) / 3_600) + " h"
        default: return SimulationReport.decimal(Double(seconds) / 86_400) + " d"
        }
    }
}
