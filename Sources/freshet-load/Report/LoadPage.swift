// SPDX-License-Identifier: Apache-2.0

import Charts
import Foundation
import FreshetService
import JSON
import WidgetModel

/// A load report as one HTML page that needs nothing else: figures, charts, the command, and the whole JSON. It is also
/// well-formed XML.
extension LoadResult {
    /// - Parameter command: without values that must not be shown.
    func page(command: String, time: Timestamp) -> String {
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
        return HTML.report(title: "freshet-load \(scenario)", lead: lead, body: body, style: Self.style)
    }

    /// Writes the whole page, or nothing.
    ///
    /// - Throws: ``CommandFailure``, which names the file.
    static func write(_ page: String, to path: String) throws(CommandFailure) {
        do {
            try Data(page.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw CommandFailure(.failure, "\(path) cannot be written: \(error.localizedDescription)")
        }
    }

    // MARK: Figures

    private var verdict: HTML {
        guard lost > 0 || stale > 0 else { return "<p class=\"good\">Nothing lost, nothing stale.</p>" }
        return "<p class=\"bad\">Lost \(Figure.digits(Double(lost))), stale \(Figure.digits(Double(stale))).</p>"
    }

    /// Names and values; those that the scenario does not know are left out.
    private var figures: [(name: String, value: String)] {
        func plain(_ value: Double) -> String { Figure.short(value) }
        func milliseconds(_ value: Double) -> String { Figure.digits(value) + " ms" }
        func seconds(_ value: Double) -> String { Figure.digits(value) + " s" }
        func whole(_ value: Int?) -> Double? { value.map(Double.init) }
        let known: [(String, Double?, (Double) -> String)] = [
            ("events/s", eventsPerSecond, plain), ("timelines/s", timelinesPerSecond, plain),
            ("p50", latency?.p50, milliseconds), ("p90", latency?.p90, milliseconds),
            ("p99", latency?.p99, milliseconds), ("p99.9", latency?.p999, milliseconds),
            ("longest", latency?.max, milliseconds), ("events", whole(events), plain),
            ("distinct timelines", whole(distinctTimelines), plain), ("wall time", wallSeconds, seconds),
            ("provider requests", whole(providerRequests), plain),
            ("timelines of the provider", whole(providerTimelines), plain),
            ("CPU of the service", serviceCPUSeconds, seconds), ("CPU of PostgreSQL", databaseCPUSeconds, seconds),
            ("WAL", whole(walBytes), Figure.bytes), ("peak memory", whole(peakResidentBytes), Figure.bytes),
            ("verified", whole(verified), plain),
        ]
        return known.compactMap { name, value, format in value.map { (name, format($0)) } }
    }

    private static func tile(_ figure: (name: String, value: String)) -> HTML {
        "<div class=\"tile\"><b>\(figure.value)</b><span>\(figure.name)</span></div>\n"
    }

    /// The report without its samples, which the charts show.
    private var withoutSamples: JSONValue {
        var result = self
        result.charts.samples = []
        return result.json
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
            chart.position = Figure.time
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
