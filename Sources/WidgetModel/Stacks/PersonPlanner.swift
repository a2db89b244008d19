// SPDX-License-Identifier: Apache-2.0

import JSON

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

        /// Combinations whose habits predict views of the widget; none if its intent is not eligible for suggestions.
        fileprivate var keys: [HabitKey] {
            guard kind.isSuggestible else { return [] }
            return HabitKey.keys(kind: kind.name, configuration: configuration, intent: kind.intent)
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
    /// Start times of suggestions in any stack of the device, present or past, during the last 24 hours.
    package var suggestedAt: [Timestamp]
    /// Names of the device's stacks whose schedules are read. Suggestions go to another stack only if none of these
    /// fits.
    package var readStacks: [String]

    package init(
        app: String, device: String, person: PersonRecord, widgets: [Widget], kinds: [String: KindDefinition],
        policy: RotationPolicy = RotationPolicy(), suggestedAt: [Timestamp] = [], readStacks: [String] = []
    ) {
        self.app = app
        self.device = device
        self.person = person
        self.widgets = widgets
        self.kinds = kinds
        self.policy = policy
        self.suggestedAt = suggestedAt
        self.readStacks = readStacks
    }

    /// The stacks of the device that have widgets, by name.
    private var stacks: [PersonRecord.StackState] {
        person.stacks.filter { Text.equal($0.arrangement.device, device) && !$0.arrangement.widgets.isEmpty }
    }

    /// Returns the planner of a stack and its placed widgets; nil: there is no such stack.
    package func planner(of name: String, suggestions: [Timestamp] = [], at now: Timestamp) -> StackPlanner? {
        guard let state = stacks.first(where: { Text.equal($0.arrangement.name, name) }) else { return nil }
        let found = placed(in: state.arrangement)
        let stack = Stack(
            name: name, items: found.map { Stack.Item(widget: $0.id, content: $0.content(of: app)) },
            smartRotate: state.arrangement.smartRotate, suggestions: state.arrangement.suggestions, chosen: state.turn,
            left: state.left)
        guard let first = found.first else { return StackPlanner(stack) }
        let range = now..<(now + StackPlanner.horizon)
        var evidence: [String: StackPlanner.Evidence] = [:]
        for widget in found {
            evidence[widget.id] = StackPlanner.Evidence(
                curve: widget.relevance.curve, history: widget.relevance.history,
                predictions: predictions(of: widget.keys, in: range, timeZone: widget.timeZone),
                isPredictable: widget.kind.isSuggestible)
        }
        let own = widgets.filter { !StackPlan.isSuggestion(widget: $0.id) }
        var planner = StackPlanner(
            stack, evidence: evidence,
            candidates: candidates(for: name, beside: first, in: range),
            shown: Set(own.map { $0.content(of: app) }), suggested: suggestions.count)
        planner.policy = policy
        return planner
    }

    private func placed(in arrangement: StackArrangement) -> [Widget] {
        arrangement.widgets.compactMap { id in widgets.first { Text.equal($0.id, id) } }
    }

    private func predictions(
        of keys: [HabitKey], in range: Range<Timestamp>, timeZone: String
    ) -> [WidgetPrediction] {
        guard !person.habits.isEmpty, !keys.isEmpty else { return [] }
        return person.habits.predictions(ofAny: keys, in: range, timeZone: timeZone)
    }

    // MARK: Candidates

    /// A stack that allows suggestions, with the family of its first placed widget.
    private typealias Target = (stack: String, family: WidgetFamily)

    /// Stacks that allow suggestions, those whose schedules are read first.
    private var targets: [Target] {
        let targets = stacks.filter(\.arrangement.suggestions).compactMap { state -> Target? in
            placed(in: state.arrangement).first.map { (state.arrangement.name, $0.family) }
        }
        let isRead = { (target: Target) in readStacks.contains { Text.equal($0, target.stack) } }
        return targets.filter(isRead) + targets.filter { !isRead($0) }
    }

    /// The device's shortcuts, and contents that the person probably views in the app, as candidates of a stack.
    private func candidates(
        for stack: String, beside first: Widget, in range: Range<Timestamp>
    ) -> [StackPlanner.Candidate] {
        let shortcuts = person.shortcuts(on: device)
        guard !shortcuts.isEmpty || !person.viewed.isEmpty else { return [] }
        let targets = targets
        func obstacle(to kind: KindDefinition) -> StackPlanner.Obstacle? {
            self.obstacle(to: kind, in: stack, beside: first, targets)
        }
        let declared = shortcuts.map { shortcut in
            guard let kind = kinds[shortcut.content.kind] else {
                return StackPlanner.Candidate(shortcut: shortcut, obstacle: .unknownKind)
            }
            let values = kind.effective(shortcut.content.configuration, family: first.family)
            let keys = HabitKey.keys(kind: kind.name, configuration: values, intent: kind.intent)
            var candidate = candidate(shortcut, kind, keys, beside: first, in: range)
            candidate.obstacle = obstacle(to: kind) ?? (keys.isEmpty ? .combination : nil)
            return candidate
        }
        let byHabit = Set(declared.filter(\.shortcut.ranges.isEmpty).map(\.shortcut.content))
        let predicted = unshown.compactMap { content -> StackPlanner.Candidate? in
            guard let kind = kinds[content.kind], obstacle(to: kind) == nil,
                kind.problems(with: content.values, family: first.family).isEmpty
            else { return nil }
            let shortcut = RelevantShortcut(
                content: WidgetContent(app: app, kind: kind.name, configuration: content.values))
            var candidate = candidate(shortcut, kind, [content.key], beside: first, in: range)
            candidate.parameters = content.parameters
            let isLikely = candidate.predictions.contains { $0.probability >= policy.minimumSuggestion }
            return isLikely && !byHabit.contains(candidate.shortcut.content) ? candidate : nil
        }
        return declared + predicted
    }

    /// Contents that the person views again and again, and that no widget of the device shows.
    ///
    /// A widget that matches a part of a content shows it: the stack turns to that widget.
    private var unshown: [HabitContent] {
        let recurring = person.viewed.filter { person.habits.recurs($0.key) }
        guard !recurring.isEmpty else { return [] }
        let shown = Set(widgets.filter { !StackPlan.isSuggestion(widget: $0.id) }.flatMap(\.keys))
        return recurring.filter { content in
            guard let kind = kinds[content.kind] else { return false }
            let keys = HabitKey.keys(kind: kind.name, configuration: content.values, intent: kind.intent)
            return keys.contains(content.key) && shown.isDisjoint(with: keys)
        }
    }

    /// Reason why widgets of a kind are never suggested into a stack.
    private func obstacle(
        to kind: KindDefinition, in stack: String, beside first: Widget, _ targets: [Target]
    ) -> StackPlanner.Obstacle? {
        guard kind.isSuggestible else { return .ineligibleKind }
        // Regardless of the suggestion's times, so that it always goes to the same stack.
        let target = targets.first { kind.families.contains($0.family) }?.stack
        if let target, !Text.equal(target, stack) { return .otherStack(target) }
        return kind.families.contains(first.family) ? nil : .family(first.family)
    }

    /// Returns a shortcut as a candidate, configured for the family of the stack's first widget.
    ///
    /// - Parameter keys: combinations whose habits suggest it if it has no ranges.
    private func candidate(
        _ shortcut: RelevantShortcut, _ kind: KindDefinition, _ keys: [HabitKey], beside first: Widget,
        in range: Range<Timestamp>
    ) -> StackPlanner.Candidate {
        var shortcut = shortcut
        shortcut.content.configuration = kind.effective(shortcut.content.configuration, family: first.family)
        let placed = widgets.first {
            $0.isRendered && $0.family == first.family
                && StackPlan.isSuggestion(widget: $0.id, of: shortcut.content)
        }
        return StackPlanner.Candidate(
            shortcut: shortcut,
            predictions: shortcut.ranges.isEmpty ? predictions(of: keys, in: range, timeZone: first.timeZone) : [],
            isRendered: placed != nil, curve: placed?.relevance.curve ?? RelevanceCurve([]))
    }

    /// Beginnings of suggestions on the device during the 24 hours before a time, those of a plan included.
    package func suggestions(with previous: StackPlan?, before now: Timestamp) -> [Timestamp] {
        Set(suggestedAt).union(previous?.suggestions(before: now) ?? []).filter { $0 > now - .seconds(86_400) }.sorted()
    }

    /// Plans a stack; nil: there is no such stack.
    package func plan(_ key: StackPlan.Key, after previous: StackPlan?, at now: Timestamp) -> StackPlan? {
        let suggestions = suggestions(with: previous, before: now)
        guard var planner = planner(of: key.stack, suggestions: suggestions, at: now) else { return nil }
        planner.candidates.removeAll { !$0.mayHold(in: now..<(now + StackPlanner.horizon)) }
        let earlier = previous?.schedule ?? StackSchedule()
        let schedule = planner.schedule(at: now, after: earlier)
        let unseen = schedule.insertions.filter { !$0.counts }.map(\.from)
        var plan = StackPlan(
            key: key, schedule: schedule, plannedAt: now, suggestedAt: suggestions.filter { !unseen.contains($0) })
        if planner.candidates.contains(where: \.mayWait) {
            // Planned again as if nothing had to wait: the widgets of these suggestions are placed early, so that they
            // get content and scores.
            var ready = planner
            for index in ready.candidates.indices {
                ready.candidates[index].isRendered = true
                ready.candidates[index].curve = RelevanceCurve([])
            }
            plan.awaited = ready.schedule(at: now, after: earlier).insertions
            plan.awaitsContent = planner.candidates.contains { candidate in
                !candidate.isRendered && plan.placed(at: now).contains { $0.content == candidate.shortcut.content }
            }
        }
        return plan
    }
}

extension StackPlanner.Candidate {
    /// Whether its widget has no content yet, or has a score of 0 or less at some time.
    fileprivate var mayWait: Bool {
        obstacle == nil && (!isRendered || curve.points.contains { $0.score <= 0 })
    }
}
