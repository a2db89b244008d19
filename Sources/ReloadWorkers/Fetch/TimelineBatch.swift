import Logging
import WidgetModel
import WidgetStore

/// Timelines of one request, of any kinds of an app with the same provider URL. From the fetch to the end of their lists
/// they stay together.
struct TimelineBatch: Sendable {
    let app: RegisteredApp
    let provider: ProviderKey
    var jobs: [TimelineJob]
    /// Trace contexts of the timelines' latest requests.
    var traces: [EventPosition: String] = [:]

    init?(_ jobs: [TimelineJob], _ provider: ProviderKey) {
        guard let app = jobs.first?.claim.app else { return nil }
        (self.jobs, self.app, self.provider) = (jobs, app, provider)
    }

    /// The most urgent lane of its timelines.
    var lane: ReloadLane { jobs.lazy.map(\.lane).min() ?? .interactive }
    var leaseEnds: Duration { jobs.leaseEnds }
    var startedAt: Duration { jobs.lazy.map(\.claim.startedAt).min() ?? .zero }

    /// Whether the batch retries timelines whose last fetch failed.
    var isRetry: Bool { jobs.first.map { $0.timeline.attempts > 0 } ?? false }

    /// Trace of the newest request among some of its timelines: a provider request belongs to at most one trace.
    func newestTrace(of range: Range<Int>) -> String? {
        guard !traces.isEmpty else { return nil }
        return jobs[range].lazy.map(\.timeline)
            .filter { timeline in timeline.cause.map { traces[$0] != nil } ?? false }
            .max { ($0.requestedAt ?? .distantPast, $0.row) < ($1.requestedAt ?? .distantPast, $1.row) }
            .flatMap { $0.cause.flatMap { traces[$0] } }
    }

    /// The newest trace for the log; empty without one.
    var logMetadata: Logger.Metadata {
        guard let trace = newestTrace(of: jobs.indices).flatMap({ TraceParent($0) }) else { return [:] }
        return ["trace_id": "\(trace.traceID)", "span_id": "\(trace.spanID)"]
    }
}

extension TimelineJob {
    /// Time since which the reload was possible: that of its due list. After a failed attempt, a targeted request may
    /// be older than the retry's list.
    var wantedSince: Timestamp {
        let dueAt = claim.list.dueAt
        guard timeline.attempts > 0, let requested = timeline.requestedAt,
            timeline.renderedAt.map({ requested > $0 }) ?? true
        else { return dueAt }
        return min(requested, dueAt)
    }

    var lane: ReloadLane { claim.list.lane }
    var rules: ReloadRules { ReloadRules(claim.kind.definition, developerMode: claim.kind.isDeveloperMode) }

    /// The database's time: that of the claim, plus the span of the worker's clock since then.
    func databaseTime(at now: Duration) -> Timestamp { timeline.readAt + (now - claim.startedAt) }
}

extension Collection<TimelineJob> {
    /// Number of the timelines of each kind.
    var kinds: some Collection<(kind: RegisteredKind, count: Int)> {
        var kinds: [Int32: (kind: RegisteredKind, count: Int)] = [:]
        for job in self { kinds[job.claim.kind.id, default: (job.claim.kind, 0)].count += 1 }
        return kinds.values
    }

    /// The earliest end of their leases.
    var leaseEnds: Duration { lazy.map(\.claim.leaseEnds).min() ?? .zero }
    /// The longest time limit of their kinds' requests.
    var timeout: Duration { lazy.map(\.claim.kind.definition.timeout).max() ?? .zero }

    /// Whether every timeline has failed several times, so that one of them may be crashing the provider.
    var areSuspicious: Bool { allSatisfy { $0.timeline.attempts >= 3 } }

    /// Body of a request for their timelines or snapshots.
    var requestBody: [UInt8] {
        ProviderRequest.encode(map { .init(id: $0.timeline.id, identity: $0.timeline.identity(of: $0.claim.kind)) })
    }
}

extension [TimelineJob] {
    /// Removes and returns the jobs that match.
    mutating func extract(where matches: (TimelineJob) throws -> Bool) rethrows -> [TimelineJob] {
        let extracted = try filter(matches)
        if !extracted.isEmpty { try removeAll(where: matches) }
        return extracted
    }
}

extension ClaimedTimeline {
    func identity(of kind: RegisteredKind) -> TimelineIdentity {
        TimelineIdentity(
            app: kind.app, kind: kind.definition.name, family: family, configuration: configuration, locale: locale,
            timeZone: timeZone, user: user)
    }
}
