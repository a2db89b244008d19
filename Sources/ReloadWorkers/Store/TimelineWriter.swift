// SPDX-License-Identifier: Apache-2.0

import Logging
import Metrics
import PostgresClient
import Waiting
import WidgetEvents
import WidgetModel
import WidgetStore

/// Writes the rows of timelines at the end of a look: fetched content with the next appointment, or the appointment
/// alone for what was not fetched or has failed.
///
/// Timelines of several batches share statements while one is under way.
struct TimelineWriter: Sendable {
    /// Attempts for a row with concurrent stores.
    private static let attempts = 4

    /// Result for one job: its row as the statement left it, nil if the statement left the row alone; or the error that
    /// its data causes.
    private typealias Written = Result<WrittenTimeline?, PostgresError>

    /// Number of timelines with the size of their contents.
    private struct Stored {
        private(set) var timelines = 0
        private(set) var bytes = 0

        mutating func add(_ bytes: Int) {
            timelines += 1
            self.bytes += bytes
        }
    }

    let context: WorkerContext
    // Urgent timelines do not wait for hundreds of a patient lane.
    private let stores: GroupCommitter<TimelineJob, WrittenTimeline?>
    private let patientStores: GroupCommitter<TimelineJob, WrittenTimeline?>
    private let reschedules: GroupCommitter<TimelineJob, WrittenTimeline?>
    private let patientReschedules: GroupCommitter<TimelineJob, WrittenTimeline?>

    init(context: WorkerContext) {
        self.context = context
        func committer(
            _ write: @escaping @Sendable ([TimelineJob]) async throws -> [WrittenTimeline]
        ) -> GroupCommitter<TimelineJob, WrittenTimeline?> {
            GroupCommitter { jobs in
                Self.results(try await write(jobs), of: jobs)
            }
        }
        let pool = context.pool
        let store: @Sendable ([TimelineJob]) async throws -> [WrittenTimeline] = { jobs in
            var rest = jobs
            let replacing = rest.extract(where: \.replacesContent)
            guard !replacing.isEmpty else { return try await pool.query(.storeTimelines(rest)) }
            // Committed even if the other statement fails: `computeAgain` finds these rows.
            let rows = try await pool.query(.replaceContent(replacing))
            if rows.count < replacing.count {
                let stored = Set(rows.map(\.row))
                rest += replacing.filter { !stored.contains($0.timeline.row) }
            }
            return rest.isEmpty ? rows : try await rows + pool.query(.storeTimelines(rest))
        }
        stores = committer(store)
        patientStores = committer(store)
        reschedules = committer { try await pool.query(.rescheduleTimelines($0)) }
        patientReschedules = committer { try await pool.query(.rescheduleTimelines($0)) }
    }

    /// The row of each job among those that a statement has returned; nil for a job whose row it left alone.
    static func results(_ rows: [WrittenTimeline], of jobs: [TimelineJob]) -> [WrittenTimeline?] {
        let found = Dictionary(rows.map { ($0.row, $0) }, uniquingKeysWith: { first, _ in first })
        return jobs.map { found[$0.timeline.row] }
    }

    /// Number of callers that wait for a statement that stores.
    var waiting: Int { stores.waiting + patientStores.waiting }

    /// Writes the rows of jobs. If the database refuses the data, it writes halves of them, down to the rows that are
    /// at fault. Each caller retries by itself until its leases end, so that its pauses delay no other caller.
    private func write(
        _ jobs: [TimelineJob], _ committer: GroupCommitter<TimelineJob, WrittenTimeline?>
    ) async throws -> [Written] {
        try await context.halving(jobs, until: jobs.leaseEnds, refusal: Written.failure) { jobs in
            try await committer.run(jobs).map(Written.success)
        }
    }

    // MARK: Store

    /// Stores the answers of a batch, and sets ``TimelineJob/written`` or, if the database refuses the content,
    /// ``TimelineJob/failure``. A job with neither is discarded: another worker has stored a later fetch, or holds the
    /// list.
    func store(_ jobs: inout [TimelineJob]) async throws {
        var waiting = jobs.indices.filter { jobs[$0].answer != nil }
        guard !waiting.isEmpty else { return }
        let deadline = jobs.leaseEnds
        let now = context.clock.elapsed
        for index in waiting { compute(&jobs[index], over: jobs[index].timeline, at: now) }
        for _ in 1...Self.attempts where !waiting.isEmpty {
            let batch = waiting.count == jobs.count ? jobs : waiting.map { jobs[$0] }
            let results = try await write(batch, batch.areUrgent ? stores : patientStores)
            for (index, result) in zip(waiting, results) {
                switch result {
                case .success(let row): jobs[index].written = row
                case .failure(let error):
                    jobs[index].answer = nil
                    jobs[index].failure = ProviderFailure(.storage, "\(error)")
                }
            }
            waiting = try await computeAgain(
                waiting.filter { jobs[$0].written == nil && jobs[$0].failure == nil }, of: &jobs, until: deadline)
        }
        let discarded = jobs.filter { $0.answer != nil && $0.written == nil }
        report(jobs, discarded: discarded.count)
        // Such a row may have no other list: burying an orphan changes its revision and makes no appointment.
        try await reschedule(discarded)
    }

