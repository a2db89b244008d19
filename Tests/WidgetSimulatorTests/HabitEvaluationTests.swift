// SPDX-License-Identifier: Apache-2.0

import Randomness
import TestSupport
import Testing
import WidgetModel
import WidgetSimulator

@Suite("Evaluation of habits", .timeLimit(.patience))
struct HabitEvaluationTests {
    /// `habits` in `Benchmarks/` compares the calibration with more people; with few, close results would depend on
    /// chance.
    @Test(
        "F: the model predicts times better than simple predictors for all populations, with calibrated probabilities")
    func wins() throws {
        let evaluation = HabitEvaluation(people: 8, seed: 3)
        #expect(evaluation.scores.map(\.population) == HabitPopulation.allCases)
        var errors: [[Double]] = []
        for (population, scores) in evaluation.scores {
            let habits = try #require(scores.first)
            for other in scores.dropFirst() {
                #expect(
                    habits.precision > other.precision,
                    "\(population): \(habits.precision), \(other.predictor): \(other.precision)")
            }
            errors.append(scores.compactMap { $0.calibration?.error })
        }
        #expect(errors.count { $0[0] < $0[1] } >= 5, "\(errors)")
        #expect(errors.reduce(0) { $0 + $1[0] } < 0.75 * errors.reduce(0) { $0 + $1[1] }, "\(errors)")
    }

    @Test("Equal seeds generate equal people")
    func seeds() {
        func times(_ seed: UInt64) -> [HalfHour] {
            var random = SeededGenerator(seed: seed)
            return HabitPopulation.weekdays.views(random: &random).map(\.halfHour)
        }
        #expect(times(1) == times(1) && times(1) != times(2))
    }
}
