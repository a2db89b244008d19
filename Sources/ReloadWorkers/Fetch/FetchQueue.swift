// SPDX-License-Identifier: Apache-2.0

import DequeModule
import Logging
import Synchronization
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

    init(_ jobs: consuming [TimelineJob]) {
        // In place, since almost all timelines are fetched.
        fetches = consume jobs
        for index in fetches.indices { Self.decide(&fetches[index]) }
        for job in fetches.extract(where: { if case .fetch = $0.outcome { false } else { true } }) {
            if job.returnDelay != nil {
                unreadable.append(job)
            } else if case .collect = job.outcome {
                orphans.append(job)
            } else {
                reschedules.append(job)
            }
        }
    }

    private static func decide(_ job: inout TimelineJob) {
        let (timeline, claim) = (job.timeline, job.claim)
        guard !timeline.hasUnknownFamily else {
            job.returnDelay = Self.unreadableDelay
            return
        }
        job.outcome = claim.kind.rules.decide(
            timeline.state, timeline.kind, facts: timeline.facts, sweep: claim.list.generation,
            isRetired: claim.kind.isRetired, at: timeline.readAt)
        if case .fetch(let rule, let ledger) = job.outcome { (job.rule, job.ledger) = (rule, ledger) }
    }
}

/// Timelines that wait for a request to their provider, the most urgent first.
///
/// A full request starts as soon as the provider has a free slot, a smaller one only while few requests are under way;
/// otherwise further timelines join it. Requests are small while the provider keeps up, and grow with the load.
final class FetchQueue: Sendable {
    /// Timelines by lane; retries are separate, behind the others.
    private struct Queue {
        var fresh = ReloadLane.allCases.map { _ in Deque<TimelineJob>() }
        var retried = ReloadLane.allCases.map { _ in Deque<TimelineJob>() }

        var isEmpty: Bool { fresh.allSatisfy { $0.isEmpty } && retried.allSatisfy { $0.isEmpty } }
    }

    /// Least size of batches of retries, so that an outage is not followed by a flood of small requests.
    private static let smallestRetry = 25

    private let queues = Mutex<[ProviderKey: Queue]>([:])

    /// Appends timelines and returns their providers.
    func append(_ jobs: [TimelineJob]) -> Set<ProviderKey> {
        var fresh = jobs
        let retried = fresh.extract { $0.timeline.attempts > 0 }
        var providers: Set<ProviderKey> = []
        queues.withLock { queues in
            for (provider, lane, range) in fresh.destinations {
                queues[provider, default: Queue()].fresh[lane].append(contentsOf: fresh[range])
                providers.insert(provider)
            }
            for (provider, lane, range) in retried.destinations {
                queues[provider, default: Queue()].retried[lane].append(contentsOf: retried[range])
                providers.insert(provider)
            }
        }
        return providers
    }

    /// Takes the timelines of the next request; nil without any, or if `admits` refuses a slot.
    ///
    /// - Parameters:
    ///   - sizeLimit: largest batch that the provider accepts.
    ///   - admits: takes a slot for a lane, if there is one; receives whether the request is full.
    func next(
        _ provider: ProviderKey, sizeLimit: Int, admits: (ReloadLane, _ isFull: Bool) -> Bool
    ) -> TimelineBatch? {
        queues.withLock { queues in
            // In place: a copy of the queue would copy all waiting timelines for every request.
            guard let place = queues.index(forKey: provider) else { return nil }
            let jobs =
                Self.take(&queues.values[place].fresh, sizeLimit, admits)
                ?? Self.takeRetries(&queues.values[place].retried, sizeLimit, admits)
            if queues.values[place].isEmpty { queues.remove(at: place) }
            return jobs.flatMap { TimelineBatch($0, provider) }
        }
    }

    private static func takeRetries(
        _ lanes: inout [Deque<TimelineJob>], _ sizeLimit: Int, _ admits: (ReloadLane, Bool) -> Bool
    ) -> [TimelineJob]? {
        guard let first = lanes.lazy.compactMap(\.first).first else { return nil }
        let most = min(sizeLimit, first.claim.kind.definition.maxBatch)
        let size = max(min(most, smallestRetry), most >> (2 * min(Int(first.timeline.attempts), 2)))
        return take(&lanes, size, admits)
    }

