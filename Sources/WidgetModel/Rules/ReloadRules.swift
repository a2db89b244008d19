// SPDX-License-Identifier: Apache-2.0

package import Waiting

/// The rules of reloads (DESIGN.md) for the timelines of one kind: pure functions of state and time.
package struct ReloadRules: Hashable, Sendable {
    /// Minimum time between two reloads for budgeted reasons.
    package var minimumSpacing: Duration
    /// Whether budget and spacing are lifted, for an app under development.
    package var developerMode: Bool
    /// Longest delay through jitter.
    package var tolerance: Duration
    package var budget: DailyBudget
    /// Time without a view after which a timeline gets no reloads by policy.
    package var dormantAfter: Duration
    /// Whether the timelines belong to no user, so that free reasons keep the spacing.
    package var isShared: Bool

    /// Minimum time between two reloads by policy in developer mode. It prevents a loop with a provider whose last
    /// entry is always in the past.
    package static let developerSpacing: Duration = .seconds(1)

    package init(
        minimumSpacing: Duration, developerMode: Bool = false,
        tolerance: Duration = KindDefinition.defaultReloadTolerance, budget: DailyBudget = DailyBudget(),
        dormantAfter: Duration = KindDefinition.defaultDormantAfter, isShared: Bool = false
    ) {
        self.minimumSpacing = minimumSpacing
        self.developerMode = developerMode
        self.tolerance = tolerance
        self.budget = budget
        self.dormantAfter = dormantAfter
        self.isShared = isShared
    }

    package init(_ kind: KindDefinition, developerMode: Bool) {
        self.init(
            minimumSpacing: kind.minimumSpacing, developerMode: developerMode, tolerance: kind.reloadTolerance,
            budget: kind.dailyBudget ?? DailyBudget(), dormantAfter: kind.dormantAfter,
            isShared: kind.sharing == .shared)
    }
}

/// Purpose of a fetch.
package enum ReloadNeed: NamedValue {
    /// It has never been rendered.
    case first
    /// A request that takes no budget is pending, or the published content differs from the stored one. The time at
    /// which it becomes due includes the spacing of a shared timeline.
    case free
    /// Only budgeted requests are pending.
    case budgeted
    /// Nothing was requested: it is the policy's time.
    case policy

    package static let names = nameTable()
}

/// Facts of a due timeline.
package struct ReloadState: Hashable, Sendable {
    package var need: ReloadNeed
    /// Time of the last render, for any reason; nil: never.
    package var renderedAt: Timestamp?
    /// Time of the last request to a person, a device or a widget.
    package var requestedAt: Timestamp?
    package var ledger: BudgetLedger
    package var views: ViewStatistics

    package init(
        need: ReloadNeed, renderedAt: Timestamp? = nil, requestedAt: Timestamp? = nil,
        ledger: BudgetLedger = BudgetLedger(), views: ViewStatistics = ViewStatistics()
    ) {
        self.need = need
        self.renderedAt = renderedAt
        self.requestedAt = requestedAt
        self.ledger = ledger
        self.views = views
    }
}

/// Outcome of a worker's look at a timeline.
package enum LookOutcome: Hashable, Sendable {
    /// No widget shows it: collect it.
    case collect
    /// Nothing to do now; rule 1 gives the next appointment.
    case nothing
    /// Fetch it, and store this ledger with the result; a failed fetch spends nothing.
    case fetch(rule: ReloadRule, ledger: BudgetLedger)
    /// Spacing or budget delay it until then; never dropped.
    case wait(until: Timestamp, rule: ReloadRule)
    /// Not viewed for a long time: wait until it is viewed, placed or requested.
    case sleep
}

