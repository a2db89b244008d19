import Foundation
import WidgetModel

/// One self-contained page with charts of simulations, without scripts.
package enum SimulationPage {
    /// - Parameter reports: with their names; the first is the one that the others are compared with.
    package static func html(_ reports: [(name: String, report: SimulationReport)]) -> String {
        guard let first = reports.first?.report else { return "" }
        let title = "Simulation from \(first.from), \(first.days) days"
        let body = reports.map { section($0.name, $0.report) }.joined()
        return """
            <!doctype html>
            <html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
            <title>\(HTML.escaped(title))</title><style>\(style)</style></head><body>
            <header><h1>\(HTML.escaped(title))</h1>
            <p>\(first.people) synthetic people with seed \(first.seed); \(first.events) events for \(first.widgets) \
            widgets with \(first.timelines) timelines. Times are UTC.</p></header>
            <main>\(body)</main></body></html>

            """
    }

    /// The tables and charts of one report, for a page that has the ``style``.
    package static func section(_ name: String, _ report: SimulationReport) -> String {
        "<section><h2>\(HTML.escaped(name))</h2>" + kindTable(report)
            + "<div class=\"charts\">" + report.kinds.map(dayChart).joined()
            + report.providers.map { loadChart($0, report) }.joined() + "</div>" + stacks(report) + "</section>"
    }

    // MARK: Tables

    private static func kindTable(_ report: SimulationReport) -> String {
        let titles = [
            "Kind", "Timelines", "Reloads a day", "Budgeted a day", "Budget", "Busiest day", "Deferred",
            "Wait p50, p95",
            "Age seen p50, p95, p99", "Stale views", "Stale for p95, p99",
        ]
        let rows = report.kinds.map { kind in
            [
                kind.title, "\(kind.timelines)", decimal(kind.reloadsADay), decimal(kind.budgetedADay),
                kind.budget.map { "\($0.least) to \($0.greatest), mean \(decimal($0.mean))" } ?? "–",
                "\(kind.busiestDay)",
                kind.deferrals.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "),
                "\(span(kind.waits.p50)), \(span(kind.waits.p95))",
                "\(span(kind.ages.p50)), \(span(kind.ages.p95)), \(span(kind.ages.p99))",
                kind.views > 0 ? decimal(100 * Double(kind.staleViews) / Double(kind.views)) + " %" : "–",
                "\(span(kind.staleness.p95)), \(span(kind.staleness.p99))",
            ]
        }
        let head = titles.map { "<th scope=\"col\">\($0)</th>" }.joined()
        let lines = rows.map { row in
            "<tr><th scope=\"row\">\(HTML.escaped(row[0]))</th>"
                + row.dropFirst().map { "<td>\(HTML.escaped($0))</td>" }.joined() + "</tr>"
        }
        return
            "<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Kinds\"><table><thead><tr>\(head)</tr></thead><tbody>\(lines.joined())</tbody></table></div>"
    }

    private static func stacks(_ report: SimulationReport) -> String {
        let stacks = report.stacks
        guard stacks.stacks > 0 else { return "" }
        let rotations = stacks.rotations.sorted { $0.key < $1.key }.map { "\($0.value) by \($0.key)" }
        let found = stacks.wanted > 0 ? decimal(100 * Double(stacks.found) / Double(stacks.wanted)) + " %" : "–"
        let text =
            "\(stacks.stacks) stacks, planned \(stacks.plans) times: "
            + (rotations.isEmpty ? "no rotations" : rotations.joined(separator: ", "))
            + ", \(stacks.suggestions) suggestions. A wanted widget was on top in \(found) of \(stacks.wanted) cases."
        return "<p>\(HTML.escaped(text))</p>"
    }

    // MARK: Charts

    private static func dayChart(_ kind: SimulationReport.Kind) -> String {
        guard !kind.days.isEmpty else { return "" }
        let title = "\(kind.title): timeline-days by budgeted reloads"
        return figure(title, BarChart.svg(kind.days, label: title, first: "1", last: "\(kind.days.count)"))
    }

    private static func loadChart(_ provider: SimulationReport.Provider, _ report: SimulationReport) -> String {
        guard provider.timelines > 0 else { return "" }
        let peak = report.time(ofHour: provider.peakHour)
        let most = provider.timelinesByHour.max() ?? 0
        let title = "\(provider.app), \(provider.url): timelines by hour, the most (\(most)) at \(peak)"
        return figure(
            title,
            BarChart.svg(
                provider.timelinesByHour, label: title, first: report.from,
                last: report.time(ofHour: provider.timelinesByHour.count)))
    }

    private static func figure(_ caption: String, _ svg: String) -> String {
        "<figure><figcaption>\(HTML.escaped(caption))</figcaption>\(svg)</figure>"
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
          --rule: #d9dde2; --bar: #1f6feb; }
        @media (prefers-color-scheme: dark) { :root { --ground: #131518; --card: #1c1f24; --ink: #e8e9eb;
          --quiet: #9aa0a9; --rule: #30343b; --bar: #6ea8fe; } }
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
        svg { display: block; width: 100%; height: auto; margin-top: .5rem; }
        svg .axis { stroke: var(--rule); } svg .bar-rect { fill: var(--bar); }
        svg text { fill: var(--quiet); font: 11px system-ui, sans-serif; }
        """
}

/// A bar chart as an SVG element.
enum BarChart {
    private static let (left, right, top, bottom) = (46.0, 392.0, 8.0, 164.0)

    /// - Parameters:
    ///   - label: description for people who cannot see it.
    ///   - first: text under the first bar.
    ///   - last: text under the last bar.
    static func svg(_ values: [Int], label: String, first: String, last: String) -> String {
        let scale = ChartScale.linear(upTo: Double(values.max() ?? 1))
        var svg = #"<svg viewBox="0 0 400 190" role="img" aria-label="\#(HTML.escaped(label))">"#
        for tick in scale.ticks {
            let y = number(bottom - scale.place(tick) * (bottom - top))
            svg += #"<line class="axis" x1="\#(number(left))" x2="\#(number(right))" y1="\#(y)" y2="\#(y)"/>"#
            svg += #"<text x="\#(number(left - 5))" y="\#(y)" dy="4" text-anchor="end">"#
            svg += "\(String(format: "%g", tick))</text>"
        }
        let step = (right - left) / Double(max(1, values.count))
        for (index, value) in values.enumerated() where value > 0 {
            let size = scale.place(Double(value)) * (bottom - top)
            svg += #"<rect class="bar-rect" x="\#(number(left + Double(index) * step))" y="\#(number(bottom - size))" "#
            svg += #"width="\#(number(max(0.5, step * 0.85)))" height="\#(number(size))"/>"#
        }
        for (text, x, anchor) in [(first, left, "start"), (last, right, "end")] {
            svg += #"<text x="\#(number(x))" y="\#(number(bottom + 17))" text-anchor="\#(anchor)">"#
            svg += "\(HTML.escaped(text))</text>"
        }
        return svg + "</svg>"
    }

    private static func number(_ value: Double) -> String { String(format: "%.1f", value) }
}
