import Charts
import Foundation
import FreshetService
import JSON
import WidgetModel

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
        let lead: HTML = """
            \(verdict)
            <p class="quiet">\(time.rfc3339) · Freshet \(FreshetNode.version)</p>
            <pre class="command">\(command)</pre>
            """
        let body: HTML = """
            <section class="figures" aria-label="Figures">
            \(HTML(figures.map(Self.tile)))
            </section>
            <section class="charts" aria-label="Charts">
            \(HTML(figuresOverTime))
            </section>
            <details>
            <summary>The report as JSON</summary>
            <pre>\(withoutSamples.pretty)</pre>
            </details>
            """
        let scenario = report["scenario"]?.stringValue ?? ""
        return ReportPage.html(title: "freshet-load \(scenario)", lead: lead, body: body, style: Self.style)
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

    private var verdict: HTML {
        let lost = value("lost") ?? 0
        let stale = value("stale") ?? 0
        guard lost > 0 || stale > 0 else { return "<p class=\"good\">Nothing lost, nothing stale.</p>" }
        return "<p class=\"bad\">Lost \(Figure.digits(lost)), stale \(Figure.digits(stale)).</p>"
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

    private static func tile(_ figure: (name: String, value: String)) -> HTML {
        "<div class=\"tile\"><b>\(figure.value)</b><span>\(figure.name)</span></div>\n"
    }

    /// The report without its samples, which the charts show.
    private var withoutSamples: JSONValue {
        guard case .object(let object) = report else { return report }
        return .object(JSONObject(object.members.filter { $0.key != "samples" }))
    }

    // MARK: Charts

    /// Titles, and the lines that the samples may have.
    private static let overTime:
        [(title: String, lines: KeyValuePairs<String, LoadSample.Key>, format: @Sendable (Double) -> String)] = [
            (
                "Throughput, a second", ["events": .eventsPerSecond, "timelines stored": .timelinesPerSecond],
                Figure.short
            ),
            ("Latency, ms", ["p50": .p50, "p99": .p99, "longest": .max], Figure.digits),
            ("timeline on disk", ["table": .stateTableBytes, "its indexes": .stateIndexBytes], Figure.bytes),
            ("Row versions of timeline", ["dead": .deadTuples, "live": .liveTuples], Figure.short),
            ("WAL, a second", ["bytes": .walBytesPerSecond], Figure.bytes),
            ("Memory of the service", ["resident": .residentBytes], Figure.bytes),
        ]

    private var figuresOverTime: [HTML] {
        let samples = charts.thinned(to: 400)
        let end = max(samples.last?.seconds ?? 0, 1)
        return Self.overTime.compactMap { title, lines, format -> HTML? in
            let series = lines.map { name, key in
                Chart.Series(
                    name, .line,
                    points: samples.compactMap { sample in sample.values[key].map { (sample.seconds, $0) } })
            }.filter { !$0.points.isEmpty }
            guard let most = series.compactMap(\.highest).max() else { return nil }
            let positive = series.flatMap { $0.points.compactMap(\.value) }.filter { $0 > 0 }.min()
            var chart = Chart(label: "\(title) over time", range: 0..<end, scale: .linear(upTo: most), series: series)
            if lines.contains(where: { $0.value.isLatency }), let positive {
                chart.scale = .logarithmic(from: positive, upTo: most)
            }
            chart.spans = charts.spans
            chart.ticks = [0, 0.5, 1].map { (end * $0, Figure.time(end * $0)) }
            chart.format = format
            return chart.figure(title)
        }
    }

    private static let style = """
        pre { background: var(--card); border: 1px solid var(--rule); border-radius: 8px; padding: .75rem; margin: .75rem 0;
          overflow-x: auto; font: .8125rem/1.5 ui-monospace, monospace; }
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
        """
}
