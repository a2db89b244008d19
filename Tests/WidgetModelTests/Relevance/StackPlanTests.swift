// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing

@testable import WidgetModel

@Suite("Stored and published plans", .timeLimit(.patience))
struct StackPlanTests {
    private typealias Planner = StackPlannerTests
    private static let key = StackPlan.Key(app: "com.example.a", user: "u", device: "d", stack: "home")

    /// A day with rotations for every reason, and a suggestion.
    private static func plan(at time: String = "06:00", after previous: StackPlan? = nil) -> StackPlan {
        var planner = StackPlanner(Planner.stack("a", "b"))
        planner.evidence = [
            "a": .init(curve: Planner.curve([("07:00", 1), ("08:00", 0)])),
            "b": .init(
                predictions: [
                    WidgetPrediction(from: Planner.time("12:00"), probability: 0.8),
                    WidgetPrediction(from: Planner.time("12:30"), probability: 0),
                ]),
        ]
        planner.candidates = [Planner.candidate("c", "15:00", "16:00")]
        let now = Planner.time(time)
        return StackPlan(
            key: key, schedule: planner.schedule(at: now, after: previous?.schedule ?? StackSchedule()),
            plannedAt: now, suggestedAt: previous?.suggestions(before: now) ?? [])
    }

    @Test("F: a suggestion is withdrawn if the next plan leaves it out or ends it before, once the device may know it")
    func withdrawals() {
        typealias Planner = StackPlannerTests
        func plan(_ ranges: [(from: String, until: String)], at time: String) -> StackPlan {
            var planner = StackPlanner(Planner.stack("weather"))
            planner.candidates = ranges.map { Planner.candidate("calendar", $0.from, $0.until) }
            let now = Planner.time(time)
            return StackPlan(
                key: StackPlan.Key(app: "com.example.a", user: "u", device: "d", stack: "home"),
                schedule: planner.schedule(at: now), plannedAt: now)
        }
        let known = plan([("10:00", "11:00"), ("15:00", "16:00")], at: "09:40")
        let later: [(ranges: [(from: String, until: String)], at: String, withdraws: Bool)] = [
            ([("10:00", "11:00"), ("15:00", "16:00")], "10:10", false), ([("10:00", "12:00")], "10:10", false),
            ([("15:00", "16:00")], "10:10", true), ([("10:00", "10:15"), ("15:00", "16:00")], "10:10", true),
            ([], "10:10", true), ([("10:00", "11:00")], "10:10", false), ([("10:00", "11:00")], "14:50", true),
            ([("10:00", "11:00")], "14:40", false), ([], "09:41", false), ([], "17:00", false),
        ]
        for (number, (ranges, time, withdraws)) in later.enumerated() {
            #expect(plan(ranges, at: time).withdraws(from: known) == withdraws, "\(number)")
        }
    }

