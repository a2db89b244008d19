// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing

@testable import WidgetModel

/// Laws that hold for random stacks.
@Suite("Properties of plans of stacks", .timeLimit(.patience))
struct StackPlannerPropertyTests {
    /// A planner with random relevance, predictions, shortcuts and turns.
    private static func random(_ random: inout some RandomNumberGenerator) -> StackPlanner {
        func minute(_ range: Range<Int>) -> Timestamp {
            StackPlannerTests.time("00:00") + .seconds(60 * Int.random(in: range, using: &random))
        }
        var planner = StackPlanner(StackPlannerTests.stack("a", "b", "c", "d"))
        for widget in ["a", "b", "c"] {
            let dates = (0..<Int.random(in: 0...8, using: &random)).map { _ in minute(0..<2_000) }.sorted()
            let points = dates.map {
                RelevanceCurve.Point(
                    date: $0, score: Double(Int.random(in: -1...4, using: &random)),
                    duration: .seconds(Int.random(in: 0...3, using: &random) * 1_200))
            }
            let predictions = (0..<Int.random(in: 0...6, using: &random)).map { _ in minute(0..<2_000) }.sorted()
                .map { WidgetPrediction(from: $0, probability: Double.random(in: 0...1, using: &random)) }
            planner.evidence[widget] = .init(curve: RelevanceCurve(points), predictions: predictions)
        }
        for _ in 0..<Int.random(in: 0...12, using: &random) {
            let from = minute(0..<1_500)
            let content = StackPlannerTests.content("k\(Int.random(in: 0...20, using: &random))")
            planner.candidates.append(
                StackPlanner.Candidate(
                    shortcut: RelevantShortcut(
                        content: content,
                        ranges: [from..<from + .seconds(60 * Int.random(in: 1...400, using: &random))])))
        }
        if Bool.random(using: &random) {
            planner.stack.chosen = Stack.Turn(widget: "d", at: minute(0..<60))
        }
        planner.stack.smartRotate = Int.random(in: 0..<4, using: &random) > 0
        return planner
    }

    @Test("Rotations keep the minimum stay; suggestions do not overlap, and respect their shortcuts and limits")
    func lawful() {
        for seed in 0..<300 {
            var random = SeededGenerator(seed: UInt64(seed))
            let planner = Self.random(&random)
            let schedule = planner.schedule(at: StackPlannerTests.time("01:00"))
            let automatic = schedule.rotations.filter { rotation in
                switch rotation.reason {
                case .relevance, .prediction: true
                case .shortcut: rotation.item.widget != nil
                default: false
                }
            }
            for (first, second) in zip(automatic, automatic.dropFirst()) {
                #expect(second.from - first.from >= planner.policy.minimumStay, "seed \(seed)")
            }
            #expect(planner.stack.smartRotate || automatic.isEmpty, "seed \(seed)")
            for rotation in automatic {
                let respected = planner.stack.chosen.map { $0.at + planner.policy.respectForTurn } ?? .distantPast
                #expect(rotation.from >= respected, "seed \(seed)")
            }
            for (first, second) in zip(schedule.insertions, schedule.insertions.dropFirst()) {
                #expect(first.until.map { $0 <= second.from } ?? false, "seed \(seed)")
            }
            for insertion in schedule.insertions {
                let shortcut = planner.candidates.first {
                    $0.shortcut.content == insertion.content && $0.shortcut.holds(at: insertion.from)
                }
                #expect(shortcut != nil, "seed \(seed)")
            }
            #expect(schedule.insertions.count <= planner.policy.maximumSuggestionsPerDay, "seed \(seed)")
        }
    }

    @Test("A plan that is made again without changes continues the previous one")
    func stable() {
        for seed in 0..<300 {
            var random = SeededGenerator(seed: UInt64(seed))
            var planner = Self.random(&random)
            let (first, later) = (
                StackPlannerTests.time("01:00"), StackPlannerTests.time("01:00") + .seconds(60 * (20 + seed * 3))
            )
            let before = planner.schedule(at: first)
            planner.suggested = before.insertions.count { $0.from <= later }
            let after = planner.schedule(at: later, after: before)
            let end = first + StackPlanner.horizon
            func future(_ schedule: StackSchedule) -> [StackSchedule.Rotation] {
                schedule.rotations.filter { later < $0.from && $0.from < end }
            }
            #expect(future(after) == future(before), "seed \(seed)")
            #expect(after.top(at: later)?.item == before.top(at: later)?.item, "seed \(seed)")
        }
    }
}
