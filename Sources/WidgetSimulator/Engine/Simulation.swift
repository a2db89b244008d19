import JSON
import Randomness
package import WidgetEvents
package import WidgetModel

/// Freshet in virtual time: events, appointments, decisions and fetches by the product's rules, without a database.
///
/// At one time events come before the timelines that are due, these before the stacks, and a fetch takes no time.
package struct Simulation<Source: TimelineSource> {
    let options: SimulationOptions
    let apps: [AppDefinition]
    var kinds: [SimulatedKind] = []
    /// Indices of the kinds of each app, by name.
    var kindsByApp: [String: [String: Int]] = [:]
    let providers: [SimulatedProvider]
    private var source: Source
    var random: SeededGenerator

    var timelines: [SimulatedTimeline] = []
    var timelineByID: [TimelineID: Int32] = [:]
    var widgets: [SimulatedWidget] = []
    var widgetByName: [ScopedName: Int32] = [:]
    var users: [ScopedName: Int32] = [:]
    var widgetsOfUser: [[Int32]] = []
    var devices: [ScopedName: Int32] = [:]
    var widgetsOfDevice: [[Int32]] = []
    var people = SimulatedPeople()
    private var heap = AppointmentHeap()
    private var sweeps: [Int] = []

    private(set) var now: Timestamp
    private(set) var isMeasuring = false
    package internal(set) var counts: SimulationCounts

    // Reused by every instant.
    private var due: [Int32] = []
    private var fetches: [DecidedFetch] = []
    private var targets: [SimulatedTarget] = []
    private var outcomes: [SimulatedFetch] = []

    package init(_ apps: [AppDefinition], options: SimulationOptions, source: Source) {
        self.apps = apps
        self.options = options
        self.source = source
        now = options.begin
        random = SeededGenerator(seed: options.seed)
        var providers: [SimulatedProvider] = []
        for app in apps {
            for definition in app.kinds {
                let own = SimulatedProvider(app: app.name, url: definition.providerURL)
                let provider = providers.firstIndex(of: own) ?? providers.count
                if provider == providers.count { providers.append(own) }
                kindsByApp[app.name, default: [:]][definition.name] = kinds.count
                kinds.append(
                    SimulatedKind(
                        app: app.name, definition: definition,
                        rules: ReloadRules(definition, developerMode: app.developerMode), provider: provider))
            }
        }
        self.providers = providers
        counts = SimulationCounts(
            kinds: kinds.count, providers: providers.count,
            minutes: Int(((options.end - options.from).wholeMicroseconds + 59_999_999) / 60_000_000))
    }

    /// Moves the clock on to a time that is not before.
    mutating func advance(to time: Timestamp) {
        now = max(now, time)
        isMeasuring = now >= options.from
    }

    /// Works on what is due before a time.
    mutating func work(before end: Timestamp) async throws {
        while let next = nextTime, next < end {
            advance(to: next)
            try await workNow()
        }
    }

    private var nextTime: Timestamp? {
        let stacks = people.nextPlan
        guard let first = heap.nextTime else { return stacks }
        return stacks.map { min($0, first) } ?? first
    }

    // MARK: The present instant

    /// Applies an event and works on what is due at its time.
    package mutating func apply(_ event: FreshetEvent, at time: Timestamp) async throws {
        try await work(before: time)
        advance(to: time)
        if options.keepsEvents { counts.applied.append((time, event)) }
        applyEvent(event)
        try await workNow()
    }

    /// Works on what is due now, until nothing is.
    mutating func workNow() async throws {
        while true {
            takeDue()
            for timeline in due { look(at: timeline, via: .appointment) }
            if due.isEmpty { sweep() }
            if !due.isEmpty || !fetches.isEmpty {
                try await fetch()
            } else if !planStacks() {
                return
            }
        }
    }

    private mutating func takeDue() {
        due.removeAll(keepingCapacity: true)
        while let entry = heap.take(through: now) {
            let timeline = Int(entry.owner)
            // Superseded.
            guard timelines[timeline].record.listedAt == entry.time, !timelines[timeline].isCollected else { continue }
            if due.last != entry.owner { due.append(entry.owner) }
        }
    }

    mutating func appoint(_ timeline: Int32) { heap.push(timelines[Int(timeline)].record.listedAt, timeline) }

    mutating func requireSweep(of kind: Int) {
        if !sweeps.contains(kind) { sweeps.append(kind) }
    }

    /// Looks at the timelines of reloads of everyone.
    private mutating func sweep() {
        for kind in sweeps {
            let generation = kinds[kind].generations.current
            for timeline in kinds[kind].timelines
            where timelines[Int(timeline)].record.state.generation < generation && !timelines[Int(timeline)].isCollected
            {
                look(at: timeline, via: .sweep(generation: generation))
            }
        }
        sweeps.removeAll(keepingCapacity: true)
    }

    // MARK: Looks

    private mutating func look(at timeline: Int32, via: LookVia) {
        let index = Int(timeline)
        let kind = timelines[index].kind
        let generations = kinds[kind].generations
        let facts = timelines[index].record.facts(at: now)
        let state = timelines[index].record.state
        let outcome = kinds[kind].rules.decide(state, generations, facts: facts, via: via, at: now)
        switch outcome {
        case .collect: collect(timeline)
        case .nothing: settle(timeline, .nothing, isMine: via == .appointment)
        case .wait(let until, let rule):
            record(timeline, .deferred, rule, reason(of: timeline))
            if isMeasuring { counts.kinds[kind].deferrals[Int(rule.rawValue)] += 1 }
            settle(timeline, .wait(until: until), isMine: via == .appointment)
        case .sleep:
            record(timeline, .slept, .dormant, reason(of: timeline))
            settle(timeline, .sleep, isMine: via == .appointment)
        case .fetch(let rule, let ledger):
            let isBudgeted = rule == .paced || rule == .token
            fetches.append(
                DecidedFetch(
                    timeline: timeline, provider: Int32(kinds[kind].provider),
                    rule: rule, ledger: ledger, views: facts.views, reason: reason(of: timeline),
                    isMine: via == .appointment,
                    budget: isBudgeted ? Int32(kinds[kind].rules.reloadsADay(facts, at: now)) : 0))
        }
    }

    /// Reason of the pending reload.
    private func reason(of timeline: Int32) -> ReloadReason {
        let index = Int(timeline)
        let state = timelines[index].record.state
        if state.requested > state.rendered { return timelines[index].record.reason }
        let kind = timelines[index].kind
        return kinds[kind].generations.isAhead(of: state.generation) ? kinds[kind].reason : .policy
    }

    private mutating func settle(_ timeline: Int32, _ settlement: ReloadRecord.Settlement, isMine: Bool) {
        let index = Int(timeline)
        let isAnew = timelines[index].record.settle(
            settlement, isMine: isMine, kinds[timelines[index].kind].generations, at: now)
        if isAnew { appoint(timeline) }
    }

    private mutating func collect(_ timeline: Int32) {
        let index = Int(timeline)
        timelines[index].collectedAt = now
        timelineByID[timelines[index].target.id] = nil
    }

    mutating func record(_ timeline: Int32, _ decision: Decision, _ rule: ReloadRule, _ reason: ReloadReason) {
        let target = timelines[Int(timeline)].target
        if isMeasuring { counts.kinds[target.kind].counters.count(decision) }
        guard options.keepsDecisions else { return }
        counts.decisions.append(
            SimulatedDecision(time: now, timeline: target.id, decision: decision, rule: rule, reason: reason))
    }

    // MARK: Fetches

    /// Asks the providers for the decided timelines, in requests of the size that their kinds allow.
    private mutating func fetch() async throws {
        guard !fetches.isEmpty else { return }
        if fetches.count > 1, providers.count > 1 {
            fetches.sort { ($0.provider, $0.timeline) < ($1.provider, $1.timeline) }
        }
        var first = 0
        while first < fetches.count {
            let provider = fetches[first].provider
            var limit = Int.max
            var end = first
            while end < fetches.count, fetches[end].provider == provider {
                limit = min(limit, kinds[timelines[Int(fetches[end].timeline)].kind].definition.maxBatch)
                guard end - first < limit else { break }
                end += 1
            }
            try await fetch(first..<end, of: Int(provider))
            first = end
        }
        fetches.removeAll(keepingCapacity: true)
    }

    private mutating func fetch(_ range: Range<Int>, of provider: Int) async throws {
        targets.removeAll(keepingCapacity: true)
        outcomes.removeAll(keepingCapacity: true)
        for index in range { targets.append(timelines[Int(fetches[index].timeline)].target) }
        try await source.fetch(targets[...], at: now, into: &outcomes)
        if isMeasuring {
            let minute = Int((now - options.from).wholeMicroseconds / 60_000_000)
            counts.providers[provider].count(range.count, minute: minute)
        }
        for (index, outcome) in zip(range, outcomes) {
            switch outcome {
            case .answer(let answer): store(answer, fetches[index])
            case .failure(let rule, let retryAfter): fail(fetches[index], rule, retryAfter)
            }
        }
    }

    private mutating func fail(_ fetch: DecidedFetch, _ rule: ReloadRule, _ retryAfter: Duration?) {
        let index = Int(fetch.timeline)
        let kind = timelines[index].kind
        let delay = Backoff.ofProviders.delay(attempt: timelines[index].record.attempts + 1, using: &random)
        let retryAt = kinds[kind].rules.schedule.gridded(now + max(delay, retryAfter ?? .zero), from: now)
        record(fetch.timeline, .failed, rule, fetch.reason)
        if isMeasuring { counts.kinds[kind].failures[Int(rule.rawValue)] += 1 }
        settle(fetch.timeline, .fail(retryAt: retryAt), isMine: fetch.isMine)
    }

    private mutating func store(_ answer: SimulatedAnswer, _ fetch: DecidedFetch) {
        let index = Int(fetch.timeline)
        let kind = timelines[index].kind
        let rules = kinds[kind].rules
        let isChanged = timelines[index].hash != answer.hash
        let next = rules.next(
            policy: answer.policy, lastEntry: answer.lastEntry, renderedAt: now, timeline: timelines[index].target.id,
            ledger: fetch.ledger, views: fetch.views)
        let isAppointed = timelines[index].record.store(
            requested: timelines[index].record.state.requested, generation: kinds[kind].generations.current, next: next,
            ledger: fetch.ledger, kinds[kind].generations, at: now)
        if isAppointed { appoint(fetch.timeline) }
        self.record(
            fetch.timeline, isChanged ? .reloaded : .unchanged, isChanged ? fetch.rule : .gate, fetch.reason)
        if options.keepsDecisions, fetch.budget > 0 {
            counts.budgetedFetches.append(
                SimulatedDecision(
                    time: now, timeline: timelines[index].target.id, decision: .reloaded, rule: fetch.rule,
                    reason: fetch.reason))
        }
        if isMeasuring { countFetch(fetch, answer.lints) }
        timelines[index].pendingSince = nil
        timelines[index].policyDue = answer.policy.earliestReload(lastEntry: answer.lastEntry) ?? .distantFuture
        guard isChanged else { return }
        let isFirst = timelines[index].hash == nil
        timelines[index].hash = answer.hash
        timelines[index].publishedAt = now
        noteContent(answer.relevance, of: fetch.timeline, isFirst: isFirst)
    }

    private mutating func countFetch(_ fetch: DecidedFetch, _ lints: TimelineLints) {
        let index = Int(fetch.timeline)
        let kind = timelines[index].kind
        counts.kinds[kind].fetches[Int(fetch.rule.rawValue)] += 1
        counts.kinds[kind].counters.count(lints)
        if let since = timelines[index].pendingSince {
            counts.kinds[kind].waits.add(Int((now - since).wholeMicroseconds / 1_000_000))
        }
        guard fetch.budget > 0 else { return }
        counts.kinds[kind].countBudget(Int(fetch.budget))
        let day = Int32((now - options.from).wholeMicroseconds / 86_400_000_000)
        if timelines[index].day == day {
            counts.moveDay(of: kind, from: Int(timelines[index].budgeted))
            timelines[index].budgeted += 1
        } else {
            timelines[index].day = day
            timelines[index].budgeted = 1
            counts.moveDay(of: kind, from: 0)
        }
    }
}

