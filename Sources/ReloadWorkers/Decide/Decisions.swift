import WidgetModel
import WidgetStore

/// Decisions of the rules about claimed timelines, by the step that each goes to next.
///
/// Pure: no I/O, no clock.
struct Decisions: Sendable {
    /// Delay of a list with a timeline that only a newer version can read, which may claim it meanwhile.
    private static let unreadableDelay = Duration.seconds(30)

    /// Timelines to request from their providers.
    private(set) var fetches: [TimelineJob] = []
    /// Timelines without a fetch now: nothing to do, too early, or asleep. They only get their next appointment.
    private(set) var reschedules: [TimelineJob] = []
    /// Orphaned timelines, which no widget shows.
    private(set) var orphans: [TimelineJob] = []
    /// Timelines that only a newer version can read. Their lists go back.
    private(set) var unreadable: [TimelineJob] = []

    init(_ jobs: [TimelineJob]) {
        for var job in jobs {
            let (timeline, claim) = (job.timeline, job.claim)
            guard !timeline.hasUnknownFamily else {
                job.returnDelay = Self.unreadableDelay
                unreadable.append(job)
                continue
            }
            job.outcome = job.rules.decide(
                timeline.state, timeline.kind, facts: timeline.facts, via: claim.list.via,
                isRetired: claim.kind.isRetired, at: timeline.readAt)
            switch job.outcome {
            case .collect: orphans.append(job)
            case .nothing, .wait, .sleep: reschedules.append(job)
            case .fetch(let rule, let ledger):
                (job.rule, job.ledger) = (rule, ledger)
                fetches.append(job)
            }
        }
    }
}