    @Test("A stored plan is read back unchanged")
    func stored() {
        let plan = Self.plan()
        #expect(plan.schedule.rotations.count >= 3 && plan.schedule.insertions.count == 1)
        #expect(StackPlan(stored: plan.json, key: Self.key) == plan)
        #expect(StackPlan(stored: ["rotations": []], key: Self.key) == nil)
        #expect(
            Set([Self.key.id, StackPlan.Key(app: "com.example.a", user: "v", device: "d", stack: "home").id]).count == 2
        )
    }

    @Test("A plan that equals an earlier one continues it, until that is six hours old")
    func continues() {
        let first = Self.plan()
        for time in ["06:30", "07:30", "11:59"] {
            #expect(Self.plan(at: time, after: first).continues(first), "\(time)")
        }
        #expect(!Self.plan(at: "12:00", after: first).continues(first))
        var other = Self.plan(at: "06:30", after: first)
        other.schedule.rotations = other.schedule.rotations.map { rotation in
            var rotation = rotation
            switch rotation.reason {
            case .relevance(let score, let rank): rotation.reason = .relevance(score: score, rank: rank + 0.01)
            case .prediction: rotation.reason = .prediction(probability: 0.7, explanation: "viewed now and then")
            default: break
            }
            return rotation
        }
        #expect(other.schedule != Self.plan(at: "06:30", after: first).schedule)
        #expect(other.continues(first), "only the evidence differs")
        other.schedule.rotations[1].reason = .shortcut(role: "")
        #expect(!other.continues(first), "the type of the reason differs")
        other = Self.plan(at: "06:30", after: first)
        other.schedule.rotations[other.schedule.rotations.count - 1].item = .widget("b")
        #expect(!other.continues(first))
        other = Self.plan(at: "06:30", after: first)
        other.schedule.insertions = []
        #expect(!other.continues(first))
    }

    @Test("A plan whose values differ by more than a tenth does not continue an earlier one")
    func values() {
        let first = Self.plan()
        func isContinued(adding change: Double, since: Timestamp? = nil) -> Bool {
            var other = Self.plan(at: "06:30", after: first)
            for index in other.schedule.standings.indices {
                other.schedule.standings[index].standing?.value += change
                if let since { other.schedule.standings[index].standing?.since = since }
            }
            return other.continues(first)
        }
        #expect(isContinued(adding: 0.09) && !isContinued(adding: 0.11))
        #expect(!isContinued(adding: 0, since: Planner.time("07:30")), "another relevance")
        // Values that change by 0.05 or less are left out of a schedule.
        var planner = StackPlanner(Planner.stack("a"))
        planner.evidence["a"] = .init(
            predictions: [("07:00", 0.5), ("07:30", 0.54), ("08:00", 0.56), ("08:30", 0.1)].map {
                WidgetPrediction(from: Planner.time($0.0), probability: $0.1)
            })
        let standings = planner.schedule(at: Planner.time("06:00")).standings
        #expect(standings.map { $0.standing?.value ?? 0 } == [0, 0.5, 0.56, 0])
    }

    @Test("A plan is due after six hours, or when a suggestion's widget has to be placed or removed")
    func looks() {
        #expect(Self.plan(at: "06:00").nextLook == Planner.time("12:00"))
        let placing = Self.plan(at: "11:00")
        #expect(placing.nextLook == Planner.time("14:45"))
        #expect(placing.placed(at: Planner.time("14:44")).isEmpty)
        #expect(placing.placed(at: Planner.time("14:45")).map(\.content.kind) == ["c"])
        #expect(placing.placed(at: Planner.time("16:00")).isEmpty)
        #expect(Self.plan(at: "15:10", after: placing).nextLook == Planner.time("16:00"))
    }

    @Test("Suggestions that have begun are counted once for 24 hours")
    func counted() {
        let first = Self.plan(at: "14:00")
        #expect(first.suggestions(before: Planner.time("14:59")).isEmpty)
        let second = Self.plan(at: "15:30", after: first)
        #expect(second.suggestedAt == [Planner.time("15:00")])
        #expect(second.suggestions(before: Planner.time("23:00")) == [Planner.time("15:00")])
        #expect(second.suggestions(before: Planner.time("15:00") + .seconds(86_400)).isEmpty)
    }

    @Test("A suggestion's widget is identified by its ID within its stack")
    func suggestionWidgets() {
        let plan = Self.plan()
        let widget = plan.widget(of: Planner.content("c"))
        #expect(plan.isSuggestion(widget: widget) && Text.identifierProblem(widget) == nil)
        #expect(!plan.isSuggestion(widget: "a"))
        #expect(plan.widget(of: Planner.content("d")) != widget)
    }
}

@Suite("Relevance over several timelines")
struct RelevanceRecordTests {
    private typealias Planner = StackPlannerTests

    @Test("E: an entry without relevance keeps the earlier score, and a new timeline replaces only the future")
    func goesOn() {
        var record = RelevanceRecord()
        record.replace(with: Planner.curve([("08:00", 1), ("20:00", 5)]), at: Planner.time("08:00"))
        // The game continues, and its updates have no relevance.
        record.replace(with: RelevanceCurve([]), at: Planner.time("09:00"))
        #expect(record.curve.score(at: Planner.time("21:00")) == 1)
        record.replace(with: Planner.curve([("10:00", 3)]), at: Planner.time("09:30"))
        #expect(record.curve.score(at: Planner.time("09:45")) == 1)
        #expect(record.curve.score(at: Planner.time("10:00")) == 3)
    }

