import Testing

@testable import WidgetModel

/// Seven days of two hundred widgets. The clock is the simulation's.
@Suite("A household", .tags(.rules), .timeLimit(.minutes(5)))
struct HouseholdTests {
    @Test("seven days of two hundred widgets keep every rule")
    func sevenDays() throws {
        var household = Household(seed: 2020)
        let took = ContinuousClock().measure { household.run(days: 7) }
        #expect(took < .seconds(10))
        #expect(household.widgets.count == 201)
        #expect(household.problems.isEmpty, "\(household.problems.prefix(5))")

        checkBudgets(household)
        try checkBurst(household)
        try checkDormant(household)
        checkWaits(household)
        print(text(household, took: took))
    }

    @Test("the same seed is the same household, another is another")
    func deterministic() {
        func summary(_ seed: UInt64) -> Household.Summary {
            var household = Household(seed: seed, widgets: 30)
            household.run(days: 1)
            return household.summary
        }
        #expect(summary(1) == summary(1))
        #expect(summary(1) != summary(2))
    }

    /// Every calendar day and every 24 hours, against the greatest budget that the timeline had within them.
    private func checkBudgets(_ household: Household) {
        for subject in household.subjects {
            let budgeted = subject.reloads.filter { $0.rule == .paced || $0.rule == .token }
            var first = 0
            for last in budgeted.indices {
                while budgeted[last].at - budgeted[first].at >= .days(1) { first += 1 }
                let budget = budgeted[first...last].map(\.budget).max() ?? 0
                #expect(last - first < budget, "\(subject.kind) within a day before \(budgeted[last].at)")
            }
            for (day, reloads) in Dictionary(grouping: budgeted, by: { $0.at.microseconds / 86_400_000_000 }) {
                let budget = reloads.map(\.budget).max() ?? 0
                #expect(reloads.count <= budget, "\(subject.kind) on day \(day)")
            }
            let bounds = subject.rules.budget
            #expect(budgeted.allSatisfy { $0.budget >= bounds.minimum && $0.budget <= bounds.maximum })
            // Spacing of budgeted reloads, and of all reloads of what is shared.
            let spaced = subject.rules.isShared ? subject.reloads : budgeted
            #expect(spaced.allSatisfy { $0.gap ?? .days(1) >= subject.rules.schedule.spacing }, "\(subject.kind)")
        }
    }

    private func checkBurst(_ household: Household) throws {
        let burst = try #require(household.summary.burst)
        #expect(burst.eligibleAt > burst.at + .minutes(10), "a budget that was not spent")
        let subject = household.subjects[burst.timeline]
        // No claim, and so neither a deferral nor a reload that took budget, before there is a token.
        #expect(!subject.deferrals.contains { $0 >= burst.at && $0 < burst.eligibleAt })
        #expect(
            !subject.reloads.contains { $0.at >= burst.at && $0.at < burst.eligibleAt && $0.rule != .free })
        let served = try #require(subject.reloads.first { $0.at >= burst.at })
        #expect(served.at <= burst.eligibleAt + .minutes(6), "the thousand are one reload")
    }

    private func checkDormant(_ household: Household) throws {
        let subject = household.subjects[household.dormant]
        let viewed = household.start + .days(5) + .hours(18)
        let before = subject.reloads.filter { $0.at < viewed }
        // The two reloads of everyone, which somebody asked for.
        #expect(before.map(\.rule) == [.free, .paced])
        let first = try #require(subject.reloads.first { $0.at >= viewed })
        #expect(first.at == viewed, "it wakes when it is viewed")
        #expect(subject.reloads.count > before.count + 10)
    }

    /// Nothing was dropped (else the simulation would not have ended), and nothing waited for longer than its rule
    /// says, failures and lost leases included.
    private func checkWaits(_ household: Household) {
        let summary = household.summary
        let slack = Duration.minutes(10)
        let longest = household.subjects.map { subject in
            max(subject.rules.schedule.spacing, BudgetLedger.pace(of: max(1, subject.rules.budget.minimum)))
        }.max()
        #expect(summary.longestBudgetedWait <= (longest ?? .zero) + slack)
        #expect(summary.longestFreeWait <= slack)
        #expect(summary.longestSharedFreeWait <= Household.Kind.weather.rules.schedule.spacing + slack)
        #expect(household.subjects.allSatisfy { $0.budgetedSince == nil && $0.freeSince == nil })
    }

    private func text(_ household: Household, took: Duration) -> String {
        let summary = household.summary
        let rules = summary.reloads.sorted { $0.key.rawValue < $1.key.rawValue }
            .map { "\($0.key.name) \($0.value)" }.joined(separator: ", ")
        let most = household.subjects.map { subject in
            mostInADay(subject.reloads.filter { $0.rule == .paced || $0.rule == .token }.map(\.at))
        }.max()
        return """
            household: \(household.widgets.count) widgets, \(household.subjects.count) timelines, 7 days in \(took)
              views \(summary.views) (counted \(summary.countedViews)), requests \(summary.requests)
              claims \(summary.claims), of which deferred \(summary.deferrals), failed \(summary.failures), \
            lost \(summary.lostLeases), fenced \(summary.fenced)
              reloads: \(rules); at most \(most ?? 0) budgeted within 24 hours
              longest wait: budgeted \(summary.longestBudgetedWait), free \(summary.longestFreeWait), \
            free on a shared timeline \(summary.longestSharedFreeWait)
            """
    }
}