/// Counts of a simulation.
package struct SimulationCounts: Sendable {
    package internal(set) var kinds: [KindTally]
    package internal(set) var providers: [ProviderTally]
    package internal(set) var stacks = StackTally()
    /// Events that were applied, that had no effect, and that name an app or kind that the manifest does not have.
    package internal(set) var events = 0
    package internal(set) var ignored = 0
    package internal(set) var unknown = 0
    /// Empty unless the options keep decisions.
    package internal(set) var decisions: [SimulatedDecision] = []
    /// Fetches that took a token of the budget; empty unless the options keep decisions.
    package internal(set) var budgetedFetches: [SimulatedDecision] = []
    /// Plans of stacks, an empty one for a stack that is gone; empty unless the options keep decisions.
    package internal(set) var plans: [StackPlan] = []
    /// Empty unless the options keep events.
    package internal(set) var applied: [TimedEvent] = []

    init(kinds: Int, providers: Int, minutes: Int) {
        self.kinds = [KindTally](repeating: KindTally(), count: kinds)
        self.providers = [ProviderTally](repeating: ProviderTally(minutes: minutes), count: providers)
    }

    /// Counts a further budgeted reload of a timeline on a day with `number` of them.
    mutating func moveDay(of kind: Int, from number: Int) {
        let last = kinds[kind].budgetedDays.count - 1
        if number > 0 { kinds[kind].budgetedDays[min(number, last)] -= 1 }
        kinds[kind].budgetedDays[min(number + 1, last)] += 1
    }
}