    private static func take(
        _ lanes: inout [Deque<TimelineJob>], _ sizeLimit: Int, _ admits: (ReloadLane, Bool) -> Bool
    ) -> [TimelineJob]? {
        guard let first = lanes.firstIndex(where: { !$0.isEmpty }), let lane = ReloadLane(rawValue: Int16(first)) else {
            return nil
        }
        let waiting = lanes.reduce(0) { $0 + $1.count }
        let limit = max(1, min(sizeLimit, lanes[first].first?.claim.kind.definition.maxBatch ?? 1))
        guard admits(lane, waiting >= limit) else { return nil }
        var jobs: [TimelineJob] = []
        jobs.reserveCapacity(min(limit, waiting))
        var most = limit
        // Bulk work does not fill up urgent requests.
        let last = lane.isUrgent ? Int(ReloadLane.push.rawValue) : lanes.count - 1
        for index in first...last where jobs.count < most {
            while jobs.count < most, !lanes[index].isEmpty {
                most = min(most, max(1, lanes[index][0].claim.kind.definition.maxBatch))
                if jobs.count < most { jobs.append(lanes[index].removeFirst()) }
            }
        }
        return jobs
    }
}

/// Timelines of one request, of any kinds of an app with the same provider URL. From the fetch to the end of their
/// lists they stay together.
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

extension ListClaim {
    /// Time since which the reload of one of its timelines was possible: that of its due list. After a failed attempt,
    /// a targeted request may be older than the retry's list.
    func wantedSince(_ timeline: ClaimedTimeline) -> Timestamp {
        let dueAt = list.dueAt
        guard timeline.attempts > 0, let requested = timeline.requestedAt,
            timeline.renderedAt.map({ requested > $0 }) ?? true
        else { return dueAt }
        return min(requested, dueAt)
    }

    /// The database's time: that of the reading of one of its timelines, plus the span of the worker's clock since the
    /// claim.
    func databaseTime(of timeline: ClaimedTimeline, at now: Duration) -> Timestamp {
        timeline.readAt + (now - startedAt)
    }
}

extension TimelineJob {
    var lane: ReloadLane { claim.list.lane }
}

extension Collection<TimelineJob> {
    /// The earliest end of their leases.
    var leaseEnds: Duration { lazy.map(\.claim.leaseEnds).min() ?? .zero }
    /// The longest time limit of their kinds' requests.
    var timeout: Duration { lazy.map(\.claim.kind.definition.timeout).max() ?? .zero }

    /// Whether every timeline has failed several times. One of them may be crashing the provider.
    var areSuspicious: Bool { allSatisfy { $0.timeline.attempts >= 3 } }
}

extension RandomAccessCollection<TimelineJob> where Index == Int {
    /// Ranges of neighbours with the same provider and lane.
    fileprivate var destinations: [(provider: ProviderKey, lane: Int, range: Range<Int>)] {
        var destinations: [(provider: ProviderKey, lane: Int, range: Range<Int>)] = []
        for range in runs(of: \.claim) {
            let claim = self[range.lowerBound].claim
            let (provider, lane) = (ProviderKey(claim.kind), Int(claim.list.lane.rawValue))
            if let last = destinations.last, last.lane == lane, last.provider == provider {
                destinations[destinations.count - 1].range = last.range.lowerBound..<range.upperBound
            } else {
                destinations.append((provider, lane, range))
            }
        }
        return destinations
    }

    /// Number of the timelines of each kind.
    var kinds: some Collection<(kind: RegisteredKind, count: Int)> {
        var kinds: [Int32: (kind: RegisteredKind, count: Int)] = [:]
        for range in runs(of: \.claim.kind) {
            let kind = self[range.lowerBound].claim.kind
            kinds[kind.id, default: (kind, 0)].count += range.count
        }
        return kinds.values
    }
}

extension ArraySlice<TimelineJob> {
    /// Body of a request for their timelines or snapshots.
    var requestBody: [UInt8] {
        var body = TimelineRequestBody(count: count)
        for index in indices {
            let timeline = self[index].timeline
            body.append(timeline.id, timeline.identity(of: self[index].claim.kind))
        }
        return body.finish()
    }
}
