import Logging
import PostgresClient
import WidgetModel
import WidgetStore

/// Stores fetched timelines in groups, with natural batching.
struct Storer: Sendable {
    /// Attempts for a row with concurrent stores.
    private static let attempts = 4

    let context: WorkerContext
    private let committer: LaneCommitter<TimelineWrite, StoredRow?>

    init(context: WorkerContext) {
        self.context = context
        committer = LaneCommitter { writes in
            let rows = try await context.pool.query(.storeTimelines(writes))
            let found = Dictionary(rows.map { ($0.row, $0) }, uniquingKeysWith: { first, _ in first })
            return writes.map { found[$0.timeline.row] }
        }
    }

    /// Number of callers that wait for a statement.
    var waiting: Int { committer.waiting }

    /// Stores a batch.
    ///
    /// - Returns: the stored timelines, and those that the database refuses for their content. Others are left out:
    ///   another worker has stored a later fetch, or holds the list.
    func store(
        _ fetched: [FetchedTimeline]
    ) async throws -> (stored: [StoredTimeline], refused: [(item: FetchItem, failure: ProviderFailure)]) {
        guard let first = fetched.first else { return ([], []) }
        let deadline = fetched.lazy.map(\.item.leaseEnds).min() ?? .zero
        let isUrgent = fetched.contains { $0.item.lane.isUrgent }
        var stored: [StoredTimeline] = []
        stored.reserveCapacity(fetched.count)
        var waiting: [Waiting] = zip(fetched, fetched.map(write)).map { ($0, $1) }
        do {
            for attempt in 1...Self.attempts where !waiting.isEmpty {
                let rows = try await context.inParts(waiting.map(\.write), until: deadline) { writes in
                    try await committer.run(writes, isUrgent: isUrgent)
                }
                var missed: [Waiting] = []
                for (entry, row) in zip(waiting, rows) {
                    if let row {
                        stored.append(
                            StoredTimeline(fetched: entry.fetched, isChanged: entry.write.content != nil, row: row))
                    } else {
                        missed.append(entry)
                    }
                }
                let (again, found) = try await computedAgain(missed, until: deadline)
                stored += found
                waiting = attempt < Self.attempts ? again : []
            }
        } catch let error as PostgresError where error.blamesData {
            guard fetched.count > 1 else { return ([], [(first.item, ProviderFailure(.storage, "\(error)"))]) }
            let middle = fetched.count / 2
            let left = try await store(Array(fetched[..<middle]))
            let right = try await store(Array(fetched[middle...]))
            return (left.stored + right.stored, left.refused + right.refused)
        }
        context.statistics.count { $0.fenced += fetched.count - stored.count }
        return (stored, [])
    }

    private typealias Waiting = (fetched: FetchedTimeline, write: TimelineWrite)

    /// Reads rows again that have changed since the claim. The result is discarded if a later claim has stored;
    /// otherwise change, ledger and times are computed again.
    ///
    /// A row with this fetch's revision was stored by an earlier attempt with an unknown outcome or a failure for other
    /// rows.
    private func computedAgain(
        _ missed: [Waiting], until deadline: Duration
    ) async throws -> (again: [Waiting], stored: [StoredTimeline]) {
        guard !missed.isEmpty else { return ([], []) }
        let rows = try await context.inParts(missed.map(\.write.timeline.row), until: deadline) { rows in
            try await context.pool.query(.readTimelinesAgain(rows))
        }
        let found = Dictionary(rows.map { ($0.row, $0) }, uniquingKeysWith: { first, _ in first })
        var again: [Waiting] = []
        var stored: [StoredTimeline] = []
        for entry in missed {
            guard let row = found[entry.write.timeline.row] else { continue }
            let token = entry.fetched.item.token
            // A later store with unchanged content leaves the publishing to this one.
            if row.revision == token || row.contentRevision == token {
                stored.append(
                    StoredTimeline(
                        fetched: entry.fetched, isChanged: row.contentRevision == token, row: StoredRow(row)))
            } else if row.revision < token, row.revision != entry.write.revision {
                again.append((entry.fetched, write(entry.fetched, over: row)))
            }
        }
        return (again, stored)
    }

    private func write(_ fetched: FetchedTimeline) -> TimelineWrite { write(fetched, over: fetched.item.timeline) }

    /// Computes a write.
    ///
    /// - Parameter row: the present row. The served request is the claim's, and a token that the claim spent is taken from
    ///   the present ledger, which has what other workers have spent since.
    private func write(_ fetched: FetchedTimeline, over row: ClaimedTimeline) -> TimelineWrite {
        let (item, parsed) = (fetched.item, fetched.parsed)
        // The database's time at the claim, plus the span of the worker's clock.
        let now = item.timeline.readAt + (context.clock.elapsed - item.startedAt)
        let (rule, ledger) =
            row === item.timeline
            ? (item.rule, item.ledger)
            : item.rules.spending(item.rule, from: row.ledger, views: row.views, at: item.timeline.readAt)
        let next = item.rules.next(
            policy: parsed.policy, lastEntry: parsed.lastEntryDate, renderedAt: now, timeline: row.id,
            ledger: ledger, views: row.views)
        let isChanged =
            row.contentRevision == 0 || row.isOfEarlierHistory(than: item.token)
            || !parsed.showsTheSame(as: row.hash, at: now)
        return TimelineWrite(
            timeline: item.timeline, list: item.list.hold, token: item.token, revision: row.revision,
            content: isChanged ? PostgresTextBytes(parsed.content) : nil, hash: parsed.hash(at: now),
            eligibleAt: next.eligibleAt, freeAt: next.freeAt, policyAt: next.policyAt, ledger: ledger,
            decision: isChanged ? .reloaded : .unchanged, rule: isChanged ? rule : .gate,
            fetchTime: fetched.fetchTime)
    }
}
