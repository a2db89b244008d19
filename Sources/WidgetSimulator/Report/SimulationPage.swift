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
        // A number stays on the line of its unit.
        func span(_ seconds: Int?) -> String { AgeHistogram.span(seconds).replacing(" ", with: "\u{A0}") }
        let rows = kinds.map { kind -> HTML in
            let cells = [
                "\(kind.timelines)", Self.decimal(kind.reloadsADay), Self.decimal(kind.budgetedADay),
                kind.budget.map { "\($0.range.lowerBound) to \($0.range.upperBound), mean \(Self.decimal($0.mean))" }
                    ?? "–",
                "\(kind.busiestDay)",
                KindTally.named(kind.deferrals).sorted { $0.key < $1.key }.map { "\($0.key)\u{A0}\($0.value)" }
                    .joined(separator: ", "),
                "\(span(kind.waits.p50)), \(span(kind.waits.p95))",
                "\(span(kind.ages.p50)), \(span(kind.ages.p95)), \(span(kind.ages.p99))",
                kind.views > 0 ? Self.decimal(100 * Double(kind.staleViews) / Double(kind.views)) + "\u{A0}%" : "–",
                "\(span(kind.staleness.p95)), \(span(kind.staleness.p99))",
            ]
            return """
                <tr><th scope="row" class="long">\(kind.name) <small>\(kind.app)</small></th>\
                \(HTML(cells.map { "<td>\($0)</td>" }))</tr>
                """
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
        let days = kind.days
        let step = [1, 2, 5, 10, 20, 50, 100].first { days.count / $0 <= 4 } ?? 200
        // The first bar is that of one reload; a tick is below the middle of its bar.
        let ticks = stride(from: step, through: days.count, by: step).map { (Double($0) - 0.57, "\($0)") }
        return chart(days, "\(kind.title): timeline-days by budgeted reloads", "timeline-days", ticks) { index in
            "\(index + 1) budgeted reloads a day"
        }
    }

    private func loadChart(_ provider: ProviderTally) -> HTML {
        guard provider.timelines > 0 else { return "" }
        let clock = LocalClock.utc
        let time: @Sendable (Int) -> Timestamp = { [options] in options.from + .seconds(3_600) * $0 }
        let loads = provider.timelinesByHour
        let most = "the most (\(loads.max() ?? 0)) at \(clock.text(time(provider.peakHour))) UTC"
        // Whole days in a simulation of more than two.
        let step = loads.count > 48 ? (loads.count + 95) / 96 * 24 : max(1, (loads.count + 3) / 4)
        let ticks = stride(from: 0, to: loads.count, by: step).map { hour in
            let text = clock.clock(time(hour))
            return (Double(hour), hour == 0 || step > 12 || text == "00:00" ? clock.day(time(hour)) : text)
        }
        return Self.chart(
            loads, "\(provider.app), \(provider.url): timelines by hour, \(most)", "timelines", ticks
        ) { "\(clock.text(time($0))) UTC" }
    }

    /// Bars with texts under the axis; empty without values.
    private static func chart(
        _ values: [Int], _ title: String, _ name: String, _ ticks: [(x: Double, text: String)],
        position: @escaping @Sendable (Int) -> String
    ) -> HTML {
        guard let most = values.max() else { return "" }
        var chart = Chart(
            label: title, range: 0..<Double(values.count), scale: .linear(upTo: Double(most), isWhole: true),
            series: [Chart.Series(name, .bars, points: values.enumerated().map { (Double($0), Double($1)) })])
        chart.ticks = ticks
        chart.format = { String(format: "%g", $0) }
        chart.position = { position(Int($0)) }
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
