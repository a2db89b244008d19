import Metrics
import WidgetModel
import WidgetStore

/// Metrics of requests and batches, beside the totals of ``WorkerStatistics``.
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

    /// Records the end of a request to a provider.
    ///
    /// - Parameter failure: failure of the whole request; nil for an answer.
    func asked(for timelines: Int, took time: Duration, failure: ProviderFailure? = nil) {
        batchTimelines.record(timelines)
        requestSeconds.record(duration: time)
        if let failure { failed[failure.reason]?.increment() } else { answered.increment() }
    }

    /// Records stored or unchanged content.
    ///
    /// - Parameter now: time on the worker's clock, for the span since the claim.
    func stored(_ jobs: [TimelineJob], at now: Duration) {
        for job in jobs {
            let waited = job.databaseTime(at: now) - Self.wantedSince(job)
            latency[job.timeline.reason ?? .policy]?.record(duration: max(.zero, waited))
        }
    }

    /// Time since which the reload was possible: that of its due list. After a failed attempt, a targeted request may
    /// be older than the retry's list.
    private static func wantedSince(_ job: TimelineJob) -> Timestamp {
        let (timeline, dueAt) = (job.timeline, job.claim.list.dueAt)
        guard timeline.attempts > 0, let requested = timeline.requestedAt,
            timeline.renderedAt.map({ requested > $0 }) ?? true
        else { return dueAt }
        return min(requested, dueAt)
    }

    func rescheduled(_ decision: Decision, _ rule: ReloadRule) {
        if decision == .deferred || decision == .slept { deferrals[rule]?.increment() }
    }
}

extension WorkerStatistics {
    func count(asked jobs: some Sequence<TimelineJob>) {
        var asked: [Int32: Int] = [:]
        for job in jobs { asked[job.claim.kind.id, default: 0] += 1 }
        for (kind, count) in asked {
            self.count(kind: kind) { counters in
                counters.requests += 1
                counters.asked += count
            }
        }
    }

    /// Counts changed and unchanged content.
    func count(stored jobs: [TimelineJob]) {
        for job in jobs {
            let bytes = job.answer?.content.count ?? 0
            count(kind: job.claim.kind.id) { counters in
                counters.count(job.content == nil ? .unchanged : .reloaded)
                if job.content == nil {
                    counters.bytesSpared += bytes
                    counters.messagesSpared += 1
                } else {
                    counters.bytesStored += bytes
                }
            }
        }
    }
}
