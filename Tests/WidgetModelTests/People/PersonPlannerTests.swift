// SPDX-License-Identifier: Apache-2.0

import JSON
import Randomness
import TestSupport
import Testing

@testable import WidgetModel

/// DESIGN.md, F, from donations and shortcuts to a day's schedule.
@Suite("Planning from a person's data", .timeLimit(.patience))
struct PersonPlannerTests {
    private static func kind(_ combinations: [[String]]) -> KindDefinition {
        KindDefinition(
            name: HabitsTests.kind, providerURL: "https://p.example.com", placeholder: .object(JSONObject()),
            intent: HabitsTests.intent(combinations))
    }

    private static let other = KindDefinition(
        name: "Meeting", providerURL: "https://p.example.com", placeholder: .object(JSONObject()))

    /// Returns a planner for a person with four weeks of donations, and a stack of these widgets (card and category).
    ///
    /// - Parameter isNamed: whether the record names the donated contents, so that they are suggested.
    private static func planner(
        _ widgets: [(id: String, card: String, category: String)], combinations: [[String]],
        shortcuts: [RelevantShortcut] = [], isNamed: Bool = false
    ) throws -> PersonPlanner {
        let kind = kind(combinations)
        var person = PersonRecord()
        person.habits = try HabitsTests.shopper(try #require(kind.intent))
        for (card, category) in isNamed ? [("AcmeCard", "groceries"), ("SoupPay", "restaurants")] : [] {
            let values = try HabitsTests.configuration(card, category)
            _ = person.remember(HabitContent.contents(kind: kind.name, configuration: values, intent: kind.intent))
        }
        for name in ["home", "other"] {
            let ids = name == "home" ? widgets.map(\.id) + ["removed"] : ["lonely"]
            let arrangement = StackArrangement(device: "d", name: name, widgets: ids)
            _ = person.apply(.stack(arrangement), at: Timestamp(microseconds: 0))
        }
        _ = person.apply(.shortcuts(device: nil, shortcuts), at: Timestamp(microseconds: 0))
        func widget(_ id: String, _ card: String, _ category: String) throws -> PersonPlanner.Widget {
            PersonPlanner.Widget(
                id: id, kind: kind, family: .systemSmall, configuration: try HabitsTests.configuration(card, category),
                timeZone: HabitsTests.berlin, relevance: RelevanceRecord())
        }
        return PersonPlanner(
            app: "com.example.wallet", device: "d", person: person,
            widgets: try widgets.map(widget) + [try widget("lonely", "None", "none")],
            kinds: [kind.name: kind, other.name: other])
    }

    private static func plan(_ planner: PersonPlanner, _ stack: String = "home", at time: String) throws -> StackPlan {
        let key = StackPlan.Key(app: planner.app, user: "u", device: "d", stack: stack)
        return try #require(planner.plan(key, after: nil, at: try HabitsTests.time(time)))
    }

    private static func top(_ plan: StackPlan, _ time: String) throws -> String? {
        plan.schedule.top(at: try HabitsTests.time(time))?.item.widget
    }

    @Test("F: the week of the talk: Friday noon AcmeCard's groceries, in the evening SoupPay's restaurants")
    func fridayNoon() throws {
        let planner = try Self.planner(
            [("weather", "None", "none"), ("acme", "AcmeCard", "groceries"), ("soup", "SoupPay", "restaurants")],
            combinations: [["card"], ["card", "category"]])
        let plan = try Self.plan(planner, at: "2026-07-03T06:00:00+02:00")
        #expect(try Self.top(plan, "2026-07-03T08:00:00+02:00") == "weather")
        #expect(try Self.top(plan, "2026-07-03T12:05:00+02:00") == "acme")
        #expect(try Self.top(plan, "2026-07-03T19:05:00+02:00") == "soup")
        let noon = try #require(plan.schedule.top(at: try HabitsTests.time("2026-07-03T12:05:00+02:00")))
        guard case .prediction(_, let explanation) = noon.reason else {
            Issue.record("\(noon.reason)")
            return
        }
        #expect(explanation.contains("between 11:45 and 12:15"))
    }

    @Test("F: {Card} matches any category; {Card, Category} only widgets set to both")
    func combinations() throws {
        let widgets = [("weather", "None", "none"), ("acme", "AcmeCard", "fuel")]
        let any = try Self.planner(widgets, combinations: [["card"]])
        let both = try Self.planner(widgets, combinations: [["card", "category"]], isNamed: true)
        let (start, noon) = ("2026-07-03T06:00:00+02:00", "2026-07-03T12:05:00+02:00")
        #expect(try Self.top(try Self.plan(any, at: start), noon) == "acme")
        // It is suggested instead.
        let suggested = try Self.plan(both, at: start).schedule.insertion(at: try HabitsTests.time(noon))
        #expect(try suggested?.content.configuration == HabitsTests.configuration("AcmeCard", "groceries"))
    }

    @Test("F: donations alone make suggestions: AcmeCard at noon and SoupPay in the evening, without any shortcut")
    func byDonations() throws {
        let start = "2026-07-03T06:00:00+02:00"
        var planner = try Self.planner(
            [("weather", "None", "none")], combinations: [["card", "category"]], isNamed: true)
        let plan = try Self.plan(planner, at: start)
        func suggested(_ plan: StackPlan, _ hour: String) throws -> WidgetConfiguration? {
            plan.schedule.insertion(at: try HabitsTests.time("2026-07-03T\(hour):05:00+02:00"))?.content.configuration
        }
        #expect(try suggested(plan, "12") == HabitsTests.configuration("AcmeCard", "groceries"))
        #expect(try suggested(plan, "19") == HabitsTests.configuration("SoupPay", "restaurants"))
        #expect(try suggested(plan, "09") == nil && suggested(plan, "15") == nil)
        guard case .prediction(let probability, _)? = plan.schedule.insertions.first?.reason else {
            Issue.record("\(plan.schedule)")
            return
        }
        #expect(probability > 0.7)
        #expect(try Self.plan(planner, "other", at: start).schedule.insertions.isEmpty, "one stack of the device")
        planner.person.stacks[0].arrangement.suggestions = false
        planner.person.stacks[1].arrangement.suggestions = false
        #expect(try Self.plan(planner, at: start).schedule.insertions.isEmpty)
    }

    @Test("F: what a widget of the device shows is not suggested by donations; {Card} suggests the card alone")
    func donationsOfCombinations() throws {
        let start = "2026-07-03T06:00:00+02:00"
        let combinations = [["card"], ["card", "category"]]
        let shown = try Self.planner([("acme", "AcmeCard", "fuel")], combinations: combinations, isNamed: true)
        let contents = try Self.plan(shown, at: start).schedule.insertions.map(\.content.configuration)
        #expect(try contents == [HabitsTests.configuration("SoupPay", "restaurants")], "the stack turns to acme")
        let card = try Self.planner([("weather", "None", "none")], combinations: [["card"]], isNamed: true)
        let alone = try Self.plan(card, at: start).schedule.insertions.first?.content.configuration
        #expect(
            try alone
                == card.kinds[HabitsTests.kind]?.effective(
                    WidgetConfiguration(["card": "AcmeCard"]), family: .systemSmall))
    }

