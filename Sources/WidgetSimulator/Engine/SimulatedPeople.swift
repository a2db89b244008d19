// SPDX-License-Identifier: Apache-2.0

import JSON
import WidgetEvents
import WidgetModel

/// Stacks, shortcuts and habits of the people of a simulation, and the schedules of their stacks.
struct SimulatedPeople {
    struct Person {
        let app: String
        let user: String
        var record = PersonRecord()
        /// Indices of the stacks.
        var stacks: [Int32] = []
    }

    struct Stack {
        let key: StackPlan.Key
        let person: Int
        var plan: StackPlan?
        var dueAt = Timestamp.distantFuture
    }

    fileprivate var people: [Person] = []
    private var indices: [ScopedName: Int] = [:]
    private(set) var stacks: [Stack] = []
    fileprivate var stacksOfTimeline: [Int32: [Int32]] = [:]
    private var heap = AppointmentHeap()

    /// Time of the next plan.
    var nextPlan: Timestamp? { heap.nextTime }

    /// Takes a stack that is to be planned by a time.
    mutating func takeDue(_ now: Timestamp) -> Int? {
        while let entry = heap.take(through: now) {
            let stack = Int(entry.owner)
            guard stacks[stack].dueAt == entry.time else { continue }
            stacks[stack].dueAt = .distantFuture
            return stack
        }
        return nil
    }

    /// Index of a user of an app, who is made if not known.
    fileprivate mutating func person(app: String, user: String) -> Int {
        let name = ScopedName(app: app, name: user)
        if let index = indices[name] { return index }
        people.append(Person(app: app, user: user))
        indices[name] = people.count - 1
        return people.count - 1
    }

    /// Makes states for the stacks of a person that have none.
    fileprivate mutating func knowStacks(of person: Int) {
        for state in people[person].record.stacks {
            let (device, name) = (state.arrangement.device, state.arrangement.name)
            guard stack(of: person, device: device, name: name) == nil else { continue }
            people[person].stacks.append(Int32(stacks.count))
            let key = StackPlan.Key(
                app: people[person].app, user: people[person].user, device: device, stack: name)
            stacks.append(Stack(key: key, person: person))
        }
    }

    private func stack(of person: Int, device: String, name: String) -> Int32? {
        people[person].stacks.first {
            Text.equal(stacks[Int($0)].key.device, device) && Text.equal(stacks[Int($0)].key.stack, name)
        }
    }

    /// Index of a user's stack.
    func stack(app: String, user: String, device: String, name: String) -> Int32? {
        indices[ScopedName(app: app, name: user)].flatMap { stack(of: $0, device: device, name: name) }
    }

    mutating func replan(app: String, user: String, by time: Timestamp) {
        guard let person = indices[ScopedName(app: app, name: user)] else { return }
        for stack in people[person].stacks { replan(stack, by: time) }
    }

    mutating func replan(_ stack: Int32, by time: Timestamp) {
        guard time < stacks[Int(stack)].dueAt else { return }
        stacks[Int(stack)].dueAt = time
        heap.push(time, stack)
    }

    fileprivate func known(app: String, user: String) -> Int? { indices[ScopedName(app: app, name: user)] }

    /// Beginnings of suggestions on a device during the 24 hours before a time, whatever stacks they were in.
    fileprivate func suggestions(of person: Int, on device: String, before time: Timestamp) -> [Timestamp] {
        people[person].stacks.flatMap { stack in
            Text.equal(stacks[Int(stack)].key.device, device)
                ? stacks[Int(stack)].plan?.suggestions(before: time) ?? [] : []
        }
    }

    fileprivate mutating func replace(_ plan: StackPlan?, of stack: Int) { stacks[stack].plan = plan }
}

extension Simulation {
    /// Applies an event about stacks, shortcuts or habits.
    mutating func applyPerson(_ event: FreshetEvent) {
        guard let user = event.user else { return }
        let person = people.person(app: event.app, user: user)
        switch event.change {
        case .person(let change):
            let effect = self.change(person) { [now] in $0.apply(change, at: now) }
            // A turn by hand is a view as well.
            guard !effect.isIgnored, case .turned(_, _, let widget) = change,
                let index = widgetByName[ScopedName(app: event.app, name: widget)]
            else { return }
            let record = widgets[Int(index)].record
            guard !record.removed, Text.equal(record.user, user) else { return }
            learn(person, record.kind, record.configuration, record.family, timeZone: record.environment.timeZone)
        case .interaction(let interaction):
            guard let timeZone = interaction.timeZone ?? timeZone(of: person) else { return }
            learn(person, interaction.kind, interaction.configuration, nil, timeZone: timeZone)
        case .reload, .widget, .view, .device: break
        }
    }

