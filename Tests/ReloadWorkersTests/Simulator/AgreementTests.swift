// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

@testable import ReloadIngest
@testable import ReloadWorkers
@testable import WidgetSimulator

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// Comparison of simulator and service: the same events cause the same decisions at the same times.
@Suite(.serialized, .tags(.database))
struct AgreementTests {
    private static func number(_ name: String, _ fallback: Int) -> Int {
        getenv(name).flatMap { Int(String(cString: $0)) } ?? fallback
    }

    @Test("The simulator decides like ingest and workers on PostgreSQL", .timeLimit(.minutes(180)))
    func agreement() async throws {
        let people = Self.number("FRESHET_AGREEMENT_PEOPLE", 6)
        var options = SimulationOptions(
            from: Timestamp(microseconds: 1_782_086_400_000_000), days: Self.number("FRESHET_AGREEMENT_DAYS", 1))
        options.warmUpDays = 0
        (options.people, options.stacks, options.looks) = (people, 1, 4)
        options.keepsDecisions = true
        options.keepsEvents = true
        let decisions = try await withWorker { worker in
            let apps = Self.apps(worker.provider.url)
            try await worker.store.apply(apps)
            var members = Population(of: apps, options)
            var generated = Simulation(apps, options: options, source: Versions())
            try await generated.run(&members)
            // The events alone give the simulator the same decisions as the population that generated them.
            var repeated = Simulation(apps, options: options, source: Versions())
            try await repeated.run(generated.applied)
            let isSame = Self.sorted(repeated.decisions) == Self.sorted(generated.decisions)
            #expect(isSame)

            let changes = try Self.changes(of: members, from: options.begin)
            let events = (generated.applied + changes).sorted { $0.time < $1.time }
            var simulation = Simulation(apps, options: options, source: Versions())
            try await simulation.run(events)
            let real = try await VirtualTime.lend(worker.store, at: options.begin) { time in
                var service = VirtualService(
                    worker, time, fetcher: { VersionsOverHTTP(time: $0) }, try await worker.store.directory())
                try await service.run(events, until: options.end)
                return (decisions: service.decisions, plans: service.plans)
            }
            let shown = (
                ShownWidgets.all(of: simulation.plans, until: options.end),
                ShownWidgets.all(of: real.plans, until: options.end)
            )
            return (simulated: simulation.decisions, real: real.decisions, shown: shown)
        }
        let (simulatedTops, realTops) = decisions.shown
        #expect(simulatedTops.count > people && Set(simulatedTops.map(\.reason)).count > 2, "\(simulatedTops.count)")
        #expect(simulatedTops.contains { $0.widget.hasPrefix("freshet-suggestion-") })
        if let place = zip(simulatedTops, realTops).enumerated().first(where: { $0.element.0 != $0.element.1 })?.offset
        {
            Issue.record("\(simulatedTops[place]) in the simulator, \(realTops[place]) in the service")
        }
        #expect(simulatedTops.count == realTops.count)
        let (simulated, real) = (Self.sorted(decisions.simulated), Self.sorted(decisions.real))
        let kinds = Set(simulated.map(\.rule))
        #expect(simulated.count > 50 * people)
        #expect(
            kinds.isSuperset(of: [.first, .free, .paced, .token, .spacing, .budget, .coalescing, .gate, .providerError])
        )
        if let place = zip(simulated, real).enumerated().first(where: { $0.element.0 != $0.element.1 })?.offset {
            Issue.record("\(simulated[place]) in the simulator, \(real[place]) in the service")
        }
        #expect(simulated.count == real.count)
    }

    private static func sorted(_ decisions: [SimulatedDecision]) -> [SimulatedDecision] {
        decisions.sorted {
            ($0.time, $0.timeline, $0.decision.rawValue, $0.rule.rawValue)
                < ($1.time, $1.timeline, $1.decision.rawValue, $1.rule.rawValue)
        }
    }

    /// Changes of each person's widgets during the first day: a new configuration, another owner, a removal, another
    /// time zone, the same widget again, and a shortcut that is suggested.
    private static func changes(of population: Population, from begin: Timestamp) throws -> [TimedEvent] {
        let environment = try WidgetEnvironment(locale: "fr-FR", timeZone: "Europe/Paris")
        let users = population.members.map(\.user)
        var changes: [TimedEvent] = []
        for (number, member) in population.members.enumerated() where member.placements.count > 2 {
            func add(_ hours: Int, _ event: FreshetEvent) {
                changes.append((begin + .seconds(hours * 3_600 + 60 * number + 7), event))
            }
            let (first, second, third) = (member.placements[0], member.placements[1], member.placements[2])
            add(
                6,
                .configured(
                    app: first.app, widget: first.widget, configuration: try WidgetConfiguration(["place": "elsewhere"])
                ))
            var moved = second
            moved.user = users[(number + 1) % users.count]
            add(9, .placed(moved))
            add(11, .removed(app: third.app, widget: third.widget))
            add(
                13,
                .environmentChanged(
                    app: first.app, device: member.device, environment: environment, significantTimeChange: true))
            add(16, .placed(third))
            guard let stacked = member.stacked.first, stacked < member.placements.count else { continue }
            // Suggestions of a widget's kind with another configuration, at a time of the day.
            let kind = member.placements[stacked]
            let content = WidgetContent(
                app: kind.app, kind: kind.kind, configuration: try WidgetConfiguration(["place": "suggested"]))
            let range = (begin + .seconds(14 * 3_600))..<(begin + .seconds(15 * 3_600))
            add(
                10,
                .shortcutsReplaced(
                    app: kind.app, user: member.user, device: member.device,
                    [RelevantShortcut(content: content, ranges: [range])]))
        }
        return changes.sorted { $0.time < $1.time }
    }

    /// Budgets that run out, sleep after a day, and shared timelines.
    private static func apps(_ provider: String) -> [AppDefinition] {
        var apps = TestKinds.apps(provider: provider)
        for app in apps.indices {
            for kind in apps[app].kinds.indices {
                apps[app].kinds[kind].hasSnapshots = false
                switch kind {
                case 0: apps[app].kinds[kind].dailyBudget = DailyBudget(minimum: 2, maximum: 6)
                case 1: apps[app].kinds[kind].dormantAfter = .seconds(6 * 3_600)
                default: apps[app].kinds[kind].minimumSpacing = .seconds(1_800)
                }
            }
        }
        return apps
    }
}

