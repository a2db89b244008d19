@testable import WidgetModel

extension TimelineID {
    /// An id of the lowest bits gets no jitter but the grid's.
    static let punctual = TimelineID(high: 1, low: 0)
    /// All the jitter that there may be.
    static let latest = TimelineID(high: 1, low: .max)
}

extension ReloadRules {
    /// Rules of a kind with the defaults of the design where nothing else is said.
    static func test(
        spacing: Duration = .seconds(300), budget: DailyBudget = DailyBudget(), developerMode: Bool = false,
        isShared: Bool = false
    ) -> ReloadRules {
        ReloadRules(
            schedule: ReloadSchedule(minimumSpacing: spacing, developerMode: developerMode), budget: budget,
            isShared: isShared)
    }

    /// The rules without jitter and grid, so that the others show.
    var exact: ReloadRules {
        var rules = self
        rules.schedule.tolerance = .zero
        return rules
    }

    /// When the policy wants a timeline that was rendered at a time with nothing spent; nil: never.
    ///
    /// - Parameter timeline: gets jitter; nil: exactly by the rule.
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
    /// Always so many.
    static func always(_ reloads: Int) -> DailyBudget { DailyBudget(minimum: reloads, maximum: reloads) }
}

extension ViewStatistics {
    /// A person sees the home screen over 90 times a day.
    static let often = ViewStatistics(viewsADay: 90)
    static let never = ViewStatistics()
}

extension ReloadPlan {
    /// The rule, when it is a reload.
    var reloadRule: ReloadRule? {
        if case .reload(let rule, _) = self { rule } else { nil }
    }

    var ledger: BudgetLedger? {
        if case .reload(_, let ledger) = self { ledger } else { nil }
    }
}

extension Duration {
    static func minutes(_ minutes: Int) -> Duration { .seconds(60 * minutes) }
    static func hours(_ hours: Int) -> Duration { .seconds(3600 * hours) }
    static func days(_ days: Int) -> Duration { .seconds(86_400 * days) }
}

/// The greatest number of times within a span; of two that are the span or more apart only one is within it.
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
