import WidgetModel
import WidgetStore

/// When a timeline that was just fetched is due again (design, section 6, rules 1, 2 and 4).
struct CompletionRule: Sendable {
    let kind: RegisteredKind
    /// The time of day. The database's own decides; this one only tells how long the interval is that jitter is a part
    /// of.
    let now: Timestamp

    private var schedule: ReloadSchedule {
        ReloadSchedule(
            minimumSpacing: kind.definition.minimumSpacing, developerMode: kind.isDeveloperMode)
    }

    func completion(of fetched: FetchedTimeline, publishedHash: ContentHash?, decision: Decision) -> Completion {
        let timeline = fetched.timeline
        let next = fetched.policy.earliestReload(lastEntry: fetched.lastEntry)
        var jitter = Duration.zero
        if let next {
            let due = max(next, now + schedule.spacing)
            jitter = schedule.jitter(interval: due - now, timeline: timeline.id)
        }
        return Completion(
            id: timeline.id, claim: timeline.claim, requested: timeline.requested,
            kindGeneration: timeline.kindGeneration, appGeneration: timeline.appGeneration,
            publishedHash: publishedHash, nextReload: next, jitter: jitter,
            spacing: kind.isDeveloperMode ? .zero : kind.definition.minimumSpacing, decision: decision)
    }
}
