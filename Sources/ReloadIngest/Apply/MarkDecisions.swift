import WidgetModel
import WidgetStore

/// What is decided about requests at the time of the request: merged with a reload that is wanted already, or deferred.
/// A request whose timeline is due at once is decided when a worker takes it. Pure.
enum MarkDecisions {
    static func records(of marked: [MarkedTimeline], directory: KindDirectory) -> [DecisionRecord] {
        marked.compactMap { timeline in
            let kind = directory.kinds[timeline.kindID]
            guard let (decision, rule) = decision(on: timeline, kind) else { return nil }
            return DecisionRecord(
                timeline: timeline.id, app: kind?.app, kind: kind?.definition.name, user: timeline.user,
                decision: decision, rule: rule, reason: timeline.reason, lane: timeline.lane,
                requested: timeline.requested, rendered: timeline.rendered, cause: timeline.cause,
                // A leased row's is the end of the lease.
                dueAt: timeline.isLeased ? nil : timeline.dueAt, eligibleAt: timeline.eligibleAt)
        }
    }

    private static func decision(
        on timeline: MarkedTimeline, _ kind: RegisteredKind?
    ) -> (Decision, ReloadRule)? {
        // Whether the fetch that is under way answers what was pending, only its worker knows; it does not answer this.
        if timeline.isLeased { return (.deferred, .inFlight) }
        if timeline.requested - timeline.events > timeline.rendered { return (.merged, .coalescing) }
        guard timeline.dueAt > timeline.markedAt else { return nil }
        if timeline.retryAt > timeline.markedAt { return (.deferred, .backoff) }
        guard let kind, let renderedAt = timeline.renderedAt else { return (.deferred, .spacing) }
        let spaced = ReloadRules(kind.definition, developerMode: kind.isDeveloperMode).schedule
            .eligible(after: renderedAt)
        return (.deferred, timeline.dueAt > spaced ? .budget : .spacing)
    }

    /// Requests that became dead letters.
    static func records(
        of rejected: [RejectedEvent], position: (RejectedEvent) -> EventPosition?
    ) -> [DecisionRecord] {
        rejected.map { event in
            DecisionRecord(
                app: event.app, decision: .refused, rule: .invalidEvent, cause: position(event), error: event.code)
        }
    }
}
