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
                        SVGChart.Curve(name: "\(name) p50", points: points(name) { $0.p50 }),
                        SVGChart.Curve(name: "\(name) p99", points: points(name) { $0.p99 }),
                    ]
                }
                return Self.figure(chart.title, lines.filter { !$0.points.isEmpty })
            } + [
                Self.figure(
                    "Timelines a second, one connection",
                    [
                        .init(
                            name: "warm",
                            points: report.points.map { (Double($0.timelines), $0.warm.timelinesPerSecond) }),
                        .init(
                            name: "cold",
                            points: report.points.map { (Double($0.timelines), $0.cold.timelinesPerSecond) }),
                    ])
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

    private static func figure(_ title: String, _ curves: [SVGChart.Curve]) -> String {
        HTMLPage.figure(title, names: curves.map(\.name), SVGChart.curves(curves, label: title))
    }

    private static let style = """
        :root { --c3: #1a7f37; }
        @media (prefers-color-scheme: dark) { :root { --c3: #57c773; } }
        """
}
