import Foundation
import WidgetModel

/// Growth curves as one HTML page that needs nothing else; well-formed XML, too.
struct GrowthPage: Sendable {
    let report: GrowthReport
    let time: Timestamp

    private static let charts: [(title: String, statements: [String])] = [
        ("Claim and complete, ms a batch", ["claim", "complete"]),
        ("Apply (mark) and save, ms a batch", ["apply", "save"]),
        ("A reload of everyone, ms", ["global"]),
        ("A chunk of the sweep, and its claim, ms", ["sweep", "claim swept"]),
        ("What is due, ms", ["due"]),
        ("One widget's timeline read, ms", ["read"]),
    ]

    var text: String {
        let figures =
            Self.charts.map { chart in
                let lines = chart.statements.flatMap { name in
                    [
                        GrowthChart.Line(name: "\(name) p50", points: points(name) { $0.p50 }),
                        GrowthChart.Line(name: "\(name) p99", points: points(name) { $0.p99 }),
                    ]
                }
                return Self.figure(chart.title, GrowthChart(lines: lines.filter { !$0.points.isEmpty }))
            } + [
                Self.figure(
                    "Timelines a second, one connection",
                    GrowthChart(lines: [
                        .init(
                            name: "warm",
                            points: report.points.map { (Double($0.timelines), $0.warm.timelinesPerSecond) }),
                        .init(
                            name: "cold",
                            points: report.points.map { (Double($0.timelines), $0.cold.timelinesPerSecond) }),
                    ]))
            ]
        return """
            <!DOCTYPE html>
            <html lang="en">
            <head>
            <meta charset="utf-8"/>
            <meta name="viewport" content="width=device-width, initial-scale=1"/>
            <meta name="color-scheme" content="light dark"/>
            <title>freshet load growth</title>
            <style>
            \(Self.style)
            </style>
            </head>
            <body>
            <main>
            <h1>freshet load growth</h1>
            <p>\(time.rfc3339). Batches of \(report.batch) timelines, \(report.rounds) of them at each size, scattered over all
            timelines; after a CHECKPOINT and one pass over the same ones.</p>
            <section>
            \(figures.joined(separator: "\n"))
            </section>
            <details>
            <summary>The report as JSON</summary>
            <pre>\(Self.escaped(PrettyJSON.text(report.json)))</pre>
            </details>
            </main>
            </body>
            </html>

            """
    }

    /// Written whole or not at all.
    ///
    /// - Throws: ``CommandFailure``, which names the file.
    func write(to path: String) throws(CommandFailure) {
        do {
            try Data(text.utf8).write(to: URL(fileURLWithPath: path), options: .atomic)
        } catch {
            throw CommandFailure(.failure, "\(path) cannot be written: \(error.localizedDescription)")
        }
    }

    private func points(_ name: String, _ value: (LatencySummary) -> Double) -> [(Double, Double)] {
        report.points.compactMap { point in
            let summary = point.warm.summary(name)
            return summary.samples > 0 ? (Double(point.timelines), value(summary)) : nil
        }
    }

    private static func figure(_ title: String, _ chart: GrowthChart) -> String {
        let keys = chart.lines.enumerated().map { index, line in
            #"<span class="c\#(index + 1)">\#(escaped(line.name))</span>"#
        }
        return """
            <figure><figcaption><b>\(escaped(title))</b> \(keys.joined(separator: " "))</figcaption>
            \(chart.svg(label: escaped(title)))</figure>
            """
    }

    fileprivate static func escaped(_ text: String) -> String {
        text.replacingOccurrences(of: "&", with: "&amp;").replacingOccurrences(of: "<", with: "&lt;")
            .replacingOccurrences(of: "\"", with: "&quot;")
    }

