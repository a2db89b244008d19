// SPDX-License-Identifier: Apache-2.0

/// Rest of the daily budgets of a kind's timelines.
package struct KindBudget: Hashable, Sendable {
    /// Number of examined timelines, at least one.
    package let timelines: Int
    /// Begin of the next day (UTC).
    package let tomorrow: Timestamp
    /// Mean number of tokens that a timeline could spend now.
    package let left: Double
    /// Mean number of tokens that a timeline could spend when tomorrow begins, if none is spent until then.
    package let leftTomorrow: Double
    /// Number of timelines that have no token now.
    package let withoutToken: Int
    /// Time of the next token of one of these; nil if all timelines have tokens.
    package let nextTokenAt: Timestamp?

    /// - Returns: nil without timelines.
    package init?(
        of timelines: [(ledger: BudgetLedger, views: ViewStatistics)], rules: ReloadRules, at now: Timestamp
    ) {
        guard !timelines.isEmpty else { return nil }
        let tomorrow = LocalClock.utc.nextDay(after: now)
        func mean(at time: Timestamp) -> Double {
            let tokens = timelines.reduce(0) { $0 + rules.tokens(of: $1.ledger, views: $1.views, at: time) }
            return Double(tokens) / Double(timelines.count)
        }
        let spent = timelines.filter { rules.tokens(of: $0.ledger, views: $0.views, at: now) == 0 }
        (self.timelines, self.tomorrow) = (timelines.count, tomorrow)
        (left, leftTomorrow) = (mean(at: now), mean(at: tomorrow))
        withoutToken = spent.count
        nextTokenAt = spent.map { ledger, views in
            ledger.available(of: rules.budget.reloads(for: views, at: now), from: now)
        }.min()
    }
}