/// Span and inputs of a simulation.
package struct SimulationOptions: Sendable {
    /// Begin of what is counted.
    package let from: Timestamp
    package let end: Timestamp
    /// Days before `from` that are simulated and not counted, in which widgets leave their learning period.
    package var warmUpDays = 3
    package var seed: UInt64 = 1
    /// Whether every decision is kept.
    package var keepsDecisions = false
    /// Whether the events that people made are kept.
    package var keepsEvents = false
    /// Limits of rotations and suggestions.
    package var rotation = RotationPolicy()
    /// Times of real publications, in ascending order, to compare with.
    package var publications: [TimelineID: [Timestamp]] = [:]
    /// Times of real fetches, likewise.
    package var realFetches: [TimelineID: [Timestamp]] = [:]

    package init(from: Timestamp, days: Int) {
        self.init(from: from, end: from + .seconds(days * 86_400))
    }

    package init(from: Timestamp, end: Timestamp) {
        self.from = from
        self.end = end
    }

    /// Begin of the warm-up.
    package var begin: Timestamp { from - .seconds(warmUpDays * 86_400) }
    /// Days, the last one not always whole.
    package var days: Int { max(1, Int((end - from).wholeMicroseconds + 86_399_999_999) / 86_400_000_000) }
}

extension Simulation {
    /// Indices of a member's widgets and stack.
    private struct Places {
        var widgets: [Int32] = []
        var kinds: [Int] = []
        var stack: Int32?
        var app = ""
    }

