import WidgetModel
import WidgetStore

extension DecisionRecord {
    private init(
        _ timeline: ClaimedTimeline, _ lane: ReloadLane, of kind: RegisteredKind?, _ decision: Decision,
        _ rule: ReloadRule
    ) {
        self.init(
            timeline: timeline.id, app: kind?.app, kind: kind?.definition.name, user: timeline.user, decision: decision,
            rule: rule, reason: timeline.reason ?? .policy, lane: lane, requested: timeline.state.requested,
            cause: timeline.cause)
    }

    /// A timeline that was stored, or found unchanged.
    init(_ stored: StoredTimeline) {
        let item = stored.fetched.item
        self.init(
            item.timeline, item.lane, of: item.kind, stored.isChanged ? .reloaded : .unchanged,
            stored.isChanged ? item.rule : .gate)
        claim = item.token
        rendered = stored.row.rendered
        dueAt = stored.row.nextLook
        eligibleAt = stored.row.eligibleAt
        fetchTime = stored.fetched.fetchTime
    }

    /// A look that stored nothing.
    init(_ settlement: TimelineSettlement, _ row: SettleTimelines.Row, of kind: RegisteredKind?) {
        self.init(
            settlement.timeline, settlement.list.lane, of: kind, settlement.decision, settlement.rule)
        dueAt = row.nextLook
        if case .wait(let until) = settlement.outcome { eligibleAt = until }
        fetchTime = settlement.fetchTime
    }
}
