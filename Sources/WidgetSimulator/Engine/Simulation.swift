// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import Waiting
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
    package internal(set) var report: SimulationReport
    /// Empty unless the options keep decisions.
    package private(set) var decisions: [SimulatedDecision] = []
    /// Fetches that took a token of the budget; empty unless the options keep decisions.
    package private(set) var budgetedFetches: [SimulatedDecision] = []
    /// Plans of stacks, an empty one for a stack that is gone; empty unless the options keep decisions.
    package internal(set) var plans: [StackPlan] = []
    /// Events that were applied; empty unless the options keep events.
    package internal(set) var applied: [TimedEvent] = []

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
        report = SimulationReport(options: options)
        let minutes = Int(((options.end - options.from).wholeMicroseconds + 59_999_999) / 60_000_000)
        for app in apps {
            for definition in app.kinds {
                let url = definition.providerURL
                let provider =
                    report.providers.firstIndex { $0.app == app.name && $0.url == url } ?? report.providers.count
                if provider == report.providers.count {
                    report.providers.append(ProviderTally(app: app.name, url: url, minutes: minutes))
                }
                kindsByApp[app.name, default: [:]][definition.name] = kinds.count
                kinds.append(
                    SimulatedKind(
                        app: app.name, definition: definition,
                        rules: ReloadRules(definition, developerMode: app.developerMode), provider: provider))
                report.kinds.append(KindTally(app: app.name, name: definition.name))
            }
        }
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
        if options.keepsEvents { applied.append((time, event)) }
        applyEvent(event)
        try await workNow()
    }

    /// Works on what is due now, until nothing is.
    mutating func workNow() async throws {
        while true {
            takeDue()
            for timeline in due { look(at: timeline, sweep: nil) }
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
                look(at: timeline, sweep: generation)
            }
        }
        sweeps.removeAll(keepingCapacity: true)
    }

    // MARK: Looks

    private mutating func look(at timeline: Int32, sweep: Int64?) {
        let index = Int(timeline)
        let kind = timelines[index].kind
        let generations = kinds[kind].generations
        let facts = timelines[index].record.facts(at: now)
        let state = timelines[index].record.state
        let outcome = kinds[kind].rules.decide(state, generations, facts: facts, sweep: sweep, at: now)
        switch outcome {
        case .collect: collect(timeline)
        case .nothing: reschedule(timeline, outcome, isMine: sweep == nil)
        case .wait(_, let rule):
            record(timeline, .deferred, rule, reason(of: timeline))
            if isMeasuring { report.kinds[kind].deferrals[Int(rule.rawValue)] += 1 }
            reschedule(timeline, outcome, isMine: sweep == nil)
        case .sleep:
            record(timeline, .slept, .dormant, reason(of: timeline))
            reschedule(timeline, outcome, isMine: sweep == nil)
        case .fetch(let rule, let ledger):
            let isBudgeted = rule == .paced || rule == .token
            fetches.append(
                DecidedFetch(
                    timeline: timeline, provider: Int32(kinds[kind].provider),
                    rule: rule, ledger: ledger, views: facts.views, reason: reason(of: timeline),
                    isMine: sweep == nil,
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

    private mutating func reschedule(_ timeline: Int32, _ outcome: LookOutcome, isMine: Bool) {
        let index = Int(timeline)
        let isAnew = timelines[index].record.reschedule(
            outcome, isMine: isMine, kinds[timelines[index].kind].generations, at: now)
        if isAnew { appoint(timeline) }
    }

    private mutating func collect(_ timeline: Int32) {
        let index = Int(timeline)
        timelines[index].collectedAt = now
        timelineByID[timelines[index].target.id] = nil
    }

    mutating func record(_ timeline: Int32, _ decision: Decision, _ rule: ReloadRule, _ reason: ReloadReason) {
        let target = timelines[Int(timeline)].target
        if isMeasuring { report.kinds[target.kind].counters.count(decision) }
        guard options.keepsDecisions else { return }
        decisions.append(
            SimulatedDecision(time: now, timeline: target.id, decision: decision, rule: rule, reason: reason))
    }

    // MARK: Fetches

    /// Asks the providers for the decided timelines, in requests of the size that their kinds allow.
    private mutating func fetch() async throws {
        guard !fetches.isEmpty else { return }
        if fetches.count > 1, report.providers.count > 1 {
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
            report.providers[provider].count(range.count, minute: minute)
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
        let retryAt = kinds[kind].rules.gridded(now + max(delay, retryAfter ?? .zero), from: now)
        record(fetch.timeline, .failed, rule, fetch.reason)
        if isMeasuring { report.kinds[kind].failures[Int(rule.rawValue)] += 1 }
        let isAnew = timelines[index].record.fail(
            retryAt: retryAt, isMine: fetch.isMine, kinds[kind].generations, at: now)
        if isAnew { appoint(fetch.timeline) }
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
            budgetedFetches.append(
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
        report.kinds[kind].fetches[Int(fetch.rule.rawValue)] += 1
        report.kinds[kind].counters.count(lints)
        if let since = timelines[index].pendingSince {
            report.kinds[kind].waits.add(Int((now - since).wholeMicroseconds / 1_000_000))
        }
        guard fetch.budget > 0 else { return }
        let day = Int32((now - options.from).wholeMicroseconds / 86_400_000_000)
        if timelines[index].day != day { (timelines[index].day, timelines[index].budgeted) = (day, 0) }
        report.kinds[kind].countBudgeted(Int(fetch.budget), earlier: Int(timelines[index].budgeted))
        timelines[index].budgeted += 1
    }
}

extension Simulation {
    /// Applies events until the end.
    package mutating func run(_ events: [TimedEvent]) async throws {
        var next = 0
        try await apply(events, &next, before: options.end)
        try await finish()
    }

    mutating func finish() async throws {
        try await work(before: options.end)
        // Timelines live, and plans hold, until the end.
        advance(to: options.end)
        finishStacks()
        report.widgets = widgets.count { $0.timeline >= 0 }
        report.timelines = timelineByID.count
        for (index, kind) in kinds.enumerated() {
            report.kinds[index].timelines = kind.timelines.count { !timelines[Int($0)].isCollected }
            report.kinds[index].lifeDays = kind.timelines.reduce(0) { sum, index in
                let timeline = timelines[Int(index)]
                let life = min(timeline.collectedAt ?? now, now) - max(timeline.begunAt, options.from)
                return sum + max(0, life / .seconds(86_400))
            }
        }
    }

    mutating func apply(
        _ events: [TimedEvent], _ next: inout Int, before end: Timestamp
    ) async throws {
        while next < events.count, events[next].time < end {
            try await apply(events[next].event, at: events[next].time)
            next += 1
        }
    }
}

extension Simulation {
    /// Applies an event now.
    mutating func applyEvent(_ event: FreshetEvent) {
        if isMeasuring { report.events += 1 }
        guard let kinds = kindsByApp[event.app] else { return countUnknown() }
        switch event.change {
        case .reload(let request): apply(request, kinds)
        case .widget(let change):
            let name = ScopedName(app: event.app, name: change.widget)
            let record = widgetByName[name].map { widgets[Int($0)].record }
            if case .placed(let placement) = change {
                guard let kind = kinds[placement.kind] else { return countUnknown() }
                let resolved = self.kinds[kind].definition.resolve(placement)
                let stored = record.flatMap { $0.removed || $0.kind != placement.kind ? nil : $0.configuration }
                guard self.kinds[kind].definition.problems(with: resolved, replacing: stored ?? .empty).isEmpty
                else { return countIgnored() }
            } else if case .configured(_, let configuration) = change, let record, let kind = kinds[record.kind],
                !self.kinds[kind].definition.problems(
                    with: configuration, replacing: record.configuration, family: record.family
                ).isEmpty
            {
                return countIgnored()
            }
            let kind = record.flatMap { kinds[$0.kind] }
            let completed = change.keepingDefaults(of: record, kind.flatMap { self.kinds[$0].definition.intent })
            self.change([name], reason: change.reason, isPlaced: change.isPlacement) { [now] record in
                WidgetRecord.apply(completed, at: now, to: record)
            }
        case .view(let widget):
            guard let widget = widgetByName[ScopedName(app: event.app, name: widget)],
                widgets[Int(widget)].timeline >= 0
            else { return countIgnored() }
            view(widget)
        case .device(.environment(let device, let environment, let isSignificant)):
            let members = devices[ScopedName(app: event.app, name: device)].map { widgetsOfDevice[Int($0)] } ?? []
            var request: ReloadRequest?
            if isSignificant {
                request = ReloadRequest(app: event.app, audience: .device(device), kinds: .all, reason: .environment)
            }
            let names = members.map { ScopedName(app: event.app, name: widgets[Int($0)].record.widget) }
            change(names, reason: .environment, with: request) { [now] record in
                WidgetRecord.apply(environment, at: now, to: record)
            }
        case .person, .interaction: applyPerson(event)
        case .device(.registered), .device(.unregistered): break
        }
    }

    private mutating func countUnknown() { if isMeasuring { report.unknownEvents += 1 } }
    private mutating func countIgnored() { if isMeasuring { report.ignoredEvents += 1 } }

    // MARK: Requests

    private mutating func apply(_ request: ReloadRequest, _ kinds: [String: Int]) {
        var scope: [Int]?
        if case .kinds(let names) = request.kinds {
            let known = names.compactMap { kinds[$0] }
            guard known.count == names.count else { return countUnknown() }
            scope = known
        }
        guard request.audience != .everyone else {
            return applyToEveryone(request, scope ?? kinds.values.sorted())
        }
        for timeline in audience(of: request, scope) { self.request(request.reason, timeline) }
    }

    /// The timelines of an audience, each once, in order.
    private func audience(of request: ReloadRequest, _ scope: [Int]?) -> [Int32] {
        let members: [Int32]
        switch request.audience {
        case .user(let id): members = users[ScopedName(app: request.app, name: id)].map { widgetsOfUser[Int($0)] } ?? []
        case .device(let id):
            members = devices[ScopedName(app: request.app, name: id)].map { widgetsOfDevice[Int($0)] } ?? []
        case .widget(let id): members = widgetByName[ScopedName(app: request.app, name: id)].map { [$0] } ?? []
        case .everyone: members = []
        }
        var found: Set<Int32> = []
        for widget in members {
            let timeline = widgets[Int(widget)].timeline
            guard timeline >= 0, matches(timeline, scope, request.matching) else { continue }
            found.insert(timeline)
        }
        return found.sorted()
    }

    private func matches(_ timeline: Int32, _ scope: [Int]?, _ matching: WidgetConfiguration?) -> Bool {
        let target = timelines[Int(timeline)].target
        guard scope?.contains(target.kind) ?? true else { return false }
        return matching.map { target.identity.configuration.contains($0) } ?? true
    }

    private mutating func applyToEveryone(_ request: ReloadRequest, _ scope: [Int]) {
        guard let matching = request.matching else {
            for kind in scope { bump(kind, request.reason) }
            return
        }
        for kind in scope {
            for timeline in kinds[kind].timelines
            where !timelines[Int(timeline)].isCollected && matches(timeline, nil, matching) {
                var mark = ReloadMark(request.reason)
                mark.lane = .bulk
                apply(mark, to: timeline, isSweepOfEveryone: true)
            }
        }
    }

    /// Requests a reload of a kind for everyone, by starting a new generation.
    mutating func bump(_ kind: Int, _ reason: ReloadReason) {
        kinds[kind].generations.current += 1
        let generation = kinds[kind].generations.current
        if reason.urgency > .budgeted { kinds[kind].generations.free = generation }
        if reason.urgency > .free { kinds[kind].generations.forced = generation }
        kinds[kind].reason = reason
        for timeline in kinds[kind].timelines { notePending(timeline) }
        requireSweep(of: kind)
    }

    /// Requests a reload of one timeline.
    mutating func request(_ reason: ReloadReason, _ timeline: Int32) {
        apply(ReloadMark(reason), to: timeline)
        noteRequest(timeline)
    }

    private mutating func notePending(_ timeline: Int32) {
        if timelines[Int(timeline)].pendingSince == nil { timelines[Int(timeline)].pendingSince = now }
    }

    private mutating func apply(_ mark: ReloadMark, to timeline: Int32, isSweepOfEveryone: Bool = false) {
        let index = Int(timeline)
        // A tombstone may have been published, so the next content counts as changed.
        if mark.revival != nil, timelines[index].record.state.isOrphaned { timelines[index].hash = nil }
        if mark.events > 0 { notePending(timeline) }
        let isAnew = timelines[index].record.apply(
            mark, kinds[timelines[index].kind].generations, isSweepOfEveryone: isSweepOfEveryone, at: now)
        if isAnew { appoint(timeline) }
    }

    /// Records and counts whether a request that is not due now is merged or deferred.
    private mutating func noteRequest(_ timeline: Int32) {
        let index = Int(timeline)
        let kind = timelines[index].kind
        if isMeasuring { report.kinds[kind].requests += 1 }
        let decision = timelines[index].record.state.decision(
            onRequests: 1, listedAt: timelines[index].record.listedAt,
            renderedAt: timelines[index].record.renderedAt, kinds[kind].rules, at: now)
        guard let (decision, rule) = decision else { return }
        record(timeline, decision, rule, timelines[index].record.reason)
        guard isMeasuring else { return }
        if decision == .merged { report.kinds[kind].merged += 1 }
        if decision == .deferred { report.kinds[kind].deferrals[Int(rule.rawValue)] += 1 }
    }

    // MARK: Views

    /// Counts a view of a widget that shows a timeline.
    mutating func view(_ widget: Int32) {
        let timeline = widgets[Int(widget)].timeline
        guard timeline >= 0 else { return }
        if isMeasuring { countView(Int(timeline)) }
        guard timelines[Int(timeline)].record.isChanged(byViewAt: now) else { return }
        var mark = ReloadMark()
        mark.view = now
        apply(mark, to: timeline)
    }

    // Rows are read in place: a copy of one costs more than the count.
    private mutating func countView(_ index: Int) {
        let kind = timelines[index].kind
        report.kinds[kind].views += 1
        guard let renderedAt = timelines[index].record.renderedAt else {
            report.kinds[kind].emptyViews += 1
            return
        }
        report.kinds[kind].ages.add(seconds(since: renderedAt))
        if let since = timelines[index].staleSince(now) {
            report.kinds[kind].staleViews += 1
            report.kinds[kind].staleness.add(seconds(since: since))
        } else {
            report.kinds[kind].staleness.add(0)
        }
        if let publishedAt = timelines[index].publishedAt {
            report.kinds[kind].publicationAges.add(seconds(since: publishedAt))
        }
        let id = timelines[index].target.id
        if let time = latest(of: options.publications, id) {
            report.kinds[kind].realPublicationAges.add(seconds(since: time))
        }
        if let time = latest(of: options.realFetches, id) { report.kinds[kind].realAges.add(seconds(since: time)) }
    }

    /// The latest of a timeline's times until now.
    private func latest(of times: [TimelineID: [Timestamp]], _ timeline: TimelineID) -> Timestamp? {
        times.isEmpty ? nil : times[timeline]?.last { $0 <= now }
    }

    private func seconds(since time: Timestamp) -> Int { Int((now.microseconds - time.microseconds) / 1_000_000) }

    // MARK: Widgets

    /// Changes widgets as one transaction of ingest does, with a request that the event also makes.
    ///
    /// - Parameters:
    ///   - reason: of the reload of a timeline that a widget starts to show.
    ///   - change: makes the outcome from a widget's present record.
    private mutating func change(
        _ names: [ScopedName], reason: ReloadReason, isPlaced: Bool = false, with request: ReloadRequest? = nil,
        _ change: (WidgetRecord?) -> WidgetOutcome
    ) {
        var marks: [Int32: ReloadMark] = [:]
        var departed: [Int32] = []
        for name in names {
            let record = widgetByName[name].map { widgets[Int($0)].record }
            let outcome = change(record)
            apply(outcome, to: name, reason, isPlaced: isPlaced, &marks, &departed)
        }
        var requested: [Int32] = []
        if let request {
            requested = audience(of: request, nil)
            for timeline in requested { marks[timeline, default: ReloadMark()].add(request.reason) }
        }
        for timeline in departed where marks[timeline] == nil { marks[timeline] = ReloadMark() }
        for (timeline, mark) in marks.sorted(by: { $0.key < $1.key }) { apply(mark, to: timeline) }
        for timeline in requested { noteRequest(timeline) }
        for timeline in departed.sorted()
        where timelines[Int(timeline)].widgets == 0 && !timelines[Int(timeline)].record.state.isOrphaned {
            let kind = timelines[Int(timeline)].kind
            if timelines[Int(timeline)].record.orphan(kinds[kind].generations, at: now) { appoint(timeline) }
        }
    }

    private mutating func apply(
        _ outcome: WidgetOutcome, to name: ScopedName, _ reason: ReloadReason, isPlaced: Bool,
        _ marks: inout [Int32: ReloadMark], _ departed: inout [Int32]
    ) {
        let known = widgetByName[name]
        let old = known.map { widgets[Int($0)].record }
        guard let record = outcome.record else { return countIgnored() }
        let widget = known ?? Int32(widgets.count)
        if known == nil {
            widgets.append(SimulatedWidget(record: record))
            widgetByName[name] = widget
        }
        widgets[Int(widget)].record = record
        let oldTimeline = widgets[Int(widget)].timeline
        var timeline: Int32 = -1
        if !record.removed, let kind = kindsByApp[name.app]?[record.kind] {
            timeline = place(record, kind, reason, isPlaced: isPlaced, from: oldTimeline, &marks)
        }
        if let old, !old.removed, Text.equal(record.user, old.user), oldTimeline != timeline {
            bringRelevance(from: oldTimeline, to: timeline)
        }
        move(widget, to: timeline, name.app)
        if oldTimeline >= 0, oldTimeline != timeline { departed.append(oldTimeline) }
        // A widget that is given to another user leaves its stack as well.
        if let old, !old.removed, record.removed || !Text.equal(record.user, old.user) { forget(old) }
        people.replan(app: name.app, user: record.user, by: now)
    }

    /// Finds or creates the timeline of a widget, and returns its index. Marks a stale timeline as revived.
    private mutating func place(
        _ record: WidgetRecord, _ kind: Int, _ reason: ReloadReason, isPlaced: Bool, from old: Int32,
        _ marks: inout [Int32: ReloadMark]
    ) -> Int32 {
        let identity = kinds[kind].definition.resolve(record.placement).identity
        let id = identity.id
        guard let found = timelineByID[id] else {
            let timeline = Int32(timelines.count)
            let target = SimulatedTarget(id: id, identity: identity, kind: kind, definition: kinds[kind].definition)
            var row = SimulatedTimeline(
                target: target,
                record: ReloadRecord(placedAt: now, kinds[kind].generations, reason: reason),
                begunAt: now)
            row.pendingSince = now
            timelines.append(row)
            timelineByID[id] = timeline
            kinds[kind].timelines.append(timeline)
            appoint(timeline)
            return timeline
        }
        if isPlaced || found != old, timelines[Int(found)].record.isStale(at: now) {
            marks[found, default: ReloadMark()].revival = reason
        }
        return found
    }

    /// Moves a widget to a timeline, -1 for none, and updates the counts and lists of widgets.
    private mutating func move(_ widget: Int32, to timeline: Int32, _ app: String) {
        let index = Int(widget)
        let old = widgets[index]
        if old.timeline >= 0 { timelines[Int(old.timeline)].widgets -= 1 }
        if timeline >= 0 { timelines[Int(timeline)].widgets += 1 }
        widgets[index].timeline = timeline
        if old.user >= 0 { widgetsOfUser[Int(old.user)].removeAll { $0 == widget } }
        if old.device >= 0 { widgetsOfDevice[Int(old.device)].removeAll { $0 == widget } }
        widgets[index].user = -1
        widgets[index].device = -1
        guard timeline >= 0 else { return }
        let user = ScopedName(app: app, name: old.record.user)
        let device = ScopedName(app: app, name: old.record.device)
        if users[user] == nil { widgetsOfUser.append([]) }
        let userIndex = users[user] ?? Int32(widgetsOfUser.count - 1)
        users[user] = userIndex
        if devices[device] == nil { widgetsOfDevice.append([]) }
        let deviceIndex = devices[device] ?? Int32(widgetsOfDevice.count - 1)
        devices[device] = deviceIndex
        widgetsOfUser[Int(userIndex)].append(widget)
        widgetsOfDevice[Int(deviceIndex)].append(widget)
        widgets[index].user = userIndex
        widgets[index].device = deviceIndex
    }
}

extension WidgetChange {
    fileprivate var isPlacement: Bool { if case .placed = self { true } else { false } }
}

extension WidgetConfiguration {
    /// Whether all members of another one are in it, as PostgreSQL's `@>` finds.
    fileprivate func contains(_ other: WidgetConfiguration) -> Bool {
        other.isEmpty || Self.contains(other.value, in: value)
    }

    private static func contains(_ part: JSONValue, in whole: JSONValue) -> Bool {
        switch (whole, part) {
        case (.object(let whole), .object(let part)):
            part.members.allSatisfy { member in whole[member.key].map { contains(member.value, in: $0) } ?? false }
        case (.array(let whole), .array(let part)):
            part.allSatisfy { element in whole.contains { contains(element, in: $0) } }
        default: whole == part
        }
    }
}