    @discardableResult
    private mutating func change(
        _ person: Int, _ change: (inout PersonRecord) -> PersonRecord.Effect
    ) -> PersonRecord.Effect {
        let effect = change(&people.people[person].record)
        if !effect.isIgnored { people.knowStacks(of: person) }
        if effect == .changed { for stack in people.people[person].stacks { people.replan(stack, by: now) } }
        return effect
    }

    /// Takes a removed widget out of its owner's stacks.
    mutating func forget(_ widget: WidgetRecord) {
        guard let person = people.known(app: widget.app, user: widget.user) else { return }
        change(person) { [now] in $0.remove(widget: widget.widget, at: now) }
    }

    /// Time zone of a person's widgets; nil without any.
    private func timeZone(of person: Int) -> String? {
        let person = people.people[person]
        let first = users[ScopedName(app: person.app, name: person.user)].flatMap { widgetsOfUser[Int($0)].first }
        return first.map { widgets[Int($0)].record.environment.timeZone }
    }

    /// Learns from a view of content.
    ///
    /// - Parameter family: of a widget; nil for a view in the app.
    private mutating func learn(
        _ person: Int, _ name: String, _ configuration: WidgetConfiguration, _ family: WidgetFamily?, timeZone: String
    ) {
        let (app, user) = (people.people[person].app, people.people[person].user)
        guard let kind = kindsByApp[app]?[name] else { return }
        let definition = kinds[kind].definition
        let values = definition.effective(configuration, family: family ?? definition.family(fitting: configuration))
        let contents = HabitContent.contents(
            kind: definition.name, configuration: values, intent: definition.intent)
        let halfHour = HalfHour(at: now, timeZone: timeZone)
        // Donations, which are many, are gathered for half a minute.
        if let recurring = people.people[person].record.learn(contents, at: halfHour) {
            _ = people.people[person].record.remember(recurring)
            people.replan(app: app, user: user, by: now + .seconds(30))
        }
    }

    /// Notes changed content of a timeline, and has the stacks planned whose order may change.
    ///
    /// - Parameter isFirst: whether there was no content before.
    mutating func noteContent(_ curve: RelevanceCurve?, of timeline: Int32, isFirst: Bool) {
        let index = Int(timeline)
        let known = timelines[index].relevance
        if curve != nil || known != nil {
            var record = timelines[index].isRelevanceRead ? known ?? RelevanceRecord() : RelevanceRecord()
            record.replace(with: curve ?? RelevanceCurve([]), at: now)
            timelines[index].relevance = record
        } else if !isFirst {
            return
        }
        for stack in people.stacksOfTimeline[timeline] ?? [] { people.replan(stack, by: now) }
    }

    /// Lets a widget that comes to another timeline of its kind bring its relevance along, unless people share it.
    mutating func bringRelevance(from old: Int32, to new: Int32) {
        guard old >= 0, new >= 0, timelines[Int(old)].kind == timelines[Int(new)].kind,
            kinds[Int(timelines[Int(new)].kind)].definition.sharing == .perUser,
            timelines[Int(old)].isRelevanceRead, !timelines[Int(new)].isRelevanceRead
        else { return }
        var record = timelines[Int(old)].relevance ?? RelevanceRecord()
        if let present = timelines[Int(new)].relevance {
            record.replace(with: present.curve, at: present.history.absorbedUntil)
        }
        timelines[Int(new)].relevance = record
        timelines[Int(new)].isRelevanceRead = true
    }

    // MARK: Plans

    /// Plans the stacks that are due; then places the widgets of suggestions that begin soon, and removes those that
    /// are over. Returns whether any stack was due.
    mutating func planStacks() -> Bool {
        var isPlanned = false
        var events: [FreshetEvent] = []
        while let stack = people.takeDue(now) {
            isPlanned = true
            events += plan(stack)
        }
        for event in events { applyEvent(event) }
        return isPlanned
    }

