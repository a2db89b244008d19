import JSON
import WidgetModel

/// A chart of at most the last hour: lines with a legend, drawn by the server.
struct ConsoleChart: Sendable {
    let title: String
    let unit: String
    let lines: [MetricLine]
    /// A value that should not be exceeded.
    var objective: Double?
    /// Alert on these figures, which is a heading of the runbook.
    let alert: ConsoleAlert
    let runbook: String?

    private static let styles: [HTML] = ["", "second", "third", "fourth"]
    private static let (width, height) = (600.0, 120.0)

    /// Seconds that the chart shows: an hour, or whole minutes since the first sample of a younger process.
    private var span: Double {
        let oldest = lines.flatMap(\.points).filter { $0.value != nil }.map(\.ago).max() ?? 0
        return min(3_600, max(1, (oldest / 60).rounded(.up)) * 60)
    }

    private var top: Double {
        let top = max(highest, drawnObjective ?? 0)
        return top > 0 ? top : 1
    }

    private var highest: Double { lines.compactMap(\.highest).max() ?? 0 }

    /// The objective; nil if it is so high that the lines would be drawn flat.
    private var drawnObjective: Double? { objective.flatMap { $0 <= 4 * highest ? $0 : nil } }

    private var isEmpty: Bool { !lines.contains { $0.highest != nil } }

    var html: HTML {
        guard !isEmpty else {
            return "<p class=\"soft\">No figures in this process yet.</p>\(alertLink)"
        }
        let limit: HTML =
            drawnObjective.map { "<path class=\"axis limit\" d=\"M0 \(y($0))H\(Self.number(Self.width))\"/>" } ?? ""
        return """
            <p class="scale small soft">up to \(Self.words(top)) \(unit)</p>
            <svg class="chart" viewBox="0 0 600 120" preserveAspectRatio="none" role="img" aria-label="\(summary)">\
            <path class="axis" d="M0 119.5H600M0 0.5H600"/>\(limit)\
            \(HTML(zip(lines, Self.styles).map { "<path class=\"line \($1)\" d=\"\(path($0))\"/>" }))</svg>
            <p class="times small soft"><span>\(Int(span / 60)) min ago</span><span>now</span></p>
            <ul class="legend">\(HTML(zip(lines, Self.styles).map(legend)))\(limitLegend)</ul>
            \(alertLink)
            """
    }

    private var alertLink: HTML {
        guard let runbook else { return "<p class=\"small soft\">Alert \(alert.name)</p>" }
        return """
            <p class="small"><a href="\(alert.link(runbook))" rel="noreferrer">Runbook: \(alert.name)</a></p>
            """
    }

    private var limitLegend: HTML {
        guard let objective else { return "" }
        return """
            <li><svg viewBox="0 0 32 12" aria-hidden="true"><path class="axis limit" d="M0 6H32"/></svg>\
            allowed: \(Self.words(objective)) \(unit)</li>
            """
    }

    private func legend(_ line: MetricLine, _ style: HTML) -> HTML {
        let latest = line.latest.map { "\(Self.words($0)) \(unit)" } ?? "none"
        return """
            <li><svg viewBox="0 0 32 12" aria-hidden="true"><path class="line \(style)" d="M0 6H32"/></svg>\
            \(line.name): <strong>\(latest)</strong></li>
            """
    }

    /// Text in place of the drawing.
    private var summary: String {
        let parts = lines.map { line in
            "\(line.name) \(line.latest.map(Self.words) ?? "none"), at most \(line.highest.map(Self.words) ?? "none")"
        }
        return "\(title) in the last hour, in \(unit): \(parts.joined(separator: "; "))"
    }

    private func path(_ line: MetricLine) -> HTML {
        var path = ""
        var isDrawing = false
        for (ago, value) in line.points {
            guard let value, ago <= span else {
                isDrawing = false
                continue
            }
            let x = Self.number(Self.width * (1 - ago / span))
            // A single point is drawn as a short line.
            path += isDrawing ? "L\(x.text) \(y(value).text)" : "M\(x.text) \(y(value).text)h0.5"
            isDrawing = true
        }
        return HTML(stringLiteral: path)
    }

    private func y(_ value: Double) -> HTML { Self.number(Self.height - 2 - (Self.height - 4) * value / top) }

    fileprivate static func number(_ value: Double) -> HTML { HTML(stringLiteral: "\((value * 10).rounded() / 10)") }

    /// A number with two or three digits that count.
    static func words(_ value: Double) -> String {
        switch abs(value) {
        case 0: "0"
        case ..<1: "\((value * 1_000).rounded() / 1_000)"
        case ..<100: JSONNumber((value * 10).rounded() / 10)?.text ?? "0"
        default: ConsoleView.grouped("\(Int(value.rounded()))")
        }
    }
}