    private static let style = """
        :root { --ground: #f7f7f5; --card: #fff; --ink: #1b1d21; --quiet: #63676f; --rule: #e3e3df;
          --c1: #1f6feb; --c2: #c2570c; --c3: #1a7f37; --c4: #8250df; }
        @media (prefers-color-scheme: dark) {
          :root { --ground: #131518; --card: #1c1f24; --ink: #e8e9eb; --quiet: #9aa0a9; --rule: #30343b;
            --c1: #6ea8fe; --c2: #f0883e; --c3: #57c773; --c4: #c297ff; }
        }
        body { margin: 0; background: var(--ground); color: var(--ink); font: 16px/1.45 system-ui, sans-serif; }
        main { max-width: 68rem; margin: 0 auto; padding: 1rem; }
        section { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 25rem), 1fr)); gap: .75rem; }
        figure, pre { margin: 0; background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
          padding: .75rem; overflow-x: auto; }
        figcaption span { font-size: .875rem; margin-left: .5rem; }
        span.c1 { color: var(--c1); } span.c2 { color: var(--c2); } span.c3 { color: var(--c3); }
        span.c4 { color: var(--c4); }
        svg { display: block; width: 100%; height: auto; }
        svg line { stroke: var(--rule); } svg text { fill: var(--quiet); font-size: 11px; }
        svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
        polyline.c1 { stroke: var(--c1); } polyline.c2 { stroke: var(--c2); } polyline.c3 { stroke: var(--c3); }
        polyline.c4 { stroke: var(--c4); }
        """
}

/// Values over numbers of timelines, both on logarithmic axes.
struct GrowthChart: Sendable {
    struct Line: Sendable {
        var name: String
        var points: [(size: Double, value: Double)]
    }

    var lines: [Line]

    private static let (left, right, top, bottom) = (46.0, 392.0, 10.0, 184.0)

    func svg(label: String) -> String {
        let points = lines.flatMap(\.points).filter { $0.size > 0 && $0.value > 0 }
        guard let first = points.first else { return "" }
        let sizes = points.reduce((first.size, first.size)) { (min($0.0, $1.size), max($0.1, $1.size)) }
        let values = points.reduce((first.value, first.value)) { (min($0.0, $1.value), max($0.1, $1.value)) }
        let (low, high) = (
            log10(values.0).rounded(.down), max(log10(values.0).rounded(.down) + 1, log10(values.1).rounded(.up))
        )
        func x(_ size: Double) -> Double {
            let span = log10(sizes.1) - log10(sizes.0)
            return Self.left + (span > 0 ? (log10(size) - log10(sizes.0)) / span : 0.5) * (Self.right - Self.left)
        }
        func y(_ value: Double) -> Double {
            Self.bottom - (log10(value) - low) / (high - low) * (Self.bottom - Self.top)
        }
        var svg = #"<svg viewBox="0 0 400 210" role="img" aria-label="\#(label)">"#
        for power in Int(low)...Int(high) {
            let place = y(pow(10, Double(power)))
            svg +=
                #"<line x1="\#(Self.left)" x2="\#(Self.right)" y1="\#(Self.text(place))" y2="\#(Self.text(place))"/>"#
            svg += #"<text x="\#(Self.left - 5)" y="\#(Self.text(place + 4))" text-anchor="end">"#
            svg += "\(Self.short(pow(10, Double(power))))</text>"
        }
        for size in Set(points.map(\.size)).sorted() {
            svg += #"<text x="\#(Self.text(x(size)))" y="\#(Self.bottom + 17)" text-anchor="middle">"#
            svg += "\(Self.short(size))</text>"
        }
        for (index, line) in lines.enumerated() {
            let places = line.points.filter { $0.size > 0 && $0.value > 0 }
                .map { "\(Self.text(x($0.size))),\(Self.text(y($0.value)))" }
            // A single point is a dot: a line of no length, with round ends.
            let drawn = places.count == 1 ? places + places : places
            svg += #"<polyline class="c\#(index + 1)" points="\#(drawn.joined(separator: " "))"/>"#
        }
        return svg + "</svg>"
    }

    private static func text(_ value: Double) -> String { String(format: "%.1f", value) }

    private static func short(_ value: Double) -> String {
        value >= 1e6
            ? String(format: "%gM", value / 1e6)
            : value >= 1e3 ? String(format: "%gk", value / 1e3) : String(format: "%g", value)
    }
}
