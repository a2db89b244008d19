import SampleProvider
import WidgetModel

/// Comparison of Freshet's habits with simple predictors, on synthetic people.
struct HabitEvaluation: Sendable {
    /// Calibration of probabilities: by tenths, their sum, the number of views, and their own number.
    struct Calibration: Sendable {
        /// Least probability that counts: nearly all half hours are without a view, and would hide the others.
        static let threshold = 0.05
        private var bins = [(stated: Double, viewed: Int, count: Int)](repeating: (0, 0, 0), count: 10)

        mutating func count(_ probability: Double, viewed: Bool) {
            guard probability >= Self.threshold else { return }
            let bin = min(9, Int(probability * 10))
            bins[bin].stated += probability
            bins[bin].viewed += viewed ? 1 : 0
            bins[bin].count += 1
        }

        /// Mean distance of the stated probability and the part that was viewed.
        var error: Double {
            let count = bins.reduce(0) { $0 + $1.count }
            return bins.reduce(0) { $0 + abs($1.stated - Double($1.viewed)) } / Double(max(1, count))
        }
    }

    struct Score: Sendable {
        var predictor: String
        var views = 0
        /// Views of the widget that was predicted to be viewed.
        var right = 0
        /// Nil for predictors without probabilities.
        var calibration: Calibration?

        var precision: Double { Double(right) / Double(max(1, views)) }
    }

    /// Days before the first prediction that counts.
    private static let warmUp = 14
    /// Every so many days all half hours are predicted, for the calibration.
    private static let calibrationStride = 5

    /// In the order of the populations; Freshet's habits are the first of each.
    private(set) var scores: [(population: HabitPopulation, scores: [Score])]

    /// - Parameter people: number for each population.
    init(people: Int, seed: UInt64) {
        scores = HabitPopulation.allCases.enumerated().map { number, population in
            var scores = [
                Score(predictor: "habits", calibration: Calibration()), Score(predictor: "first widget"),
                Score(predictor: "last used"), Score(predictor: "time of day", calibration: Calibration()),
            ]
            for person in 0..<people {
                var random = SampleRandom(seed: seed &* 1_000_003 &+ UInt64(number * 1_000_000 + person))
                Self.evaluate(SyntheticPerson(population, random: &random), &scores)
            }
            return (population, scores)
        }
    }

    private static func evaluate(_ person: SyntheticPerson, _ scores: inout [Score]) {
        let widgets = person.population.widgets
        var predictors: [any HabitPredictor] = [
            LearnedHabits(person.population), AlwaysFirst(widgets: widgets), LastUsed(widgets: widgets),
            TimeOfDayFrequency(widgets: widgets),
        ]
        guard let first = person.views.first?.halfHour.day, let last = person.views.last?.halfHour.day else { return }
        let byDay = Dictionary(grouping: person.views, by: \.halfHour.day)
        for day in first...last {
            let views = byDay[day] ?? []
            let counts = day - first >= warmUp
            for index in predictors.indices {
                if counts && day % calibrationStride == 0 {
                    calibrate(&scores[index], predictors[index], day: day, views)
                }
                for view in views {
                    if counts { scores[index].count(view, predictors[index].weights(at: view.halfHour)) }
                    predictors[index].learn(view)
                }
            }
        }
    }

    private static func calibrate(
        _ score: inout Score, _ predictor: any HabitPredictor, day: Int, _ views: [SyntheticPerson.View]
    ) {
        guard score.calibration != nil else { return }
        for index in 0..<HalfHour.perDay {
            let viewed = Set(views.filter { $0.halfHour.index == index }.map(\.widget))
            for (widget, probability) in predictor.weights(at: HalfHour(day: day, index: index)).enumerated() {
                score.calibration?.count(probability, viewed: viewed.contains(widget))
            }
        }
    }
}

extension HabitEvaluation.Score {
    fileprivate mutating func count(_ view: SyntheticPerson.View, _ weights: [Double]) {
        views += 1
        var best = 0
        for widget in weights.indices where weights[widget] > weights[best] { best = widget }
        if best == view.widget { right += 1 }
    }
}