    @Test("F: an intent that is not eligible for suggestions predicts nothing, neither rotations nor suggestions")
    func ineligible() throws {
        let start = "2026-07-03T06:00:00+02:00"
        var planner = try Self.planner(
            [("weather", "None", "none"), ("acme", "AcmeCard", "groceries")], combinations: [["card", "category"]],
            isNamed: true)
        #expect(try Self.plan(planner, at: start).schedule.rotations.count > 1)
        for index in planner.widgets.indices { planner.widgets[index].kind.intent?.isEligibleForSuggestions = false }
        planner.kinds[HabitsTests.kind]?.intent?.isEligibleForSuggestions = false
        let plan = try Self.plan(planner, at: start)
        #expect(plan.schedule.rotations.count == 1 && plan.schedule.insertions.isEmpty)
    }

    @Test("A person's record names the eight contents with the strongest habits, and forgets those without habits")
    func viewed() throws {
        var person = PersonRecord()
        let contents = (0..<10).map { HabitContent(kind: "K\($0)", values: .empty) }
        for (index, content) in contents.enumerated() {
            for day in 0...index { person.habits.learn([content.key], at: HalfHour(day: day, index: 24)) }
            _ = person.remember([content])
        }
        #expect(Set(person.viewed.map(\.kind)) == Set(contents.suffix(8).map(\.kind)))
        let isNew = person.remember([contents[9]])
        #expect(!isNew)
        let stored = PersonRecord(app: "a", habits: nil, arrangement: person.storedArrangement)
        #expect(stored?.viewed == person.viewed)
        person.habits = Habits()
        _ = person.remember([contents[0]])
        #expect(person.viewed.isEmpty)
    }