extension ReloadRules {
    /// Whether a due timeline is fetched now: it is fetched, waits or sleeps.
    package func plan(_ state: ReloadState, at now: Timestamp) -> LookOutcome {
        if state.need == .first { return .fetch(rule: .first, ledger: state.ledger) }
        if state.need == .free { return .fetch(rule: .free, ledger: state.ledger) }
        if state.need == .policy, isDormant(state, at: now) { return .sleep }
        if developerMode { return .fetch(rule: .developerMode, ledger: state.ledger) }
        let (time, rule) = eligible(state, from: now)
        guard time <= now else { return .wait(until: time, rule: rule) }
        var ledger = state.ledger
        let spent = ledger.spend(of: reloadsADay(state, at: now), at: now)
        return .fetch(rule: spent, ledger: ledger)
    }

    /// The rule and the ledger of a reload that was decided by a rule, for a ledger that others have changed since:
    /// what the rule spends is taken from that ledger.
    package func spending(
        _ rule: ReloadRule, from ledger: BudgetLedger, views: ViewStatistics, at time: Timestamp
    ) -> (rule: ReloadRule, ledger: BudgetLedger) {
        guard rule == .paced || rule == .token else { return (rule, ledger) }
        var ledger = ledger
        let spent = ledger.spend(of: budget.reloads(for: views, at: time), at: time)
        return (spent, ledger)
    }

    /// The daily budget of a timeline.
    package func reloadsADay(_ state: ReloadState, at time: Timestamp) -> Int {
        budget.reloads(for: state.views, at: time)
    }

    /// Budget tokens that a timeline could spend at a time, if none is spent until then.
    package func tokens(of ledger: BudgetLedger, views: ViewStatistics, at time: Timestamp) -> Int {
        ledger.tokens(of: budget.reloads(for: views, at: time), at: time)
    }

    /// Time at which a budgeted reason may reload it, and the rule that delays it until then.
    package func eligible(
        _ state: ReloadState, from now: Timestamp
    ) -> (time: Timestamp, rule: ReloadRule) {
        guard !developerMode else { return (now, .developerMode) }
        let spaced = max(now, state.renderedAt.map { self.spaced(after: $0) } ?? now)
        let covered = state.ledger.available(of: reloadsADay(state, at: now), from: spaced)
        return covered > spaced ? (covered, .budget) : (spaced, .spacing)
    }

    /// Whether it was not viewed, placed or requested for the kind's `dormantAfter`.
    package func isDormant(_ state: ReloadState, at now: Timestamp) -> Bool {
        guard let viewed = state.views.lastActive else { return false }
        let active = max(viewed, state.requestedAt ?? .distantPast)
        return now - active >= dormantAfter
    }

    /// Times before which a rendered timeline is not reloaded.
    package struct Next: Hashable, Sendable {
        /// Time from which a budgeted reason may reload it.
        package var eligibleAt: Timestamp
        /// Time from which a free reason may reload it: only timelines of a shared kind keep the spacing.
        package var freeAt: Timestamp
        /// Time at which it is due by its policy: not before spacing and budget allow, with jitter; `distantFuture`:
        /// never.
        package var policyAt: Timestamp

        package init(eligibleAt: Timestamp, freeAt: Timestamp, policyAt: Timestamp) {
            (self.eligibleAt, self.freeAt, self.policyAt) = (eligibleAt, freeAt, policyAt)
        }
    }

    /// The next times of a timeline that has just been rendered.
    ///
    /// - Parameter ledger: ledger after this reload.
    package func next(
        policy: ReloadPolicy, lastEntry: Timestamp, renderedAt now: Timestamp, timeline: TimelineID,
        ledger: BudgetLedger, views: ViewStatistics
    ) -> Next {
        let state = ReloadState(need: .policy, renderedAt: now, ledger: ledger, views: views)
        let eligibleAt = eligible(state, from: now).time
        var next = Next(
            eligibleAt: developerMode ? .distantPast : gridded(eligibleAt, from: now),
            freeAt: isShared && !developerMode ? gridded(now + spacing, from: now) : .distantPast,
            policyAt: .distantFuture)
        if let policyAt = policy.earliestReload(lastEntry: lastEntry) {
            // A policy whose time is always past must not cause a loop, even without spacing.
            let due = max(policyAt, eligibleAt, now + max(spacing, Self.developerSpacing))
            next.policyAt = jittered(due, from: now, timeline: timeline)
        }
        return next
    }
}

