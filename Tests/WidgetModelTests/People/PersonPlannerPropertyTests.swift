// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import TestSupport
import Testing

@testable import WidgetModel

/// Plans of random people, checked against the rules without the planner's own values.
@Suite("Properties of people's plans", .timeLimit(.patience), .tags(.property))
struct PersonPlannerPropertyTests {
    private static let app = "com.example.wallet"
    private static let key = StackPlan.Key(app: app, user: "u", device: "d", stack: "home")
    private static let start = Timestamp(rfc3339: "2026-07-03T06:00:00Z") ?? .distantPast
    /// The stack's widgets show the first three kinds. Another stack comes later by name.
    private static let own = ["a", "b", "c"]

    // MARK: People

    /// K0 to K8; K7 supports large widgets only, and K8 is not eligible for suggestions.
    private static let kinds: [String: KindDefinition] = {
        let kinds = (0..<9).map { number in
            var kind = KindDefinition(
                name: "K\(number)", providerURL: "https://p.example.com", placeholder: .object(JSONObject()))
            if number == 7 { kind.families = [.systemLarge] }
            if number == 8 {
                kind.intent = IntentDefinition(title: "K8", isEligibleForSuggestions: false, parameters: [])
            }
            return kind
        }
        return Dictionary(uniqueKeysWithValues: kinds.map { ($0.name, $0) })
    }()

    private static func content(_ kind: String) -> WidgetContent { WidgetContent(app: app, kind: kind) }

    private static func minute(_ range: Range<Int>, _ random: inout SeededGenerator) -> Timestamp {
        start + .seconds(60 * Int.random(in: range, using: &random))
    }

    private static func relevance(_ random: inout SeededGenerator) -> RelevanceRecord {
        let dates = (0..<Int.random(in: 0...6, using: &random)).map { _ in minute(-300..<1_800, &random) }.sorted()
        let points = dates.map {
            RelevanceCurve.Point(
                date: $0, score: Double(Int.random(in: -1...3, using: &random)),
                duration: .seconds(1_200 * Int.random(in: 0...2, using: &random)))
        }
        return RelevanceRecord(curve: RelevanceCurve(points))
    }

    private static func habits(_ random: inout SeededGenerator) -> Habits {
        var habits = Habits()
        for kind in ["K1", "K2", "K5", "K6"] where Bool.random(using: &random) {
            let keys = HabitKey.keys(kind: kind, configuration: .empty, intent: nil)
            let noon = start + .seconds(1_800 * Int.random(in: 0..<40, using: &random))
            for day in 1...28 { habits.learn(keys, at: HalfHour(at: noon - .seconds(day * 86_400), timeZone: "UTC")) }
        }
        return habits
    }

    /// A stack of three widgets with relevance, and rendered widgets of the suggestions K3 to K5.
    private static func planner(_ random: inout SeededGenerator) -> PersonPlanner {
        var person = PersonRecord()
        person.habits = habits(&random)
        let arrangement = StackArrangement(
            device: "d", name: "home", widgets: own, smartRotate: Int.random(in: 0..<5, using: &random) > 0,
            suggestions: Int.random(in: 0..<8, using: &random) > 0)
        _ = person.apply(.stack(arrangement), at: start - .seconds(86_400))
        _ = person.apply(.stack(.init(device: "d", name: "other", widgets: ["z"])), at: start - .seconds(86_400))
        let plan = StackPlan(key: key, schedule: StackSchedule(), plannedAt: start)
        let ids = own + ["z"] + (3...5).map { plan.widget(of: content("K\($0)")) }
        let widgets = zip(ids, ["K0", "K1", "K2", "K0", "K3", "K4", "K5"]).compactMap { id, name in
            kinds[name].map {
                PersonPlanner.Widget(
                    id: id, kind: $0, family: .systemSmall, configuration: .empty, timeZone: "UTC",
                    relevance: relevance(&random))
            }
        }
        return PersonPlanner(app: app, device: "d", person: person, widgets: widgets, kinds: kinds)
    }

    /// K0 to K9, of which the app has no K9; one in four by habit.
    private static func shortcuts(from now: Timestamp, _ random: inout SeededGenerator) -> [RelevantShortcut] {
        (0..<Int.random(in: 0...8, using: &random)).map { _ in
            let ranges = (0..<max(0, Int.random(in: -1...3, using: &random))).map { _ in
                let from = now + .seconds(60 * Int.random(in: -60...900, using: &random))
                return from..<(from + .seconds(60 * Int.random(in: 1...240, using: &random)))
            }
            return RelevantShortcut(content: content("K\(Int.random(in: 0...9, using: &random))"), ranges: ranges)
        }
    }

