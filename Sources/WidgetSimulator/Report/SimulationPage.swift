import Charts
import Foundation
package import WidgetModel

/// One self-contained page with charts of simulations, without scripts.
package enum SimulationPage {
    /// - Parameter reports: with their names; the first is the one that the others are compared with.
    package static func html(_ reports: [(name: String, report: SimulationReport)]) -> String {
        guard let first = reports.first?.report else { return "" }
        let title = "Simulation from \(first.from), \(first.days) days"
        let page: HTML = """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
            <title>\(title)</title><style>\(raw: style + Chart.style)</style></head><body>
            <header><h1>\(title)</h1>
            <p>\(first.people) synthetic people with seed \("\(first.seed)"); \(first.events) events for \(first.widgets) \
            widgets with \(first.timelines) timelines. Times are UTC.</p></header>
            <main>\(HTML(reports.map { section($0.name, $0.report) }))</main></body></html>

            """
        return page.text
    }

    /// The tables and charts of one report, for a page that has the ``style``.
    package static func section(_ name: String, _ report: SimulationReport) -> HTML {
        let charts = report.kinds.map(dayChart) + report.providers.map { loadChart($0, report) }
        return """
            <section><h2>\(name)</h2>\(kindTable(report))<div class="charts">\(HTML(charts))</div>\
            \(stacks(report))</section>
            """
    }

    // MARK: Tables

    private static func kindTable(_ report: SimulationReport) -> HTML {
        let titles = [
            "Kind", "Timelines", "Reloads a day", "Budgeted a day", "Budget", "Busiest day", "Deferred",
            "Wait p50, p95",
            "Age seen p50, p95, p99", "Stale views", "Stale for p95, p99",
        ]
        let rows = report.kinds.map { kind -> HTML in
            let cells = [
                "\(kind.timelines)", decimal(kind.reloadsADay), decimal(kind.budgetedADay),
                kind.budget.map { "\($0.least) to \($0.greatest), mean \(decimal($0.mean))" } ?? "–",
                "\(kind.busiestDay)",
                kind.deferrals.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "),
                "\(span(kind.waits.p50)), \(span(kind.waits.p95))",
                "\(span(kind.ages.p50)), \(span(kind.ages.p95)), \(span(kind.ages.p99))",
                kind.views > 0 ? decimal(100 * Double(kind.staleViews) / Double(kind.views)) + " %" : "–",
                "\(span(kind.staleness.p95)), \(span(kind.staleness.p99))",
            ]
            return "<tr><th scope=\"row\">\(kind.title)</th>\(HTML(cells.map { "<td>\($0)</td>" }))</tr>"
        }
        return """
            <div class="scroll" tabindex="0" role="group" aria-label="Kinds"><table><thead><tr>\
            \(HTML(titles.map { "<th scope=\"col\">\($0)</th>" }))</tr></thead><tbody>\(HTML(rows))</tbody></table></div>
            """
    }

    private static func stacks(_ report: SimulationReport) -> HTML {
        let stacks = report.stacks
        guard stacks.stacks > 0 else { return "" }
        let rotations = stacks.rotations.sorted { $0.key < $1.key }.map { "\($0.value) by \($0.key)" }
        let found = stacks.wanted > 0 ? decimal(100 * Double(stacks.found) / Double(stacks.wanted)) + " %" : "–"
        return """
            <p>\(stacks.stacks) stacks, planned \(stacks.plans) times: \
            \(rotations.isEmpty ? "no rotations" : rotations.joined(separator: ", ")), \(stacks.suggestions) suggestions. \
            A wanted widget was on top in \(found) of \(stacks.wanted) cases.</p>
            """
    }

    // MARK: Charts

    private static func dayChart(_ kind: SimulationReport.Kind) -> HTML {
        chart(
            kind.days, "\(kind.title): timeline-days by budgeted reloads", first: "1", last: "\(kind.days.count)")
    }

    private static func loadChart(_ provider: SimulationReport.Provider, _ report: SimulationReport) -> HTML {
        guard provider.timelines > 0 else { return "" }
        let peak = report.time(ofHour: provider.peakHour)
        let most = provider.timelinesByHour.max() ?? 0
        return chart(
            provider.timelinesByHour,
            "\(provider.app), \(provider.url): timelines by hour, the most (\(most)) at \(peak)", first: report.from,
            last: report.time(ofHour: provider.timelinesByHour.count))
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

    // MARK: Texts

    private static func decimal(_ value: Double) -> String { String(format: "%.1f", value) }

    /// Seconds in words.
    package static func span(_ seconds: Int?) -> String {
        guard let seconds else { return "–" }
        switch seconds {
        case ..<100: return "\(seconds) s"
        case ..<6_000: return "\(seconds / 60) min"
        case ..<172_800: return decimal(Double(seconds) / 3_600) + " h"
        default: return decimal(Double(seconds) / 86_400) + " d"
        }
    }

    /// Colours and sizes, light and dark.
    package static let style = """
        :root { color-scheme: light dark; --ground: #f7f8f9; --card: #fff; --ink: #1c1e21; --quiet: #5f6670;
          --rule: #d9dde2; }
        @media (prefers-color-scheme: dark) { :root { --ground: #131518; --card: #1c1f24; --ink: #e8e9eb;
          --quiet: #9aa0a9; --rule: #30343b; } }
        body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
        main, header { max-width: 76rem; margin: 0 auto; padding: 1rem; }
        .scroll { overflow-x: auto; }
        table { border-collapse: collapse; font-size: .875rem; font-variant-numeric: tabular-nums; }
        th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--rule); text-align: left; white-space: nowrap; }
        thead th { color: var(--quiet); font-weight: 600; }
        .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: .75rem;
          margin: 1rem 0; }
        figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .75rem; }
        figcaption { font-size: .875rem; overflow-wrap: anywhere; }
        figcaption { margin-bottom: .5rem; }
        """
}
