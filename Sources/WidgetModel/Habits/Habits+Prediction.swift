internal import Foundation

extension Habits {
    /// The expectation that a person views something in a half hour, with its evidence.
    package struct Prediction: Hashable, Sendable {
        /// Probability that the combination is viewed at least once in the half hour.
        package let probability: Double
        /// Probability that it is this combination, if the person views anything of the app in the half hour.
        package let share: Double
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

    /// Constants of the back-off, found by a search on synthetic people (`freshet-load habits`).
    private enum Constants {
        /// Days before the first one, without views.
        static let unknown: Float = 1.25
        /// Greatest part of the days that a half hour counts for in the rate of other hours: a habit does not make the
        /// hours around it likelier.
        static let cap: Float = 0.1
        /// Number of days that the rate of all hours counts for in that of similar hours.
        static let allHours: Float = 10
        static let halfHour = Refinement(odds: 0.1, strength: 20)
        static let ofClass = Refinement(odds: 0.08, strength: 80)
        static let ofWeekday = Refinement(odds: 0.2, strength: 120)
        /// Odds are raised to this power and multiplied, since everything before makes them too even.
        static let power: Float = 1.3
        static let factor: Float = 3.3
    }

    /// Weights of similar hours, by their distance in half hours: a bell of a width.
    private enum Nearness {
        static let wide = bell(count: 12, width: 3.65)
        static let near = bell(count: 4, width: 1)
        static let wideMass = mass(wide)
        static let nearMass = mass(near)

        private static func bell(count: Int, width: Float) -> [Float] {
            (0..<count).map { exp(-pow(Float($0) / width, 2)) }
        }

        /// Weight of the half hours on both sides.
        private static func mass(_ weights: [Float]) -> Float { 2 * weights.reduce(0, +) - weights[0] }
    }

    /// A step of the back-off, from the rate of a wider set of half hours to that of some of them.
    private struct Refinement {
        /// Odds that they differ from the wider set, before the days were seen.
        let odds: Float
        /// Number of days that the wider rate counts for if they do not.
        let strength: Float

        /// Rate of half hours, given the days with a view among some days.
        func rate(_ viewed: Float, of days: Float, in wider: Float) -> Float {
            let rate = Double(min(max(wider, 1e-5), 0.99))
            let (views, misses) = (Double(viewed), Double(max(0, days - viewed)))
            // Logarithms of the likelihoods of a rate of their own, unknown before, and of the wider one.
            let own = lgamma(views + 0.5) + lgamma(misses + 0.5) - lgamma(views + misses + 1) - log(Double.pi)
            let common = views * log(rate) + misses * log(1 - rate)
            let ratio = Double(odds) * exp(min(50, own - common))
            let part = Float(ratio / (1 + ratio))
            let shared = (viewed + strength * Float(rate)) / (days + strength)
            return shared + part * ((viewed + 0.5 * Float(rate) + 0.25) / (days + 1) - shared)
        }
    }

    package func probability(of key: HabitKey, at time: Timestamp, timeZone: String) -> Prediction {
        probability(ofAny: [key], at: HalfHour(at: time, timeZone: timeZone))
    }

    package func probability(ofAny keys: [HabitKey], at time: Timestamp, timeZone: String) -> Prediction {
        probability(ofAny: keys, at: HalfHour(at: time, timeZone: timeZone))
    }

    /// Predicts views of the most probable of some combinations, those of a widget for example.
    package func probability(ofAny keys: [HabitKey], at halfHour: HalfHour) -> Prediction {
        let days = History(of: self, before: halfHour)
        var best: (probability: Float, slots: ArraySlice<Slot>) = (0, [])
        for key in keys {
            let slots = slots(of: key)
            let probability = days.probability(slots)
            if probability > best.probability { best = (probability, slots) }
        }
        let any = days.probability(slotsOfAll[...])
        let evidence = days.evidence(best.slots)
        return Prediction(
            probability: Double(best.probability),
            share: any > 0 ? Double(min(1, best.probability / any)) : 0,
            viewed: evidence.viewed, days: evidence.days, dayName: evidence.name, halfHour: halfHour)
    }

    /// Half hours with a view of any combination.
    private var slotsOfAll: [Slot] {
        var days = [UInt64](repeating: 0, count: HalfHour.perDay)
        for slot in slots { days[slot.index] |= slot.days }
        return days.enumerated().map { Slot(index: $0.offset, days: $0.element) }
    }

    /// The days before a half hour that is to be predicted.
    private struct History {
        let halfHour: HalfHour
        /// Number of days from ``Habits/lastDay`` to the half hour; negative if it is before.
        let passed: Int
        /// Known days, as bits by their age at the half hour.
        let known: UInt64

        init(of habits: Habits, before halfHour: HalfHour) {
            self.halfHour = halfHour
            passed = max(-Habits.days, min(Habits.days, halfHour.day - habits.lastDay))
            known = habits.isEmpty ? 0 : DayWeights.last(halfHour.day - habits.firstDay)
        }

        /// Days with views, by their age at the half hour.
        func days(_ slot: Slot) -> UInt64 {
            (passed >= 0 ? slot.days << UInt64(passed) : slot.days >> UInt64(-passed)) & known
        }

        /// Probability of a view of a combination in the half hour.
        ///
        /// The rate of all hours is refined to that of similar hours, of the half hour, of such days and of the weekday.
        /// The mean with the rate of the neighbouring half hours keeps it from following chance.
        func probability(_ slots: ArraySlice<Slot>) -> Float {
            let sameClass = DayWeights.sameClass(as: halfHour)
            let sameWeekday = DayWeights.sameWeekday
            let days = DayWeights.sum(known)
            var here: UInt64 = 0
            var (all, wide, near): (Float, Float, Float) = (0, 0, 0)
            for slot in slots {
                let viewed = self.days(slot)
                let weight = DayWeights.sum(viewed)
                let capped = min(weight, Constants.cap * days)
                all += capped
                let difference = abs(slot.index - halfHour.index)
                let distance = min(difference, HalfHour.perDay - difference)
                if distance < Nearness.wide.count { wide += Nearness.wide[distance] * capped }
                if distance < Nearness.near.count { near += Nearness.near[distance] * weight }
                if distance == 0 { here = viewed }
            }
            guard all > 0 else { return 0 }
            let background = all / (days + Constants.unknown) / Float(HalfHour.perDay)
            func shrunk(_ viewed: Float, _ mass: Float) -> Float {
                (viewed / mass + Constants.allHours * background) / (days + Constants.allHours)
            }
            var rate = shrunk(wide, Nearness.wideMass)
            rate = Constants.halfHour.rate(DayWeights.sum(here), of: days, in: rate)
            rate = Constants.ofClass.rate(
                DayWeights.sum(here & sameClass), of: DayWeights.sum(known & sameClass), in: rate)
            rate = Constants.ofWeekday.rate(
                DayWeights.sum(here & sameWeekday), of: DayWeights.sum(known & sameWeekday), in: rate)
            rate = (rate * shrunk(near, Nearness.nearMass)).squareRoot()
            let odds = Constants.factor * pow(rate / (1 - min(rate, 0.999)), Constants.power)
            return odds / (1 + odds)
        }

        /// Days of the same name with a view; of the same weekday if they tell more than their class.
        func evidence(_ slots: ArraySlice<Slot>) -> (viewed: Int, days: Int, name: String) {
            let viewed = slots.first { $0.index == halfHour.index }.map(days) ?? 0
            func count(_ days: UInt64, _ most: Int) -> (viewed: Int, days: Int) {
                var rest = known & days
                while rest.nonzeroBitCount > most { rest &= ~(1 << UInt64(63 - rest.leadingZeroBitCount)) }
                return ((viewed & rest).nonzeroBitCount, rest.nonzeroBitCount)
            }
            let sameClass = count(DayWeights.sameClass(as: halfHour), 12)
            let sameWeekday = count(DayWeights.sameWeekday, 6)
            // Twice the rate of the class.
            if sameWeekday.viewed > 1, sameWeekday.viewed * sameClass.days >= 2 * sameClass.viewed * sameWeekday.days {
                return (sameWeekday.viewed, sameWeekday.days, Self.weekdays[halfHour.weekday])
            }
            return (sameClass.viewed, sameClass.days, halfHour.isWeekend ? "weekend days" : "weekdays")
        }

        private static let weekdays = [
            "Mondays", "Tuesdays", "Wednesdays", "Thursdays", "Fridays", "Saturdays", "Sundays",
        ]
    }
}

extension Habits {
    /// Predictions for a range of time, one for each half hour of the person's, of the most probable of some combinations.
    package func predictions(
        ofAny keys: [HabitKey], in range: Range<Timestamp>, timeZone: String
    ) -> [WidgetPrediction] {
        var predictions: [WidgetPrediction] = []
        var time = range.lowerBound
        var last: HalfHour?
        while time < range.upperBound {
            let halfHour = HalfHour(at: time, timeZone: timeZone)
            if halfHour != last {
                let prediction = probability(ofAny: keys, at: halfHour)
                predictions.append(
                    WidgetPrediction(
                        from: time, probability: prediction.probability, explanation: prediction.explanation))
            }
            last = halfHour
            time = HalfHour.nextQuarter(after: time)
        }
        return predictions
    }
}