    /// Runs a population until the end, together with other events.
    ///
    /// - Parameter others: in the order of their times.
    package mutating func run(
        _ population: inout Population, others: [TimedEvent] = []
    ) async throws {
        let arrivals = population.arrivals
        var next = 0
        try await apply(others, &next, before: options.begin)
        for (time, event) in arrivals {
            try await apply(others, &next, before: time)
            try await apply(event, at: time)
        }
        let places = population.members.map(self.places)
        var services = ServiceReloads(kinds: kinds.count, seed: options.seed)
        var heap = AppointmentHeap()
        for member in places.indices where !places[member].widgets.isEmpty {
            heap.push(population.nextTime(of: member), Int32(member))
        }
        var actions = 0
        while let entry = heap.take(through: options.end - .microseconds(1)) {
            actions += 1
            if actions.isMultiple(of: 256) {
                try Task.checkCancellation()
                await Task.yield()
            }
            try await apply(others, &next, before: entry.time)
            try await reloadEveryone(&services, before: entry.time)
            try await work(before: entry.time)
            advance(to: entry.time)
            let member = Int(entry.owner)
            try await act(population.take(of: member), population.members[member], places[member])
            try await workNow()
            heap.push(population.nextTime(of: member), entry.owner)
        }
        try await apply(others, &next, before: options.end)
        try await finish()
    }

