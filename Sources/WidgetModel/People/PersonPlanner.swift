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
        /// Whether its timeline has content.
        package var isRendered: Bool

        /// - Parameter configuration: as the person set it; the values that the widget shows are derived.
        package init(
            id: String, kind: KindDefinition, family: WidgetFamily, configuration: WidgetConfiguration,
            timeZone: String, relevance: RelevanceRecord, isRendered: Bool = true
        ) {
            self.id = id
            self.kind = kind
            self.family = family
            self.configuration = kind.effective(configuration, family: family)
            self.timeZone = timeZone
            self.relevance = relevance
            self.isRendered = isRendered
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
    /// Beginnings of suggestions in any stack of the device, present or past, during the last 24 hours.
    package var suggestedAt: [Timestamp]

    package init(
        app: String, device: String, person: PersonRecord, widgets: [Widget], kinds: [String: KindDefinition],
        policy: RotationPolicy = RotationPolicy(), suggestedAt: [Timestamp] = []
    ) {
        self.app = app
        self.device = device
        self.person = person
        self.widgets = widgets
        self.kinds = kinds
        self.policy = policy
        self.suggestedAt = suggestedAt
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
        let kinds = person.shortcuts(on: device).compactMap { self.kinds[$0.content.kind] }.filter(Self.isSuggestible)
        return stacks.first { stack in
            guard stack.arrangement.suggestions, let first = placed(in: stack.arrangement).first else { return false }
            return kinds.contains { $0.families.contains(first.family) }
        }?.arrangement.name
    }

    private static func isSuggestible(_ kind: KindDefinition) -> Bool { kind.intent?.isEligibleForSuggestions ?? true }

    private func predictions(
        of keys: [HabitKey], in range: Range<Timestamp>, timeZone: String
    ) -> [WidgetPrediction] {
        guard !person.habits.isEmpty, !keys.isEmpty else { return [] }
        return person.habits.predictions(ofAny: keys, in: range, timeZone: timeZone)
    }

    /// Shortcuts that may be suggested: of kinds that there are and that are eligible, in the family of the stack.
    private func candidates(
        in range: Range<Timestamp>, timeZone: String, family: WidgetFamily
    ) -> [StackPlanner.Candidate] {
        person.shortcuts(on: device).compactMap { shortcut in
            guard let kind = kinds[shortcut.content.kind], Self.isSuggestible(kind), kind.families.contains(family)
            else { return nil }
            var shortcut = shortcut
            shortcut.content.configuration = kind.effective(shortcut.content.configuration, family: family)
            let isByHabit = shortcut.ranges.isEmpty
            shortcut.ranges.removeAll { !$0.overlaps(range) }
            // A shortcut whose ranges are over is not one by habit.
            guard isByHabit || !shortcut.ranges.isEmpty else { return nil }
            let keys = HabitKey.keys(
                kind: kind.name, configuration: shortcut.content.configuration, intent: kind.intent)
            return StackPlanner.Candidate(
                shortcut, predictions: isByHabit ? predictions(of: keys, in: range, timeZone: timeZone) : [],
                isRendered: widgets.contains {
                    $0.isRendered && StackPlan.isSuggestion(widget: $0.id, of: shortcut.content)
                })
        }
    }

    /// Beginnings of suggestions on the device during the 24 hours before a time, those of a plan included.
    package func suggestions(with previous: StackPlan?, before now: Timestamp) -> [Timestamp] {
        Set(suggestedAt).union(previous?.suggestions(before: now) ?? []).filter { $0 > now - .seconds(86_400) }.sorted()
    }

    /// Plans a stack; nil: there is no such stack.
    package func plan(_ key: StackPlan.Key, after previous: StackPlan?, at now: Timestamp) -> StackPlan? {
        let suggestions = suggestions(with: previous, before: now)
        guard let planner = planner(of: key.stack, suggestions: suggestions, at: now) else { return nil }
        let earlier = previous?.schedule ?? StackSchedule()
        var plan = StackPlan(
            key: key, schedule: planner.schedule(at: now, after: earlier), plannedAt: now, suggestedAt: suggestions)
        if planner.candidates.contains(where: { !$0.isRendered }) {
            // Without the wait for their timelines: their widgets are placed, so that they are rendered.
            var ready = planner
            for index in ready.candidates.indices { ready.candidates[index].isRendered = true }
            plan.awaited = ready.schedule(at: now, after: earlier).insertions
            plan.awaitsContent = planner.candidates.contains { candidate in
                !candidate.isRendered && plan.placed(at: now).contains { $0.content == candidate.shortcut.content }
            }
        }
        return plan
    }
}
