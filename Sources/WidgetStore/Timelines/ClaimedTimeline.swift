// SPDX-License-Identifier: Apache-2.0

import PostgresClient
package import WidgetModel

/// A timeline's row as a claim or a mark read it, with all fields that the pipeline needs.
///
/// A class, because it passes through every step of the pipeline, and copying its fields cost as much as reading them.
package final class ClaimedTimeline: Sendable {
    /// Primary key of the row.
    package let row: Int64
    /// Public identity.
    package let id: TimelineID
    package let kindID: Int32
    package let state: TimelineState
    /// The kind's counters, read in the same snapshot.
    package let kind: KindGenerations
    /// Token of the last store, and the one that stored the present content; 0 before the first.
    package let revision: Int64
    package let contentRevision: Int64
    package let hash: ContentHash?
    package let attempts: Int16
    package let listedAt: Timestamp
    package let renderedAt: Timestamp?
    package let requestedAt: Timestamp?
    package let viewedAt: Timestamp?
    package let ledger: BudgetLedger
    package let views: ViewStatistics
    package let family: WidgetFamily?
    /// Whether a newer version has written the row, with a family that this one does not know.
    package let hasUnknownFamily: Bool
    package let configuration: WidgetConfiguration
    package let locale: String?
    package let timeZone: String?
    package let user: String?
    /// The pending request: a targeted one, else a reload of everyone; nil when none is pending.
    package let cause: EventPosition?
    package let reason: ReloadReason?
    /// The database's time at the reading.
    package let readAt: Timestamp

    /// The columns that ``init(_:)`` reads, of the row `t` and its kind.
    ///
    /// - Parameter kind: prefix of the kind's columns, as in ``RowFormula``.
    static func columns(kind: String = "k.") -> String {
        """
        t.id AS row, t.identity, t.kind_id, t.requested, t.rendered, t.free_requested, t.forced_requested, t.generation,
        t.eligible_at, t.free_at, t.retry_at, t.policy_at, t.asleep, t.orphaned,
        \(kind)generation AS kind_generation, \(kind)free_generation AS kind_free,
        \(kind)forced_generation AS kind_forced, \(kind)cancelled_generation AS kind_cancelled, t.revision,
        t.content_revision, t.hash, t.attempts, t.listed_at, t.rendered_at, t.requested_at, t.viewed_at, t.placed_at,
        t.view_rate, t.budget, t.family, t.configuration, t.locale, t.time_zone, t.user_id, t.cause_topic,
        t.cause_partition, t.cause_offset, t.cause_reason, \(kind)cause_topic AS kind_topic,
        \(kind)cause_partition AS kind_partition, \(kind)cause_offset AS kind_offset,
        \(kind)cause_reason AS kind_reason, now() AS read_at
        """
    }

    init(
        row: Int64, id: TimelineID, kindID: Int32, state: TimelineState, kind: KindGenerations, revision: Int64,
        contentRevision: Int64, hash: ContentHash?, attempts: Int16, listedAt: Timestamp, renderedAt: Timestamp?,
        requestedAt: Timestamp?, viewedAt: Timestamp?, ledger: BudgetLedger, views: ViewStatistics,
        family: WidgetFamily?, hasUnknownFamily: Bool, configuration: WidgetConfiguration, locale: String?,
        timeZone: String?, user: String?, cause: EventPosition?, reason: ReloadReason?, readAt: Timestamp
    ) {
        self.row = row
        self.id = id
        self.kindID = kindID
        self.state = state
        self.kind = kind
        self.revision = revision
        self.contentRevision = contentRevision
        self.hash = hash
        self.attempts = attempts
        self.listedAt = listedAt
        self.renderedAt = renderedAt
        self.requestedAt = requestedAt
        self.viewedAt = viewedAt
        self.ledger = ledger
        self.views = views
        self.family = family
        self.hasUnknownFamily = hasUnknownFamily
        self.configuration = configuration
        self.locale = locale
        self.timeZone = timeZone
        self.user = user
        self.cause = cause
        self.reason = reason
        self.readAt = readAt
    }

    /// Reads the columns of ``columns(kind:)``.
    convenience init(_ row: borrowing PostgresRow) throws(PostgresError) {
        try self.init(row, key: row.value("row"))
    }

    /// As ``init(_:)``, with the value of the column `row`.
    convenience init(_ row: borrowing PostgresRow, key: Int64) throws(PostgresError) {
        let id: TimelineID = try row.value("identity")
        let kindID: Int32 = try row.value("kind_id")
        let state = try TimelineState(
            requested: row.value("requested"), rendered: row.value("rendered"),
            freeRequested: row.value("free_requested"), forcedRequested: row.value("forced_requested"),
            generation: row.value("generation"), eligibleAt: row.value("eligible_at"), freeAt: row.value("free_at"),
            retryAt: row.value("retry_at"), policyAt: row.value("policy_at"), isAsleep: row.value("asleep"),
            isOrphaned: row.value("orphaned"))
        let kind = try KindGenerations(
            current: row.value("kind_generation"), free: row.value("kind_free"), forced: row.value("kind_forced"),
            cancelled: row.value("kind_cancelled"))
        let revision: Int64 = try row.value("revision")
        let contentRevision: Int64 = try row.value("content_revision")
        let hash: ContentHash? = try row.optional("hash")
        let attempts: Int16 = try row.value("attempts")
        let listedAt: Timestamp = try row.value("listed_at")
        let renderedAt: Timestamp? = try row.optional("rendered_at")
        let requestedAt: Timestamp? = try row.optional("requested_at")
        let viewedAt: Timestamp? = try row.optional("viewed_at")
        let readAt: Timestamp = try row.value("read_at")
        let ledger = try row.ledger("budget")
        let views = try ViewStatistics(
            rate: row.value("view_rate"), viewedAt: viewedAt, placedAt: row.value("placed_at"), at: readAt)
        let storedFamily = try row.optional("family", as: Int16.self)
        let family = storedFamily.flatMap { WidgetFamily(rawValue: $0) }
        let configuration = try WidgetConfiguration(storedCanonical: row.repeatedText("configuration"))
        let locale: String? = try row.optionalRepeatedText("locale")
        let timeZone: String? = try row.optionalRepeatedText("time_zone")
        let user: String? = try row.optionalRepeatedText("user_id")
        var cause: EventPosition?
        var reason: ReloadReason?
        if state.requested > state.rendered {
            cause = try row.cause(topic: "cause_topic", partition: "cause_partition", offset: "cause_offset")
            reason = try row.reason("cause_reason")
        } else if kind.isAhead(of: state.generation) {
            cause = try row.cause(topic: "kind_topic", partition: "kind_partition", offset: "kind_offset")
            reason = try row.reason("kind_reason")
        }
        self.init(
            row: key, id: id, kindID: kindID, state: state, kind: kind, revision: revision,
            contentRevision: contentRevision, hash: hash, attempts: attempts, listedAt: listedAt,
            renderedAt: renderedAt, requestedAt: requestedAt, viewedAt: viewedAt, ledger: ledger, views: views,
            family: family, hasUnknownFamily: storedFamily != nil && family == nil, configuration: configuration,
            locale: locale, timeZone: timeZone, user: user, cause: cause, reason: reason, readAt: readAt)
    }

    /// Whether a request is newer than the stored content.
    package var isStale: Bool { state.pending(kind) != nil }

    /// Time since the last render.
    package var age: Duration? { renderedAt.map { max(.zero, readAt - $0) } }

    /// Facts for the budget and the dormancy rule; the decision sets `need`.
    package var facts: ReloadState {
        ReloadState(need: .policy, renderedAt: renderedAt, requestedAt: requestedAt, ledger: ledger, views: views)
    }
}

/// A claimed timeline under way in a worker: a row of a batch, to which each step from the claim to the end of the list
/// adds its columns.
///
/// A step fills its own columns and reads those of the steps before it. The statements that store or reschedule
/// timelines take their input from the columns.
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

/// A work list that this process has leased, with the timelines for which it is not superseded.
package struct LeasedList: Sendable {
    package let id: Int64
    package let kindID: Int32
    package let lane: ReloadLane
    package let dueAt: Timestamp
    /// Generation of the sweep that appended the list; nil: it is the appointment of its timelines.
    package var generation: Int64?
    /// Token of the lease: only its holder ends the list.
    package let lease: Int64
    /// All its row ids if it was leased before: some of them may be stored and not published. Else empty.
    package var suspects: [Int64] = []
    /// Rows for which the list is not superseded.
    package var timelines: [ClaimedTimeline]

    package var wasLeasedBefore: Bool { !suspects.isEmpty }

    /// The list and its lease, as the statements of the holder name it.
    package var hold: ListHold { ListHold(id: id, lease: lease) }
}

/// A list by id and lease token.
package struct ListHold: Hashable, Sendable {
    package let id: Int64
    package let lease: Int64
}
