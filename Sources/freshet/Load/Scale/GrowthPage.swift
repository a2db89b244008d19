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

    var text: String { page.text }

    private var page: HTMLPage {
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
        return HTMLPage(
            title: "freshet load growth", style: Self.style,
            content: """
                <h1>freshet load growth</h1>
                <p>\(time.rfc3339). Batches of \(report.batch) timelines, \(report.rounds) of them at each size, scattered over all
                timelines; after a CHECKPOINT and one pass over the same ones.</p>
                <section class="charts">
                \(figures.joined(separator: "\n"))
                </section>
                """, report: report.json)
    }

    /// Written whole or not at all.
    ///
    /// - Throws: ``CommandFailure``, which names the file.
    func write(to path: String) throws(CommandFailure) { try page.write(to: path) }

    private func points(_ name: String, _ value: (LatencySummary) -> Double) -> [(Double, Double)] {
        report.points.compactMap { point in
            let summary = point.warm.summary(name)
            return summary.samples > 0 ? (Double(point.timelines), value(summary)) : nil
        }
    }

    private static func figure(_ title: String, _ chart: GrowthChart) -> String {
        HTMLPage.figure(title, names: chart.lines.map(\.name), chart.svg(label: HTML.escaped(title)))
    }

    private static let style = """
        :root { --c3: #1a7f37; }
        @media (prefers-color-scheme: dark) { :root { --c3: #57c773; } }
        svg polyline { fill: none; stroke-width: 2; stroke-linejoin: round; stroke-linecap: round; }
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
                #"<line class="grid" x1="\#(Self.left)" x2="\#(Self.right)" y1="\#(Self.text(place))" y2="\#(Self.text(place))"/>"#
            svg += #"<text class="tick" x="\#(Self.left - 5)" y="\#(Self.text(place + 4))" text-anchor="end">"#
            svg += "\(Self.short(pow(10, Double(power))))</text>"
        }
        for size in Set(points.map(\.size)).sorted() {
            svg += #"<text class="tick" x="\#(Self.text(x(size)))" y="\#(Self.bottom + 17)" text-anchor="middle">"#
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