    /// Applies events until the end.
    package mutating func run(_ events: [TimedEvent]) async throws {
        var next = 0
        try await apply(events, &next, before: options.end)
        try await finish()
    }

    private mutating func finish() async throws {
        try await work(before: options.end)
        // Timelines live, and plans hold, until the end.
        advance(to: options.end)
        finishStacks()
    }

    private mutating func apply(
        _ events: [TimedEvent], _ next: inout Int, before end: Timestamp
    ) async throws {
        while next < events.count, events[next].time < end {
            try await apply(events[next].event, at: events[next].time)
            next += 1
        }
    }

    private func places(of member: Population.Member) -> Places {
        var places = Places()
        for placement in member.placements {
            places.widgets.append(widgetByName[ScopedName(app: placement.app, name: placement.widget)] ?? -1)
            places.kinds.append(kindsByApp[placement.app]?[placement.kind] ?? -1)
        }
        guard let first = member.stacked.first else { return places }
        places.app = member.placements[first].app
        places.stack = people.stack(
            app: places.app, user: member.user, device: member.device, name: Population.stack)
        return places
    }

    // MARK: Actions

    private mutating func act(
        _ action: Population.Action, _ member: Population.Member, _ places: Places
    ) async throws {
        let place = Int(action.place)
        switch action.deed {
        case .look: lookAtHomeScreen(member, places)
        case .push: request(.push, member, place, places)
        case .background: request(.background, member, place, places)
        case .want: try await want(place, member, places)
        }
    }

    private mutating func lookAtHomeScreen(_ member: Population.Member, _ places: Places) {
        let top = places.stack.flatMap { self.top(of: $0) } ?? member.stacked.first.map { member.placements[$0].widget }
        for place in places.widgets.indices
        where !member.stacked.contains(place) || member.placements[place].widget == top {
            see(place, member, places)
        }
    }

    private mutating func see(_ place: Int, _ member: Population.Member, _ places: Places) {
        guard places.widgets[place] >= 0 else { return }
        let placement = member.placements[place]
        note(FreshetEvent(app: placement.app, .view(widget: placement.widget)))
        view(places.widgets[place])
    }

