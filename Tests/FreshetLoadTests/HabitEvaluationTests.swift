import TestSupport
import Testing

@testable import freshet_load

@Suite("Evaluation of habits", .timeLimit(.patience))
struct HabitEvaluationTests {
    @Test("F: the model learns when: it beats the simple predictors for all populations, with honest probabilities")
    func wins() throws {
        let evaluation = HabitEvaluation(people: 25, seed: 3)
        #expect(evaluation.scores.map(\.population) == HabitPopulation.allCases)
        for (population, scores) in evaluation.scores {
            let habits = try #require(scores.first)
            for other in scores.dropFirst() {
                #expect(
                    habits.precision > other.precision,
                    "\(population): \(habits.precision), \(other.predictor): \(other.precision)")
            }
            let error = try #require(habits.calibration?.error)
            #expect(error < 0.06, "\(population): \(error)")
        }
    }

    @Test("the same seed makes the same people")
    func seeds() {
        #expect(HabitEvaluation(people: 1, seed: 1).json == HabitEvaluation(people: 1, seed: 1).json)
        #expect(HabitEvaluation(people: 1, seed: 1).json != HabitEvaluation(people: 1, seed: 2).json)
    }
}
