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
        // The row was written for a view or a placement, not for a request.
        guard marked.events > 0 else { return nil }
        let schedule = kind.map { ReloadRules($0.definition, developerMode: $0.isDeveloperMode).schedule }
        return marked.timeline.state.decision(
            onRequests: marked.events, listedAt: marked.listedAt, renderedAt: marked.timeline.renderedAt, schedule,
            at: marked.timeline.readAt)
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
