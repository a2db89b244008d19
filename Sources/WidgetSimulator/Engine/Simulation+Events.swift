import JSON
import WidgetEvents
import WidgetModel

extension Simulation {
    /// Applies an event now.
    mutating func applyEvent(_ event: FreshetEvent) {
        if isMeasuring { counts.events += 1 }
        guard let kinds = kindsByApp[event.app] else { return countUnknown() }
        switch event.change {
        case .reload(let request): apply(request, kinds)
        case .widget(let change):
            let name = ScopedName(app: event.app, name: change.widget)
            if case .placed(let placement) = change {
                guard let kind = kinds[placement.kind] else { return countUnknown() }
                let resolved = self.kinds[kind].definition.resolve(placement)
                guard self.kinds[kind].definition.problem(with: resolved) == nil else { return countIgnored() }
            } else if case .configured(_, let configuration) = change,
                let record = widgetByName[name].map({ widgets[Int($0)].record }), let kind = kinds[record.kind],
                self.kinds[kind].definition.problem(with: configuration, family: record.family) != nil
            {
                return countIgnored()
            }
            let record = widgetByName[name].map { widgets[Int($0)].record }
            let kind = record.flatMap { kinds[$0.kind] }
            let completed = change.keepingDefaults(of: record, kind.flatMap { self.kinds[$0].definition.intent })
            self.change([name], reason: change.reason, isPlaced: change.isPlacement) { [now] record in
                WidgetLifecycle.apply(completed, at: now, to: record)
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
                WidgetLifecycle.apply(environment, at: now, to: record)
            }
        case .person, .interaction: applyPerson(event)
        case .device(.registered), .device(.unregistered): break
        }
    }

    private mutating func countUnknown() { if isMeasuring { counts.unknown += 1 } }
    private mutating func countIgnored() { if isMeasuring { counts.ignored += 1 } }

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
        if isMeasuring { counts.kinds[kind].requests += 1 }
        let decision = timelines[index].record.state.decision(
            onRequests: 1, listedAt: timelines[index].record.listedAt,
            renderedAt: timelines[index].record.renderedAt, kinds[kind].rules.schedule, at: now)
        guard let (decision, rule) = decision else { return }
        record(timeline, decision, rule, timelines[index].record.reason)
        guard isMeasuring else { return }
        if decision == .merged { counts.kinds[kind].merged += 1 }
        if decision == .deferred { counts.kinds[kind].deferrals[Int(rule.rawValue)] += 1 }
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
        counts.kinds[kind].views += 1
        guard let renderedAt = timelines[index].record.renderedAt else {
            counts.kinds[kind].emptyViews += 1
            return
        }
        counts.kinds[kind].ages.add(seconds(since: renderedAt))
        if let since = timelines[index].staleSince(now) {
            counts.kinds[kind].staleViews += 1
            counts.kinds[kind].staleness.add(seconds(since: since))
        } else {
            counts.kinds[kind].staleness.add(0)
        }
        if let publishedAt = timelines[index].publishedAt {
            counts.kinds[kind].publicationAges.add(seconds(since: publishedAt))
        }
        let id = timelines[index].target.id
        if let time = latest(of: options.publications, id) {
            counts.kinds[kind].realPublicationAges.add(seconds(since: time))
        }
        if let time = latest(of: options.realFetches, id) { counts.kinds[kind].realAges.add(seconds(since: time)) }
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
        other.isEmpty || Self.contains(value, other.value)
    }

    private static func contains(_ left: JSONValue, _ right: JSONValue) -> Bool {
        switch (left, right) {
        case (.object(let left), .object(let right)):
            right.members.allSatisfy { member in left[member.key].map { contains($0, member.value) } ?? false }
        case (.array(let left), .array(let right)):
            right.allSatisfy { element in left.contains { contains($0, element) } }
        default: left == right
        }
    }
}
