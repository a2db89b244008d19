import WidgetModel
import WidgetStore

/// What a timeline that was just fetched waits for (design, section 6, rules 1 to 4).
struct CompletionRule: Sendable {
    let batch: ReloadBatch
    /// Time since the claim, on the worker's clock. Only a span: the time of day is the database's, as of the claim.
    let sinceClaim: Duration

    func completion(of fetched: FetchedTimeline, publishedHash: ContentHash?, isChanged: Bool) -> Completion {
        let timeline = fetched.timeline
        let planned = batch.planned(timeline)
        let now = timeline.claimedAt + sinceClaim
        let next = batch.rules.next(
            policy: fetched.policy, lastEntry: fetched.lastEntry, renderedAt: now, timeline: timeline.id,
            ledger: planned.ledger, views: timeline.state.views)
        let schedule = batch.rules.schedule
        return Completion(
            id: timeline.id, claim: timeline.claim, requested: timeline.requested,
            kindGeneration: timeline.kindGeneration, appGeneration: timeline.appGeneration,
            publishedHash: publishedHash, nextReload: next.policyAt, jitter: next.jitter,
            spacing: schedule.developerMode ? .zero : schedule.minimumSpacing,
            isShared: batch.rules.isShared && !schedule.developerMode,
            eligibleAt: schedule.developerMode ? .distantPast : next.eligibleAt, ledger: planned.ledger,
            viewClass: ViewClass(timeline.state.views, at: now), fetchTime: fetched.fetchTime,
            decision: isChanged ? .reloaded : .unchanged, rule: isChanged ? planned.rule : .gate,
            reason: timeline.reason ?? .policy, cause: timeline.cause, tid: timeline.tid)
    }
}
