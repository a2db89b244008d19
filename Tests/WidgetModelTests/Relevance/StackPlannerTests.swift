// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

/// DESIGN.md, E and F: the widget on top, and the suggestion.
@Suite("Plans of stacks", .timeLimit(.patience))
struct StackPlannerTests {
    static let day = "2026-06-22"

    static func time(_ text: String) -> Timestamp {
        guard let time = Timestamp(rfc3339: "\(day)T\(text):00Z") else { preconditionFailure(text) }
        return time
    }

    static func content(_ kind: String) -> WidgetContent { WidgetContent(app: "com.example.a", kind: kind) }

    /// Returns a stack whose widgets are named after their kinds.
    static func stack(_ widgets: String...) -> Stack {
        Stack(name: "home", items: widgets.map { Stack.Item(widget: $0, content: content($0)) })
    }

    static func curve(_ points: [(String, Double)], minutes: Int = 0) -> RelevanceCurve {
        RelevanceCurve(points.map { .init(date: time($0.0), score: $0.1, duration: .seconds(minutes * 60)) })
    }

    static func candidate(_ kind: String, _ from: String, _ until: String) -> StackPlanner.Candidate {
        StackPlanner.Candidate(
            shortcut: RelevantShortcut(content: content(kind), role: kind, ranges: [time(from)..<time(until)]))
    }

    /// Returns the rotations as text: time and item.
    static func rotations(_ schedule: StackSchedule) -> [String] {
        schedule.rotations.map { rotation in
            let clock = rotation.from.rfc3339.dropFirst(11).prefix(5)
            return switch rotation.item {
            case .widget(let id): "\(clock) \(id)"
            case .suggestion(let content): "\(clock) +\(content.kind)"
            }
        }
    }

