import WidgetModel
import WidgetStore

// What the workers decide, as records.

extension DecisionRecord {
    /// A claim of the kind that ended, with what was asked for when it began.
    fileprivate init(
        _ timeline: ClaimedTimeline, of kind: RegisteredKind?, _ decision: Decision, _ rule: ReloadRule
    ) {
        self.init(
            timeline: timeline.id, app: kind?.app, kind: kind?.definition.name, user: timeline.user, decision: decision,
            rule: rule, reason: timeline.reason ?? .policy, lane: timeline.lane, requested: timeline.requested,
            cause: timeline.cause, claim: timeline.claim)
    }
}

extension DecisionPublishing {
    /// Reloaded and unchanged: the completions whose claim held.
    func record(_ completions: [Completion], held: [CompleteTimelines.Row], of batch: ReloadBatch) {
        let timelines = batch.timelinesByID
        let rows = Dictionary(held.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
        record(
            completions.compactMap { completion in
                guard let row = rows[completion.id], let timeline = timelines[completion.id] else { return nil }
                var record = DecisionRecord(timeline, of: batch.kind, completion.decision, completion.rule)
                record.rendered = completion.requested
                record.dueAt = row.dueAt
                record.eligibleAt = row.eligibleAt
                record.fetchTime = completion.fetchTime
                return record
            })
    }

    /// Failed, or given back.
    func record(_ ended: [EndedClaim], of batch: ReloadBatch) {
        let timelines = batch.timelinesByID
        record(
            ended.compactMap { ended in
                guard let timeline = timelines[ended.id] else { return nil }
                var record = DecisionRecord(timeline, of: batch.kind, ended.decision, ended.rule)
                record.fetchTime = ended.fetchTime
                return record
            })
    }

    /// Deferred, or put to sleep: those whose claim held.
    func record(_ batch: DeferralBatch, held: Set<TimelineID>) {
        record(
            zip(batch.timelines, batch.deferrals).compactMap { timeline, deferral in
                guard held.contains(deferral.id) else { return nil }
                var record = DecisionRecord(
                    timeline, of: batch.kinds[timeline.kindID], deferral.until == nil ? .slept : .deferred,
                    deferral.rule)
                record.dueAt = deferral.until
                record.eligibleAt = deferral.until
                return record
            })
    }
}

extension ReloadBatch {
    fileprivate var timelinesByID: [TimelineID: ClaimedTimeline] {
        Dictionary(timelines.map { ($0.id, $0) }, uniquingKeysWith: { $1 })
    }
}