    /// Changes a person's shortcuts or turns the stack, sometimes to the present suggestion.
    private static func change(
        _ person: inout PersonRecord, after plan: StackPlan?, at now: Timestamp, _ random: inout SeededGenerator
    ) {
        switch Int.random(in: 0..<5, using: &random) {
        case 0...2: _ = person.apply(.shortcuts(device: nil, shortcuts(from: now, &random)), at: now)
        case 3:
            let suggestion = plan?.schedule.insertion(at: now).flatMap { plan?.widget(of: $0.content) }
            let widget = (own + [suggestion].compactMap(\.self)).randomElement(using: &random) ?? "a"
            _ = person.apply(.turned(device: "d", stack: "home", widget: widget), at: now)
        default: break
        }
    }

    // MARK: Rules

    /// A plan with the state that it was made from.
    private struct Case {
        let planner: PersonPlanner
        let plan: StackPlan
        let now: Timestamp
        let label: Comment

        var arrangement: StackArrangement { planner.person.stacks[0].arrangement }
        var policy: RotationPolicy { planner.policy }
        var rotations: [StackSchedule.Rotation] { plan.schedule.rotations }
        var insertions: [StackSchedule.Insertion] { plan.schedule.insertions }
        /// Until then the last turn by hand is respected.
        var respected: Timestamp {
            planner.person.stacks[0].turn.map { $0.at + policy.respectForTurn } ?? .distantPast
        }

        private func score(_ id: String, at time: Timestamp) -> Double? {
            planner.widgets.first { $0.id == id }?.relevance.curve.relevance(at: time)?.score
        }

        func score(_ item: StackSchedule.Item, at time: Timestamp) -> Double? {
            switch item {
            case .widget(let id): score(id, at: time)
            case .suggestion(let content): score(plan.widget(of: content), at: time)
            }
        }

        func shortcuts(for content: WidgetContent) -> [RelevantShortcut] {
            planner.person.shortcuts(on: "d").filter { $0.content == content }
        }

        /// Whether a shortcut for a content holds: by its range, or by the habit that a reason states.
        func holds(_ content: WidgetContent, _ reason: StackSchedule.Reason, at time: Timestamp) -> Bool {
            shortcuts(for: content).contains { shortcut in
                guard shortcut.ranges.isEmpty else { return shortcut.holds(at: time) }
                if case .prediction(let probability, _) = reason { return probability >= policy.minimumSuggestion }
                return true
            }
        }
    }

    @Test("Random people's plans keep the rules of scores, limits, stays and ranges", arguments: UInt64(0)..<60)
    func lawful(seed: UInt64) throws {
        var random = SeededGenerator(seed: seed)
        var planner = Self.planner(&random)
        var (now, plan) = (Self.start, StackPlan?.none)
        for step in 0..<15 {
            Self.change(&planner.person, after: plan, at: now, &random)
            let new = try #require(planner.plan(Self.key, after: plan, at: now))
            let example = Case(planner: planner, plan: new, now: now, label: "seed \(seed), step \(step)")
            Self.checkScores(example)
            Self.checkOwnWidgets(example)
            Self.checkLimits(example)
            Self.checkStays(example)
            Self.checkSuggestions(example)
            Self.checkRestored(example)
            try Self.checkRepeated(example)
            plan = new
            now = now + .seconds(60 * Int.random(in: 1...90, using: &random))
        }
    }

    /// Nothing of a score of 0 or less comes to the top by itself, and no such suggestion stays there.
    private static func checkScores(_ example: Case) {
        for rotation in example.rotations where rotation.from >= example.now {
            switch rotation.reason {
            case .start, .personsChoice, .suggestionEnded, .leftOnTop: continue
            case .relevance, .prediction, .shortcut:
                let score = example.score(rotation.item, at: rotation.from)
                #expect(score.map { $0 > 0 } ?? true, example.label)
            }
        }
        for time in times(example) {
            guard let top = example.plan.schedule.top(at: time), top.item.widget == nil else { continue }
            let score = example.score(top.item, at: time)
            #expect(top.reason == .personsChoice || score.map { $0 > 0 } ?? true, example.label)
        }
    }