    @Test("One stack of a device takes suggestions; the calendar is suggested at 9:30, and the stack is restored")
    func suggestions() throws {
        let range = try HabitsTests.time("2026-07-03T09:30:00Z")..<HabitsTests.time("2026-07-03T10:00:00Z")
        let content = WidgetContent(app: "com.example.wallet", kind: "Meeting")
        let planner = try Self.planner(
            [("weather", "None", "none")], combinations: [["card"]],
            shortcuts: [RelevantShortcut(content: content, role: "meeting", ranges: [range])])
        let start = "2026-07-03T06:00:00Z"
        let plan = try Self.plan(planner, at: start)
        #expect(plan.schedule.insertions.map(\.content) == [content])
        #expect(try Self.top(plan, "2026-07-03T09:45:00Z") == nil)
        #expect(try Self.top(plan, "2026-07-03T10:00:00Z") == "weather")
        #expect(try Self.plan(planner, "other", at: start).schedule.insertions.isEmpty)
        // An expired shortcut is not suggested by habit.
        #expect(try Self.plan(planner, at: "2026-07-03T11:00:00Z").schedule.insertions.isEmpty)
    }

    @Test(
        "A shortcut without ranges is suggested when the person usually looks, unless the device already shows this widget"
    )
    func byHabit() throws {
        let values = try HabitsTests.configuration("AcmeCard", "groceries")
        let content = WidgetContent(app: "com.example.wallet", kind: HabitsTests.kind, configuration: values)
        let shortcut = RelevantShortcut(content: content)
        let planner = try Self.planner(
            [("weather", "None", "none")], combinations: [["card", "category"]], shortcuts: [shortcut])
        let plan = try Self.plan(planner, at: "2026-07-03T06:00:00+02:00")
        let noon = try HabitsTests.time("2026-07-03T12:05:00+02:00")
        #expect(plan.schedule.insertion(at: noon)?.content.kind == HabitsTests.kind)
        let shown = try Self.planner(
            [("weather", "None", "none"), ("acme", "AcmeCard", "groceries")], combinations: [["card", "category"]],
            shortcuts: [shortcut])
        #expect(try Self.plan(shown, at: "2026-07-03T06:00:00+02:00").schedule.insertions.isEmpty)
        var ineligible = planner
        ineligible.kinds[HabitsTests.kind]?.intent?.isEligibleForSuggestions = false
        #expect(try Self.plan(ineligible, at: "2026-07-03T06:00:00+02:00").schedule.insertions.isEmpty)
    }

    /// Returns a shortcut for a kind that is relevant from a given time.
    private static func shortcut(_ kind: String, _ from: Timestamp, seconds: Int = 1_800) -> RelevantShortcut {
        let content = WidgetContent(app: "com.example.wallet", kind: kind)
        return RelevantShortcut(content: content, ranges: [from..<(from + .seconds(seconds))])
    }

    private static func kinds(_ count: Int) -> [String: KindDefinition] {
        let kinds = (0..<count).map {
            KindDefinition(
                name: "K\($0)", providerURL: "https://p.example.com", placeholder: .object(JSONObject()))
        }
        return Dictionary(uniqueKeysWithValues: kinds.map { ($0.name, $0) })
    }

    /// Widgets that show suggestions of kinds, with content.
    private static func rendered(_ kinds: [KindDefinition], in key: StackPlan.Key) -> [PersonPlanner.Widget] {
        let plan = StackPlan(key: key, schedule: StackSchedule(), plannedAt: .distantPast)
        return kinds.map { kind in
            PersonPlanner.Widget(
                id: plan.widget(of: WidgetContent(app: key.app, kind: kind.name)), kind: kind, family: .systemSmall,
                configuration: .empty, timeZone: HabitsTests.berlin, relevance: RelevanceRecord())
        }
    }

