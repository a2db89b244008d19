// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import WidgetSimulator

/// Properties of simulations with any seed.
@Suite(.timeLimit(.patience))
struct SimulationPropertyTests {
    private static let from = Timestamp(microseconds: 1_782_086_400_000_000)

    /// Kinds per user, with a small budget and with the default one; shared; and one for each pair of policies.
    private static let apps = [
        AppDefinition(
            name: "com.example.one",
            kinds: [
                kind("Small", budget: DailyBudget(minimum: 2, maximum: 5)), kind("Usual"),
                kind("Shared", sharing: .shared, variesBy: []),
            ]),
        AppDefinition(name: "com.example.two", kinds: [kind("Tight", budget: DailyBudget(minimum: 1, maximum: 1))]),
    ]

    private static func kind(
        _ name: String, sharing: KindSharing = .perUser, variesBy: KindVariation = .all, budget: DailyBudget? = nil
    ) -> KindDefinition {
        KindDefinition(
            name: name, sharing: sharing, variesBy: variesBy, providerURL: "http://127.0.0.1:1/\(name)",
            dailyBudget: budget, placeholder: .object(JSONObject()), hasSnapshots: false)
    }

    private static func run(seed: UInt64, people: Int = 12, days: Int = 3) async throws -> Simulation<SyntheticSource> {
        var options = SimulationOptions(from: from, days: days)
        (options.seed, options.warmUpDays, options.keepsDecisions) = (seed, 0, true)
        options.people = people
        var population = Population(of: apps, options)
        var simulation = Simulation(apps, options: options, source: SyntheticSource())
        try await simulation.run(&population)
        return simulation
    }

    @Test("A timeline never exceeds its budget in any 24 hours", arguments: 1...6)
    func budget(seed: UInt64) async throws {
        let simulation = try await Self.run(seed: seed)
        let kinds = Dictionary(
            simulation.timelines.map { ($0.target.id, simulation.kinds[$0.kind].rules.budget) }
        ) { $1 }
        var spent: [TimelineID: [Timestamp]] = [:]
        for decision in simulation.budgetedFetches {
            spent[decision.timeline, default: []].append(decision.time)
        }
        #expect(!spent.isEmpty)
        for (timeline, times) in spent {
            let limit = try #require(kinds[timeline]).maximum
            for (index, time) in times.enumerated() {
                let within = times[index...].prefix { $0 - time < .seconds(86_400) }.count
                #expect(within <= limit, "\(within) budgeted reloads from \(time)")
            }
        }
    }

