/// Explanation of a timeline's last and next reload. It applies the functions of the
/// workers' plan to the facts of the store.
package struct Explanation: Sendable {
    package enum Status: String, Hashable, CaseIterable, Sendable {
        /// Its kind was retired.
        case retired
        /// No widget shows it; a worker deletes it.
        case orphaned
        /// A worker holds its lease.
        case fetching
        /// The worker's lease has ended without a result.
        case leaseEnded
        case paused
        /// Not viewed for a long time.
        case sleeping
        /// The next free worker takes it.
        case due
        case waiting
        /// Only a request reloads it.
        case onRequest
    }

    /// A statement with the rule that it follows from.
    package struct Sentence: Hashable, Sendable, CustomStringConvertible {
        package var text: String
        package var rule: ReloadRule?

        package init(_ text: String, _ rule: ReloadRule? = nil) {
            self.text = text
            self.rule = rule
        }

        package var description: String { rule.map { "\(text) (rule \($0.name))" } ?? text }
    }

    /// Rest of the daily budget.
    package struct Budget: Hashable, Sendable {
        /// Budgeted reloads in any 24 hours.
        package var reloadsADay: Int
        /// Tokens that could be spent now.
        package var left: Int
        /// Spent burst tokens.
        package var spentAtWill: Int
        /// Time of the next token, if nothing is spent until then; nil for a full bucket.
        package var nextTokenAt: Timestamp?
        /// Whether developer mode lifts budget and spacing.
        package var isLifted: Bool
    }

    package let facts: ReloadFacts
    package let rules: ReloadRules

    package init(_ facts: ReloadFacts, rules: ReloadRules) {
        self.facts = facts
        self.rules = rules
    }

    var now: Timestamp { facts.readAt }
    var state: ReloadState { facts.state }

    package var status: Status {
        if facts.isRetired { return .retired }
        if facts.timeline.isOrphaned { return .orphaned }
        if let lease = facts.lease { return lease.endsAt > now ? .fetching : .leaseEnded }
        if pausedAt != nil { return .paused }
        if facts.waitsForSweeper { return .waiting }
        guard let dueAt = facts.dueAt else {
            return facts.timeline.isAsleep && facts.timeline.policyAt != .distantFuture ? .sleeping : .onRequest
        }
        return dueAt <= now ? .due : .waiting
    }

    /// Time at which an operator paused its kind or its app.
    package var pausedAt: Timestamp? {
        switch (facts.kindPausedAt, facts.appPausedAt) {
        case (let kind?, let app?): min(kind, app)
        case (let kind, let app): kind ?? app
        }
    }

    /// Whether it gets no reloads by policy.
    package var isDormant: Bool { rules.isDormant(state, at: now) }

    /// Time at which a budgeted reason may reload it, and the rule that delays it until then.
    package var eligible: (time: Timestamp, rule: ReloadRule) { rules.eligible(state, from: now) }

    /// Time of the next look; nil if it is unknown, such as for a paused kind.
    package var nextAt: Timestamp? {
        switch status {
        case .due, .leaseEnded: now
        case .waiting: facts.waitsForSweeper ? nil : facts.dueAt
        case .retired, .orphaned, .fetching, .paused, .sleeping, .onRequest: nil
        }
    }

    package var budget: Budget {
        let reloadsADay = rules.reloadsADay(state, at: now)
        return Budget(
            reloadsADay: reloadsADay, left: facts.ledger.tokens(of: reloadsADay, at: now),
            spentAtWill: facts.ledger.spent(at: now),
            nextTokenAt: facts.ledger.nextToken(of: reloadsADay, after: now),
            isLifted: rules.schedule.developerMode)
    }
}