    /// Looks at the home screen for a widget, turns the stack to it if another one is on top, and uses the app at
    /// times.
    private mutating func want(_ place: Int, _ member: Population.Member, _ places: Places) async throws {
        lookAtHomeScreen(member, places)
        try await workNow()
        let placement = member.placements[place]
        if let stack = places.stack, member.stacked.contains(place) {
            let isFound = top(of: stack).map { Text.equal($0, placement.widget) } ?? (place == member.stacked[0])
            if isMeasuring {
                counts.stacks.wanted += 1
                counts.stacks.found += isFound ? 1 : 0
            }
            if !isFound {
                apply(
                    FreshetEvent(
                        app: places.app, user: member.user,
                        .person(.turned(device: member.device, stack: Population.stack, widget: placement.widget))))
                try await workNow()
                see(place, member, places)
                try await workNow()
            }
        }
        // Half of the views of content go on in the app, and some of those change it.
        let draw = random.below(10)
        guard draw < 5 else { return }
        if places.stack != nil {
            let interaction = DonatedInteraction(
                kind: placement.kind, configuration: placement.configuration, device: member.device,
                timeZone: member.environment.timeZone)
            apply(FreshetEvent(app: placement.app, user: member.user, .interaction(interaction)))
            try await workNow()
        }
        if draw < 2 { request(.foreground, member, place, places) }
    }

    /// Requests a reload of all of the person's widgets with the kind of the one at `place`.
    private mutating func request(
        _ reason: ReloadReason, _ member: Population.Member, _ place: Int, _ places: Places
    ) {
        note(member.reload(reason, place))
        if isMeasuring { counts.events += 1 }
        let kind = places.kinds[place]
        var last: Int32 = -1
        while true {
            // The next timeline in order, of few.
            var next = Int32.max
            for (widget, other) in zip(places.widgets, places.kinds) where other == kind && widget >= 0 {
                let timeline = widgets[Int(widget)].timeline
                if timeline > last, timeline < next { next = timeline }
            }
            guard next < .max else { return }
            self.request(reason, next)
            last = next
        }
    }

    private mutating func apply(_ event: FreshetEvent) {
        note(event)
        applyEvent(event)
    }

    private mutating func note(_ event: @autoclosure () -> FreshetEvent) {
        if options.keepsEvents { counts.applied.append((now, event())) }
    }

    // MARK: Services

    private mutating func reloadEveryone(_ services: inout ServiceReloads, before end: Timestamp) async throws {
        while services.next(from: options.begin) < end {
            let time = services.next(from: options.begin)
            let kind = services.take()
            let isShared = kinds[kind].definition.sharing == .shared
            // Of kinds with content for one person each, everyone is reloaded seldom.
            guard isShared || services.random.chance(0.02) else { continue }
            try await work(before: time)
            advance(to: time)
            apply(
                FreshetEvent(
                    ReloadRequest(
                        app: kinds[kind].app, audience: .everyone, kinds: .kinds([kinds[kind].definition.name]),
                        reason: .push)))
            try await workNow()
        }
    }
}

extension Population.Member {
    /// Event that reloads all of the person's widgets with the kind of the one at `place`.
    fileprivate func reload(_ reason: ReloadReason, _ place: Int) -> FreshetEvent {
        let placement = placements[place]
        return FreshetEvent(
            ReloadRequest(app: placement.app, audience: .user(user), kinds: .kinds([placement.kind]), reason: reason))
    }
}

/// Times at which services reload everyone: of each kind about every six hours.
private struct ServiceReloads {
    private let kinds: Int
    private var number = 0
    private var jitter: Int
    fileprivate var random: SeededGenerator

    init(kinds: Int, seed: UInt64) {
        self.kinds = max(1, kinds)
        random = SeededGenerator(seed: seed, stream: -2)
        jitter = random.below(3_600_000_000)
    }

    func next(from begin: Timestamp) -> Timestamp {
        let step = Int64(21_600_000_000 / kinds)
        return Timestamp(microseconds: begin.microseconds + Int64(number + 1) * step + Int64(jitter % Int(step)))
    }

    /// The kind whose turn it is.
    mutating func take() -> Int {
        defer {
            number += 1
            jitter = random.below(3_600_000_000)
        }
        return number % kinds
    }
}
