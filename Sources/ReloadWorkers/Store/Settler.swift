import Logging
import PostgresClient
import WidgetEvents
import WidgetModel
import WidgetStore

/// Ends looks without a store: deferrals, sleep, failures, and looks without work.
struct Settler: Sendable {
    let context: WorkerContext
    private let committer: LaneCommitter<TimelineSettlement, SettledRow?>

    init(context: WorkerContext) {
        self.context = context
        committer = LaneCommitter { settlements in
            let rows = try await context.pool.query(.settleTimelines(settlements))
            let found = Dictionary(rows.map { ($0.row, $0) }, uniquingKeysWith: { first, _ in first })
            return settlements.map { found[$0.timeline.row] }
        }
    }

    /// Writes settlements whose conditions still hold. The others have another appointment.
    func settle(
        _ settlements: [TimelineSettlement], _ kinds: [Int32: RegisteredKind], until deadline: Duration
    ) async throws {
        guard !settlements.isEmpty else { return }
        let isUrgent = settlements.contains { $0.list.lane.isUrgent }
        let rows = try await context.inParts(settlements, until: deadline) { settlements in
            try await committer.run(settlements, isUrgent: isUrgent)
        }
        var isDue = false
        var slept = 0
        var deferred = 0
        var records: [TimelineDecidedEvent] = []
        for (settlement, row) in zip(settlements, rows) {
            guard let row else { continue }
            isDue = isDue || row.isDue
            // Viewed since the decision.
            guard settlement.decision != .slept || row.isAsleep else { continue }
            if settlement.decision == .slept { slept += 1 }
            if settlement.decision == .deferred { deferred += 1 }
            guard settlement.decision != .none else { continue }
            context.statistics.count(kind: settlement.timeline.kindID) { $0.count(settlement.decision) }
            if context.decisions != nil {
                records.append(TimelineDecidedEvent(settlement, row, of: kinds[settlement.timeline.kindID]))
            }
        }
        context.statistics.count { counts in
            counts.slept += slept
            counts.deferred += deferred
        }
        context.meter.deferred(settlements)
        if !records.isEmpty { context.decisions?.record(records) }
        // Requested again since the claim: no need to wait for the poll.
        if isDue { context.signal.signal(.timelines) }
    }

    /// Ends failed fetches. The last good timelines and all requests stay.
    func fail(
        _ failed: [(item: FetchItem, failure: ProviderFailure)], of batch: FetchBatch
    ) async throws {
        guard let first = failed.first else { return }
        // One delay for each number of failures, so that the retries share lists.
        var delays: [Int16: Duration] = [:]
        let settlements = failed.map { item, failure in
            var generator = SystemRandomNumberGenerator()
            let attempts = item.timeline.attempts
            let backoff =
                delays[attempts]
                ?? context.configuration.providerBackoff.delay(attempt: Int(attempts) + 1, using: &generator)
            delays[attempts] = backoff
            let asked = min(failure.retryAfter ?? .zero, context.configuration.maximumRetryAfter)
            let now = item.timeline.readAt + (context.clock.elapsed - item.startedAt)
            let retryAt = item.rules.schedule.gridded(now + max(backoff, asked), from: now)
            return TimelineSettlement(
                timeline: item.timeline, list: item.list, outcome: .fail(retryAt: retryAt), decision: .failed,
                rule: failure.rule, fetchTime: failure.fetchTime)
        }
        context.statistics.count { counts in
            for (_, failure) in failed { counts.failed[failure.reason, default: 0] += 1 }
        }
        context.logger.warning(
            "timelines failed",
            metadata: [
                "app": "\(batch.app.name)", "kind": "\(first.item.kind.definition.name)", "count": "\(failed.count)",
                "reason": "\(first.failure.reason)", "first": "\(first.failure.message)",
                "timeline": "\(first.item.timeline.id)",
            ].merging(batch.logMetadata) { $1 })
        let kinds = Dictionary(failed.map { ($0.item.kind.id, $0.item.kind) }, uniquingKeysWith: { first, _ in first })
        try await settle(settlements, kinds, until: batch.leaseEnds)
    }
}