    /// A widget of the stack whose score is 0 or less is on top only while nothing relevant may replace it.
    private static func checkOwnWidgets(_ example: Case) {
        for time in times(example) where example.arrangement.smartRotate && time >= example.respected {
            guard let top = example.plan.schedule.top(at: time), let widget = top.item.widget,
                top.from + example.policy.minimumStay <= time,
                let score = example.score(top.item, at: time), score <= 0
            else { continue }
            let relevant = own.filter { $0 != widget && example.score(.widget($0), at: time) ?? 0 > 0 }
            #expect(relevant.isEmpty, example.label)
        }
    }

    private static func checkLimits(_ example: Case) {
        let begun = Set(example.plan.suggestedAt + example.insertions.map(\.from))
        #expect(begun.count <= example.policy.maximumSuggestionsPerDay, example.label)
        for (first, second) in zip(example.insertions, example.insertions.dropFirst()) {
            #expect(first.until.map { $0 <= second.from } ?? false, "\(example.label): two suggestions at once")
        }
    }

    private static func checkStays(_ example: Case) {
        let rotations = example.rotations.filter { rotation in
            switch rotation.reason {
            case .start, .personsChoice, .suggestionEnded, .leftOnTop: false
            case .relevance, .prediction, .shortcut: rotation.item.widget != nil
            }
        }
        for rotation in rotations where rotation.from >= example.now {
            #expect(example.arrangement.smartRotate && rotation.from >= example.respected, example.label)
        }
        for (first, second) in zip(rotations, rotations.dropFirst()) {
            #expect(second.from - first.from >= example.policy.minimumStay, example.label)
        }
        // A suggestion that still holds gives way after the stay.
        for (first, second) in zip(example.insertions, example.insertions.dropFirst())
        where first.until == second.from && example.score(.suggestion(first.content), at: second.from) ?? 1 > 0
            && example.shortcuts(for: first.content).contains(where: { $0.holds(at: second.from) })
        {
            #expect(second.from - first.from >= example.policy.minimumStay, example.label)
        }
    }

    /// A suggestion is in the stack only while its shortcut holds, and only if the device does not show its content.
    private static func checkSuggestions(_ example: Case) {
        for insertion in example.insertions where insertion.until ?? .distantFuture > example.now {
            #expect(example.arrangement.suggestions, example.label)
            #expect(["K3", "K4", "K5", "K6"].contains(insertion.content.kind), example.label)
            if case .prediction = insertion.reason, insertion.from >= example.now {
                #expect(insertion.from >= example.respected, example.label)
            }
            for time in times(example) + [max(insertion.from, example.now)] where insertion.holds(at: time) {
                #expect(example.holds(insertion.content, insertion.reason, at: time), example.label)
            }
        }
        for time in times(example) {
            guard case .suggestion(let content)? = example.plan.schedule.top(at: time)?.item else { continue }
            #expect(example.plan.schedule.insertion(at: time)?.content == content, example.label)
        }
    }

    /// After a suggestion, the stack has the person's widgets in their order, and the same one on top.
    private static func checkRestored(_ example: Case) {
        let rotations = example.rotations
        for (index, rotation) in rotations.enumerated() where rotation.reason == .suggestionEnded {
            guard let before = rotations[..<index].last(where: { $0.item.widget != nil }) else { continue }
            #expect(rotation.item == before.item, example.label)
        }
        guard let stack = example.planner.planner(of: "home", at: example.now)?.stack else { return }
        for insertion in example.insertions {
            guard let until = insertion.until, example.plan.schedule.insertion(at: until) == nil else { continue }
            let contents = example.plan.schedule.contents(at: until, of: stack)
            #expect(contents == own.map { .widget($0) }, example.label)
            #expect(example.plan.schedule.top(at: until)?.item.widget != nil, example.label)
        }
    }

    private static func checkRepeated(_ example: Case) throws {
        let again = try #require(example.planner.plan(key, after: example.plan, at: example.now))
        #expect(again.continues(example.plan), example.label)
        #expect(example.planner.plan(key, after: again, at: example.now) == again, example.label)
    }

    /// Moments of the planned day, 17 minutes apart.
    private static func times(_ example: Case) -> [Timestamp] {
        (0..<84).map { example.now + .seconds(17 * 60 * $0) }
    }
}
