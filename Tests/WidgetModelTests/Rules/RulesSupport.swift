// SPDX-License-Identifier: Apache-2.0

@testable import WidgetModel

extension TimelineID {
    /// An ID with low bits, whose jitter is only the grid's.
    static let punctual = TimelineID(high: 1, low: 0)
    /// An ID with the maximum jitter.
    static let latest = TimelineID(high: 1, low: .max)
}

extension ReloadRules {
    /// Returns a kind's rules, with the design's defaults.
    static func test(
        spacing: Duration = .seconds(300), budget: DailyBudget = DailyBudget(), developerMode: Bool = false,
        isShared: Bool = false
    ) -> ReloadRules {
        ReloadRules(
            minimumSpacing: spacing, developerMode: developerMode, budget: budget, isShared: isShared)
    }

    /// Returns the rules without jitter and grid, so that other effects are visible.
    var exact: ReloadRules {
        var rules = self
        rules.tolerance = .zero
        return rules
    }

    /// Returns the policy's time for a timeline that was rendered at a given time without spent tokens; nil for never.
    ///
    /// - Parameter timeline: The timeline for the jitter; nil for no jitter.
    func due(
        _ policy: ReloadPolicy, lastEntry: Timestamp, renderedAt now: Timestamp, timeline: TimelineID? = nil
    ) -> Timestamp? {
        let rules = timeline == nil ? exact : self
        let next = rules.next(
            policy: policy, lastEntry: lastEntry, renderedAt: now, timeline: timeline ?? .punctual,
            ledger: BudgetLedger(), views: .often)
        return next.policyAt == .distantFuture ? nil : next.policyAt
    }
}

extension DailyBudget {
    /// A constant budget.
    static func always(_ reloads: Int) -> DailyBudget { DailyBudget(minimum: reloads, maximum: reloads) }
}

extension ViewStatistics {
    /// Views of a person who sees the home screen over 90 times a day.
    static let often = ViewStatistics(viewsADay: 90)
    static let never = ViewStatistics()
}

extension LookOutcome {
    /// The rule of a reload; nil for other decisions.
    var reloadRule: ReloadRule? {
        if case .fetch(let rule, _) = self { rule } else { nil }
    }

    var ledger: BudgetLedger? {
        if case .fetch(_, let ledger) = self { ledger } else { nil }
    }
}

extension Duration {
    static func minutes(_ minutes: Int) -> Duration { .seconds(60 * minutes) }
    static func hours(_ hours: Int) -> Duration { .seconds(3600 * hours) }
    static func days(_ days: Int) -> Duration { .seconds(86_400 * days) }
}

/// Returns the greatest number of times within a span, which excludes times exactly the span apart.
func most(of times: [Timestamp], within span: Duration) -> Int {
    let times = times.sorted()
    var first = 0
    var most = 0
    for last in times.indices {
        while times[last] - times[first] >= span { first += 1 }
        most = max(most, last - first + 1)
    }
    return most
}

func mostInADay(_ times: [Timestamp]) -> Int { most(of: times, within: .days(1)) }
