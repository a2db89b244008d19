/// Plans the stacks of one device of a user.
package struct PersonPlanner: Sendable {
    /// A widget on the device.
    package struct Widget: Sendable {
        package var id: String
        package var kind: KindDefinition
        package var family: WidgetFamily
        package var configuration: WidgetConfiguration
        package var timeZone: String
        package var relevance: RelevanceRecord

        /// - Parameter configuration: as the person set it; the values that the widget shows are derived.
        package init(
            id: String, kind: KindDefinition, family: WidgetFamily, configuration: WidgetConfiguration,
            timeZone: String, relevance: RelevanceRecord
        ) {
            self.id = id
            self.kind = kind
            self.family = family
            self.configuration = kind.effective(configuration, family: family)
            self.timeZone = timeZone
            self.relevance = relevance
        }

        fileprivate func content(of app: String) -> WidgetContent {
            WidgetContent(app: app, kind: kind.name, configuration: configuration)
        }

        fileprivate var keys: [HabitKey] {
            HabitKey.keys(kind: kind.name, configuration: configuration, intent: kind.intent)
        }
    }

    package var app: String
    package var device: String
    package var person: PersonRecord
    /// All widgets on the device, those of suggestions included.
    package var widgets: [Widget]
    /// The app's kinds by name.
    package var kinds: [String: KindDefinition]
    package var policy: RotationPolicy

    package init(
        app: String, device: String, person: PersonRecord, widgets: [Widget], kinds: [String: KindDefinition],
        policy: RotationPolicy = RotationPolicy()
    ) {
        self.app = app
        self.device = device
        self.person = person
        self.widgets = widgets
        self.kinds = kinds
        self.policy = policy
    }

    /// The stacks of the device that have widgets, by name.
    private var stacks: [PersonRecord.StackState] {
        person.stacks.filter { Text.equal($0.arrangement.device, device) && !$0.arrangement.widgets.isEmpty }
    }

    /// The planner of a stack, with those of its widgets that are placed; nil: there is no such stack.
    package func planner(of name: String, suggestions: [Timestamp] = [], at now: Timestamp) -> StackPlanner? {
        guard let state = stacks.first(where: { Text.equal($0.arrangement.name, name) }) else { return nil }
        let found = placed(in: state.arrangement)
        let stack = Stack(
            name: name, items: found.map { Stack.Item(widget: $0.id, content: $0.content(of: app)) },
            smartRotate: state.arrangement.smartRotate,
            suggestions: suggestedInto.map { Text.equal($0, name) } ?? false, chosen: state.turn)
        guard let first = found.first else { return StackPlanner(stack) }
        let range = now..<(now + StackPlanner.horizon)
        var evidence: [String: StackPlanner.Evidence] = [:]
        for widget in found {
            evidence[widget.id] = StackPlanner.Evidence(
                curve: widget.relevance.curve, history: widget.relevance.history,
                predictions: predictions(of: widget.keys, in: range, timeZone: widget.timeZone))
        }
        let own = widgets.filter { !StackPlan.isSuggestion(widget: $0.id) }
        var planner = StackPlanner(
            stack, evidence: evidence,
            candidates: candidates(in: range, timeZone: first.timeZone, family: first.family),
            shown: Set(own.map { $0.content(of: app) }), suggested: suggestions.count)
        planner.policy = policy
        return planner
    }

    private func placed(in arrangement: StackArrangement) -> [Widget] {
        arrangement.widgets.compactMap { id in widgets.first { Text.equal($0.id, id) } }
    }

    /// The stack of the device that takes suggestions: the first with placed widgets in a family of a shortcut's kind.
    private var suggestedInto: String? {
        let kinds = person.shortcuts(on: device).compactMap { self.kinds[$0.content.kind] }
        return stacks.first { stack in
            guard stack.arrangement.suggestions, let first = placed(in: stack.arrangement).first else { return false }
            return kinds.contains { $0.families.contains(first.family) }
        }?.arrangement.name
    }

    private func predictions(
        of keys: [HabitKey], in range: Range<Timestamp>, timeZone: String
    ) -> [WidgetPrediction] {
        guard !person.habits.isEmpty, !keys.isEmpty else { return [] }
        return person.habits.predictions(ofAny: keys, in: range, timeZone: timeZone)
    }

    /// Shortcuts that may be suggested: of kinds that there are, in the family of the stack.
    private func candidates(
        in range: Range<Timestamp>, timeZone: String, family: WidgetFamily
    ) -> [StackPlanner.Candidate] {
        person.shortcuts(on: device).compactMap { shortcut in
            guard let kind = kinds[shortcut.content.kind], kind.families.contains(family) else { return nil }
            var shortcut = shortcut
            shortcut.content.configuration = kind.effective(shortcut.content.configuration, family: family)
            let isByHabit = shortcut.ranges.isEmpty
            shortcut.ranges.removeAll { !$0.overlaps(range) }
            // A shortcut whose ranges are over is not one by habit.
            guard isByHabit || !shortcut.ranges.isEmpty else { return nil }
            let keys = HabitKey.keys(
                kind: kind.name, configuration: shortcut.content.configuration, intent: kind.intent)
            return StackPlanner.Candidate(
                shortcut,
                predictions: isByHabit ? predictions(of: keys, in: range, timeZone: timeZone) : [])
        }
    }

    /// Plans a stack; nil: there is no such stack.
    package func plan(_ key: StackPlan.Key, after previous: StackPlan?, at now: Timestamp) -> StackPlan? {
        let suggestions = previous?.suggestions(before: now) ?? []
        guard let planner = planner(of: key.stack, suggestions: suggestions, at: now) else { return nil }
        return StackPlan(
            key: key, schedule: planner.schedule(at: now, after: previous?.schedule ?? StackSchedule()),
            plannedAt: now, suggestedAt: suggestions)
    }
}
