// SPDX-License-Identifier: Apache-2.0

import Charts
import JSON
import WidgetModel

/// The charts of the overview, the kinds and the providers.
extension ConsoleVisit {
    private var history: MetricHistory { console.configuration.history }

    var charts: [(title: String, html: HTML)] {
        let latency = "Freshness: from a request to stored content"
        let fetches = "Freshness on devices: fetched later than the objective"
        return [
            (
                "Throughput",
                chart(
                    "Throughput", unit: "a second",
                    [
                        history.rate("events applied", of: MetricRegistry.catalogue.ingestEvents.definition.name),
                        history.rate("timelines stored", of: MetricRegistry.catalogue.stored.definition.name),
                        history.rate("timelines published", of: MetricRegistry.catalogue.published.definition.name),
                    ], alert: .timelinesOverdue)
            ),
            (
                latency,
                chart(
                    latency, unit: "s", quantiles(of: MetricRegistry.catalogue.reloadLatency.definition),
                    alert: .timelinesStale,
                    objective: console.objective / .seconds(1))
            ),
            // The objective allows 5 %.
            (
                fetches,
                chart(
                    fetches, unit: "%",
                    ["1h", "6h"].map { window in
                        history.percentage(
                            "in \(window)",
                            part: "\(MetricRegistry.catalogue.deliveryMissed.definition.name) \(window)",
                            of: "\(MetricRegistry.catalogue.deliveryChanges.definition.name) \(window)")
                    }, alert: .deliveryLate, objective: 5)
            ),
        ]
            + [
                (
                    "Lag of ingest", "messages", [("lag", MetricRegistry.catalogue.ingestLag.definition.name)],
                    .ingestLagging
                ),
                (
                    "Ready work lists by lane", "lists",
                    ReloadLane.allCases.map {
                        ($0.name, "\(MetricRegistry.catalogue.readyLists.definition.name) \($0.name)")
                    },
                    .timelinesOverdue
                ),
                (
                    "Open breakers", "providers", [("open", MetricRegistry.catalogue.breakersOpen.definition.name)],
                    .breakerOpen
                ),
                (
                    "Dead letters of all apps", "letters",
                    [("waiting", MetricRegistry.catalogue.deadLettersWaiting.definition.name)],
                    .deadLetters
                ),
            ].map { (title: String, unit: String, gauges: [(String, String)], alert: ConsoleAlert) in
                (title, chart(title, unit: unit, gauges.map { history.gauge($0.0, of: $0.1) }, alert: alert))
            }
    }

    var providerLatency: HTML {
        chart(
            "Requests to providers of all apps", unit: "s",
            quantiles(of: MetricRegistry.catalogue.providerSeconds.definition),
            alert: .providerErrors)
    }

    private func quantiles(of histogram: MetricDefinition) -> [Chart.Series] {
        [("p50", 0.5), ("p99", 0.99)].map { history.quantile($0, $1, of: histogram.name) }
    }

    /// At most the last hour of the process's figures, with a legend.
    ///
    /// - Parameters:
    ///   - alert: on these figures.
    ///   - objective: value that should not be exceeded.
    private func chart(
        _ title: String, unit: String, _ lines: [Chart.Series], alert: ConsoleAlert, objective: Double? = nil
    ) -> HTML {
        let link: HTML =
            console.configuration.runbook.map {
                "<a href=\"\(alert.link($0))\" rel=\"noreferrer\">Runbook: \(alert.name)</a>"
            } ?? "<span class=\"soft\">Alert \(alert.name)</span>"
        guard let highest = lines.compactMap(\.highest).max() else {
            return "<p class=\"soft\">No figures in this process yet.</p><p class=\"small\">\(link)</p>"
        }
        let words = ConsolePage.words
        // An hour, or whole minutes since the first sample of a younger process.
        let oldest = lines.flatMap(\.points).filter { $0.value != nil }.map { -$0.x }.max() ?? 0
        let span = min(3_600, max(1, (oldest / 60).rounded(.up)) * 60)
        // The lines would be drawn flat under a high objective.
        let limit = objective.flatMap { $0 <= 4 * highest ? $0 : nil }
        let top = max(highest, limit ?? 0)
        let parts = lines.map { line in
            "\(line.name) \(line.latest.map(words) ?? "none"), at most \(line.highest.map(words) ?? "none")"
        }
        var chart = Chart(
            label: "\(title) in the last hour, in \(unit): \(parts.joined(separator: "; "))", range: -span..<0,
            scale: .linear(upTo: top > 0 ? top : 1),
            series: lines)
        chart.limit = limit
        chart.ticks = [(-span, "\(Int(span / 60)) min ago"), (0, "now")]
        chart.format = words
        let legend = chart.legend(limit: objective.map { "allowed: \(words($0)) \(unit)" }) { line in
            line.latest.map { "\(words($0)) \(unit)" } ?? "none"
        }
        return """
            <p class="scale small soft">up to \(words(top)) \(unit)</p>
            \(chart.svg)\(legend)<p class="small">\(link)</p>
            """
    }
}

extension ConsolePage {
    /// Scheduled reloads by hour, as a chart.
    static func chart(of forecast: Forecast) -> HTML {
        let hours = (0..<(forecast.providers.isEmpty ? 0 : forecast.hours)).map { hour in
            Double(forecast.providers.reduce(0) { $0 + $1.hours[hour] })
        }
        let now = Double(forecast.providers.reduce(0) { $0 + $1.now })
        let total = grouped("\(forecast.total)")
        let most = max(1, hours.max() ?? 0)
        let count = max(1, hours.count)
        var chart = Chart(
            label:
                "\(total) reloads are scheduled in the next \(hours.count) hours, \(words(most)) at most in one",
            range: 0..<Double(count), scale: .linear(upTo: most),
            series: [Chart.Series("reloads", .bars, points: hours.enumerated().map { (Double($0), $1) })])
        chart.ticks = [(0, "now"), (Double(count), "in \(hours.count) h")]
        chart.format = words
        return """
            <p class="scale small soft">up to \(words(most)) an hour; \(total) in all, \(words(now)) due now</p>
            \(chart.svg)
            """
    }
}
