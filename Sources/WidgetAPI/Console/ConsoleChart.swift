// SPDX-License-Identifier: Apache-2.0

import Charts
import JSON
import WidgetModel
import WidgetStore

/// A chart of the process's last hour, with the state of the alert on its figures.
struct AlertChart: Sendable {
    enum State: Equatable, Sendable {
        /// There is nothing to exceed, or there are no figures.
        case unknown
        case ok
        /// The latest figure is over the limit.
        case exceeded
        /// The figures have been over the alert's thresholds for as long as it waits.
        case firing

        /// Style of the figures.
        var style: String {
            switch self {
            case .unknown, .ok: "soft"
            case .exceeded: "warn"
            case .firing: "bad"
            }
        }
    }

    let title: String
    /// Empty for numbers of things.
    let unit: String
    let lines: [Chart.Series]
    var alert: ConsoleAlert?
    /// Value that should not be exceeded.
    var limit: Double?
    /// Values of the lines beyond which the alert fires; nil: the limit of each.
    var thresholds: [Double]?
    /// Whether the alert fires for all lines together, not for each.
    var firesForAll = false
    /// Time for which the alert waits, in seconds.
    var hold = 300.0
    /// A number that must be exceeded as well, so that few things make no alert.
    var minimum: (number: Chart.Series, value: Double)?

    var hasFigures: Bool { lines.contains { $0.highest != nil } }

    var state: State {
        guard let limit, lines.contains(where: { $0.latest != nil }) else { return .unknown }
        if alert != nil, isFiring(thresholds ?? lines.map { _ in limit }) { return .firing }
        return lines.contains { $0.latest.map { $0 > limit } ?? false } ? .exceeded : .ok
    }

    private func isFiring(_ thresholds: [Double]) -> Bool {
        let fire = zip(lines, thresholds).map { line, threshold in
            let recent = line.points.filter { $0.x >= -hold }
            let isHeld = line.points.contains { $0.x <= -hold && $0.value != nil }
            return isHeld && recent.allSatisfy { $0.value.map { $0 > threshold } ?? false }
        }
        let isEnough = minimum.map { minimum in minimum.number.latest.map { $0 > minimum.value } ?? false } ?? true
        return isEnough && (firesForAll ? fire.allSatisfy { $0 } : fire.contains(true))
    }
}

/// The charts of the overview, the kinds and the providers.
extension ConsoleVisit {
    /// Oldest content that the alert on stale timelines allows, in seconds, as in `deploy/prometheus/rules.yaml`.
    private static let oldestContent = 90_000.0

    private var history: MetricHistory { console.configuration.history }

    /// Charts of the app's own figures, and those of the installation if the app is its only one.
    var charts: [AlertChart] { ownCharts + (state.isShared ? [] : installationCharts) }

    private var ownCharts: [AlertChart] {
        let catalogue = MetricRegistry.catalogue
        func own(_ metric: any AnyMetric, _ labels: String...) -> String {
            MetricHistory.series(metric.definition.name, [app] + labels)
        }
        return [
            AlertChart(
                title: "Timelines of \(app)", unit: "a second",
                lines: ["reloaded", "unchanged", "failed"].map { decision in
                    history.rate(decision, of: own(catalogue.decisions, decision))
                }),
            AlertChart(
                title: "Oldest due timeline", unit: "s",
                lines: [history.gauge("due for", of: own(catalogue.kindOldestDue))],
                alert: .timelinesOverdue, limit: WidgetState.overdueAfter / .seconds(1), thresholds: [900]),
            AlertChart(
                title: "Age of the content of 99 % of the timelines", unit: "s",
                lines: [history.gauge("rendered before", of: own(catalogue.timelineAge, "99"))],
                alert: .timelinesStale, limit: Self.oldestContent, hold: 900),
            // The objective allows 5 %.
            AlertChart(
                title: "Freshness on devices: fetched later than the objective", unit: "%",
                lines: ["1h", "6h"].map { window in
                    history.percentage(
                        "in \(window)", part: own(catalogue.deliveryMissed, window),
                        of: own(catalogue.deliveryChanges, window))
                }, alert: .deliveryLate, limit: 5, thresholds: [30, 15], firesForAll: true, hold: 900,
                minimum: (history.gauge("changes", of: own(catalogue.deliveryChanges, "1h")), 100)),
            AlertChart(
                title: "Open breakers", unit: "",
                lines: [history.gauge("open", of: own(catalogue.breakerState))], alert: .breakerOpen, limit: 0,
                hold: 600),
        ]
    }

    private var installationCharts: [AlertChart] {
        let catalogue = MetricRegistry.catalogue
        func oldest(_ lanes: [ReloadLane], allowed limit: Double) -> AlertChart {
            AlertChart(
                title: "Oldest due timeline: \(lanes.map(\.name).joined(separator: ", "))", unit: "s",
                lines: lanes.map { lane in
                    let series = MetricHistory.series(catalogue.oldestOverdue.definition.name, [lane.name])
                    return history.gauge(lane.name, of: series)
                }, alert: .timelinesOverdue, limit: limit)
        }
        return [
            AlertChart(
                title: "Throughput", unit: "a second",
                lines: [
                    history.rate("events applied", of: catalogue.ingestEvents.definition.name),
                    history.rate("timelines stored", of: catalogue.stored.definition.name),
                    history.rate("timelines published", of: catalogue.published.definition.name),
                ]),
            AlertChart(
                title: "Freshness: from a request to stored content", unit: "s",
                lines: quantiles(of: catalogue.reloadLatency.definition), limit: console.objective / .seconds(1)),
            AlertChart(
                title: "Oldest event that is not applied", unit: "s",
                lines: [history.gauge("received before", of: catalogue.ingestOldest.definition.name)],
                alert: .ingestLagging, limit: 60),
            oldest([.interactive, .push], allowed: 60), oldest([.scheduled, .bulk], allowed: 900),
            AlertChart(
                title: "Ready work lists by lane", unit: "",
                lines: ReloadLane.allCases.map { lane in
                    let series = MetricHistory.series(catalogue.readyLists.definition.name, [lane.name])
                    return history.gauge(lane.name, of: series)
                }),
            AlertChart(
                title: "Dead letters", unit: "",
                lines: [history.gauge("waiting", of: catalogue.deadLettersWaiting.definition.name)]),
        ]
    }

