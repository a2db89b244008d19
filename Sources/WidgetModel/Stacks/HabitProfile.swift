// SPDX-License-Identifier: Apache-2.0

internal import Foundation

/// Rates at which a combination is viewed in the half hours of a local day.
///
/// A half hour either has a rate of its own, unknown before, or the background rate of the combination around it: a
/// habit, or views by chance. Three explanations of the days compete: all days are alike, weekdays differ from weekend
/// days, or each weekday differs. All half hours of the combination together tell how likely each explanation is, so
/// that they share strength. A probability is the mean over the explanations.
package struct HabitProfile: Sendable {
    // MARK: Constants
    //
    // Found by a search for the greatest likelihood with calibrated probabilities, on synthetic people
    // (`freshet-load habits`, seeds 11 to 13).

    /// Days before the first one, without views.
    private static let unknownDays = 0.98
    /// Greatest part of the days that a half hour counts for in the background: a habit does not make others
    /// likelier.
    private static let cap = 0.1
    /// Number of days that the rate of all hours counts for in that of similar hours.
    private static let allHours = 33.7
    /// Odds that a half hour has a rate of its own; they grow by this power of the neighbours' rate over the
    /// background.
    private static let ownRate = 0.051
    private static let nearnessPower = 0.89
    /// Odds of weekdays and weekend days, and of each weekday, to differ.
    private static let classes = 0.36
    private static let weekdays = 0.15
    /// Counts of days with and without a view that an own rate begins with, and how many days the neighbours' rate
    /// is worth in it.
    private static let priorViewed = 0.67
    private static let priorMissed = 0.97
    private static let neighbourDays = 1.5
    /// Part of the neighbours' rate in the background.
    private static let spill = 0.041
    /// Independent days that a day counts for.
    private static let independentDays = 1.245
    private static let odds = [1, classes, weekdays]

    // MARK: Rates

    /// Weights of similar hours, by their distance in half hours: a bell.
    private static let nearness: [Double] = (0..<12).map { exp(-pow(Double($0) / 3.65, 2)) }
    private static let nearnessMass = 2 * nearness.reduce(0, +) - nearness[0]

    /// A group of days: the weight of its known days, and of those with views by half hour.
    private struct Group {
        let days: Double
        var viewed = [Double](repeating: 0, count: HalfHour.perDay)
        /// Logarithm of the beta function of an own rate whose half hour and neighbours have no views.
        let emptyBeta: Double

        init(_ days: Double) {
            self.days = days
            emptyBeta = HabitProfile.logBeta(
                HabitProfile.priorViewed, days * HabitProfile.independentDays + HabitProfile.emptyMissed)
        }

        func neighbours(of index: Int) -> Double {
            let count = HalfHour.perDay
            return (viewed[(index + 1) % count] + viewed[(index + count - 1) % count]) / 2 / (days + 1)
        }
    }

    /// Days with views by half hour, by their age.
    private var seen = [UInt64](repeating: 0, count: HalfHour.perDay)
    private var isEmpty = true
    private var background = [Double](repeating: 0, count: HalfHour.perDay)
    /// Groups of days by explanation; the first of each is the day's own.
    private var explanations: [[Group]] = []
    /// Probabilities of the explanations.
    private var weights: [Double] = []

    init(_ slots: ArraySlice<Habits.Slot>, _ calendar: HabitCalendar) {
        for slot in slots {
            seen[slot.index] = calendar.days(slot)
            if seen[slot.index] != 0 { isEmpty = false }
        }
        guard !isEmpty else { return }
        let viewed = seen.indices.filter { seen[$0] != 0 }
        explanations = calendar.divisions.map { groups in
            groups.map { days in
                var group = Group(Habits.weight(of: days))
                for index in viewed { group.viewed[index] = Habits.weight(of: seen[index] & days) }
                return group
            }
        }
        setBackground(viewed)
        weigh()
    }

    /// Days with views in a half hour, as bits by their age.
    func days(at index: Int) -> UInt64 { seen[index] }

    /// Probability of at least one view in a half hour.
    package func probability(at index: Int) -> Double {
        guard !isEmpty else { return 0 }
        return zip(explanations, weights).reduce(0) { sum, explanation in
            sum + explanation.1 * rate(at: index, in: explanation.0[0]).mean
        }
    }

    /// Rates of views by chance: those of similar hours, which are drawn to the mean of all hours.
    private mutating func setBackground(_ viewed: [Int]) {
        let all = explanations[0][0]
        let capped = viewed.map { (index: $0, weight: min(all.viewed[$0], Self.cap * all.days)) }
        let mean = capped.reduce(0) { $0 + $1.weight } / (all.days + Self.unknownDays) / Double(HalfHour.perDay)
        for index in background.indices {
            var similar = 0.0
            for (other, weight) in capped {
                let difference = abs(other - index)
                let distance = min(difference, HalfHour.perDay - difference)
                if distance < Self.nearness.count { similar += Self.nearness[distance] * weight }
            }
            background[index] =
                (similar / Self.nearnessMass + Self.allHours * mean) / (all.days + Self.allHours)
        }
    }

    /// Weighs the explanations by how well they fit the half hours with views and those beside habits.
    private mutating func weigh() {
        let all = explanations[0][0]
        let indices = background.indices.filter {
            all.viewed[$0] > 0 || all.neighbours(of: $0) * (all.days + 1) > 0.05 * all.days
        }
        let fits = zip(explanations, Self.odds).map { groups, odds in
            indices.reduce(log(odds)) { sum, index in
                groups.reduce(sum) { $0 + rate(at: index, in: $1).fit }
            }
        }
        let best = fits.max() ?? 0
        let total = fits.reduce(0) { $0 + exp($1 - best) }
        weights = fits.map { exp($0 - best) / total }
    }

    /// Expected rate of a half hour in a group of days, and the logarithm of the likelihood of its views.
    private func rate(at index: Int, in group: Group) -> (mean: Double, fit: Double) {
        let days = group.days * Self.independentDays
        let viewed = group.viewed[index] * Self.independentDays
        let missed = max(0, days - viewed)
        let beside = group.neighbours(of: index)
        let chance = min(max(background[index] + Self.spill * beside, 1e-5), 0.5)
        let (before, against) = (
            Self.priorViewed + Self.neighbourDays * beside, Self.priorMissed + Self.neighbourDays * (1 - beside)
        )
        let ofOwn =
            viewed == 0 && beside == 0
            ? group.emptyBeta - Self.emptyPrior
            : Self.logBeta(viewed + before, missed + against) - Self.logBeta(before, against)
        let ofChance = viewed * log(chance) + missed * log1p(-chance)
        let nearby = explanations[0][0].neighbours(of: index) / background[index]
        let odds = log(Self.ownRate) + Self.nearnessPower * log1p(nearby)
        let part = 1 / (1 + exp(ofChance - ofOwn - odds))
        let own = (viewed + before) / (days + before + against)
        let mean = part * own + (1 - part) * chance
        return (mean, Self.logSum(ofOwn + odds, ofChance) - Self.logSum(odds, 0))
    }

    fileprivate static let emptyMissed = Self.priorMissed + Self.neighbourDays
    private static let emptyPrior = logBeta(Self.priorViewed, emptyMissed)

    private static func logBeta(_ left: Double, _ right: Double) -> Double {
        lgamma(left) + lgamma(right) - lgamma(left + right)
    }

    /// Logarithm of the sum of two numbers that are given by their logarithms.
    private static func logSum(_ left: Double, _ right: Double) -> Double {
        max(left, right) + log1p(exp(-abs(left - right)))
    }
}