    @Test("Suggestions that begin at once count once each: of eight sets in a row six are suggested")
    func cap() throws {
        var planner = try Self.planner([("weather", "None", "none")], combinations: [["card"]])
        planner.kinds = Self.kinds(8)
        let start = try HabitsTests.time("2026-07-03T06:00:00Z")
        let key = StackPlan.Key(app: planner.app, user: "u", device: "d", stack: "home")
        planner.widgets += Self.rendered(Array(planner.kinds.values), in: key)
        var plan: StackPlan?
        var suggested: [String] = []
        for number in 0..<8 {
            let now = start + .seconds(60 * number)
            _ = planner.person.apply(.shortcuts(device: nil, [Self.shortcut("K\(number)", now)]), at: now)
            // The second plan continues the suggestion.
            for time in [now, now + .seconds(30)] {
                plan = planner.plan(key, after: plan, at: time)
                plan?.schedule.insertion(at: time).map { suggested.append($0.content.kind) }
            }
        }
        #expect(suggested == (0..<6).flatMap { ["K\($0)", "K\($0)"] })
        #expect(plan?.suggestedAt == (0..<6).map { start + .seconds(60 * $0) })
    }

    @Test("Suggestions in other stacks of the device count")
    func capOfDevice() throws {
        let start = try HabitsTests.time("2026-07-03T06:00:00Z")
        let shortcut = Self.shortcut("Meeting", start + .seconds(3_600))
        var planner = try Self.planner([("weather", "None", "none")], combinations: [["card"]], shortcuts: [shortcut])
        let key = StackPlan.Key(app: planner.app, user: "u", device: "d", stack: "home")
        func count(_ others: Int) -> Int? {
            planner.suggestedAt = (0..<others).map { start - .seconds(600 * ($0 + 1)) }
            return planner.plan(key, after: nil, at: start)?.schedule.insertions.count
        }
        #expect(count(5) == 1 && count(6) == 0)
        planner.suggestedAt = planner.suggestedAt.map { $0 - .seconds(86_400) }
        #expect(planner.plan(key, after: nil, at: start)?.schedule.insertions.count == 1)
    }

    @Test("A suggestion without content waits; its widget is placed, and it begins with its content")
    func awaitsContent() throws {
        let start = try HabitsTests.time("2026-07-03T06:00:00Z")
        // It ends before its timeline could be rendered.
        let shortcut = Self.shortcut("Meeting", start, seconds: 200)
        var planner = try Self.planner([("weather", "None", "none")], combinations: [["card"]], shortcuts: [shortcut])
        let key = StackPlan.Key(app: planner.app, user: "u", device: "d", stack: "home")
        let waiting = try #require(planner.plan(key, after: nil, at: start))
        #expect(waiting.schedule.insertions.isEmpty)
        #expect(waiting.placed(at: start).map(\.content) == [shortcut.content])
        #expect(waiting.nextLook == start + StackPlan.renderTime / 2)
        planner.widgets += Self.rendered([Self.other], in: key)
        let shown = try #require(planner.plan(key, after: waiting, at: start + .seconds(9)))
        #expect(shown.schedule.top(at: start + .seconds(9))?.item == .suggestion(shortcut.content))
        #expect(shown.nextLook == start + .seconds(200))
    }

    @Test("A suggestion goes to the first stack with placed widgets in a family of its kind")
    func suggestedInto() throws {
        let time = "2026-07-03T06:00:00Z"
        let shortcut = Self.shortcut("Meeting", try HabitsTests.time("2026-07-03T09:30:00Z"))
        var planner = try Self.planner(
            [("weather", "None", "none")], combinations: [["card"]], shortcuts: [shortcut])
        func stacks() throws -> [String] {
            try ["home", "other"].filter { try !Self.plan(planner, $0, at: time).schedule.insertions.isEmpty }
        }
        #expect(try stacks() == ["home"])
        planner.kinds["Meeting"]?.families = [.systemSmall]
        planner.widgets[0].family = .systemLarge
        #expect(try stacks() == ["other"], "no family of home fits")
        planner.widgets[0].family = .systemSmall
        planner.widgets.removeAll { $0.id == "weather" }
        #expect(try stacks() == ["other"], "no widget of home is placed")
    }

    /// A device with a large widget in the stack home and a small one in the stack other, and kinds for one of them
    /// each.
    private static func twoSizes(_ shortcuts: [RelevantShortcut]) throws -> PersonPlanner {
        var planner = try planner([("weather", "None", "none")], combinations: [["card"]], shortcuts: shortcuts)
        planner.widgets[0].family = .systemLarge
        planner.kinds = kinds(3)
        planner.kinds["K0"]?.families = [.systemLarge]
        planner.kinds["K1"]?.families = [.systemSmall]
        return planner
    }

