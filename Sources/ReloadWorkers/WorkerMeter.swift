import Metrics
import WidgetModel
import WidgetStore

/// Counts what the workers do, once a request or a batch; besides ``WorkerStatistics``, which has the totals.
final class WorkerMeter: Sendable {
    private let answered: Counter
    private let failed: [ProviderFailure.Reason: Counter]
    private let requestSeconds: Metrics.Timer
    private let batchTimelines: Recorder
    private let latency: [ReloadReason: Metrics.Timer]
    private let deferrals: [ReloadRule: Counter]

    init() {
        func outcome(_ name: String) -> Counter {
            Counter(label: MetricCatalogue.providerRequests.name, dimensions: [("outcome", name)])
        }
        answered = outcome("answered")
        failed = Dictionary(
            uniqueKeysWithValues: ProviderFailure.Reason.allCases.map { ($0, outcome($0.rawValue)) })
        requestSeconds = Metrics.Timer(label: MetricCatalogue.providerSeconds.name)
        batchTimelines = Recorder(label: MetricCatalogue.providerBatch.name)
        latency = Dictionary(
            uniqueKeysWithValues: ReloadReason.allCases.map {
                ($0, Metrics.Timer(label: MetricCatalogue.reloadLatency.name, dimensions: [("reason", $0.name)]))
            })
        deferrals = Dictionary(
            uniqueKeysWithValues: [ReloadRule.budget, .spacing, .dormant].map {
                ($0, Counter(label: MetricCatalogue.deferrals.name, dimensions: [("rule", $0.name)]))
            })
    }

    /// A request to a provider has ended.
    ///
    /// - Parameter failure: why it failed as a whole; nil: it was answered.
    func asked(for timelines: Int, took time: Duration, failure: ProviderFailure? = nil) {
        batchTimelines.record(timelines)
        requestSeconds.recordNanoseconds(time.wholeMicroseconds * 1_000)
        if let failure { failed[failure.reason]?.increment() } else { answered.increment() }
    }

    /// Content was stored, or found to be what is stored.
    ///
    /// - Parameter now: on the worker's clock; only the span since the claim is taken from it.
    func stored(_ saved: [SavedTimeline], of batch: ReloadBatch, at now: Duration) {
        let sinceClaim = now - batch.startedAt
        for saved in saved {
            let timeline = saved.fetched.timeline
            let waited = timeline.claimedAt - Self.wantedSince(timeline)
            latency[timeline.reason ?? .policy]?
                .recordNanoseconds(max(.zero, waited + sinceClaim).wholeMicroseconds * 1_000)
        }
    }

    /// Since when it could have been reloaded: since it was due. Where an attempt has failed, that is only since its retry
    /// was due; a targeted request that has waited for longer tells since when it is wanted.
    private static func wantedSince(_ timeline: ClaimedTimeline) -> Timestamp {
        guard timeline.attempts > 0, let requested = timeline.state.requestedAt,
            timeline.renderedAt.map({ requested > $0 }) ?? true
        else { return timeline.dueAt }
        return min(requested, timeline.dueAt)
    }

    func deferred(_ batch: DeferralBatch, held: Set<TimelineID>) {
        for deferral in batch.deferrals where held.contains(deferral.id) {
            deferrals[deferral.rule]?.increment()
        }
    }
}
