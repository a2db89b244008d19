internal import Foundation

extension Habits {
    /// The expectation that a person views something in a half hour, with its evidence.
    package struct Prediction: Hashable, Sendable {
        /// Probability that the combination is viewed at least once in the half hour.
        package let probability: Double
        /// Number of days with a view in this half hour, out of the days that it was counted on.
        package let viewed: Int
        package let days: Int
        /// Name of these days: "weekdays", "weekend days" or "Fridays".
        package let dayName: String
        package let halfHour: HalfHour

        /// The evidence, such as "viewed on 9 of the last 12 weekdays between 11:45 and 12:15".
        package var explanation: String {
            if days == 0 { return "no earlier \(dayName) known" }
            let days = "of the last \(days) \(dayName) \(halfHour.words)"
            return viewed == 0 ? "viewed on none \(days)" : "viewed on \(viewed) \(days)"
        }
    }

    /// Profiles of combinations on a local day, for the predictions of its half hours.
    package func profiles(of keys: [HabitKey], on day: Int) -> [HabitProfile] {
        let calendar = HabitCalendar(of: self, on: day)
        return keys.map { HabitProfile(slots(of: $0), calendar) }
    }

    /// Predicts views of the most probable of some combinations, those of a widget for example.
    func prediction(ofAny profiles: [HabitProfile], at halfHour: HalfHour) -> Prediction {
        var best = (probability: 0.0, days: profiles.first?.days(at: halfHour.index) ?? 0)
        for profile in profiles {
            let probability = profile.probability(at: halfHour.index)
            if probability > best.probability { best = (probability, profile.days(at: halfHour.index)) }
        }
        let evidence = HabitCalendar(of: self, on: halfHour.day).evidence(best.days, at: halfHour)
        return Prediction(
            probability: best.probability, viewed: evidence.viewed, days: evidence.days, dayName: evidence.name,
            halfHour: halfHour)
    }

    /// Predictions for a range of time, one for each half hour of the person's, of the most probable of some
    /// combinations.
    package func predictions(
        ofAny keys: [HabitKey], in range: Range<Timestamp>, timeZone: String
    ) -> [WidgetPrediction] {
        var predictions: [WidgetPrediction] = []
        var time = range.lowerBound
        var last: HalfHour?
        var profiles: [HabitProfile] = []
        let zone = TimeZone(identifier: timeZone)
        while time < range.upperBound {
            let halfHour = HalfHour(at: time, in: zone)
            if halfHour != last {
                if halfHour.day != last?.day { profiles = self.profiles(of: keys, on: halfHour.day) }
                let prediction = prediction(ofAny: profiles, at: halfHour)
                predictions.append(WidgetPrediction(from: time, habit: prediction))
            }
            last = halfHour
            time = HalfHour.nextQuarter(after: time)
        }
        return predictions
    }
}

/// The known days before a local day, and their groups.
struct HabitCalendar {
    /// Number of days from ``Habits/lastDay``; negative if it is later.
    private let passed: Int
    private let weekday: Int
    /// Counted days, as bits by their age.
    private let known: UInt64

    init(of habits: Habits, on day: Int) {
        passed = max(-Habits.days, min(Habits.days, day - habits.lastDay))
        known = habits.isEmpty ? 0 : DayWeights.last(day - habits.firstDay)
        weekday = HalfHour(day: day, index: 0).weekday
    }

    /// Days with views of a slot, by their age.
    func days(_ slot: Habits.Slot) -> UInt64 {
        (passed >= 0 ? slot.days << UInt64(passed) : slot.days >> UInt64(-passed)) & known
    }

    /// Divisions of the known days into groups with a rate each: none, by class, by weekday. The first group of each is
    /// the day's own.
    var divisions: [[UInt64]] {
        let own = DayWeights.sameClass(as: weekday)
        return [
            [known], [known & own, known & ~own],
            (0..<7).map { age in known & DayWeights.sameWeekday(atAge: age) },
        ]
    }

    /// Days of the same name with a view; of the same weekday if they tell more than their class.
    func evidence(_ viewed: UInt64, at halfHour: HalfHour) -> (viewed: Int, days: Int, name: String) {
        func count(_ days: UInt64, _ most: Int) -> (viewed: Int, days: Int) {
            var rest = known & days
            while rest.nonzeroBitCount > most { rest &= ~(1 << UInt64(63 - rest.leadingZeroBitCount)) }
            return ((viewed & rest).nonzeroBitCount, rest.nonzeroBitCount)
        }
        let sameClass = count(DayWeights.sameClass(as: weekday), 12)
        let sameWeekday = count(DayWeights.sameWeekday, 6)
        // Twice the rate of the class.
        if sameWeekday.viewed > 1, sameWeekday.viewed * sameClass.days >= 2 * sameClass.viewed * sameWeekday.days {
            return (sameWeekday.viewed, sameWeekday.days, Self.weekdays[weekday])
        }
        return (sameClass.viewed, sameClass.days, halfHour.isWeekend ? "weekend days" : "weekdays")
    }

    private static let weekdays = [
        "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays",
    ]
}