    /// Kinds that are suggested into each stack during a day.
    private static func suggested(_ planner: PersonPlanner) throws -> [String: [String]] {
        Dictionary(
            uniqueKeysWithValues: try ["home", "other"].map { stack in
                let plan = try plan(planner, stack, at: "2026-07-03T06:00:00Z")
                return (stack, plan.schedule.insertions.map(\.content.kind))
            })
    }

    @Test("Each shortcut has a stack of its own: the first one in a family of its kind")
    func stackOfShortcut() throws {
        let shortcuts = try ["K0", "K1", "K2"].enumerated().map { index, kind in
            Self.shortcut(kind, try HabitsTests.time("2026-07-03T09:00:00Z") + .seconds(3_600 * index))
        }
        let suggested = try Self.suggested(try Self.twoSizes(shortcuts))
        #expect(suggested == ["home": ["K0", "K2"], "other": ["K1"]])
    }

    @Test("Neither a shortcut's own times nor other shortcuts change its stack")
    func stackIsStable() throws {
        let time = try HabitsTests.time("2026-07-03T09:00:00Z")
        let small = Self.shortcut("K1", time)
        for others in [[], [time - .seconds(86_400 * 7)], [time + .seconds(86_400 * 7)]] {
            let large = others.map { Self.shortcut("K0", $0) }
            let suggested = try Self.suggested(try Self.twoSizes(large + [small]))
            #expect(suggested == ["home": [], "other": ["K1"]], "\(others)")
        }
        // A past range of a shortcut for both stacks.
        var both = Self.shortcut("K2", time)
        both.ranges.insert(contentsOf: Self.shortcut("K2", time - .seconds(86_400 * 7)).ranges, at: 0)
        #expect(try Self.suggested(try Self.twoSizes([both, small])) == ["home": ["K2"], "other": ["K1"]])
    }

    @Test("A stack whose schedule is read takes suggestions before one that nobody reads")
    func readStacks() throws {
        let shortcut = Self.shortcut("K2", try HabitsTests.time("2026-07-03T09:00:00Z"))
        var planner = try Self.twoSizes([shortcut])
        for (read, stack) in [([], "home"), (["other"], "other"), (["other", "home"], "home"), (["gone"], "home")] {
            planner.readStacks = read
            #expect(try Self.suggested(planner)[stack] == ["K2"], "\(read)")
            #expect(try Self.suggested(planner).values.joined().count == 1, "\(read)")
        }
        planner.readStacks = ["home"]
        planner.kinds["K2"]?.families = [.systemSmall]
        #expect(try Self.suggested(planner) == ["home": [], "other": ["K2"]], "none that is read fits")
    }

    @Test("A suggestion whose widget has a score of 0 waits for a better one, and its widget stays placed meanwhile")
    func irrelevantSuggestion() throws {
        let start = try HabitsTests.time("2026-07-03T06:00:00Z")
        let shortcut = Self.shortcut("Meeting", start, seconds: 7_200)
        var planner = try Self.planner([("weather", "None", "none")], combinations: [["card"]], shortcuts: [shortcut])
        let key = StackPlan.Key(app: planner.app, user: "u", device: "d", stack: "home")
        planner.widgets += Self.rendered([Self.other], in: key)
        let last = planner.widgets.count - 1
        func plan(_ score: Double, after previous: StackPlan?, minutes: Int) throws -> StackPlan {
            let curve = RelevanceCurve([.init(date: start - .seconds(60), score: score)])
            planner.widgets[last].relevance = RelevanceRecord(curve: curve)
            return try #require(planner.plan(key, after: previous, at: start + .seconds(60 * minutes)))
        }
        var previous: StackPlan?
        for (minutes, score, isShown) in [
            (0, 0.0, false), (5, 0, false), (10, 3, true), (20, -1, false), (30, 0, false),
        ] {
            let now = start + .seconds(60 * minutes)
            let plan = try plan(score, after: previous, minutes: minutes)
            #expect((plan.schedule.insertion(at: now) != nil) == isShown, "\(minutes)")
            #expect((plan.schedule.top(at: now)?.item == .suggestion(shortcut.content)) == isShown, "\(minutes)")
            #expect(plan.placed(at: now).map(\.content) == [shortcut.content], "\(minutes)")
            #expect(!plan.awaitsContent)
            previous = plan
        }
        #expect(previous?.suggestedAt == [start + .seconds(600)])
    }

