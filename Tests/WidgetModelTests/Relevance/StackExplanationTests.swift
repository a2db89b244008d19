// SPDX-License-Identifier: Apache-2.0

import TestSupport
import Testing

@testable import WidgetModel

@Suite("Explanations of stacks", .timeLimit(.patience))
struct StackExplanationTests {
    private typealias Planner = StackPlannerTests
    private static let key = StackPlan.Key(app: "com.example.a", user: "u", device: "d", stack: "home")

    /// Explains a planner's plan at a time.
    private static func explain(
        _ planner: StackPlanner, at time: String = "09:30", planned: String? = nil, after previous: StackSchedule? = nil
    ) -> StackExplanation {
        let now = Planner.time(planned ?? time)
        let schedule = planner.schedule(at: now, after: previous ?? StackSchedule())
        let plan = StackPlan(key: key, schedule: schedule, plannedAt: now)
        return StackExplanation(of: planner, plan: plan, at: Planner.time(time))
    }

    /// The sentence about the only shortcut.
    private static func sentence(_ planner: StackPlanner, at time: String = "09:30", planned: String? = nil) -> String {
        explain(planner, at: time, planned: planned).items.last?.sentence ?? ""
    }

    private static func planner(_ candidates: StackPlanner.Candidate...) -> StackPlanner {
        StackPlanner(Planner.stack("a", "b"), candidates: candidates)
    }

    private static func time(_ clock: String) -> String { Planner.time(clock).rfc3339 }

    // MARK: Holds

    @Test("Nothing holds a stack that has not turned")
    func free() {
        #expect(Self.explain(Self.planner()).hold == nil)
    }

    @Test("After a rotation the stack stays for the minimum")
    func rotated() {
        var planner = Self.planner()
        planner.evidence = ["b": .init(curve: Planner.curve([("09:00", 1)]))]
        let expected = "it turned at \(Self.time("09:00")) and stays until at least \(Self.time("09:15"))"
        #expect(Self.explain(planner, at: "09:14", planned: "08:00").hold == expected)
        #expect(Self.explain(planner, at: "09:15", planned: "08:00").hold == nil)
    }