    /// Reads rows again that have changed since the claim, and returns those to store again. The result is discarded if
    /// a later claim has stored; otherwise change, ledger and times are computed again.
    ///
    /// A row with this fetch's revision was stored by an earlier attempt with an unknown outcome or a failure for other
    /// rows.
    private func computeAgain(
        _ missed: [Int], of jobs: inout [TimelineJob], until deadline: Duration
    ) async throws -> [Int] {
        guard !missed.isEmpty else { return [] }
        let rows = try await context.halving(missed.map { jobs[$0].timeline.row }, until: deadline) { rows in
            try await context.pool.query(.readTimelinesAgain(rows))
        }
        let found = Dictionary(rows.map { ($0.row, $0) }, uniquingKeysWith: { first, _ in first })
        var again: [Int] = []
        for index in missed {
            guard let row = found[jobs[index].timeline.row] else { continue }
            let token = jobs[index].claim.token
            // A later store with unchanged content leaves the publishing to this one.
            if row.revision == token || row.contentRevision == token {
                jobs[index].content = row.contentRevision == token ? jobs[index].answer?.content : nil
                jobs[index].written = WrittenTimeline(row)
            } else if row.revision < token, row.revision != jobs[index].revision {
                compute(&jobs[index], over: row, at: context.clock.elapsed)
                again.append(index)
            }
        }
        return again
    }

    /// Computes the columns to store.
    ///
    /// - Parameters:
    ///   - row: the present row. The served request is the claim's, and a token that the claim spent is taken from the
    ///     present ledger, which has what other workers have spent since.
    ///   - time: now, on the worker's clock.
    func compute(_ job: inout TimelineJob, over row: ClaimedTimeline, at time: Duration) {
        guard let answer = job.answer, case .fetch(let rule, let ledger) = job.outcome else { return }
        let rules = job.claim.kind.rules
        let now = job.claim.databaseTime(of: job.timeline, at: time)
        (job.rule, job.ledger) =
            row === job.timeline
            ? (rule, ledger)
            : rules.spending(rule, from: row.ledger, views: row.views, at: job.timeline.readAt)
        job.revision = row.revision
        job.next = rules.next(
            policy: answer.policy, lastEntry: answer.lastEntryDate, renderedAt: now, timeline: row.id,
            ledger: job.ledger, views: row.views)
        let isChanged =
            row.contentRevision == 0 || row.isOfEarlierHistory(than: job.claim.token)
            || !answer.showsTheSame(as: row.hash, at: now)
        job.content = isChanged ? answer.content : nil
        job.hash = answer.hash(at: now)
    }

    /// Reports the stored jobs of a batch.
    func report(_ jobs: [TimelineJob], discarded: Int) {
        let (stored, changed) = (jobs.count { $0.written != nil }, jobs.count(where: \.isChanged))
        context.metrics.stored.increment(by: changed)
        context.metrics.gateTimelines.increment(by: stored - changed)
        context.metrics.gateMessages.increment(by: stored - changed)
        context.metrics.fenced.increment(by: discarded)
        guard stored > 0 else { return }
        count(jobs)
        context.onDecisions?(jobs.lazy.filter { $0.written != nil }.map { TimelineDecidedEvent(stored: $0) })
        if let onStored = context.onStored {
            for job in jobs where job.isChanged { onStored(job.timeline.id, job.timeline.cause) }
        }
        // Requested again during the fetch: no need to wait for the poll.
        if jobs.contains(where: { $0.written?.isDue == true }) { context.signals.timelines.signal() }
    }

    /// Counts changed and unchanged content of stored jobs, and the time from the requests to now.
    private func count(_ jobs: [TimelineJob]) {
        let now = context.clock.elapsed
        var (written, spared) = (0, 0)
        for run in jobs.runs(of: \.claim.kind) {
            var (changed, unchanged) = (Stored(), Stored())
            for index in run where jobs[index].written != nil {
                let bytes = jobs[index].answer?.content.count ?? 0
                if jobs[index].isChanged { changed.add(bytes) } else { unchanged.add(bytes) }
                let (timeline, claim) = (jobs[index].timeline, jobs[index].claim)
                let time = claim.databaseTime(of: timeline, at: now) - claim.wantedSince(timeline)
                context.latency(of: timeline.reason ?? .policy).recordMicroseconds(max(0, time.wholeMicroseconds))
            }
            let kind = jobs[run.lowerBound].claim.kind
            context.kinds.count(.reloaded, changed.timelines, of: kind) { $0.bytesStored += changed.bytes }
            context.kinds.count(.unchanged, unchanged.timelines, of: kind) { counters in
                counters.bytesSpared += unchanged.bytes
                counters.messagesSpared += unchanged.timelines
            }
            written += changed.bytes
            spared += unchanged.bytes
        }
        context.metrics.storedBytes.increment(by: written)
        context.metrics.gateBytes.increment(by: spared)
    }

