// SPDX-License-Identifier: Apache-2.0

import Randomness
import WidgetModel
import WidgetSimulator

/// Comparison of Freshet's habits with simple predictors, on synthetic people.
struct HabitEvaluation: Sendable {
    /// Calibration of probabilities: by weekday and tenth their sum, the number of views, and their own number.
    struct Calibration: Sendable {
        private struct Bin {
            var stated = 0.0
            var viewed = 0
            var count = 0

            var distance: Double { abs(stated - Double(viewed)) }
        }

        /// Least probability that counts: nearly all half hours are without a view, and would hide the others.
        static let threshold = 0.05
        private var bins = [[Bin]](repeating: [Bin](repeating: Bin(), count: 10), count: 7)

        mutating func count(_ probability: Double, viewed: Bool, weekday: Int) {
            guard probability >= Self.threshold else { return }
            let tenth = min(9, Int(probability * 10))
            bins[weekday][tenth].stated += probability
            bins[weekday][tenth].viewed += viewed ? 1 : 0
            bins[weekday][tenth].count += 1
        }

        private var count: Int { bins.joined().reduce(0) { $0 + $1.count } }

        /// Mean distance of the stated probability and the part that was viewed, on days of one weekday.
        var error: Double { bins.joined().reduce(0) { $0 + $1.distance } / Double(max(1, count)) }

        /// The same over all days together: errors of different weekdays may cancel out.
        var pooledError: Double {
            let distances = (0..<10).map { tenth in
                let days = bins.map { $0[tenth] }
                return abs(days.reduce(0) { $0 + $1.stated } - Double(days.reduce(0) { $0 + $1.viewed }))
            }
            return distances.reduce(0, +) / Double(max(1, count))
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
                var random = SeededGenerator(seed: seed &* 1_000_003 &+ UInt64(number * 1_000_000 + person))
                Self.evaluate(population, population.views(random: &random), &scores)
            }
            return (population, scores)
        }
    }

    private static func evaluate(_ population: HabitPopulation, _ views: [SyntheticView], _ scores: inout [Score]) {
        let widgets = population.widgets
        var predictors: [any HabitPredictor] = [
            LearnedHabits(population), OneOnTop(widgets: widgets, followsViews: false),
            OneOnTop(widgets: widgets, followsViews: true), TimeOfDayFrequency(widgets: widgets),
        ]
        guard let first = views.first?.halfHour.day, let last = views.last?.halfHour.day else { return }
        let byDay = Dictionary(grouping: views, by: \.halfHour.day)
        for day in first...last {
            let views = byDay[day] ?? []
            let counts = day - first >= warmUp
            for index in predictors.indices {
                if counts { calibrate(&scores[index], &predictors[index], day: day, views) }
                for view in views {
                    if counts { scores[index].count(view, predictors[index].weights(at: view.halfHour)) }
                    predictors[index].learn(view)
                }
            }
        }
    }

    private static func calibrate(
        _ score: inout Score, _ predictor: inout any HabitPredictor, day: Int, _ views: [SyntheticView]
    ) {
        guard score.calibration != nil else { return }
        for index in 0..<HalfHour.perDay {
            let viewed = Set(views.filter { $0.halfHour.index == index }.map(\.widget))
            for (widget, probability) in predictor.weights(at: HalfHour(day: day, index: index)).enumerated() {
                score.calibration?.count(
                    probability, viewed: viewed.contains(widget), weekday: HalfHour(day: day, index: 0).weekday)
            }
        }
    }
}

extension HabitEvaluation.Score {
    fileprivate mutating func count(_ view: SyntheticView, _ weights: [Double]) {
        views += 1
        var best = 0
        for widget in weights.indices where weights[widget] > weights[best] { best = widget }
        if best == view.widget { right += 1 }
    }
}
/// A way to choose the widget on top of a stack.
protocol HabitPredictor {
    mutating func learn(_ view: SyntheticView)
    /// Probability, or any other weight, that each widget of the stack is viewed in a half hour.
    mutating func weights(at halfHour: HalfHour) -> [Double]
}

/// Freshet's model: one for each app.
struct LearnedHabits: HabitPredictor {
    private var habits: [Habits]
    private let keys: [HabitKey]
    /// Profiles of the widgets on the day of the last prediction, until something is learned.
    private var profiles: (day: Int, ofWidgets: [HabitProfile])?

    init(_ population: HabitPopulation) {
        habits = [Habits](repeating: Habits(), count: population.apps)
        keys = (0..<population.widgets).flatMap { HabitKey.keys(kind: "\($0)", configuration: .empty, intent: nil) }
    }

    mutating func learn(_ view: SyntheticView) {
        profiles = nil
        habits[view.widget % habits.count].learn([keys[view.widget]], at: view.halfHour)
    }

    mutating func weights(at halfHour: HalfHour) -> [Double] {
        if profiles?.day != halfHour.day {
            profiles = (
                halfHour.day,
                keys.indices.flatMap { habits[$0 % habits.count].profiles(of: [keys[$0]], on: halfHour.day) }
            )
        }
        return profiles?.ofWidgets.map { $0.probability(at: halfHour.index) } ?? []
    }
}

/// The first widget, or the one that was used last.
struct OneOnTop: HabitPredictor {
    let widgets: Int
    let followsViews: Bool
    private(set) var top = 0

    mutating func learn(_ view: SyntheticView) {
        if followsViews { top = view.widget }
    }

    func weights(at halfHour: HalfHour) -> [Double] { (0..<widgets).map { $0 == top ? 1 : 0 } }
}

/// Frequency of the views in the hour of the day; the most frequent widget of all hours if they are equal.
struct TimeOfDayFrequency: HabitPredictor {
    private var hours: [[Double]]
    private var all: [Double]
    private var days = 0
    private var lastDay: Int?

    init(widgets: Int) {
        all = [Double](repeating: 0, count: widgets)
        hours = [[Double]](repeating: all, count: HalfHour.perDay / 2)
    }

    mutating func learn(_ view: SyntheticView) {
        if lastDay != view.halfHour.day { days += view.halfHour.day - (lastDay ?? view.halfHour.day - 1) }
        lastDay = view.halfHour.day
        hours[view.halfHour.index / 2][view.widget] += 1
        all[view.widget] += 1
    }

    func weights(at halfHour: HalfHour) -> [Double] {
        zip(hours[halfHour.index / 2], all).map { hour, all in
            min(1, (hour / 2 + all * 1e-6) / Double(max(1, days)))
        }
    }
}