    @Test("While a suggestion is on top the stack does not rotate; its end holds nothing")
    func suggested() {
        let planner = Self.planner(Planner.candidate("c", "09:30", "10:00"))
        #expect(
            Self.explain(planner, at: "09:50", planned: "08:00").hold
                == "a suggestion is on top until \(Self.time("10:00")): the stack's widgets do not rotate meanwhile")
        #expect(Self.explain(planner, at: "10:01", planned: "08:00").hold == nil)
    }

    @Test("A turn by hand is respected, but not by a shortcut with a range; one to a widget outside the stack is not")
    func turned() {
        var habit = Planner.candidate("c", "09:30", "10:00")
        habit.shortcut.ranges = []
        habit.predictions = [("09:30", 0.9), ("10:00", 0)].map {
            WidgetPrediction(from: Planner.time($0.0), probability: $0.1)
        }
        var planner = Self.planner(habit)
        planner.stack.chosen = Stack.Turn(widget: "b", at: Planner.time("09:00"))
        let respect =
            "the person turned the stack at \(Self.time("09:00")), which is respected until \(Self.time("11:00"))"
        let explanation = Self.explain(planner)
        #expect(explanation.hold == respect)
        #expect(explanation.items[1].sentence.contains("the person turned the stack to it"))
        #expect(explanation.items.last?.sentence == "not suggested now: \(respect)")
        let range = Self.sentence(Self.planner(Planner.candidate("c", "09:30", "10:00")))
        #expect(range.hasPrefix("in the stack from \(Self.time("09:30"))"))
        planner.stack.chosen = Stack.Turn(widget: "x", at: Planner.time("09:00"))
        #expect(Self.explain(planner, at: "09:10").hold == nil)
    }

    @Test("Without Smart Rotate only the person turns the stack; suggestions come if they are allowed")
    func smartRotateOff() {
        let off = "Smart Rotate is off: only the person turns to another widget of the stack"
        var planner = Self.planner(Planner.candidate("c", "09:30", "10:00"))
        planner.stack.smartRotate = false
        let explanation = Self.explain(planner)
        #expect(explanation.hold == "\(off); suggestions can still come on top")
        #expect(explanation.items.map(\.isOnTop) == [false, false, true])
        planner.stack.chosen = Stack.Turn(widget: "b", at: Planner.time("09:00"))
        #expect(
            Self.explain(planner).hold
                == "\(off); no suggestion by habit begins: the person turned the stack at \(Self.time("09:00")), "
                + "which is respected until \(Self.time("11:00"))")
        planner.stack.suggestions = false
        #expect(Self.explain(planner).hold == off)
    }

    @Test("A stack without a plan says whether it has been read")
    func unplanned() {
        #expect(StackExplanation.unplannedHold(isRead: false).hasPrefix("nobody has read its schedule"))
        #expect(StackExplanation.unplannedHold(isRead: true).hasPrefix("its first plan is due"))
    }

    // MARK: Widgets

    @Test("E: a widget's sentence names the evidence for it, or what is missing")
    func widgets() {
        func sentence(_ evidence: StackPlanner.Evidence) -> String {
            var planner = Self.planner()
            planner.evidence["b"] = evidence
            return Self.explain(planner).items[1].sentence
        }
        let from = Planner.time("09:00")
        #expect(sentence(.init()) == "there is no evidence for it: no relevance, habit or shortcut")
        #expect(sentence(.init(isPredictable: false)).hasSuffix("so that habits predict nothing"))
        #expect(
            sentence(.init(curve: Planner.curve([("09:00", -1)])))
                == "its score is 0 or less now, so the stack does not rotate to it")
        #expect(
            sentence(.init(curve: Planner.curve([("09:00", 3)])))
                == "on top since \(Self.time("09:30")): its score of 3 is the only one so far; "
                + "now its score of 3 is the only one so far")
        let scores = [("09:00", 50.0), ("09:40", 1), ("10:00", 7), ("11:00", 2), ("12:00", 0)]
        #expect(
            sentence(.init(curve: Planner.curve(scores))).hasSuffix(
                "its score of 50 is the highest of its 4 different scores"))
        let low = sentence(.init(curve: Planner.curve([("08:00", 50), ("09:00", 1), ("09:10", 7)])))
        #expect(low.hasSuffix("% of all of its scores"))
        let unlikely = sentence(.init(predictions: [WidgetPrediction(from: from, probability: 0.1)]))
        #expect(unlikely.hasPrefix("viewed with a probability of 10 %"))
        #expect(unlikely.hasSuffix("below the minimum of 20 %"))
        let likely = sentence(.init(predictions: [WidgetPrediction(from: from, probability: 0.9)]))
        #expect(likely.contains("viewed with a probability of 90 %"))
    }

    @Test("A shortcut for a widget of the stack is evidence for it, and is not suggested")
    func shown() {
        let explanation = Self.explain(Self.planner(Planner.candidate("b", "09:00", "10:00")))
        #expect(explanation.items[1].sentence.hasSuffix("now the app declared it relevant now (b)"))
        #expect(explanation.items.last?.sentence == "not suggested: the device already shows this widget")
    }

    // MARK: Shortcuts

    @Test("A planned suggestion has its times and its reason")
    func planned() {
        let planner = Self.planner(Planner.candidate("c", "09:30", "10:00"))
        let expected =
            "in the stack from \(Self.time("09:30")) until \(Self.time("10:00")): the app declared it relevant now (c)"
        for time in ["08:00", "09:30", "09:59"] {
            #expect(Self.sentence(planner, at: time, planned: "08:00") == expected, "\(time)")
        }
        #expect(Self.sentence(planner, at: "10:00", planned: "08:00") == "not suggested: its time is over")
    }

    @Test(
        "A shortcut that cannot be suggested into the stack says why",
        arguments: [
            (StackPlanner.Obstacle.unknownKind, "the app has no such kind"),
            (.ineligibleKind, "its kind is not eligible for suggestions"),
            (.otherStack("work"), "the stack work of the device takes it"),
            (.family(.systemLarge), "its kind does not support systemLarge, the family of this stack"),
            (.combination, "its values are no supported combination of its kind"),
        ])
    func obstacles(_ obstacle: StackPlanner.Obstacle, _ words: String) {
        var planner = Self.planner(Planner.candidate("c", "09:30", "10:00"))
        planner.candidates[0].obstacle = obstacle
        #expect(Self.sentence(planner) == "not suggested: \(words)")
    }

    @Test("A shortcut that may be suggested at another time says what it waits for")
    func waiting() {
        var planner = Self.planner(Planner.candidate("c", "09:30", "10:00"))
        planner.stack.suggestions = false
        #expect(Self.sentence(planner) == "not suggested: suggestions are off for this stack")
        planner.stack.suggestions = true
        planner.candidates[0].curve = Planner.curve([("06:00", 0)])
        let score = "the score of its widget is 0 or less"
        #expect(Self.sentence(planner) == "not suggested now: \(score)")
        #expect(
            Self.sentence(planner, at: "08:00")
                == "not suggested at \(Self.time("09:30")), when its time begins: \(score)")
        planner = Self.planner(Planner.candidate("c", "09:30", "10:00"))
        planner.candidates[0].isRendered = false
        let unrendered = Self.explain(planner).items.last?.sentence
        #expect(unrendered?.hasPrefix("in the stack from \(Self.time("09:35"))") == true)
        planner.candidates[0].shortcut.ranges = [Planner.time("09:29")..<Planner.time("09:33")]
        #expect(Self.sentence(planner) == "not suggested now: its timeline is not rendered yet")
        planner.candidates[0].shortcut.ranges = []
        #expect(Self.sentence(planner) == "not suggested: no habit makes it likely now")
        let later = Planner.time("09:31") + .seconds(86_400)
        planner.candidates[0].shortcut.ranges = [later..<(later + .seconds(60))]
        #expect(Self.sentence(planner) == "not suggested yet: its time begins at \(later.rfc3339)")
    }

    @Test("F: all times of a shortcut are listed: those when it is in the stack, and those when it is not")
    func ranges() {
        var shortcut = Planner.candidate("c", "09:00", "09:20")
        shortcut.shortcut.ranges += ["10:00", "11:00"].map { Planner.time($0)..<(Planner.time($0) + .seconds(1_200)) }
        let all = Self.explain(
            Self.planner(shortcut, Planner.candidate("b0", "10:00", "10:20")), at: "08:00"
        ).items[2].sentence
        let reason = "the app declared it relevant now (c)"
        #expect(
            all.components == [
                "in the stack from \(Self.time("09:00")) until \(Self.time("09:20")): \(reason)",
                "not suggested at \(Self.time("10:00")), when its time begins: another suggestion comes first",
                "in the stack from \(Self.time("11:00")) until \(Self.time("11:20")): \(reason)",
            ])
    }

    @Test("A shortcut that comes after others, or over the limit, says so")
    func displaced() {
        let planner = Self.planner(Planner.candidate("c", "09:00", "12:00"), Planner.candidate("d", "08:00", "12:00"))
        let explanation = Self.explain(planner)
        #expect(explanation.items.last?.sentence == "not suggested now: another suggestion comes first")
        let later = Self.planner(Planner.candidate("c", "10:00", "10:30"), Planner.candidate("d", "10:00", "10:40"))
        // It begins after the other one.
        #expect(Self.sentence(later).hasPrefix("in the stack from \(Self.time("10:30"))"))
        var many = StackPlanner(Planner.stack("a"))
        many.candidates = (10..<17).map { Planner.candidate("k\($0)", "\($0):00", "\($0):20") }
        let limit = "the app has had its 6 suggestions on this device in 24 hours"
        #expect(Self.sentence(many) == "not suggested at \(Self.time("16:00")), when its time begins: \(limit)")
        many = Self.planner(Planner.candidate("c", "09:30", "10:00"))
        many.suggested = 6
        #expect(Self.sentence(many) == "not suggested now: \(limit)")
    }
}

extension String {
    fileprivate var components: [String] {
        var (parts, rest) = ([String](), self[...])
        while let range = rest.firstRange(of: "; ") {
            parts.append(String(rest[..<range.lowerBound]))
            rest = rest[range.upperBound...]
        }
        return parts + [String(rest)]
    }
}
