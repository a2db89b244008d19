import WidgetModel
import WidgetSimulator

/// A way to choose the widget on top of a stack.
protocol HabitPredictor {
    mutating func learn(_ view: SyntheticPerson.View)
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

    mutating func learn(_ view: SyntheticPerson.View) {
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

    mutating func learn(_ view: SyntheticPerson.View) {
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

    mutating func learn(_ view: SyntheticPerson.View) {
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