    /// Latency of the requests to providers; empty if those of other apps are among them.
    var providerLatency: HTML {
        guard !state.isShared else { return "" }
        return chart(
            AlertChart(
                title: "Requests to providers", unit: "s",
                lines: quantiles(of: MetricRegistry.catalogue.providerSeconds.definition)))
    }

    private func quantiles(of histogram: MetricDefinition) -> [Chart.Series] {
        [("p50", 0.5), ("p99", 0.99)].map { history.quantile($0, $1, of: histogram.name) }
    }

    /// The state of a chart's alert, with a link to the runbook.
    private func note(_ plan: AlertChart) -> HTML {
        let tag: HTML =
            switch plan.state {
            case .unknown: ""
            case .ok: "<span class=\"tag good\">ok</span> "
            case .exceeded: "<span class=\"tag warn\">over the limit</span> "
            case .firing: "<span class=\"tag bad\">firing</span> "
            }
        guard let alert = plan.alert else { return tag }
        return console.configuration.runbook.map {
            "\(tag)<a href=\"\(alert.link($0))\" rel=\"noreferrer\">Runbook: \(alert.name)</a>"
        } ?? "\(tag)<span class=\"soft\">Alert \(alert.name)</span>"
    }

    /// At most the last hour of the process's figures, with a legend.
    func chart(_ plan: AlertChart) -> HTML {
        let lines = plan.lines
        let words = ConsolePage.words
        func withUnit(_ value: Double) -> String { plan.unit.isEmpty ? words(value) : "\(words(value)) \(plan.unit)" }
        let note: HTML = "<p class=\"small\">\(note(plan))</p>"
        guard let highest = lines.compactMap(\.highest).max() else {
            return "<p class=\"soft\">No figures in this process yet.</p>\(note)"
        }
        // An hour, or whole minutes since the first sample of a younger process.
        let oldest = lines.flatMap(\.points).filter { $0.value != nil }.map { -$0.x }.max() ?? 0
        let minutes = Int(min(60, max(1, (oldest / 60).rounded(.up))))
        // The lines would be drawn flat under a high limit.
        let limit = plan.limit.flatMap { $0 <= 4 * highest ? $0 : nil }
        let top = max(highest, limit ?? 0)
        let parts = lines.map { line in
            "\(line.name) \(line.latest.map(withUnit) ?? "none"), at most \(line.highest.map(withUnit) ?? "none")"
        }
        var chart = Chart(
            label: "\(plan.title) in the last hour: \(parts.joined(separator: "; "))",
            range: -60 * Double(minutes)..<0, scale: .linear(upTo: top > 0 ? top : 1, isWhole: plan.unit.isEmpty),
            series: lines)
        chart.limit = limit
        chart.ticks = Self.ticks(ofMinutes: minutes)
        chart.format = words
        chart.unit = plan.unit
        let end = history.end
        chart.position = { seconds in
            let time = end + .seconds(1) * seconds
            return "\(LocalClock.utc.full(time)), \(time.distance(from: end))"
        }
        let legend = chart.legend(
            limit: plan.limit.map { "allowed: \(withUnit($0))\(limit == nil ? ", beyond the chart" : "")" }
        ) { line in
            line.latest.map(withUnit) ?? "none"
        }
        return "\(note)\(chart.svg)<div class=\"\(plan.state.style)\">\(legend)</div>"
    }

    /// The present and round distances before it, at most four.
    static func ticks(ofMinutes minutes: Int) -> [(x: Double, text: String)] {
        let step = [1, 2, 5, 10, 20].first { minutes / $0 <= 3 } ?? 20
        return stride(from: 0, through: minutes, by: step).map { ago in
            (Double(-60 * ago), ago == 0 ? "now" : "\(ago) min ago")
        }
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
        let most = hours.max() ?? 0
        let count = max(1, hours.count)
        var chart = Chart(
            label:
                "\(total) reloads are scheduled in the next \(hours.count) hours, \(words(most)) at most in one",
            range: 0..<Double(count), scale: .linear(upTo: most, isWhole: true),
            series: [Chart.Series("reloads", .bars, points: hours.enumerated().map { (Double($0), $1) })])
        let step = max(1, (count + 3) / 4)
        chart.ticks = stride(from: 0, through: count, by: step).map { hour in
            (Double(hour), hour == 0 ? "now" : hour < count ? "\(hour) h" : "\(hour) h from now")
        }
        chart.format = words
        chart.position = { hour in
            let (from, to) = (forecast.begin(of: Int(hour)), forecast.begin(of: Int(hour) + 1))
            return "\(LocalClock.utc.text(from)) to \(LocalClock.utc.clock(to)) UTC"
        }
        return "<p>\(total) in all, \(words(now)) due now</p>\(chart.svg)"
    }
}
