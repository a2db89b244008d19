import WidgetEvents
import WidgetModel
import WidgetStore

/// Decisions at the time of a request: merged with a pending reload, or deferred. Workers decide requests that are due
/// at once. Pure.
enum MarkDecisions {
    static func records(of marked: [MarkedTimeline], directory: KindDirectory) -> [TimelineDecidedEvent] {
        marked.compactMap { marked in
            let timeline = marked.timeline
            let kind = directory.kinds[timeline.kindID]
            guard let (decision, rule) = decision(on: marked, kind) else { return nil }
            var event = TimelineDecidedEvent(decision: decision, rule: rule)
            (event.timeline, event.app, event.kind) = (timeline.id, kind?.app, kind?.definition.name)
            (event.user, event.reason, event.lane) = (timeline.user, timeline.reason, marked.lane)
            (event.requested, event.rendered) = (timeline.state.requested, timeline.state.rendered)
            (event.cause, event.dueAt, event.eligibleAt) = (timeline.cause, marked.listedAt, timeline.state.eligibleAt)
            return event
        }
    }

    private static func decision(
        on marked: MarkedTimeline, _ kind: RegisteredKind?
    ) -> (Decision, ReloadRule)? {
        let (timeline, state) = (marked.timeline, marked.timeline.state)
        // The row was written for a view or a placement, not for a request.
        guard marked.events > 0 else { return nil }
        if state.requested - marked.events > state.rendered { return (.merged, .coalescing) }
        guard marked.listedAt > timeline.readAt else { return nil }
        if state.retryAt > timeline.readAt { return (.deferred, .backoff) }
        guard let kind, let renderedAt = timeline.renderedAt else { return (.deferred, .spacing) }
        let schedule = ReloadRules(kind.definition, developerMode: kind.isDeveloperMode).schedule
        // Rounding to the grid makes a time later by less than a tenth of the spacing.
        let spaced = schedule.eligible(after: renderedAt) + schedule.spacing / 10
        return (.deferred, state.eligibleAt > spaced ? .budget : .spacing)
    }

    /// Decision records of requests that became dead letters.
    static func records(
        of rejected: [RejectedEvent], position: (RejectedEvent) -> EventPosition?
    ) -> [TimelineDecidedEvent] {
        rejected.map { rejected in
            var event = TimelineDecidedEvent(decision: .refused, rule: .invalidEvent)
            (event.app, event.cause, event.error) = (rejected.app, position(rejected), rejected.code)
            return event
        }
    }
}
