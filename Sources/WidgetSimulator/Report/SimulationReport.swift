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
