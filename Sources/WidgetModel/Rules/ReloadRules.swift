/// The rules of reloads (DESIGN.md) for the timelines of one kind: pure functions of state and time.
package struct ReloadRules: Hashable, Sendable {
    /// Spacing, tolerance of jitter, developer mode.
    package var schedule: ReloadSchedule
    package var budget: DailyBudget
    /// Time without a view after which a timeline gets no reloads by policy.
    package var dormantAfter: Duration
    /// Whether the timelines belong to no user, so that free reasons keep the spacing.
    package var isShared: Bool

    package init(
        schedule: ReloadSchedule, budget: DailyBudget = DailyBudget(),
        dormantAfter: Duration = KindDefinition.defaultDormantAfter, isShared: Bool = false
    ) {
        self.schedule = schedule
        self.budget = budget
        self.dormantAfter = dormantAfter
        self.isShared = isShared
    }

    package init(_ kind: KindDefinition, developerMode: Bool) {
        self.init(
            schedule: ReloadSchedule(
                minimumSpacing: kind.minimumSpacing, developerMode: developerMode, tolerance: kind.reloadTolerance),
            budget: kind.dailyBudget ?? DailyBudget(), dormantAfter: kind.dormantAfter,
            isShared: kind.sharing == .shared)
    }

    private var developerMode: Bool { schedule.developerMode }
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

    package static let names = NameTable<ReloadNeed>()
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

/// Plan for a due timeline.
package enum ReloadPlan: Hashable, Sendable {
    /// Fetch it, and store this ledger with the result; a failed fetch spends nothing.
    case reload(rule: ReloadRule, ledger: BudgetLedger)
    /// Wait until this time because of the rule; never dropped.
    case wait(until: Timestamp, rule: ReloadRule)
    /// Wait until it is viewed, placed or requested.
    case sleep
}

extension ReloadRules {
    /// Whether a due timeline is fetched now.
    package func plan(_ state: ReloadState, at now: Timestamp) -> ReloadPlan {
        if state.need == .first { return .reload(rule: .first, ledger: state.ledger) }
        if state.need == .free { return .reload(rule: .free, ledger: state.ledger) }
        if state.need == .policy, isDormant(state, at: now) { return .sleep }
        if developerMode { return .reload(rule: .developerMode, ledger: state.ledger) }
        let (time, rule) = eligible(state, from: now)
        guard time <= now else { return .wait(until: time, rule: rule) }
        var ledger = state.ledger
        let spent = ledger.spend(of: reloadsADay(state, at: now), at: now)
        return .reload(rule: spent, ledger: ledger)
    }

    /// The rule and the ledger of a reload that was decided by a rule, for a ledger that others have changed since: what
    /// the rule spends is taken from that ledger.
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

    /// Time at which a budgeted reason may reload it, and the rule that delays it until then.
    package func eligible(
        _ state: ReloadState, from now: Timestamp
    ) -> (time: Timestamp, rule: ReloadRule) {
        guard !developerMode else { return (now, .developerMode) }
        let spaced = max(now, state.renderedAt.map { schedule.eligible(after: $0) } ?? now)
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
            eligibleAt: developerMode ? .distantPast : schedule.gridded(eligibleAt, from: now),
            freeAt: isShared && !developerMode ? schedule.gridded(now + schedule.spacing, from: now) : .distantPast,
            policyAt: .distantFuture)
        if let policyAt = policy.earliestReload(lastEntry: lastEntry) {
            // A policy whose time is always past must not cause a loop, even without spacing.
            let due = max(policyAt, eligibleAt, now + max(schedule.spacing, ReloadSchedule.developerSpacing))
            next.policyAt = schedule.jittered(due, from: now, timeline: timeline)
        }
        return next
    }
}
