import Charts
import Foundation
package import JSON
package import WidgetModel

/// Result of a simulation, as a page or a program shows it.
package struct SimulationReport: Encodable, Sendable {
    /// Seconds that a share of the cases do not exceed; nil without cases.
    package struct Percentiles: Encodable, Sendable {
        package var p50: Int?
        package var p95: Int?
        package var p99: Int?

        init(_ histogram: AgeHistogram) {
            p50 = histogram.percentile(0.5)
            p95 = histogram.percentile(0.95)
            p99 = histogram.percentile(0.99)
        }
    }

    package struct Budget: Encodable, Sendable {
        package var least: Int
        package var mean: Double
        package var greatest: Int
    }

    package struct Kind: Encodable, Sendable {
        package var app: String
        package var name: String
        /// Timelines at the end.
        package var timelines: Int
        /// Fetches of a timeline in a day of its life, and those of them that took a token of the budget.
        package var reloadsADay: Double
        package var budgetedADay: Double
        /// Budgets in effect at budgeted reloads; nil without any.
        package var budget: Budget?
        /// Largest number of budgeted reloads of a timeline on a day.
        package var busiestDay: Int
        /// Timeline-days by their number of budgeted reloads; the first number is for one reload.
        package var days: [Int]
        /// Fetches by the rule that allowed them.
        package var fetches: [String: Int]
        package var reloaded: Int
        package var unchanged: Int
        package var failed: [String: Int]
        package var slept: Int
        package var requests: Int
        /// Requests that were part of a pending reload.
        package var merged: Int
        /// Deferrals by rule.
        package var deferrals: [String: Int]
        /// Seconds from a request to the reload that served it.
        package var waits: Percentiles
        package var views: Int
        /// Views of widgets without a timeline yet.
        package var emptyViews: Int
        /// Views of content that was requested anew, or whose policy's time had passed.
        package var staleViews: Int
        /// Seconds since the seen content was fetched.
        package var ages: Percentiles
        /// Seconds for which the seen content had been stale; 0 for fresh content.
        package var staleness: Percentiles
        /// Seconds since the seen content was published.
        package var publicationAges: Percentiles
        /// Seconds since the last real publication; without samples unless real publications were read.
        package var realPublicationAges: Percentiles
        /// Seconds since the last fetch that really happened, likewise.
        package var realAges: Percentiles

        /// App and name.
        package var title: String { "\(app) \(name)" }
    }

    package struct Provider: Encodable, Sendable {
        package var app: String
        package var url: String
        package var requests: Int
        package var timelines: Int
        /// Requests and timelines in each hour.
        package var requestsByHour: [Int]
        package var timelinesByHour: [Int]
        /// Hour with the most timelines, counted from the begin.
        package var peakHour: Int
        /// Most requests in a minute.
        package var peakMinuteRequests: Int
    }

    package var from: String
    package var days: Int
    package var warmUpDays: Int
    package var seed: UInt64
    package var people: Int
    package var widgets: Int
    package var timelines: Int
    /// Events, those without effect, and those for apps or kinds that the manifest does not have.
    package var events: Int
    package var ignoredEvents: Int
    package var unknownEvents: Int
    package var kinds: [Kind]
    package var providers: [Provider]
    package var stacks: StackTally

    /// The report as JSON.
    package var json: JSONValue {
        let encoder = JSONEncoder()
        encoder.outputFormatting = [.sortedKeys, .withoutEscapingSlashes]
        // Numbers and strings only.
        guard let data = try? encoder.encode(self), let value = try? JSONValue.parse(Array(data)) else { return .null }
        return value
    }

    /// Time of an hour of the providers' loads.
    package func time(ofHour hour: Int) -> String {
        guard let begin = Timestamp(rfc3339: from) else { return from }
        return (begin + .seconds(3_600 * hour)).rfc3339
    }
}

extension Simulation {
    /// The result so far.
    ///
    /// - Parameter people: number of synthetic people.
    package func report(people: Int) -> SimulationReport {
        SimulationReport(
            from: options.from.rfc3339, days: options.days, warmUpDays: options.warmUpDays, seed: options.seed,
            people: people, widgets: widgets.count { $0.timeline >= 0 }, timelines: timelineByID.count,
            events: counts.events, ignoredEvents: counts.ignored, unknownEvents: counts.unknown,
            kinds: kinds.indices.map(kindReport),
            providers: zip(providers, counts.providers).map(SimulationReport.Provider.init), stacks: counts.stacks)
    }

