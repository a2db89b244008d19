import ArgumentParser
import WidgetModel

/// A load report as one HTML page that needs nothing else: figures, charts, the command, and the whole JSON.
///
/// It is also well-formed XML.
struct LoadPage: Sendable {
    /// As ``LoadReport/json`` gives it: at least the members that all scenarios have.
    let report: JSONValue
    let charts: LoadCharts
    /// Without what must not be shown.
    let command: String
    let time: Timestamp

    var text: String { page.text }

    private var page: HTMLPage {
        let title = "freshet load \(report["scenario"]?.stringValue ?? "load")"
        return HTMLPage(
            title: title, style: Self.style,
            content: """
                <header>
                <h1>\(HTML.escaped(title))</h1>
                \(verdict)
                <p class="quiet">\(HTML.escaped(time.rfc3339)) · Freshet \(HTML.escaped(Freshet.configuration.version))</p>
                <pre class="command">\(HTML.escaped(command))</pre>
                </header>
                <section class="figures" aria-label="Figures">
                \(figures.map(Self.tile).joined(separator: "\n"))
                </section>
                <section class="charts" aria-label="Charts">
                \(figuresOverTime.joined(separator: "\n"))
                </section>
                """, report: withoutSamples)
    }

    /// Written whole or not at all.
    ///
    /// - Throws: ``CommandFailure``, which names the file.
    func write(to path: String) throws(CommandFailure) { try page.write(to: path) }

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

    /// The samples are drawn; written out they would bury the rest.
    private var withoutSamples: JSONValue {
        guard case .object(let object) = report else { return report }
        return .object(JSONObject(object.members.filter { !["samples", "histogram"].contains($0.key) }))
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
        var figures = Self.overTime.compactMap { chart -> String? in
            let lines = chart.lines.filter { line in samples.contains { $0.values[line.key] != nil } }
            guard !lines.isEmpty else { return nil }
            let svg = SVGChart.lines(
                lines, of: samples, spans: charts.spans, isLogarithmic: chart.isLogarithmic,
                label: "\(chart.title) over time", format: chart.format)
            return HTMLPage.figure(chart.title, names: lines.map(\.name), svg)
        }
        if !charts.histogram.isEmpty {
            let marks = [("p50", "p50"), ("p99", "p99"), ("p99.9", "p999")].compactMap { name, key in
                value("latencyMilliseconds", key).map { (name: name, value: $0) }
            }
            let svg = SVGChart.histogram(charts.histogram, marks: marks, label: "Histogram of latencies")
            // Beside the latency over time.
            figures.insert(HTMLPage.figure("Latencies, by number", names: [], svg), at: min(2, figures.count))
        }
        return figures
    }

    private static let style = """
        :root { --span: #f2e6c9; --good: #1a7f37; --bad: #cf222e; }
        @media (prefers-color-scheme: dark) { :root { --span: #3a3320; --good: #57c773; --bad: #ff7b72; } }
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
        svg .bar { fill: var(--c1); opacity: .85; }
        svg .mark { stroke: var(--c2); stroke-width: 1; stroke-dasharray: 4 3; }
        svg .span { fill: var(--span); }
        """
}