    // MARK: Reschedule

    /// Writes the next appointments of timelines that were not stored, if their conditions still hold. The others have
    /// another appointment.
    func reschedule(_ jobs: [TimelineJob]) async throws {
        guard !jobs.isEmpty else { return }
        let results = try await write(jobs, jobs.areUrgent ? reschedules : patientReschedules)
        var isDue = false
        var deferrals: [ReloadRule: Int] = [:]
        var records: [TimelineDecidedEvent] = []
        var changed: [TimelineJob] = []
        var refusal: PostgresError?
        for (var job, result) in zip(jobs, results) {
            guard case .success(let written) = result else {
                if case .failure(let error) = result { refusal = refusal ?? error }
                continue
            }
            guard let row = written else {
                guard job.retryAt != nil else { continue }
                (job.failure, job.retryAt) = (nil, nil)
                changed.append(job)
                continue
            }
            isDue = isDue || row.isDue
            let (decision, rule) = job.reschedule
            // Viewed since the decision.
            guard decision != .none, decision != .slept || row.isAsleep else { continue }
            context.kinds.count(decision, of: job.claim.kind)
            if decision == .deferred || decision == .slept { deferrals[rule, default: 0] += 1 }
            if context.onDecisions != nil { records.append(TimelineDecidedEvent(rescheduled: job, row)) }
        }
        for (rule, count) in deferrals { context.metrics.deferrals(rule.name).increment(by: count) }
        if !records.isEmpty { context.onDecisions?(records) }
        // Requested again since the claim: no need to wait for the poll.
        if isDue { context.signals.timelines.signal() }
        // A failure of rows that have changed does not count. Their lists may be their only ones, see `store(_:)`.
        try await reschedule(changed)
        if let refusal { throw refusal }
    }

    /// Records the failures of a batch, and sets the times of the next attempts. The last good timelines and all
    /// requests stay.
    func recordFailures(of batch: inout TimelineBatch) async throws {
        let failed = batch.jobs.indices.filter { batch.jobs[$0].failure != nil }
        guard let first = failed.first else { return }
        // One delay for each number of failures, so that the retries share lists.
        var delays: [Int16: Duration] = [:]
        for index in failed {
            let job = batch.jobs[index]
            var generator = SystemRandomNumberGenerator()
            let attempts = job.timeline.attempts
            let backoff =
                delays[attempts]
                ?? context.configuration.providerBackoff.delay(attempt: Int(attempts) + 1, using: &generator)
            delays[attempts] = backoff
            let asked = min(job.failure?.retryAfter ?? .zero, context.configuration.maximumRetryAfter)
            let now = job.claim.databaseTime(of: job.timeline, at: context.clock.elapsed)
            batch.jobs[index].retryAt = job.claim.kind.rules.gridded(now + max(backoff, asked), from: now)
        }
        let jobs = failed.map { batch.jobs[$0] }
        for case let failure? in jobs.lazy.map(\.failure) {
            context.metrics.providerErrors(failure.reason.rawValue).increment()
        }
        let job = batch.jobs[first]
        context.logger.warning(
            "timelines failed",
            metadata: [
                "app": "\(batch.app.name)", "kind": "\(job.claim.kind.definition.name)", "count": "\(failed.count)",
                "reason": "\(job.failure?.reason.rawValue ?? "")", "first": "\(job.failure?.message ?? "")",
                "timeline": "\(job.timeline.id)",
            ].merging(batch.logMetadata) { $1 })
        try await reschedule(jobs)
    }
}

extension TimelineJob {
    /// Whether new content was stored.
    fileprivate var isChanged: Bool { written != nil && content != nil }
}

extension [TimelineJob] {
    fileprivate var areUrgent: Bool { contains { $0.lane.isUrgent } }
}

extension TimelineDecidedEvent {
    private init(_ job: TimelineJob, _ decision: Decision, _ rule: ReloadRule) {
        self.init(decision: decision, rule: rule)
        timeline = job.timeline.id
        (app, kind, user) = (job.claim.kind.app, job.claim.kind.definition.name, job.timeline.user)
        (reason, lane, requested) = (job.timeline.reason ?? .policy, job.lane, job.timeline.state.requested)
        cause = job.timeline.cause
        fetchTime = job.fetchTime
    }

    /// Makes the event of a stored or unchanged timeline.
    init(stored job: TimelineJob) {
        let isChanged = job.content != nil
        self.init(job, isChanged ? .reloaded : .unchanged, isChanged ? job.rule : .gate)
        claim = job.claim.token
        rendered = job.written?.rendered
        dueAt = job.written?.nextLook
        eligibleAt = job.written?.eligibleAt
    }

    /// Makes the event of a look without a store.
    init(rescheduled job: TimelineJob, _ row: WrittenTimeline) {
        self.init(job, job.reschedule.decision, job.reschedule.rule)
        dueAt = row.nextLook
        eligibleAt = job.waitsUntil
    }
}