    private func kindReport(_ index: Int) -> SimulationReport.Kind {
        let (kind, tally) = (kinds[index], counts.kinds[index])
        let present = kind.timelines.count { !timelines[Int($0)].isCollected }
        let days = timelineDays(of: kind)
        func aDay(_ count: Int) -> Double { days > 0 ? Double(count) / days : 0 }
        let last = tally.budgetedDays.lastIndex { $0 > 0 } ?? 0
        var budget: SimulationReport.Budget?
        if tally.budgetCount > 0 {
            budget = SimulationReport.Budget(
                least: tally.leastBudget, mean: Double(tally.budgetSum) / Double(tally.budgetCount),
                greatest: tally.greatestBudget)
        }
        return SimulationReport.Kind(
            app: kind.app, name: kind.definition.name, timelines: present,
            reloadsADay: aDay(tally.fetches.reduce(0, +)), budgetedADay: aDay(tally.budgetCount),
            budget: budget, busiestDay: last, days: Array(tally.budgetedDays.prefix(last + 1).dropFirst()),
            fetches: Self.named(tally.fetches), reloaded: tally.counters.reloaded,
            unchanged: tally.counters.unchanged, failed: Self.named(tally.failures), slept: tally.counters.slept,
            requests: tally.requests, merged: tally.merged, deferrals: Self.named(tally.deferrals),
            waits: .init(tally.waits), views: tally.views, emptyViews: tally.emptyViews, staleViews: tally.staleViews,
            ages: .init(tally.ages), staleness: .init(tally.staleness), publicationAges: .init(tally.publicationAges),
            realPublicationAges: .init(tally.realPublicationAges), realAges: .init(tally.realAges))
    }

    /// Days of life of a kind's timelines, as far as they are counted.
    private func timelineDays(of kind: SimulatedKind) -> Double {
        kind.timelines.reduce(0) { sum, index in
            let timeline = timelines[Int(index)]
            let life = min(timeline.collectedAt ?? now, now) - max(timeline.begunAt, options.from)
            return sum + max(0, life / .seconds(86_400))
        }
    }

    /// Counts by rule, with the rules' names.
    private static func named(_ counts: [Int]) -> [String: Int] {
        var named: [String: Int] = [:]
        for (value, count) in counts.enumerated() where count > 0 {
            named[ReloadRule(rawValue: Int16(value))?.name ?? "\(value)"] = count
        }
        return named
    }
}

extension SimulationReport.Provider {
    init(_ provider: SimulatedProvider, _ tally: ProviderTally) {
        (app, url) = (provider.app, provider.url)
        func hours(_ minutes: [Int32]) -> [Int] {
            stride(from: 0, to: minutes.count, by: 60).map { first in
                minutes[first..<min(first + 60, minutes.count)].reduce(0) { $0 + Int($1) }
            }
        }
        let loads = hours(tally.timelines)
        requestsByHour = hours(tally.requests)
        timelinesByHour = loads
        requests = requestsByHour.reduce(0, +)
        timelines = loads.reduce(0, +)
        peakHour = loads.indices.max { loads[$0] < loads[$1] } ?? 0
        peakMinuteRequests = Int(tally.requests.max() ?? 0)
    }
}

/// Simulates synthetic people and events.
///
/// - Parameter events: in the order of their times.
package func simulationReport(
    _ apps: [AppDefinition], _ population: Population.Options, events: [TimedEvent] = [], options: SimulationOptions,
    source: some TimelineSource = SyntheticSource()
) async throws -> SimulationReport {
    var simulation = Simulation(apps, options: options, source: source)
    var people = Population(
        population, of: apps, begin: options.begin, days: options.warmUpDays + options.days, seed: options.seed)
    try await simulation.run(&people, others: events)
    return simulation.report(people: population.people)
}