    @Test("F: after any sequence of sets, withdrawals, turns and clock changes a stack is as the person arranged it")
    func restored() throws {
        let key = StackPlan.Key(app: "com.example.wallet", user: "u", device: "d", stack: "home")
        let own = [("a", "None", "none"), ("b", "None", "food"), ("c", "None", "fuel")]
        var fresh = try Self.planner(own, combinations: [["card"]])
        fresh.person.habits = Habits()
        fresh.kinds = Self.kinds(6)
        // The other shortcuts are suggested five minutes later.
        fresh.widgets += Self.rendered(["K0", "K1", "K2", "K3"].compactMap { fresh.kinds[$0] }, in: key)
        let arranged = fresh.person.stacks.map(\.arrangement)
        var began = 0
        for seed in 0..<200 {
            var random = SeededGenerator(seed: UInt64(seed))
            var planner = fresh
            var now = try HabitsTests.time("2026-07-03T06:00:00Z")
            var latest = now
            var plan: StackPlan?
            var top = "a"
            for _ in 0..<25 {
                now = now + .seconds(Int.random(in: -600...1_800, using: &random))
                latest = max(latest, now)
                let present = plan?.schedule.insertion(at: now).flatMap { plan?.widget(of: $0.content) }
                switch Int.random(in: 0..<5, using: &random) {
                case 0: _ = planner.person.apply(.shortcuts(device: nil, []), at: now, isOrderedByArrival: true)
                case 1...2:
                    let set = (0..<Int.random(in: 1...3, using: &random)).map { _ in
                        let from = now + .seconds(Int.random(in: -600...3_600, using: &random))
                        return Self.shortcut("K\(Int.random(in: 0..<6, using: &random))", from)
                    }
                    _ = planner.person.apply(.shortcuts(device: nil, set), at: now, isOrderedByArrival: true)
                case 3:
                    let widget = own[Int.random(in: 0..<3, using: &random)].0
                    let turn = PersonChange.turned(device: "d", stack: "home", widget: widget)
                    if !planner.person.apply(turn, at: now).isIgnored { top = widget }
                default:
                    let turn = PersonChange.turned(device: "d", stack: "home", widget: present ?? "nothing")
                    _ = planner.person.apply(turn, at: now)
                }
                plan = planner.plan(key, after: plan, at: now)
            }
            began += plan?.suggestedAt.count ?? 0
            now = latest + .seconds(2 * 3_600)
            let rest = try #require(planner.plan(key, after: plan, at: now))
            let stack = try #require(planner.planner(of: "home", at: now)).stack
            #expect(rest.schedule.insertion(at: now) == nil, "seed \(seed)")
            let contents = rest.schedule.contents(at: now, of: stack)
            #expect(contents == own.map { .widget($0.0) }, "seed \(seed)")
            #expect(rest.schedule.top(at: now)?.item == .widget(top), "seed \(seed)")
            #expect(planner.person.stacks.map(\.arrangement) == arranged, "seed \(seed)")
        }
        #expect(began > 200)
    }

    @Test("A stack without placed widgets has a plan without rotations; an unknown stack has none")
    func unplaced() throws {
        var planner = try Self.planner([("weather", "None", "none")], combinations: [["card"]])
        planner.widgets = []
        #expect(try Self.plan(planner, at: "2026-07-03T06:00:00Z").schedule == StackSchedule())
        let missing = planner.planner(of: "nothing", at: try HabitsTests.time("2026-07-03T06:00:00Z"))
        #expect(missing == nil)
    }

    @Test("The explanation says why one widget is on top and another is not")
    func explained() throws {
        let planner = try Self.planner(
            [("weather", "None", "none"), ("acme", "AcmeCard", "groceries")], combinations: [["card"]])
        let noon = try HabitsTests.time("2026-07-03T12:05:00+02:00")
        let plan = try Self.plan(planner, at: "2026-07-03T06:00:00+02:00")
        let own = try #require(planner.planner(of: "home", at: noon))
        let explanation = StackExplanation(of: own, plan: plan, at: noon)
        #expect(explanation.items.map(\.isOnTop) == [false, true])
        #expect(explanation.items[0].sentence.contains("no relevance, habit or shortcut"))
        #expect(explanation.items[1].sentence.contains("viewed on"))
        #expect(explanation.hold == nil)
    }
}