/// The charts of the overview and of the providers.
extension ConsoleVisit {
    private var history: MetricHistory { console.configuration.history }

    var charts: [(title: String, id: String, html: HTML)] {
        [
            chart(
                "Throughput", "a second",
                [
                    history.rate("events applied", MetricCatalogue.ingestEvents.name),
                    history.rate("timelines stored", MetricCatalogue.stored.name),
                    history.rate("timelines published", MetricCatalogue.published.name),
                ], .timelinesOverdue),
            chart(
                "Freshness: from a request to stored content", "s", quantiles(of: MetricCatalogue.reloadLatency),
                .timelinesStale, objective: console.objective / .seconds(1)),
            // The objective allows 5 %.
            chart(
                "Freshness on devices: fetched later than the objective", "%",
                ["1h", "6h"].map { window in
                    history.percentage(
                        "in \(window)", "\(MetricCatalogue.deliveryMissed.name) \(window)",
                        of: "\(MetricCatalogue.deliveryChanges.name) \(window)")
                }, .deliveryLate, objective: 5),
            chart("Lag of ingest", "messages", [history.gauge("lag", MetricCatalogue.ingestLag.name)], .ingestLagging),
            chart(
                "Ready work lists by lane", "lists",
                ReloadLane.allCases.map { history.gauge($0.name, "\(MetricCatalogue.readyLists.name) \($0.name)") },
                .timelinesOverdue),
            chart(
                "Open breakers", "providers", [history.gauge("open", MetricCatalogue.breakersOpen.name)],
                .breakerOpen),
            chart(
                "Dead letters of all apps", "letters",
                [history.gauge("waiting", MetricCatalogue.deadLettersWaiting.name)], .deadLetters),
        ].enumerated().map { ($1.title, "chart-\($0)", $1.html) }
    }

    private func chart(
        _ title: String, _ unit: String, _ lines: [MetricLine], _ alert: ConsoleAlert, objective: Double? = nil
    ) -> ConsoleChart {
        ConsoleChart(
            title: title, unit: unit, lines: lines, objective: objective, alert: alert,
            runbook: console.configuration.runbook)
    }

    private func quantiles(of histogram: MetricDefinition) -> [MetricLine] {
        [("p50", 0.5), ("p99", 0.99)].map { history.quantile($0, $1, of: histogram.name) }
    }

    var providerLatency: ConsoleChart {
        chart(
            "Requests to providers of all apps", "s", quantiles(of: MetricCatalogue.providerSeconds), .providerErrors)
    }
}

/// Scheduled reloads by hour, as a chart of bars.
enum ConsoleForecast {
    /// - Parameter json: a forecast of the API.
    static func html(_ json: JSONValue) -> HTML {
        var hours: [Double] = []
        for provider in json["providers"]?.arrayValue ?? [] {
            for (index, hour) in (provider["hours"]?.arrayValue ?? []).enumerated() {
                if index == hours.count { hours.append(0) }
                hours[index] += hour["reloads"]?.numberValue?.double ?? 0
            }
        }
        let now = (json["providers"]?.arrayValue ?? []).reduce(0) { $0 + ($1["now"]?.numberValue?.double ?? 0) }
        let due = ConsoleChart.words(now)
        let total = json["total"]?.numberValue.map { ConsoleView.grouped($0.text) } ?? "0"
        let most = max(1, hours.max() ?? 0)
        let width = 600.0 / Double(max(1, hours.count))
        let text = ConsoleChart.number
        let bars = hours.enumerated().map { index, reloads -> HTML in
            let height = reloads > 0 ? max(2, 118 * reloads / most) : 0
            return """
                <rect class="bar-rect" x="\(text(Double(index) * width + 1))" y="\(text(120 - height))" \
                width="\(text(max(1, width - 2)))" height="\(text(height))"/>
                """
        }
        let summary =
            "\(total) reloads are scheduled in the next \(hours.count) hours, \(ConsoleChart.words(most)) at most in one"
        return """
            <p class="scale small soft">up to \(ConsoleChart.words(most)) an hour; \(total) in all, \(due) due now</p>
            <svg class="chart" viewBox="0 0 600 120" preserveAspectRatio="none" role="img" aria-label="\(summary)">\
            <path class="axis" d="M0 119.5H600"/>\(HTML(bars))</svg>
            <p class="times small soft"><span>now</span><span>in \(hours.count) h</span></p>
            """
    }
}