    /// Plans a stack, and returns the events that place and remove the widgets of its suggestions.
    private mutating func plan(_ stack: Int) -> [FreshetEvent] {
        let state = people.stacks[stack]
        let key = state.key
        let members = users[ScopedName(app: key.app, name: key.user)].map { widgetsOfUser[Int($0)] } ?? []
        let placed = members.filter { Text.equal(widgets[Int($0)].record.device, key.device) }
        for timeline in members.map({ widgets[Int($0)].timeline }) where timeline >= 0 {
            timelines[Int(timeline)].isRelevanceRead = true
        }
        let plan = planner(of: state, placed).plan(key, after: state.plan, at: now)
        // A plan that says the same is not stored: the earlier one has more of the past.
        let isContinued = plan.flatMap { plan in state.plan.map { plan.continues($0) } } ?? false
        if !isContinued {
            count(state.plan)
            people.replace(plan, of: stack)
        }
        if options.keepsDecisions {
            plans.append(plan ?? StackPlan(key: key, schedule: StackSchedule(), plannedAt: now))
        }
        guard let plan else { return [] }
        if isMeasuring { report.plans += 1 }
        let arrangement = people.people[state.person].record.stacks.map(\.arrangement).first {
            Text.equal($0.device, key.device) && Text.equal($0.name, key.stack)
        }
        // The first one has the family of suggestions.
        let own = (arrangement?.widgets ?? []).compactMap { id in
            placed.first { Text.equal(widgets[Int($0)].record.widget, id) }
        }
        let shown = own + placed.filter { plan.isSuggestion(widget: widgets[Int($0)].record.widget) }
        for timeline in shown.map({ widgets[Int($0)].timeline })
        where people.stacksOfTimeline[timeline]?.contains(Int32(stack)) != true {
            people.stacksOfTimeline[timeline, default: []].append(Int32(stack))
        }
        people.replan(Int32(stack), by: plan.nextLook)
        let changes = plan.suggestionChanges(
            present: placed.map { widgets[Int($0)].record.widget },
            beside: own.first.map { (widgets[Int($0)].record.family, widgets[Int($0)].record.environment) })
        return changes.removed.map { FreshetEvent(app: key.app, .widget(.removed(widget: $0))) }
            + changes.placed.map(FreshetEvent.init)
    }

    private func planner(of stack: SimulatedPeople.Stack, _ placed: [Int32]) -> PersonPlanner {
        let app = stack.key.app
        var policy = options.rotation
        if apps.first(where: { $0.name == app })?.developerMode == true { policy.liftLimits() }
        let definitions = (kindsByApp[app] ?? [:]).mapValues { kinds[$0].definition }
        return PersonPlanner(
            app: app, device: stack.key.device, person: people.people[stack.person].record,
            widgets: placed.compactMap { widget in
                let record = widgets[Int(widget)].record
                guard let kind = definitions[record.kind] else { return nil }
                return PersonPlanner.Widget(
                    id: record.widget, kind: kind, family: record.family, configuration: record.configuration,
                    timeZone: record.environment.timeZone,
                    relevance: timelines[Int(widgets[Int(widget)].timeline)].relevance ?? RelevanceRecord(),
                    isRendered: timelines[Int(widgets[Int(widget)].timeline)].record.renderedAt != nil)
            }, kinds: definitions, policy: policy,
            suggestedAt: people.suggestions(of: stack.person, on: stack.key.device, before: now))
    }

    /// Counts the rotations and suggestions that a plan has shown until now.
    private mutating func count(_ plan: StackPlan?) {
        guard isMeasuring, let plan else { return }
        let shown = max(plan.plannedAt, options.from)..<now
        for rotation in plan.schedule.rotations where shown.contains(rotation.from) {
            switch rotation.reason {
            case .start, .personsChoice: continue
            case .relevance: report.rotations["relevance", default: 0] += 1
            case .prediction: report.rotations["habit", default: 0] += 1
            case .shortcut: report.rotations["shortcut", default: 0] += 1
            case .suggestionEnded: report.rotations["suggestionEnded", default: 0] += 1
            case .leftOnTop: report.rotations["leftOnTop", default: 0] += 1
            }
        }
        report.suggestions += plan.schedule.insertions.count { shown.contains($0.from) }
    }

    /// Counts the rest of all plans.
    mutating func finishStacks() {
        report.stacks = people.stacks.count
        for stack in people.stacks { count(stack.plan) }
    }

    /// The widget on top of a stack now; nil before its first plan, and while a suggestion is on top.
    func top(of stack: Int32) -> String? {
        people.stacks[Int(stack)].plan?.schedule.top(at: now)?.item.widget
    }
}