    @Test("Every request is served, merged or deferred with a reason", arguments: 1...6)
    func requests(seed: UInt64) async throws {
        let simulation = try await Self.run(seed: seed)
        for tally in simulation.report.kinds where tally.requests > 0 {
            #expect(
                tally.deferrals.enumerated().allSatisfy { rule, count in
                    count == 0 || [.spacing, .budget, .backoff].contains(ReloadRule(rawValue: Int16(rule)))
                })
        }
        #expect(simulation.now == simulation.options.end)
        for timeline in simulation.timelines where !timeline.isCollected {
            let state = timeline.record.state
            let kind = simulation.kinds[timeline.kind]
            // Pending timelines have an appointment at the end, and a reason to wait.
            guard state.pending(kind.generations) != nil else { continue }
            #expect(timeline.record.listedAt < .distantFuture && timeline.record.listedAt >= simulation.now)
            #expect(
                state.eligibleAt > simulation.now || state.freeAt > simulation.now || state.retryAt > simulation.now)
        }
    }

    @Test("Equal seeds give equal simulations, different seeds different ones")
    func determinism() async throws {
        let first = try await Self.run(seed: 7)
        let second = try await Self.run(seed: 7)
        let other = try await Self.run(seed: 8)
        #expect(first.decisions == second.decisions)
        #expect(first.report.json == second.report.json)
        #expect(first.decisions != other.decisions)
    }

    @Test("Stacks turn, and the page shows every kind and provider")
    func page() async throws {
        let simulation = try await Self.run(seed: 3, people: 20, days: 5)
        let report = simulation.report
        #expect(report.stacks > 0 && report.wanted > 0)
        let page = SimulationReport.page([("Simulation", report)])
        for kind in report.kinds {
            #expect(page.contains(kind.name) && kind.views > 0 && kind.ages.p50 != nil, "\(kind)")
        }
        #expect(page.contains("<svg") && !page.contains("<script"))
        #expect(report.providers.allSatisfy { $0.timelines > 0 && $0.requests <= $0.timelines })
        #expect(report.providers.allSatisfy { $0.timelinesByHour.count == 120 })
    }

    /// Views every half hour of one widget, which is placed at first and may be removed.
    private static func events(_ app: String, removedAfter: Duration? = nil) throws -> [TimedEvent] {
        let placement = WidgetPlacement(
            app: app, widget: "w", user: "u", device: "d", kind: "Balance", family: .systemSmall, configuration: .empty,
            environment: try WidgetEnvironment(locale: "en-GB", timeZone: "Europe/London"))
        let views = (1..<480).map { (from + .seconds(1_800 * $0), FreshetEvent.viewed(app: app, widget: "w")) }
        let end = removedAfter.map { from + $0 } ?? .distantFuture
        var events: [TimedEvent] = [(from, .placed(placement))] + views.filter { $0.0 < end }
        if removedAfter != nil { events.append((end, .removed(app: app, widget: "w"))) }
        return events
    }

    private static func report(_ apps: [AppDefinition], _ events: [TimedEvent]) async throws -> SimulationReport {
        var options = SimulationOptions(from: from, days: 10)
        options.warmUpDays = 0
        var simulation = Simulation(apps, options: options, source: SyntheticSource())
        try await simulation.run(events.sorted { $0.time < $1.time })
        return simulation.report
    }

    @Test("Apps with equal names of kinds, users and widgets at one provider's URL are kept apart")
    func tenants() async throws {
        let names = ["com.example.one", "com.example.two"]
        let apps = names.map { AppDefinition(name: $0, kinds: [Self.kind("Balance")]) }
        let both = try await Self.report(apps, try names.flatMap { try Self.events($0) })
        #expect(both.kinds.map(\.title) == ["com.example.one Balance", "com.example.two Balance"])
        #expect(both.kinds.map(\.timelines) == [1, 1])
        #expect(both.providers.map(\.app) == names)
        #expect(both.providers.allSatisfy { $0.timelines > 0 && $0.requests == $0.timelines })
    }

    @Test("Reloads a day count the days of a timeline's life, not those after its widget was removed")
    func removal() async throws {
        let apps = [AppDefinition(name: "com.example.one", kinds: [Self.kind("Balance")])]
        let whole = try await Self.report(apps, try Self.events("com.example.one")).kinds[0]
        let short = try await Self.report(
            apps, try Self.events("com.example.one", removedAfter: .seconds(5 * 86_400))
        ).kinds[0]
        #expect(short.timelines == 0 && whole.timelines == 1)
        #expect(
            short.reloadsADay > 0.8 * whole.reloadsADay && short.reloadsADay < 1.25 * whole.reloadsADay,
            "\(short.reloadsADay), \(whole.reloadsADay)")
    }

    @Test("Percentiles are at most 4 % too large")
    func histogram() {
        var histogram = AgeHistogram()
        var random = SeededGenerator(seed: 1)
        let values = (0..<10_000).map { _ in random.below(1 << random.below(24)) }.sorted()
        for value in values { histogram.add(value) }
        for share in [0.01, 0.5, 0.95, 0.99, 1] {
            let exact = values[max(0, Int((share * 10_000).rounded(.up)) - 1)]
            let found = histogram.percentile(share) ?? -1
            #expect(found >= exact && Double(found) <= Double(exact) * 1.04 + 1, "\(share): \(found), \(exact)")
        }
    }
}
