import PostgresClient
package import WidgetModel

/// A claimed timeline under way in a worker: a row of a batch, to which each step from the claim to the end of the list
/// adds its columns.
///
/// A step fills its own columns and reads those of the steps before it. The statements that store or reschedule timelines
/// take their input from the columns.
package struct TimelineJob: Sendable {
    // MARK: Claim

    /// The row as the claim read it.
    package let timeline: ClaimedTimeline
    /// The list through which it was claimed.
    package let claim: ListClaim

    // MARK: Decide

    /// Decision of the rules.
    package var outcome = LookOutcome.nothing

    // MARK: Fetch

    /// The provider's timeline; nil before the answer and after a failure.
    package var answer: ParsedTimeline?
    /// Failure of the fetch, or of the store for the content. The last good timeline and all requests stay.
    package var failure: ProviderFailure?
    package var fetchTime: Duration?

    // MARK: Store

    /// Revision of the row that the next columns were computed for. Only this revision is replaced.
    package var revision: Int64
    /// Canonical content if it differs from the stored one; nil: unchanged.
    package var content: [UInt8]?
    package var hash: ContentHash?
    /// Times of the next reload.
    package var next: ReloadRules.Next?
    /// Reason of the fetch, and the budget after it.
    package var rule = ReloadRule.none
    package var ledger = BudgetLedger()
    /// Earliest next attempt after a failure.
    package var retryAt: Timestamp?
    /// The row after the statement; nil if the statement left it alone.
    package var written: WrittenTimeline?

    // MARK: Publish and end

    /// Revision of this process's last message for the timeline; 0 for a tombstone, nil without a message.
    package var published: Int64?
    /// Whether the row may have been stored, published or not, so that the next holder of the list must compare.
    package var mayBeStored = false
    /// Delay after which the list is ready again, for a timeline that was not worked on; else nil.
    package var returnDelay: Duration?

    package init(_ timeline: ClaimedTimeline, of claim: ListClaim) {
        self.timeline = timeline
        self.claim = claim
        revision = timeline.revision
    }
}

/// A leased list, with what its timelines share on their way through a worker.
///
/// A class, because each of its timelines refers to it.
package final class ListClaim: Sendable {
    /// The list, without its timelines.
    package let list: LeasedList
    package let app: RegisteredApp
    package let kind: RegisteredKind
    /// Revision of the content to store.
    package let token: Int64
    /// Begin of the claim and end of its lease, on the worker's clock.
    package let startedAt: Duration
    package let leaseEnds: Duration

    package init(
        _ list: LeasedList, app: RegisteredApp, kind: RegisteredKind, token: Int64, startedAt: Duration,
        leaseEnds: Duration
    ) {
        var bare = list
        bare.timelines = []
        self.list = bare
        (self.app, self.kind, self.token) = (app, kind, token)
        (self.startedAt, self.leaseEnds) = (startedAt, leaseEnds)
    }
}

/// A timeline's row as a statement that stores or reschedules it leaves it.
package struct WrittenTimeline: Sendable {
    /// Primary key of the row.
    package let row: Int64
    /// When it is looked at next; nil: on request only.
    package let nextLook: Timestamp?
    package let isDue: Bool
    package let isAsleep: Bool
    package let eligibleAt: Timestamp
    package let contentRevision: Int64
    package let rendered: Int64
}

extension WrittenTimeline {
    /// The columns that ``init(_:)`` reads, of the rows that a statement returns.
    static let columns = "id, listed_at, listed_at <= now() AS due, asleep, eligible_at, content_revision, rendered"

    init(_ row: borrowing PostgresRow) throws(PostgresError) {
        try self.init(
            row: row.value("id"), nextLook: row.nextLook("listed_at"), isDue: row.value("due"),
            isAsleep: row.value("asleep"), eligibleAt: row.value("eligible_at"),
            contentRevision: row.value("content_revision"), rendered: row.value("rendered"))
    }

    /// A row that an earlier attempt has stored.
    package init(_ timeline: ClaimedTimeline) {
        self.init(
            row: timeline.row, nextLook: timeline.listedAt == .distantFuture ? nil : timeline.listedAt,
            isDue: timeline.listedAt <= timeline.readAt, isAsleep: timeline.state.isAsleep,
            eligibleAt: timeline.state.eligibleAt, contentRevision: timeline.contentRevision,
            rendered: timeline.state.rendered)
    }
}
