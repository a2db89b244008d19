import Foundation
import FreshetService
import JSON
import WidgetModel
import WidgetSimulator

/// A load report as one HTML page that needs nothing else: figures, charts, the command, and the whole JSON. It is also
/// well-formed XML.
struct LoadPage: Sendable {
    /// As ``LoadResult/json`` gives it: at least the members that all scenarios have.
    let report: JSONValue
    let charts: LoadCharts
    /// Without values that must not be shown.
    let command: String
    let time: Timestamp

    var text: String {
        let title = HTML.escaped("freshet-load \(report["scenario"]?.stringValue ?? "")")
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8"/>
            <meta name="viewport" content="width=device-width, initial-scale=1"/>
            <meta name="color-scheme" content="light dark"/>
            <title>\(title)</title>
            <style>
            \(Self.style)
            </style>
            </head>
            <body>
            <main>
            <header>
            <h1>\(title)</h1>
            \(verdict)
            <p class="quiet">\(HTML.escaped(time.rfc3339)) · Freshet \(HTML.escaped(FreshetNode.version))</p>
            <pre class="command">\(HTML.escaped(command))</pre>
            </header>
            <section class="figures" aria-label="Figures">
            \(figures.map(Self.tile).joined(separator: "\n"))
            </section>
            <section class="charts" aria-label="Charts">
            \(figuresOverTime.joined(separator: "\n"))
            </section>
            <details>
            <summary>The report as JSON</summary>
            <pre>\(HTML.escaped(PrettyJSON.text(withoutSamples)))</pre>
            </details>
            </main>
            </body>
            </html>

            """
    }

    /// Writes the whole page, or nothing.
    ///
    /// - Throws: ``CommandFailure``, which names the file.
    func write(to path: String) throws(CommandFailure) {
        do {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw CommandFailure(.failure, "\(path) cannot be written: \(error.localizedDescription)")
        }
    }

    // MARK: Figures

    private func value(_ path: String...) -> Double? {
        path.reduce(report as JSONValue?) { $0?[$1] }?.numberValue?.double
    }

    private var verdict: String {
        let lost = value("lost") ?? 0
        let stale = value("stale") ?? 0
        guard lost > 0 || stale > 0 else { return #"<p class="good">Nothing lost, nothing stale.</p>"# }
        return #"<p class="bad">Lost \#(Figure.digits(lost)), stale \#(Figure.digits(stale)).</p>"#
    }

    /// Names and values; those that the scenario does not know are left out.
    private var figures: [(name: String, value: String)] {
        func plain(_ value: Double) -> String { Figure.short(value) }
        func milliseconds(_ value: Double) -> String { Figure.digits(value) + " ms" }
        func seconds(_ value: Double) -> String { Figure.digits(value) + " s" }
        let latency = "latencyMilliseconds"
        let known: [(String, Double?, (Double) -> String)] = [
            ("events/s", value("eventsPerSecond"), plain), ("timelines/s", value("timelinesPerSecond"), plain),
            ("p50", value(latency, "p50"), milliseconds), ("p90", value(latency, "p90"), milliseconds),
            ("p99", value(latency, "p99"), milliseconds), ("p99.9", value(latency, "p999"), milliseconds),
            ("longest", value(latency, "max"), milliseconds), ("events", value("events"), plain),
            ("distinct timelines", value("distinctTimelines"), plain), ("wall time", value("wallSeconds"), seconds),
            ("provider requests", value("providerRequests"), plain),
            ("timelines of the provider", value("providerTimelines"), plain),
            ("CPU of the service", value("serviceCPUSeconds"), seconds),
            ("CPU of PostgreSQL", value("databaseCPUSeconds"), seconds), ("WAL", value("walBytes"), Figure.bytes),
            ("peak memory", value("peakResidentBytes"), Figure.bytes), ("verified", value("verified"), plain),
        ]
        return known.compactMap { name, value, format in value.map { (name, format($0)) } }
    }

    private static func tile(_ figure: (name: String, value: String)) -> String {
        #"<div class="tile"><b>\#(HTML.escaped(figure.value))</b><span>\#(HTML.escaped(figure.name))</span></div>"#
    }

    /// The report without its samples, which the charts show.
    private var withoutSamples: JSONValue {
        guard case .object(let object) = report else { return report }
        return .object(JSONObject(object.members.filter { $0.key != "samples" }))
    }

    // MARK: Charts

    private struct Chart: Sendable {
        var title: String
        var lines: [SVGChart.Line]
        var isLogarithmic = false
        var format: @Sendable (Double) -> String
    }

    private static let overTime = [
        Chart(
            title: "Throughput, a second",
            lines: [
                .init(name: "events", key: .eventsPerSecond), .init(name: "timelines stored", key: .timelinesPerSecond),
            ], format: Figure.short),
        Chart(
            title: "Latency, ms",
            lines: [.init(name: "p50", key: .p50), .init(name: "p99", key: .p99), .init(name: "longest", key: .max)],
            isLogarithmic: true, format: Figure.digits),
        Chart(
            title: "timeline on disk",
            lines: [
                .init(name: "table", key: .stateTableBytes), .init(name: "its indexes", key: .stateIndexBytes),
            ], format: Figure.bytes),
        Chart(
            title: "Row versions of timeline",
            lines: [.init(name: "dead", key: .deadTuples), .init(name: "live", key: .liveTuples)],
            format: Figure.short),
        Chart(title: "WAL, a second", lines: [.init(name: "bytes", key: .walBytesPerSecond)], format: Figure.bytes),
        Chart(
            title: "Memory of the service", lines: [.init(name: "resident", key: .residentBytes)], format: Figure.bytes),
    ]

    private var figuresOverTime: [String] {
        let samples = charts.thinned(to: 400)
        return Self.overTime.compactMap { chart -> String? in
            let lines = chart.lines.filter { line in samples.contains { $0.values[line.key] != nil } }
            guard !lines.isEmpty else { return nil }
            let svg = SVGChart.lines(
                lines, of: samples, spans: charts.spans, isLogarithmic: chart.isLogarithmic,
                label: "\(chart.title) over time", format: chart.format)
            return Self.figure(chart.title, names: lines.map(\.name), svg)
        }
    }

    /// A chart with its title and, of more than one line, the names of its lines.
    private static func figure(_ title: String, names: [String], _ svg: String) -> String {
        let legend =
            names.count < 2
            ? ""
            : names.enumerated().map { index, name in
                #"<span class="key"><i class="c\#(index + 1)"></i>\#(HTML.escaped(name))</span>"#
            }.joined()
        return "<figure><figcaption><b>\(HTML.escaped(title))</b>\(legend)</figcaption>\(svg)</figure>"
    }

    private static let style = """
        :root { --ground: #f7f7f5; --card: #fff; --ink: #1b1d21; --quiet: #63676f; --rule: #e3e3df;
          --c1: #1f6feb; --c2: #c2570c; --c3: #8a8f98;
          --span: #f2e6c9; --good: #1a7f37; --bad: #cf222e; }
        @media (prefers-color-scheme: dark) {
          :root { --ground: #131518; --card: #1c1f24; --ink: #e8e9eb; --quiet: #9aa0a9; --rule: #30343b;
            --c1: #6ea8fe; --c2: #f0883e; --c3: #7d838d;
            --span: #3a3320; --good: #57c773; --bad: #ff7b72; }
        }
        * { box-sizing: border-box; }
        body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
        main { max-width: 68rem; margin: 0 auto; padding: 1rem; }
        h1 { font-size: 1.5rem; margin: .5rem 0; }
        pre { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .75rem; margin: .75rem 0;
          overflow-x: auto; font: .8125rem/1.5 ui-monospace, monospace; }
        .charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: .75rem; }
        figure { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .75rem; }
        figcaption { display: flex; flex-wrap: wrap; gap: .25rem 1rem; font-size: .875rem; }
        .key { color: var(--quiet); }
        .key i { display: inline-block; width: .9rem; height: .2rem; border-radius: 2px; margin-right: .35rem;
          vertical-align: middle; }
        i.c1 { background: var(--c1); } i.c2 { background: var(--c2); } i.c3 { background: var(--c3); }
        svg { display: block; width: 100%; height: auto; margin-top: .5rem; }
        svg .grid { stroke: var(--rule); stroke-width: 1; }
        svg .tick { fill: var(--quiet); font-size: 11px; font-family: system-ui, sans-serif; }
        svg .line { fill: none; stroke-width: 1.6; stroke-linejoin: round; stroke-linecap: round; }
        svg .c1 { stroke: var(--c1); } svg .c2 { stroke: var(--c2); } svg .c3 { stroke: var(--c3); }
        details { margin: 1rem 0; }
        summary { cursor: pointer; }
        header p { margin: .25rem 0; }
        .quiet { color: var(--quiet); font-size: .875rem; }
        .good { color: var(--good); font-weight: 600; }
        .bad { color: var(--bad); font-weight: 600; }
        .command { white-space: pre-wrap; overflow-wrap: anywhere; }
        .figures { display: grid; grid-template-columns: repeat(auto-fill, minmax(8.5rem, 1fr)); gap: .5rem; margin: 1rem 0; }
        .tile { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .6rem .75rem; }
        .tile b { display: block; font-size: 1.2rem; font-variant-numeric: tabular-nums; }
        .tile span { color: var(--quiet); font-size: .8125rem; }
        svg .c3 { stroke-width: 1; }
        svg .span { fill: var(--span); }
        """
}