/// One self-contained page with charts of simulations, without scripts.
package enum SimulationPage {
    /// - Parameter reports: with their names; the first is the one that the others are compared with.
    package static func html(_ reports: [(name: String, report: SimulationReport)]) -> String {
        guard let first = reports.first?.report else { return "" }
        let title = "Simulation from \(first.from), \(first.days) days"
        let lead: HTML = """
            <p>\(first.people) synthetic people with seed \("\(first.seed)"); \(first.events) events for \(first.widgets) \
            widgets with \(first.timelines) timelines. Times are UTC.</p>
            """
        return ReportPage.html(title: title, lead: lead, body: HTML(reports.map { section($0.name, $0.report) }))
    }

    /// The tables and charts of one report, as an element.
    package static func section(_ name: String, _ report: SimulationReport) -> HTML {
        let charts = report.kinds.map(dayChart) + report.providers.map { loadChart($0, report) }
        return """
            <section><h2>\(name)</h2>\(kindTable(report))<div class="charts">\(HTML(charts))</div>\
            \(stacks(report))</section>
            """
    }

    // MARK: Tables

    private static func kindTable(_ report: SimulationReport) -> HTML {
        let titles = [
            "Kind", "Timelines", "Reloads a day", "Budgeted a day", "Budget", "Busiest day", "Deferred",
            "Wait p50, p95",
            "Age seen p50, p95, p99", "Stale views", "Stale for p95, p99",
        ]
        let rows = report.kinds.map { kind -> HTML in
            let cells = [
                "\(kind.timelines)", decimal(kind.reloadsADay), decimal(kind.budgetedADay),
                kind.budget.map { "\($0.least) to \($0.greatest), mean \(decimal($0.mean))" } ?? "–",
                "\(kind.busiestDay)",
                kind.deferrals.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", "),
                "\(span(kind.waits.p50)), \(span(kind.waits.p95))",
                "\(span(kind.ages.p50)), \(span(kind.ages.p95)), \(span(kind.ages.p99))",
                kind.views > 0 ? decimal(100 * Double(kind.staleViews) / Double(kind.views)) + " %" : "–",
                "\(span(kind.staleness.p95)), \(span(kind.staleness.p99))",
            ]
            return "<tr><th scope=\"row\">\(kind.title)</th>\(HTML(cells.map { "<td>\($0)</td>" }))</tr>"
        }
        return """
            <div class="scroll" tabindex="0" role="group" aria-label="Kinds"><table><thead><tr>\
            \(HTML(titles.map { "<th scope=\"col\">\($0)</th>" }))</tr></thead><tbody>\(HTML(rows))</tbody></table></div>
            """
    }

    private static func stacks(_ report: SimulationReport) -> HTML {
        let stacks = report.stacks
        guard stacks.stacks > 0 else { return "" }
        let rotations = stacks.rotations.sorted { $0.key < $1.key }.map { "\($0.value) by \($0.key)" }
        let found = stacks.wanted > 0 ? decimal(100 * Double(stacks.found) / Double(stacks.wanted)) + " %" : "–"
        return """
            <p>\(stacks.stacks) stacks, planned \(stacks.plans) times: \
            \(rotations.isEmpty ? "no rotations" : rotations.joined(separator: ", ")), \(stacks.suggestions) suggestions. \
            A wanted widget was on top in \(found) of \(stacks.wanted) cases.</p>
            """
    }

    // MARK: Charts

    private static func dayChart(_ kind: SimulationReport.Kind) -> HTML {
        chart(
            kind.days, "\(kind.title): timeline-days by budgeted reloads", first: "1", last: "\(kind.days.count)")
    }

    private static func loadChart(_ provider: SimulationReport.Provider, _ report: SimulationReport) -> HTML {
        guard provider.timelines > 0 else { return "" }
        let peak = report.time(ofHour: provider.peakHour)
        let most = provider.timelinesByHour.max() ?? 0
        return chart(
            provider.timelinesByHour,
            "\(provider.app), \(provider.url): timelines by hour, the most (\(most)) at \(peak)", first: report.from,
            last: report.time(ofHour: provider.timelinesByHour.count))
    }

    /// Bars with texts under the first and the last one; empty without values.
    private static func chart(_ values: [Int], _ title: String, first: String, last: String) -> HTML {
        guard let most = values.max() else { return "" }
        var chart = Chart(
            label: title, range: 0..<Double(values.count), scale: .linear(upTo: Double(max(1, most))),
            series: [Chart.Series(title, .bars, points: values.enumerated().map { (Double($0), Double($1)) })])
        chart.ticks = [(0, first), (Double(values.count), last)]
        chart.format = { String(format: "%g", $0) }
        return chart.figure(title)
    }

    // MARK: Texts

    private static func decimal(_ value: Double) -> String { String(format: "%.1f", value) }

    /// Seconds in words.
    package static func span(_ seconds: Int?) -> String {
        guard let seconds else { return "–" }
        switch seconds {
        case ..<100: return "\(seconds) s"
        case ..<6_000: return "\(seconds / 60) min"
        case ..<172_800: return decimal(Double(seconds) / 3_600) + " h"
        default: return decimal(Double(seconds) / 86_400) + " d"
        }
    }
}
