import PostgresClient
import Synchronization
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
        options.keepsDecisions = true
        options.keepsEvents = true
        let decisions = try await withWorker { worker in
            let apps = Self.apps(worker.provider.url)
            try await worker.store.apply(apps)
            var population = Population.Options(people: people)
            (population.stacks, population.looks) = (0, 4)
            var members = Population(
                population, of: apps, begin: options.begin, days: options.days, seed: options.seed)
            var generated = Simulation(apps, options: options, source: Versions())
            try await generated.run(&members)
            // The events alone give the simulator the same decisions as the population that generated them.
            var repeated = Simulation(apps, options: options, source: Versions())
            try await repeated.run(generated.counts.applied)
            let isSame = Self.sorted(repeated.counts.decisions) == Self.sorted(generated.counts.decisions)
            #expect(isSame)

            let changes = try Self.changes(of: members, from: options.begin)
            let events = (generated.counts.applied + changes).sorted { $0.time < $1.time }
            var simulation = Simulation(apps, options: options, source: Versions())
            try await simulation.run(events)
            let real = try await VirtualTime.lend(worker.store, at: options.begin) { time in
                try await Self.run(events, until: options.end, worker, time)
            }
            return (simulated: simulation.counts.decisions, real: real)
        }
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

    /// Changes of each person's widgets during the first day: a new configuration, another owner, a removal, another time
    /// zone, and the same widget again.
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

    // MARK: The service

    private static func run(
        _ events: [TimedEvent], until end: Timestamp, _ first: TestWorker, _ time: VirtualTime
    ) async throws -> [SimulatedDecision] {
        let record = DecisionRecord()
        let worker = first.another(
            fetcher: VersionsOverHTTP(time: { record.now }), pool: time.pool, clock: WorkerClock(StandingClock()),
            decisions: record
        ) { $0.directoryAge = .seconds(86_400) }
        let directory = try await first.store.directory()
        var applier = BatchApplier(pool: time.pool, audienceLimit: 1_000)
        applier.recordsDecisions = true
        for (number, event) in events.enumerated() {
            try await work(worker, before: event.time, time, record)
            try await advance(to: event.time, time, record)
            var fold = BatchFold(directory: directory)
            fold.add(
                BatchEvent(
                    record: 0, position: EventPosition(topic: 2, partition: 0, offset: Int64(number)),
                    time: event.time, event: event.event))
            let outcome = try await applier.apply(fold, advancing: []) { _ in
                DeadLetter(
                    topic: "test", partition: 0, offset: 0, app: nil, code: "", error: "", key: nil, headers: [],
                    payload: nil)
            }
            #expect(outcome.rejected.isEmpty)
            record.record(MarkDecisions.records(of: outcome.marks, directory: directory))
            if outcome.sweeps > 0 { try await worker.sweep() }
            if outcome.lists > 0 || outcome.sweeps > 0 { try await worker.drain() }
        }
        try await work(worker, before: end, time, record)
        return record.decisions
    }

    private static func work(
        _ worker: TestWorker, before end: Timestamp, _ time: VirtualTime, _ record: DecisionRecord
    ) async throws {
        while let next = try await time.nextList(before: end) {
            try await advance(to: max(next, time.now), time, record)
            try await worker.drain()
        }
    }

    private static func advance(
        to now: Timestamp, _ time: VirtualTime, _ record: DecisionRecord
    ) async throws {
        guard now != record.now else { return }
        record.advance(to: now)
        try await time.advance(to: now)
    }
}

/// Records decisions with their virtual times.
private final class DecisionRecord: DecisionPublishing {
    private let state = Mutex((now: Timestamp.distantPast, decisions: [SimulatedDecision]()))

    var now: Timestamp { state.withLock { $0.now } }
    var decisions: [SimulatedDecision] { state.withLock { $0.decisions } }

    func advance(to now: Timestamp) { state.withLock { $0.now = now } }

    func record(_ decisions: [TimelineDecidedEvent]) {
        state.withLock { state in
            for decision in decisions {
                guard let timeline = decision.timeline else { continue }
                state.decisions.append(
                    SimulatedDecision(
                        time: state.now, timeline: timeline, decision: decision.decision, rule: decision.rule,
                        reason: decision.reason ?? .policy))
            }
        }
    }
}

/// Content that changes every forty minutes, with both policies, and failures of some timelines in some hours.
private struct Versions: TimelineSource {
    static let period: Int64 = 2_400_000_000

    struct Answer {
        let date: Timestamp
        let last: Timestamp
        let policy: ReloadPolicy
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
        switch id.low % 3 {
        case 0: return Answer(date: date, last: last, policy: .atEnd)
        case 1:
            // The minute at which the provider changes.
            let after = Timestamp(microseconds: (now.microseconds / 60_000_000 + 45) * 60_000_000)
            return Answer(date: date, last: last, policy: .after(after))
        default: return Answer(date: date, last: last, policy: .never)
        }
    }

    mutating func fetch(
        _ targets: ArraySlice<SimulatedTarget>, at now: Timestamp, into outcomes: inout [SimulatedFetch]
    ) {
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
                        hash: ContentHash(high: target.id.low, low: UInt64(answer.date.microseconds)))))
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
                "id": .string(text), "policy": answer.policy.json,
                "entries": .array(
                    [answer.date, answer.last].map { ["date": .string($0.rfc3339), "content": ["text": "fresh"]] }),
            ]
        }
        return JSONValue.object(["timelines": .array(timelines)]).encoded
    }
}