extension ReloadRules {
    /// Decides the outcome of a look at a timeline.
    ///
    /// - Parameters:
    ///   - state: the row as it was read.
    ///   - facts: input of the budget and the dormancy rule; its `need` is set here.
    ///   - sweep: generation up to which a sweep of the kind looks; nil for the timeline's appointment.
    ///   - isRetired: whether the kind is retired, so that only orphaned timelines have work.
    package func decide(
        _ state: TimelineState, _ kind: KindGenerations, facts: ReloadState, sweep: Int64?, isRetired: Bool = false,
        at now: Timestamp
    ) -> LookOutcome {
        if state.isOrphaned { return .collect }
        if isRetired { return .nothing }
        if let sweep {
            guard state.generation < sweep, kind.isAhead(of: state.generation) else { return .nothing }
        }
        guard let next = state.nextLook(kind, at: now), next <= now else { return .nothing }
        var facts = facts
        facts.need = state.need(kind, renderedAt: facts.renderedAt)
        let outcome = plan(facts, at: now)
        guard case .wait(let until, let rule) = outcome else { return outcome }
        return .wait(until: gridded(until, from: now), rule: rule)
    }
}

// MARK: - Spacing and jitter

/// Spacing of the reloads of a kind's timelines, and the jitter that spreads simultaneous ones.
extension ReloadRules {
    /// The spacing in effect.
    package var spacing: Duration { developerMode ? Self.developerSpacing : max(minimumSpacing, .zero) }

    /// Earliest time at which a budgeted reason may reload again.
    ///
    /// - Parameter time: time at which the timeline was rendered.
    package func spaced(after time: Timestamp) -> Timestamp {
        developerMode ? time : time + spacing
    }

    /// Longest permitted delay of a reload that is due after `interval`: a tenth of it, at most the tolerance.
    private func allowance(_ interval: Duration) -> Int64 {
        max(0, min(interval.wholeMicroseconds / 10, tolerance.wholeMicroseconds))
    }

    /// Rounds the time up to a grid, so that many timelines share a list. The result is later by at most a quarter of
    /// the permitted delay.
    package func gridded(_ time: Timestamp, from now: Timestamp) -> Timestamp {
        time.rounded(upTo: allowance(time - now) / 4)
    }

    /// Adds jitter and rounds up to the grid. The result is later by at most the permitted delay, and depends only on
    /// the timeline and the interval.
    package func jittered(_ time: Timestamp, from now: Timestamp, timeline: TimelineID) -> Timestamp {
        let limit = allowance(time - now)
        let step = limit / 4
        guard step > 0 else { return time }
        // The id's bits are those of a hash, so any of them are distributed uniformly.
        let offset = timeline.low.multipliedFullWidth(by: UInt64(limit - step) + 1).high
        return (time + Duration(wholeMicroseconds: Int64(offset))).rounded(upTo: step)
    }
}

extension Timestamp {
    /// Rounds up to a multiple of the largest power of two, in microseconds, that does not exceed `step`.
    package func rounded(upTo step: Int64) -> Timestamp {
        guard step > 1, self != .distantFuture, self != .distantPast else { return self }
        let grid = Int64(1) << (63 - Int64(step.leadingZeroBitCount))
        let (sum, overflow) = microseconds.addingReportingOverflow(grid - 1)
        return overflow ? self : Timestamp(microseconds: sum & ~(grid - 1))
    }
}

extension Backoff {
    /// Delays between attempts for a timeline whose fetch fails.
    package static let ofProviders = Backoff(base: .seconds(1), cap: .seconds(900))
}