    @Test("E: an earlier duration continues to its end, then counts as 0")
    func duration() {
        var record = RelevanceRecord()
        record.replace(with: Planner.curve([("08:00", 7)], minutes: 30), at: Planner.time("08:00"))
        record.replace(with: RelevanceCurve([]), at: Planner.time("08:10"))
        #expect(record.curve.score(at: Planner.time("08:29")) == 7)
        #expect(record.curve.score(at: Planner.time("08:30")) == 0)
    }

    @Test("Updates that repeat a score keep the beginning of its relevance, over many timelines and in the stored form")
    func updated() throws {
        var record = RelevanceRecord()
        let start = Planner.time("00:00")
        for number in 0..<200 {
            let time = start + .seconds(900 * number)
            record.replace(with: RelevanceCurve([.init(date: time, score: 0.1)]), at: time)
            record = RelevanceRecord(
                curve: try #require(RelevanceCurve(encoded: record.curve.encoded)),
                history: try #require(RelevanceHistory(encoded: record.history.encoded)))
            #expect(record.curve.relevance(at: time)?.since == start && record.curve.points.count <= 2)
        }
        // After two hours without one it is a new relevance, and another score is one at once.
        let later = start + .seconds(900 * 199 + 7_201)
        record.replace(with: RelevanceCurve([.init(date: later, score: 0.1)]), at: later)
        #expect(record.curve.relevance(at: later)?.since == later)
        record.replace(with: RelevanceCurve([.init(date: later + .seconds(9), score: 3)]), at: later + .seconds(9))
        #expect(record.curve.relevance(at: later + .seconds(9))?.since == later + .seconds(9))
        #expect(record.history.centroids.map(\.score) == [0.1, 3])
    }

    @Test("A thousand entries with relevance are stored until they end, whenever the timeline is stored")
    func many() throws {
        let start = Planner.time("00:00")
        func minute(_ number: Int) -> Timestamp { start + .seconds(60 * number) }
        let timeline = RelevanceCurve((0..<1_000).map { .init(date: minute($0), score: Double($0 + 1)) })
        var record = RelevanceRecord()
        for (stored, count) in [(-1, 1_000), (0, 1_000), (400, 600), (999, 1)] {
            record.replace(with: timeline, at: minute(stored))
            let read = try #require(RelevanceCurve(encoded: record.curve.encoded))
            #expect(read.points.count == count)
            // As later plans read them.
            for later in [0, 255, 256, 400, 655, 656, 998, 999] where later >= stored {
                #expect(read.score(at: minute(later)) == Double(later + 1), "stored at \(stored), seen at \(later)")
            }
        }
    }

    @Test("Ranks include all scores that were ever provided")
    func ranks() {
        var record = RelevanceRecord()
        for (hour, score) in [("08", 10.0), ("09", 20), ("10", 30), ("11", 5)] {
            record.replace(with: Planner.curve([("\(hour):00", score)]), at: Planner.time("\(hour):00"))
        }
        #expect(record.history.rank(of: 30, with: record.curve) > 0.8)
        #expect(record.history.rank(of: 5, with: record.curve) < 0.2)
    }

    @Test("The stored form of a curve is complete, and other data is refused")
    func stored() {
        let curve = RelevanceCurve([
            .init(date: Planner.time("08:00"), score: 52.6, duration: .seconds(1_800)),
            .init(date: Planner.time("09:00"), score: -1),
        ])
        #expect(RelevanceCurve(encoded: curve.encoded) == curve)
        #expect(RelevanceCurve(encoded: []) == RelevanceCurve([]))
        #expect(RelevanceCurve(encoded: [1]) == nil)
    }
}