/// Content that changes every forty minutes, with both policies, and failures of some timelines in some hours.
private struct Versions: TimelineSource {
    static let period: Int64 = 2_400_000_000

    struct Answer {
        let date: Timestamp
        let last: Timestamp
        let policy: ReloadPolicy
        /// Nil for timelines without relevance.
        let score: Int?

        /// As in an answer.
        var entries: JSONValue {
            .array(
                [date, last].enumerated().map { number, date in
                    let text = JSONValue.string(date.rfc3339)
                    var entry: JSONObject = ["date": text, "content": ["text": text]]
                    if let score { entry["relevance"] = ["score": .count((score + 3 * number) % 7)] }
                    return .object(entry)
                })
        }
    }

    /// Longer than any back-off, whose jitter the simulator cannot know.
    static let retryAfter = 1_000

    static func fails(_ id: TimelineID, at now: Timestamp) -> Bool {
        (id.high / 7 + UInt64(now.microseconds / 3_600_000_000)) % 11 == 0
    }

    static func answer(_ id: TimelineID, at now: Timestamp) -> Answer {
        let phase = Int64(id.high % 2_400) * 1_000_000
        let date = Timestamp(microseconds: (now.microseconds + phase) / period * period - phase)
        let last = date + .seconds(3_600)
        let score = id.high % 3 == 0 ? nil : Int((UInt64(date.microseconds / 1_000_000) / 60 ^ id.low) % 7)
        switch id.low % 3 {
        case 0: return Answer(date: date, last: last, policy: .atEnd, score: score)
        case 1:
            // The minute at which the provider changes.
            let after = Timestamp(microseconds: (now.microseconds / 60_000_000 + 45) * 60_000_000)
            return Answer(date: date, last: last, policy: .after(after), score: score)
        default: return Answer(date: date, last: last, policy: .never, score: score)
        }
    }

    mutating func fetch(
        _ targets: ArraySlice<SimulatedTarget>, at now: Timestamp, into outcomes: inout [SimulatedFetch]
    ) throws {
        for target in targets {
            guard !Self.fails(target.id, at: now) else {
                outcomes.append(.failure(.providerError, retryAfter: .seconds(Self.retryAfter)))
                continue
            }
            let answer = Self.answer(target.id, at: now)
            outcomes.append(
                .answer(
                    SimulatedAnswer(
                        policy: answer.policy, lastEntry: answer.last,
                        hash: ContentHash(high: target.id.low, low: UInt64(answer.date.microseconds)),
                        relevance: answer.score == nil
                            ? nil : try RelevanceCurve(timeline: JSONValue.object(["entries": answer.entries]).encoded))
                ))
        }
    }
}

/// The same content in a provider's answer.
private struct VersionsOverHTTP: ProviderFetching {
    let time: @Sendable () -> Timestamp

    func fetch(_ call: ProviderCall) async throws -> [UInt8] {
        let now = time()
        let requests = try JSONValue.parse(call.body)["requests"]?.arrayValue ?? []
        let timelines = requests.compactMap { request -> JSONValue? in
            guard let text = request["id"]?.stringValue, let id = TimelineID(text) else { return nil }
            guard !Versions.fails(id, at: now) else {
                return [
                    "id": .string(text),
                    "error": ["code": "busy", "message": "later", "retryAfter": .count(Versions.retryAfter)],
                ]
            }
            let answer = Versions.answer(id, at: now)
            return [
                "id": .string(text), "policy": answer.policy.json, "entries": answer.entries,
            ]
        }
        return JSONValue.object(["timelines": .array(timelines)]).encoded
    }
}
