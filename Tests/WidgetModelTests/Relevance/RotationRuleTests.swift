// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import WidgetModel

/// DESIGN.md, E: how relevance, habits and shortcuts compete for the top of a stack.
@Suite("Ranking of the widgets of a stack", .timeLimit(.patience))
struct RotationRuleTests {
    private typealias Planner = StackPlannerTests

    private static func rotations(_ planner: StackPlanner, at time: String = "06:00") -> [String] {
        Planner.rotations(planner.schedule(at: Planner.time(time)))
    }

    // MARK: Ties

    @Test("E: score 1 every time: the newest relevance wins a tie")
    func ties() {
        var planner = StackPlanner(Planner.stack("notes", "weather", "calendar", "reminders"))
        planner.evidence = [
            "weather": .init(curve: Planner.curve([("07:00", 1), ("18:00", 1)])),
            "calendar": .init(curve: Planner.curve([("09:30", 1)])),
            "reminders": .init(curve: Planner.curve([("15:00", 1)])),
        ]
        #expect(
            Self.rotations(planner) == [
                "06:00 notes", "07:00 weather", "09:30 calendar", "15:00 reminders", "18:00 weather",
            ])
        // Days of which one widget says more than the others make no difference.
        for days in 1...5 {
            var history = RelevanceHistory()
            let points = (0..<days).flatMap { day in
                [("07:00", 1.0), ("08:00", 0), ("18:00", 1)].map {
                    RelevanceCurve.Point(date: Planner.time($0.0) - .seconds(86_400 * (days - day)), score: $0.1)
                }
            }
            history.absorb(RelevanceCurve(points), until: Planner.time("06:00"))
            planner.evidence["weather"] = .init(
                curve: Planner.curve([("07:00", 1), ("18:00", 1)]), history: history)
            #expect(Self.rotations(planner).dropFirst(2) == ["09:30 calendar", "15:00 reminders", "18:00 weather"])
        }
    }

    @Test("E: a widget with score 1 at 7:00, 9:30, 15:00 and 18:00 comes on top at each new relevance")
    func repeated() {
        var planner = StackPlanner(Planner.stack("a", "b"))
        planner.evidence = [
            "a": .init(curve: Planner.curve([("08:00", 1), ("11:00", 1), ("16:00", 1)])),
            "b": .init(curve: Planner.curve([("07:00", 1), ("09:30", 1), ("15:00", 1), ("18:00", 1)])),
        ]
        let expected = [
            "06:00 a", "07:00 b", "08:00 a", "09:30 b", "11:00 a", "15:00 b", "16:00 a", "18:00 b",
        ]
        #expect(Self.rotations(planner) == expected)
        // The same if each one lasts until the next.
        let clocks = ["07:00", "09:30", "15:00", "18:00", "23:00"].map(Planner.time)
        let timed = zip(clocks, clocks.dropFirst()).map { RelevanceCurve.Point(date: $0, score: 1, duration: $1 - $0) }
        planner.evidence["b"] = .init(curve: RelevanceCurve(timed))
        #expect(Self.rotations(planner) == expected + ["23:00 a"])
    }

    @Test("E: an unchanging small score, updated every quarter of an hour, does not stand above a rare larger one")
    func unchanging() {
        var (temperature, rain) = (RelevanceRecord(), RelevanceRecord())
        // Each update is a timeline of its own, over three days.
        func reload(until end: Timestamp) {
            var time = Planner.time("06:00") - .seconds(3 * 86_400)
            while time <= end {
                temperature.replace(with: RelevanceCurve([.init(date: time, score: 0.1)]), at: time)
                time = time + .seconds(900)
            }
        }
        for clock in ["09:30", "10:00", "11:29"] {
            temperature = RelevanceRecord()
            rain = RelevanceRecord()
            reload(until: Planner.time(clock))
            let shower = Planner.curve([("09:30", 50)], minutes: 120)
            rain.replace(with: shower, at: Planner.time("09:30"))
            var planner = StackPlanner(Planner.stack("temperature", "rain"))
            planner.evidence = [
                "temperature": .init(curve: temperature.curve, history: temperature.history),
                "rain": .init(curve: rain.curve, history: rain.history),
            ]
            #expect(Self.rotations(planner, at: clock).dropFirst().first == "\(clock) rain")
        }
    }

    @Test("E: explicit zeros and the end of a duration rank alike; a single positive score is in the middle")
    func zeros() {
        var (timed, explicit) = (RelevanceRecord(), RelevanceRecord())
        for day in 0..<6 {
            let time = Planner.time("09:41") - .seconds(86_400 * (6 - day))
            let purchase = RelevanceCurve.Point(date: time, score: Double(day % 3 + 1), duration: .seconds(1_800))
            timed.replace(with: RelevanceCurve([purchase]), at: time)
            explicit.replace(with: RelevanceCurve([.init(date: time, score: purchase.score)]), at: time)
            for hour in 1..<8 {
                let later = time + .seconds(1_800 * hour)
                explicit.replace(with: RelevanceCurve([.init(date: later, score: 0)]), at: later)
            }
        }
        for score in [1.0, 2, 3] {
            let ranks = [timed, explicit].map { RelevanceRanks($0.history, with: $0.curve).rank(of: score) }
            #expect(abs(ranks[0] - ranks[1]) < 1e-6, "\(score)")
        }
        var single = RelevanceRecord()
        single.replace(with: Planner.curve([("08:00", 0), ("09:00", 0), ("10:00", 7)]), at: Planner.time("07:00"))
        #expect(RelevanceRanks(single.history, with: single.curve).rank(of: 7) == 0.5)
    }

    // MARK: The end of evidence

    @Test("E: when nothing is relevant any more the stack goes back to what the person left on top")
    func goesBack() {
        var planner = StackPlanner(Planner.stack("a", "b", "c", "d"))
        planner.stack.chosen = Stack.Turn(widget: "c", at: Planner.time("00:30"))
        planner.evidence = [
            "a": .init(curve: Planner.curve([("09:00", 1)], minutes: 60)),
            "b": .init(
                predictions: [("12:00", 0.8), ("12:30", 0.1)].map {
                    WidgetPrediction(from: Planner.time($0.0), probability: $0.1)
                }),
        ]
        planner.candidates = [Planner.candidate("x", "15:00", "16:00")]
        #expect(
            Self.rotations(planner) == [
                "00:30 c", "09:00 a", "10:00 c", "12:00 b", "12:30 c", "15:00 +x", "16:00 c",
            ])
        // A plan that is made meanwhile goes back as well, and so does one after a turn to a suggestion.
        let before = planner.schedule(at: Planner.time("06:00"))
        #expect(
            Planner.rotations(planner.schedule(at: Planner.time("09:30"), after: before)).prefix(2)
                == ["09:00 a", "10:00 c"])
        planner.stack.chosen = nil
        #expect(Self.rotations(planner).prefix(3) == ["06:00 a", "12:00 b", "12:30 a"])
        planner.stack.smartRotate = false
        #expect(Self.rotations(planner) == ["06:00 a", "15:00 +x", "16:00 a"])
    }

    @Test("E: a turn to a suggestion does not change what the person left on top")
    func leftBelowSuggestion() {
        var record = PersonRecord()
        func turn(_ widget: String, _ second: Int64) {
            let change = PersonChange.turned(device: "d", stack: "home", widget: widget)
            #expect(record.apply(change, at: Timestamp(microseconds: second * 1_000_000)) == .changed)
        }
        let arrangement = StackArrangement(device: "d", name: "home", widgets: ["a", "b"])
        _ = record.apply(.stack(arrangement), at: Timestamp(microseconds: 1))
        turn("b", 1)
        let key = StackPlan.Key(app: "com.example.a", user: "u", device: "d", stack: "home")
        let plan = StackPlan(key: key, schedule: StackSchedule(), plannedAt: .distantPast)
        for (second, content) in ["x", "y"].enumerated() {
            turn(plan.widget(of: Planner.content(content)), Int64(second + 2))
            #expect(record.stacks[0].left == "b")
            let read = PersonRecord(app: "com.example.a", habits: nil, arrangement: record.storedArrangement)
            #expect(read == record)
            var stack = Planner.stack("a", "b")
            stack.chosen = record.stacks[0].turn
            stack.left = record.stacks[0].left
            #expect(stack.base == "b")
        }
        turn("a", 9)
        #expect(record.stacks[0].left == nil && record.stacks[0].turn?.widget == "a")
    }

    @Test("E: an expired relevance silences neither habits nor shortcuts; a score of 0 does")
    func expired() {
        var planner = StackPlanner(Planner.stack("a", "b", "c"))
        let noon = ["12:00", "12:30"].map {
            WidgetPrediction(from: Planner.time($0), probability: $0 == "12:00" ? 0.8 : 0)
        }
        planner.candidates = [Planner.candidate("c", "15:00", "16:00")]
        let timed = Planner.curve([("09:00", 1)], minutes: 30)
        planner.evidence = ["b": .init(curve: timed, predictions: noon), "c": .init(curve: timed)]
        #expect(
            Self.rotations(planner, at: "10:00") == [
                "10:00 a", "12:00 b", "12:30 a", "15:00 c", "16:00 a",
            ])
        let zero = Planner.curve([("09:00", 0)])
        planner.evidence = ["b": .init(curve: zero, predictions: noon), "c": .init(curve: zero)]
        #expect(Self.rotations(planner, at: "10:00") == ["10:00 a"])
        // Nor does it keep a suggestion away.
        planner.candidates = [Planner.candidate("x", "15:00", "16:00")]
        planner.candidates[0].curve = timed
        #expect(Self.rotations(planner, at: "10:00") == ["10:00 a", "15:00 +x", "16:00 a"])
    }

    @Test("E: older relevance beside a shortcut does not make the widget lose a tie")
    func newestEvidence() {
        var planner = StackPlanner(Planner.stack("news", "a", "b"))
        planner.candidates = [Planner.candidate("a", "10:00", "11:00")]
        var history = RelevanceHistory()
        let points = (1...100).map { number in
            RelevanceCurve.Point(date: Planner.time("00:00") - .seconds(60 * (100 - number)), score: Double(number))
        }
        history.absorb(RelevanceCurve(points), until: Planner.time("00:00"))
        planner.evidence["b"] = .init(curve: Planner.curve([("09:00", 79)]), history: history)
        #expect(Self.rotations(planner, at: "08:00").contains("10:00 a"))
        planner.evidence["a"] = .init(curve: Planner.curve([("08:30", 81)]), history: history)
        // Both are a little above the 0.75 of the shortcut.
        for (widget, score) in [("a", 81.0), ("b", 79)] {
            let rank = planner.evidence[widget]?.ranks.rank(of: score) ?? 0
            #expect((0.75...0.80).contains(rank), "\(rank)")
        }
        #expect(Self.rotations(planner, at: "08:00").contains("10:00 a"))
    }

    @Test("E: developer mode lifts the limits of rotations: the minimum stay, and the respect for a turn")
    func developerMode() {
        var planner = StackPlanner(Planner.stack("a", "b", "c"))
        planner.stack.chosen = Stack.Turn(widget: "a", at: Planner.time("08:59"))
        planner.evidence = [
            "b": .init(curve: Planner.curve([("09:00", 1), ("09:05", 0)])),
            "c": .init(curve: Planner.curve([("09:05", 1), ("09:06", 0)])),
        ]
        #expect(Self.rotations(planner, at: "08:59") == ["08:59 a"])
        planner.policy.liftLimits()
        #expect(Self.rotations(planner, at: "08:59") == ["08:59 a", "09:00 b", "09:05 c", "09:06 a"])
        #expect(planner.policy.maximumSuggestionsPerDay == .max)
    }

    // MARK: Properties on random days

    /// A day of a widget: random scores and durations in the order of time.
    private static func day(_ random: inout some RandomNumberGenerator) -> [RelevanceCurve.Point] {
        var time = Planner.time("00:00")
        return (0..<Int.random(in: 1...12, using: &random)).map { _ in
            time = time + .seconds(60 * Int.random(in: 5...240, using: &random))
            return RelevanceCurve.Point(
                date: time, score: Double(Int.random(in: 0...4, using: &random)),
                duration: .seconds(600 * Int.random(in: 0...9, using: &random)))
        }
    }

    private static func planner(_ days: [[RelevanceCurve.Point]]) -> StackPlanner {
        var planner = StackPlanner(Planner.stack("a", "b", "c"))
        for (widget, day) in zip(["a", "b", "c"], days) {
            planner.evidence[widget] = .init(curve: RelevanceCurve(day))
        }
        return planner
    }

    private static func withDays(_ body: (UInt64, [[RelevanceCurve.Point]]) -> Void) {
        for seed in UInt64(0)..<200 {
            var random = SeededGenerator(seed: seed)
            body(seed, (0..<3).map { _ in Self.day(&random) })
        }
    }

    @Test("E: on random days neither the scale of a widget's scores nor the form of its zeros changes a rotation")
    func invariant() {
        Self.withDays { seed, days in
            let expected = Self.rotations(Self.planner(days), at: "00:01")
            var scaled = days
            for index in scaled[1].indices { scaled[1][index].score *= 1_000 }
            #expect(Self.rotations(Self.planner(scaled), at: "00:01") == expected, "seed \(seed)")
            let explicit = days.map { day in
                let points = RelevanceCurve(day).points
                return zip(points, points.dropFirst().map(\.date) + [.distantFuture]).flatMap { point, next in
                    let end = point.date + point.duration
                    let isTimed = point.duration > .zero && end < next
                    return [RelevanceCurve.Point(date: point.date, score: point.score)]
                        + (isTimed ? [RelevanceCurve.Point(date: end, score: 0)] : [])
                }
            }
            #expect(Self.rotations(Self.planner(explicit), at: "00:01") == expected, "seed \(seed)")
        }
    }

    @Test("E: on random days a higher score ranks higher, and the greatest so far at least in the middle")
    func ranks() {
        Self.withDays { seed, days in
            var record = RelevanceRecord()
            for day in days.enumerated() {
                let points = day.element.map { point in
                    RelevanceCurve.Point(date: point.date + .seconds(86_400 * day.offset), score: point.score)
                }
                record.replace(with: RelevanceCurve(points), at: points[0].date)
            }
            let ranks = RelevanceRanks(record.history, with: record.curve)
            let scores = (0...4).map { ranks.rank(of: Double($0)) }
            #expect(scores == scores.sorted() && scores[0] == 0, "seed \(seed)")
            let greatest = days.joined().map(\.score).max() ?? 0
            #expect(greatest == 0 || ranks.rank(of: greatest) >= 0.5 - 1e-9, "seed \(seed)")
        }
    }

    @Test("E: on random days a relevance above 0 never makes a widget with habits or shortcuts rarer")
    func adopted() {
        Self.withDays { seed, days in
            var planner = Self.planner(days)
            planner.candidates = [Planner.candidate("a", "10:00", "12:00")]
            planner.evidence["a"]?.predictions = [
                WidgetPrediction(from: Planner.time("08:00"), probability: 0.6),
                WidgetPrediction(from: Planner.time("20:00"), probability: 0),
            ]
            var without = planner
            without.evidence["a"] = .init(predictions: planner.evidence["a"]?.predictions ?? [])
            let item = planner.stack.items[0]
            for minute in stride(from: 0, to: 1_440, by: 7) {
                let time = Planner.time("00:00") + .seconds(60 * minute)
                guard planner.evidence["a"]?.curve.excludes(time) == false else { continue }
                let (own, others) = (planner.standing(of: item, at: time), without.standing(of: item, at: time))
                #expect(own?.value ?? 0 >= others?.value ?? 0, "seed \(seed), minute \(minute)")
            }
        }
    }

    @Test("E: on random days the top has evidence, is held, or is what the person left there")
    func top() {
        Self.withDays { seed, days in
            let planner = Self.planner(days)
            let schedule = planner.schedule(at: Planner.time("00:01"))
            for minute in stride(from: 2, to: 1_440, by: 5) {
                let time = Planner.time("00:00") + .seconds(60 * minute)
                guard let top = schedule.top(at: time) else {
                    Issue.record("seed \(seed): no top")
                    continue
                }
                let isHeld = time < top.from + planner.policy.minimumStay
                let standing = planner.stack.items.first { .widget($0.widget) == top.item }.flatMap {
                    planner.standing(of: $0, at: time)
                }
                #expect(standing != nil || isHeld || top.item == .widget("a"), "seed \(seed), minute \(minute)")
                #expect(schedule.standing(at: time)?.item == top.item, "seed \(seed), minute \(minute)")
            }
        }
    }

    @Test("The values of a schedule are those by which its widget is on top, at most two in a quarter of an hour")
    func standings() {
        func check(_ planner: StackPlanner, _ label: Comment) {
            let standings = planner.schedule(at: Planner.time("00:01")).standings
            for top in standings {
                let item = planner.stack.items.first { .widget($0.widget) == top.item }
                #expect(item.flatMap { planner.standing(of: $0, at: top.from) } == top.standing, label)
            }
            for (first, third) in zip(standings, standings.dropFirst(2)) {
                let items = standings.filter { (first.from...third.from).contains($0.from) }.map(\.item)
                #expect(Set(items).count > 1 || third.from - first.from >= .seconds(900), label)
            }
        }
        Self.withDays { seed, days in check(Self.planner(days), "seed \(seed)") }
        var random = SeededGenerator(seed: 1)
        let minutes = (1..<1_440).map { minute in
            RelevanceCurve.Point(
                date: Planner.time("00:00") + .seconds(60 * minute), score: Double.random(in: 0...9, using: &random),
                duration: .seconds(Bool.random(using: &random) ? 30 : 0))
        }
        check(Self.planner([minutes]), "a score each minute")
    }
}