    @Test("E: a day: weather on waking, 9:30 the calendar, 15:00 a reminder, with the evening's rain weather again")
    func talkDay() {
        var planner = StackPlanner(Self.stack("calendar", "weather", "reminders"))
        // Each widget has its own scale.
        planner.evidence = [
            "weather": .init(curve: Self.curve([("07:00", 0.4), ("08:30", 0), ("18:00", 0.9), ("21:00", 0)])),
            "calendar": .init(curve: Self.curve([("09:30", 50), ("10:30", 0)])),
            "reminders": .init(curve: Self.curve([("15:00", 7), ("15:30", 0)])),
        ]
        let schedule = planner.schedule(at: Self.time("06:00"))
        #expect(
            Self.rotations(schedule) == [
                "06:00 calendar", "07:00 weather", "08:30 calendar", "15:00 reminders", "15:30 calendar",
                "18:00 weather", "21:00 calendar",
            ])
        #expect(schedule.standing(at: Self.time("09:30"))?.standing?.reason == .relevance(score: 50, rank: 0.5))
        #expect(schedule.insertions.isEmpty)
    }

    @Test("E: a score of 0 or below never rotates, even if the person usually looks then", arguments: [0, -1.0])
    func notRelevant(_ score: Double) {
        var planner = StackPlanner(Self.stack("a", "b"))
        let likely = WidgetPrediction(from: Self.time("06:00"), probability: 0.9)
        planner.evidence = ["b": .init(curve: Self.curve([("07:00", score)]), predictions: [likely])]
        // Before the first entry with relevance the timeline has no score, and the prediction counts.
        #expect(Self.rotations(planner.schedule(at: Self.time("08:00"))) == ["08:00 a"])
        #expect(Self.rotations(planner.schedule(at: Self.time("06:30"))) == ["06:30 a", "06:30 b", "07:00 a"])
    }

    @Test("A stack does not flicker: a widget stays for the minimum, then the best one follows")
    func minimumStay() {
        var planner = StackPlanner(Self.stack("a", "b", "c"))
        planner.evidence = [
            "b": .init(curve: Self.curve([("09:00", 1), ("09:05", 0)])),
            "a": .init(curve: Self.curve([("09:05", 1), ("09:08", 0)])),
            "c": .init(curve: Self.curve([("09:08", 1)])),
        ]
        #expect(Self.rotations(planner.schedule(at: Self.time("08:00"))) == ["08:00 a", "09:00 b", "09:15 c"])
        planner.policy.minimumStay = .zero
        #expect(
            Self.rotations(planner.schedule(at: Self.time("08:00"))) == ["08:00 a", "09:00 b", "09:05 a", "09:08 c"])
    }

    @Test("A manual turn is respected for two hours; then the best widget follows")
    func turnedByHand() {
        var planner = StackPlanner(Self.stack("a", "b"))
        planner.evidence = ["b": .init(curve: Self.curve([("09:00", 1)]))]
        let before = planner.schedule(at: Self.time("08:00"))
        planner.stack.chosen = Stack.Turn(widget: "a", at: Self.time("09:10"))
        let schedule = planner.schedule(at: Self.time("09:10"), after: before)
        #expect(Self.rotations(schedule) == ["09:10 a", "11:10 b"])
        #expect(schedule.rotations[0].reason == .personsChoice)
        // Later plans keep the widget.
        #expect(planner.schedule(at: Self.time("10:00"), after: schedule).rotations == schedule.rotations)
    }

    @Test("Without Smart Rotate only the person turns the stack")
    func withoutSmartRotate() {
        var planner = StackPlanner(Self.stack("a", "b"))
        planner.evidence = ["b": .init(curve: Self.curve([("09:00", 1)]))]
        planner.stack.smartRotate = false
        #expect(Self.rotations(planner.schedule(at: Self.time("08:00"))) == ["08:00 a"])
        planner.stack.chosen = Stack.Turn(widget: "b", at: Self.time("08:30"))
        #expect(Self.rotations(planner.schedule(at: Self.time("12:00"))) == ["08:30 b"])
    }

    @Test("F: the calendar is suggested at 9:30 in a stack without one, and the stack is restored afterwards")
    func suggestion() {
        var planner = StackPlanner(Self.stack("weather", "news"))
        planner.candidates = [Self.candidate("calendar", "09:30", "10:00")]
        planner.evidence = ["news": .init(curve: Self.curve([("08:00", 3)]))]
        let schedule = planner.schedule(at: Self.time("07:00"))
        #expect(
            Self.rotations(schedule) == ["07:00 weather", "08:00 news", "09:30 +calendar", "10:00 news"])
        #expect(schedule.rotations[2].reason == .shortcut(role: "calendar"))
        #expect(schedule.rotations[3].reason == .suggestionEnded)
        let stack = planner.stack
        let widgets = stack.items.map { StackSchedule.Item.widget($0.widget) }
        #expect(schedule.contents(at: Self.time("09:29"), of: stack) == widgets)
        #expect(
            schedule.contents(at: Self.time("09:30"), of: stack) == [.suggestion(Self.content("calendar"))] + widgets)
        #expect(schedule.contents(at: Self.time("10:00"), of: stack) == widgets)
    }

    @Test("F: a widget in the stack is turned to instead of inserted; one elsewhere on the device is not suggested")
    func present() {
        var planner = StackPlanner(Self.stack("weather", "calendar"))
        planner.candidates = [Self.candidate("calendar", "09:30", "10:00")]
        let schedule = planner.schedule(at: Self.time("07:00"))
        #expect(Self.rotations(schedule) == ["07:00 weather", "09:30 calendar", "10:00 weather"])
        #expect(schedule.insertions.isEmpty)
        var other = StackPlanner(
            Self.stack("weather"), candidates: planner.candidates, shown: [Self.content("calendar")])
        #expect(Self.rotations(other.schedule(at: Self.time("07:00"))) == ["07:00 weather"])
        other.shown = [WidgetContent(app: "com.example.b", kind: "calendar")]
        #expect(other.schedule(at: Self.time("07:00")).insertions.count == 1)
    }

    @Test("E: a suggestion whose score is 0 or below does not begin, and ends unless the person has turned to it")
    func irrelevantSuggestion() {
        var planner = StackPlanner(Self.stack("weather", "news"))
        planner.candidates = [Self.candidate("calendar", "09:30", "11:00")]
        planner.candidates[0].curve = Self.curve([("08:00", 0), ("09:40", 2), ("10:00", -1)])
        let schedule = planner.schedule(at: Self.time("07:00"))
        #expect(Self.rotations(schedule) == ["07:00 weather", "09:40 +calendar", "10:00 weather"])
        // Another one has its turn.
        planner.candidates.append(Self.candidate("tasks", "09:00", "12:00"))
        #expect(
            Self.rotations(planner.schedule(at: Self.time("07:00"))) == [
                "07:00 weather", "09:00 +tasks", "09:40 +calendar", "10:00 +tasks", "12:00 weather",
            ])
        planner.candidates.removeLast()
        let key = StackPlan.Key(app: "com.example.a", user: "u", device: "d", stack: "home")
        let plan = StackPlan(key: key, schedule: schedule, plannedAt: Self.time("07:00"))
        planner.stack.chosen = Stack.Turn(widget: plan.widget(of: Self.content("calendar")), at: Self.time("09:45"))
        let chosen = planner.schedule(at: Self.time("09:45"), after: schedule)
        #expect(Self.rotations(chosen) == ["07:00 weather", "09:45 +calendar", "11:00 weather"])
    }

    @Test("F: a purchase is relevant from now to now + 1800 s; several ranges are allowed")
    func ranges() {
        var planner = StackPlanner(Self.stack("weather"))
        let ranges = ["09:41", "18:52"].map { Self.time($0)..<(Self.time($0) + .seconds(1_800)) }
        planner.candidates = [
            StackPlanner.Candidate(shortcut: RelevantShortcut(content: Self.content("purchases"), ranges: ranges))
        ]
        #expect(
            Self.rotations(planner.schedule(at: Self.time("08:00"))) == [
                "08:00 weather", "09:41 +purchases", "10:11 weather", "18:52 +purchases", "19:22 weather",
            ])
    }

    @Test("F: surface what matters: a thunderstorm, not a small change of temperature", arguments: [3.0, 80])
    func thunderstorm(_ score: Double) {
        var history = RelevanceHistory()
        let yesterday = Self.time("00:00") - .seconds(86_400)
        let changes = (0..<24).map { (hour: Int) -> RelevanceCurve.Point in
            let score: Double = hour == 17 ? 60 : Double(hour % 5 + 1)
            return RelevanceCurve.Point(date: yesterday + .seconds(3_600 * hour + 1), score: score)
        }
        history.absorb(RelevanceCurve(changes), until: Self.time("00:00"))
        var planner = StackPlanner(Self.stack("calendar", "weather"))
        planner.evidence = [
            "calendar": .init(predictions: [WidgetPrediction(from: Self.time("08:00"), probability: 0.7)]),
            "weather": .init(curve: Self.curve([("14:00", score)], minutes: 30), history: history),
        ]
        let isStorm = score > 60
        #expect(
            Self.rotations(planner.schedule(at: Self.time("08:00")))
                == ["08:00 calendar"] + (isStorm ? ["14:00 weather", "14:30 calendar"] : []))
    }

    @Test("F: a turn by hand holds up a suggestion by habit, and none with a range, which is news of the app")
    func turnBeforeSuggestion() {
        var planner = StackPlanner(Self.stack("weather", "news"))
        planner.stack.chosen = Stack.Turn(widget: "news", at: Self.time("09:00"))
        var habit = Self.candidate("card", "09:00", "09:30")
        habit.shortcut.ranges = []
        habit.predictions = [WidgetPrediction(from: Self.time("09:00"), probability: 0.9)]
        planner.candidates = [habit]
        #expect(Self.rotations(planner.schedule(at: Self.time("09:00"))) == ["09:00 news", "11:00 +card"])
        planner.candidates = [Self.candidate("purchases", "09:41", "10:11")]
        #expect(
            Self.rotations(planner.schedule(at: Self.time("09:00"))) == [
                "09:00 news", "09:41 +purchases", "10:11 news",
            ])
    }

    @Test("F: after a suggestion the stack's own widgets rotate at once, not after the minimum stay")
    func rotationAfterSuggestion() {
        var planner = StackPlanner(Self.stack("weather", "news"))
        planner.candidates = [Self.candidate("calendar", "09:30", "10:00")]
        planner.evidence = ["news": .init(curve: Self.curve([("09:50", 3)]))]
        #expect(
            Self.rotations(planner.schedule(at: Self.time("09:00"))) == [
                "09:00 weather", "09:30 +calendar", "10:00 news",
            ])
        planner.evidence = ["news": .init(curve: Self.curve([("10:05", 3)]))]
        #expect(Self.rotations(planner.schedule(at: Self.time("09:00"))).last == "10:05 news")
    }

    @Test("F: a short suggestion, and plans after its end, do not shorten the minimum stay of the widget below")
    func stayAcrossSuggestion() {
        var planner = StackPlanner(Self.stack("weather", "news", "notes"))
        planner.candidates = [Self.candidate("calendar", "09:02", "09:05")]
        planner.evidence = [
            "news": .init(curve: Self.curve([("09:00", 1)])), "notes": .init(curve: Self.curve([("09:08", 1)])),
        ]
        let expected = ["09:00 news", "09:02 +calendar", "09:05 news", "09:15 notes"]
        var schedule = planner.schedule(at: Self.time("09:00"))
        #expect(Self.rotations(schedule).suffix(4) == expected)
        for (index, time) in ["09:03", "09:06", "09:07", "09:09", "09:14"].enumerated() {
            schedule = planner.schedule(at: Self.time(time), after: schedule)
            let left = index == 0 ? 3 : 2
            #expect(Self.rotations(schedule).suffix(left) == expected.suffix(left), "\(time)")
        }
    }

    @Test("F: a suggestion that would end before a device can show it does not begin")
    func tooShort() {
        var planner = StackPlanner(Self.stack("weather"))
        planner.candidates = [Self.candidate("calendar", "09:30", "10:00")]
        let begins = { (seconds: Int) in
            let now = Self.time("10:00") - .seconds(seconds)
            return planner.schedule(at: now).insertions.count == 1
        }
        #expect(begins(10) && !begins(9))
    }

    @Test("F: a suggestion that is withdrawn before a device can have shown it does not count to six a day")
    func withdrawnUnseen() {
        let key = StackPlan.Key(app: "com.example.a", user: "u", device: "d", stack: "home")
        func counted(afterSeconds seconds: Int) -> Int {
            var planner = StackPlanner(Self.stack("weather"))
            planner.candidates = [Self.candidate("calendar", "09:30", "10:00")]
            let now = Self.time("09:30")
            let before = planner.schedule(at: now)
            planner.candidates = []
            let schedule = planner.schedule(at: now + .seconds(seconds), after: before)
            return StackPlan(key: key, schedule: schedule, plannedAt: now + .seconds(seconds))
                .suggestions(before: now + .seconds(60)).count
        }
        #expect(counted(afterSeconds: 9) == 0)
        #expect(counted(afterSeconds: 10) == 1)
        // The limit has room for another one at once.
        var planner = StackPlanner(Self.stack("weather"), suggested: 5)
        planner.candidates = [Self.candidate("calendar", "09:30", "10:00")]
        let before = planner.schedule(at: Self.time("09:30"))
        planner.suggested = 6
        planner.candidates = [Self.candidate("tasks", "09:00", "09:50")]
        let now = Self.time("09:30") + .seconds(5)
        #expect(planner.schedule(at: now, after: before).insertions.map(\.content.kind) == ["calendar", "tasks"])
    }

    @Test("F: people turn suggestions off per stack")
    func suggestionsOff() {
        var planner = StackPlanner(Self.stack("weather"))
        planner.candidates = [Self.candidate("calendar", "09:30", "10:00")]
        planner.stack.suggestions = false
        #expect(Self.rotations(planner.schedule(at: Self.time("07:00"))) == ["07:00 weather"])
    }

    @Test("F: a shortcut that the next set omits is withdrawn at once")
    func withdrawn() {
        var planner = StackPlanner(Self.stack("weather"))
        planner.candidates = [Self.candidate("calendar", "09:30", "11:00")]
        let before = planner.schedule(at: Self.time("07:00"))
        planner.candidates = []
        let schedule = planner.schedule(at: Self.time("10:00"), after: before)
        #expect(Self.rotations(schedule) == ["07:00 weather", "09:30 +calendar", "10:00 weather"])
        #expect(schedule.insertions.map(\.until) == [Self.time("10:00")])
    }

    @Test("A suggestion that the person turns away from does not return, and ends at its time")
    func turnedAway() {
        var planner = StackPlanner(Self.stack("weather", "news"))
        planner.candidates = [Self.candidate("calendar", "09:30", "11:00")]
        let before = planner.schedule(at: Self.time("07:00"))
        planner.stack.chosen = Stack.Turn(widget: "news", at: Self.time("10:00"))
        let schedule = planner.schedule(at: Self.time("10:00"), after: before)
        #expect(Self.rotations(schedule) == ["10:00 news"])
        #expect(schedule.insertions.map(\.until) == [Self.time("11:00")])
    }

    @Test("A suggestion that the person turns back to stays on top until it ends; then the previous widget follows")
    func turnedBack() {
        var planner = StackPlanner(Self.stack("weather", "news"))
        planner.candidates = [Self.candidate("calendar", "09:30", "11:00")]
        let before = planner.schedule(at: Self.time("07:00"))
        planner.stack.chosen = Stack.Turn(widget: "news", at: Self.time("10:00"))
        let away = planner.schedule(at: Self.time("10:00"), after: before)
        let key = StackPlan.Key(app: "com.example.a", user: "u", device: "d", stack: "home")
        let plan = StackPlan(key: key, schedule: away, plannedAt: Self.time("10:00"))
        let suggestion = plan.widget(of: Self.content("calendar"))
        planner.stack.chosen = Stack.Turn(widget: suggestion, at: Self.time("10:10"))
        planner.stack.left = "news"
        let schedule = planner.schedule(at: Self.time("10:10"), after: away)
        #expect(Self.rotations(schedule) == ["10:00 news", "10:10 +calendar", "11:00 news"])
        #expect(schedule.rotations.dropFirst().first?.reason == .personsChoice)
        let later = planner.schedule(at: Self.time("10:20"), after: schedule)
        #expect(later.rotations == schedule.rotations && later.insertions == schedule.insertions)
    }

    @Test("F: a shortcut without dates is suggested when the person usually looks")
    func byHabit() {
        var planner = StackPlanner(Self.stack("weather"))
        let predictions = [("11:45", 0.7), ("12:15", 0.1)].map {
            WidgetPrediction(from: Self.time($0.0), probability: $0.1)
        }
        planner.candidates = [
            StackPlanner.Candidate(
                shortcut: RelevantShortcut(content: Self.content("card")), predictions: predictions)
        ]
        let schedule = planner.schedule(at: Self.time("07:00"))
        #expect(Self.rotations(schedule) == ["07:00 weather", "11:45 +card", "12:15 weather"])
        #expect(
            schedule.insertions[0].reason == .prediction(probability: 0.7, explanation: predictions[0].explanation))
    }

    @Test(
        "F: a donation never guarantees display: an app's daily suggestions are limited, except in developer mode")
    func limit() {
        var planner = StackPlanner(Self.stack("weather"))
        planner.candidates = (8..<18).map { hour in
            let text = hour < 10 ? "0\(hour)" : "\(hour)"
            return Self.candidate("k\(text)", "\(text):00", "\(text):20")
        }
        #expect(planner.schedule(at: Self.time("07:00")).insertions.count == 6)
        planner.suggested = 4
        #expect(planner.schedule(at: Self.time("07:00")).insertions.count == 2)
        planner.policy.maximumSuggestionsPerDay = .max
        #expect(planner.schedule(at: Self.time("07:00")).insertions.count == 10)
    }

    @Test("Of several shortcuts the shortest range is suggested, after the minimum stay of a longer one, which returns")
    func narrowest() {
        var planner = StackPlanner(Self.stack("weather"))
        planner.candidates = [
            Self.candidate("allday", "08:00", "18:00"), Self.candidate("meeting", "10:00", "11:00"),
            Self.candidate("pause", "11:05", "11:25"), Self.candidate("same", "12:00", "22:00"),
            Self.candidate("same", "13:00", "14:00"),
        ]
        #expect(
            Self.rotations(planner.schedule(at: Self.time("07:00"))) == [
                "07:00 weather", "08:00 +allday", "10:00 +meeting", "11:00 +allday", "11:15 +pause", "11:25 +allday",
                "12:00 +same", "22:00 weather",
            ])
    }

    @Test("Of several habits the most probable is suggested and stays; a range comes before a habit")
    func mostProbable() {
        func habit(_ kind: String, _ probability: Double) -> StackPlanner.Candidate {
            StackPlanner.Candidate(
                shortcut: RelevantShortcut(content: Self.content(kind)),
                predictions: [
                    WidgetPrediction(from: Self.time("09:00"), probability: probability),
                    WidgetPrediction(from: Self.time("10:00"), probability: 1 - probability),
                    WidgetPrediction(from: Self.time("12:00"), probability: 0),
                ])
        }
        var planner = StackPlanner(Self.stack("weather"))
        planner.candidates = [
            habit("a", 0.4), habit("b", 0.6), Self.candidate("z", "11:00", "11:30"),
        ]
        #expect(
            Self.rotations(planner.schedule(at: Self.time("07:00"))) == [
                "07:00 weather", "09:00 +b", "11:00 +z", "11:30 +a", "12:00 weather",
            ])
    }
}

extension WidgetPrediction {
    /// A prediction of a habit of weekdays.
    init(from: Timestamp, probability: Double) {
        self.init(
            from: from, probability: probability, viewed: 7, days: 10, dayName: "weekdays",
            halfHour: HalfHour(at: from, timeZone: "UTC"))
    }
}

extension StackSchedule {
    /// The stack's widgets in order at a time: the person's, below an inserted one if there is one.
    func contents(at time: Timestamp, of stack: Stack) -> [Item] {
        (insertion(at: time).map { [.suggestion($0.content)] } ?? []) + stack.items.map { .widget($0.widget) }
    }
}
