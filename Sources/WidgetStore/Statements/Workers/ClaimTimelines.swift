package import PostgresClient
package import WidgetModel

/// How many timelines of one kind and lane to claim.
package struct ClaimWish: Hashable, Sendable {
    package var kindID: Int32
    package var lane: ReloadLane
    package var count: Int
    /// Look only for those that are due since then; nil: for all.
    package var since: Timestamp?

    package init(kindID: Int32, lane: ReloadLane, count: Int, since: Timestamp? = nil) {
        self.kindID = kindID
        self.lane = lane
        self.count = count
        self.since = since
    }
}

/// A claimed timeline: what to ask the provider for, and the state captured before the fetch.
///
/// A class, though a value: it goes through many hands until it is completed, and to copy all that it holds each time
/// cost as much as reading it.
package final class ClaimedTimeline: Sendable {
    package let id: TimelineID
    package let kindID: Int32
    package let lane: ReloadLane
    /// Fencing token of the lease and revision of what will be published.
    package let claim: Int64
    /// The database's time at the claim.
    package let claimedAt: Timestamp
    /// Since when it was due.
    package let dueAt: Timestamp
    package let requested: Int64
    package let kindGeneration: Int64
    package let appGeneration: Int64
    package let publishedHash: ContentHash?
    package let attempts: Int16
    /// No widget shows it: collect it instead of fetching.
    package let isOrphaned: Bool
    package let family: WidgetFamily?
    package let configuration: WidgetConfiguration
    package let locale: String?
    package let timeZone: String?
    package let user: String?
    /// The latest request and its reason; `nil` when nothing that is pending was asked for.
    package let cause: EventPosition?
    package let reason: ReloadReason?
    /// What it is wanted for, and what the rules have to know of it.
    package let state: ReloadState
    /// Where the claim left its hot row: found there without a look-up by its key, unless somebody has written it since.
    package let tid: PostgresTID?

    /// `nil` when it has never been rendered.
    package var renderedAt: Timestamp? { state.renderedAt }

    init(
        id: TimelineID, kindID: Int32, lane: ReloadLane, claim: Int64, claimedAt: Timestamp, dueAt: Timestamp,
        requested: Int64,
        kindGeneration: Int64, appGeneration: Int64, publishedHash: ContentHash?, attempts: Int16, isOrphaned: Bool,
        family: WidgetFamily?, configuration: WidgetConfiguration, locale: String?, timeZone: String?, user: String?,
        cause: EventPosition?, reason: ReloadReason?, state: ReloadState, tid: PostgresTID? = nil
    ) {
        self.id = id
        self.kindID = kindID
        self.lane = lane
        self.claim = claim
        self.claimedAt = claimedAt
        self.dueAt = dueAt
        self.requested = requested
        self.kindGeneration = kindGeneration
        self.appGeneration = appGeneration
        self.publishedHash = publishedHash
        self.attempts = attempts
        self.isOrphaned = isOrphaned
        self.family = family
        self.configuration = configuration
        self.locale = locale
        self.timeZone = timeZone
        self.user = user
        self.cause = cause
        self.reason = reason
        self.state = state
        self.tid = tid
    }
}

/// Leases due timelines. A row that was picked is locked, so it stays where it is and needs no second look-up by its key; one
/// that has got a newer version since the statement began is left to the next claim.
///
/// An expired lease is a due row like any other, so the work of a crashed worker needs no rescue.
///
/// The generations of the kind and the app are read in the statement's snapshot, the row's own under its lock: all of
/// them before the fetch starts, so a request that comes later is never taken for rendered. What has to be published anew
/// (`published_hash` cleared) waits for no budget. Nothing is claimed of what is paused, and of a retired kind only what is to be collected.
package struct ClaimTimelines: PostgresStatement {
    /// The most widgets of a timeline whose views are looked at: what more of them would say changes no budget.
    package static let viewedWidgets = 64

    /// Of the event that made it stale: a targeted one, else a reload of everyone; NULL when none did.
    private static func pending(_ part: String) -> String {
        """
        CASE WHEN c.requested > c.rendered THEN c.cause_\(part)
             WHEN k.generation > c.rendered_kind_generation THEN k.cause_\(part)
             WHEN a.generation > c.rendered_app_generation THEN a.cause_\(part) END
        """
    }

    package static let sql = text(from: "unnest($1::int4[], $2::int2[], $3::int4[]) AS w (kind_id, lane, n)")

    /// - Parameters:
    ///   - wishes: rows `w` of kind, lane and number.
    ///   - condition: what else is said of the hot row `s`.
    static func text(from wishes: String, where condition: String = "") -> String {
        """
        WITH want AS (
            SELECT w.*, k.retired_at IS NOT NULL AS retired
            FROM \(wishes)
            JOIN kind k ON k.id = w.kind_id
            JOIN app a ON a.id = k.app_id
            WHERE k.paused_at IS NULL AND a.paused_at IS NULL
        ), picked AS (
            SELECT p.tid, p.due_at FROM want w CROSS JOIN LATERAL (
                SELECT s.ctid AS tid, s.due_at FROM timeline_state s
                WHERE s.kind_id = w.kind_id AND s.lane = w.lane AND s.due_at <= now() \(condition)
                    AND (s.orphaned OR NOT w.retired)
                ORDER BY s.due_at
                LIMIT w.n
                FOR NO KEY UPDATE SKIP LOCKED
            ) p
        ), claimed AS (
            UPDATE timeline_state s
            SET leased = true, due_at = now() + $4::int8 * interval '1 millisecond', claim = nextval('timeline_claim'),
                free_at = greatest(s.free_at, now())
            FROM picked p WHERE s.ctid = p.tid
            RETURNING \(claimedColumns), p.due_at AS was_due_at
        )
        \(details(of: "claimed"))
        """
    }

    /// What is read of a hot row `s` as it is claimed.
    static let claimedColumns = """
        s.timeline_id, s.kind_id, s.lane, s.claim, s.requested, s.published_hash, s.attempts, s.orphaned,
        s.cause_topic, s.cause_partition, s.cause_offset, s.cause_reason, s.rendered, s.free_requested,
        s.rendered_kind_generation, s.rendered_app_generation, s.rendered_at, s.requested_at, s.budget, s.ctid AS tid
        """

    /// The query of what ``decode(_:)`` reads, from rows of ``claimedColumns`` and `was_due_at`.
    static func details(of claimed: String) -> String {
        """
        SELECT c.timeline_id, c.kind_id, c.lane, c.claim, c.requested, k.generation AS kind_generation,
               a.generation AS app_generation, c.published_hash,
               c.attempts, c.orphaned, t.family, t.configuration, t.locale, t.time_zone, t.user_id,
               \(pending("topic")) AS topic, \(pending("partition")) AS partition, \(pending("offset")) AS "offset",
               \(pending("reason")) AS reason,
               c.rendered_at, c.requested_at, c.budget,
               c.published_hash IS NULL OR c.free_requested > c.rendered OR k.free_generation > c.rendered_kind_generation
                   OR a.free_generation > c.rendered_app_generation AS is_free,
               c.requested > c.rendered OR k.generation > c.rendered_kind_generation
                   OR a.generation > c.rendered_app_generation AS is_asked,
               now() AS claimed_at, v.n, v.rate, v.active, v.placed, c.was_due_at, c.tid
        FROM \(claimed) c
        JOIN timeline t ON t.id = c.timeline_id
        JOIN kind k ON k.id = c.kind_id
        JOIN app a ON a.id = k.app_id
        CROSS JOIN LATERAL (
            SELECT count(*) AS n, max(w.placed_at) AS placed,
                   max(greatest(w.placed_at, w.last_viewed_at)) AS active,
                   sum(\(ViewAggregate.decayed("w")))::float8 AS rate
            FROM (SELECT w.placed_at, w.last_viewed_at, w.view_rate FROM widget w
                  WHERE NOT a.developer_mode AND w.timeline_id = c.timeline_id LIMIT \(viewedWidgets + 1)) w
        ) v
        """
    }

    let wishes: [ClaimWish]
    let lease: Duration

    package init(_ wishes: [ClaimWish], lease: Duration) {
        self.wishes = wishes
        self.lease = lease
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: wishes.map(\.kindID))
        parameters.append(array: wishes.map(\.lane.rawValue))
        parameters.append(array: wishes.map { Int32(clamping: $0.count) })
        parameters.append(lease.wholeMilliseconds)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> ClaimedTimeline {
        let reason = try row.optional(18, as: Int16.self).flatMap { ReloadReason(rawValue: $0) }
        return ClaimedTimeline(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), kindID: try row.value(1), lane: try row.lane(2),
            claim: try row.value(3), claimedAt: Timestamp(try row.value(24, as: PostgresTimestamp.self)),
            dueAt: Timestamp(try row.value(29, as: PostgresTimestamp.self)), requested: try row.value(4),
            kindGeneration: try row.value(5), appGeneration: try row.value(6),
            publishedHash: try row.optional(7, as: PostgresUUID.self).map { ContentHash($0) },
            attempts: try row.value(8), isOrphaned: try row.value(9), family: try row.optionalFamily(10),
            configuration: WidgetConfiguration(storedCanonical: try row.value(11)), locale: try row.optional(12),
            timeZone: try row.optional(13), user: try row.optional(14), cause: try row.position(15),
            reason: reason,
            state: try state(row), tid: try row.value(30))
    }

    private static func state(_ row: borrowing PostgresRow) throws(PostgresError) -> ReloadState {
        let renderedAt = try row.optional(19, as: PostgresTimestamp.self).map { Timestamp($0) }
        let need: ReloadNeed
        if renderedAt == nil {
            need = .first
        } else if try row.value(22) {
            need = .free
        } else {
            need = try row.value(23) ? .budgeted : .policy
        }
        // What cannot be read was written by a newer version: a full bucket is the mild error.
        let stored = try row.optional(21, as: PostgresBytes.self)?.bytes
        return ReloadState(
            need: need, renderedAt: renderedAt,
            requestedAt: try row.optional(20, as: PostgresTimestamp.self).map { Timestamp($0) },
            ledger: BudgetLedger(stored: stored) ?? BudgetLedger(), views: try views(row))
    }

    private static func views(_ row: borrowing PostgresRow) throws(PostgresError) -> ViewStatistics {
        // Developer mode asks for none.
        let count: Int64 = try row.value(25)
        let rate = try row.optional(26, as: Double.self) ?? 0
        let active = try row.optional(27, as: PostgresTimestamp.self).map { Timestamp($0) }
        return ViewStatistics(
            viewsADay: rate * ViewStatistics.viewsPerHour,
            // Of so many widgets, others may be looked at.
            lastActive: count > viewedWidgets ? nil : active,
            lastPlaced: try row.optional(28, as: PostgresTimestamp.self).map { Timestamp($0) })
    }
}

extension PostgresRow {
    /// A position in Kafka, kept as three columns that are NULL together.
    func position(_ column: Int) throws(PostgresError) -> EventPosition? {
        guard let topic = try optional(column, as: Int16.self),
            let partition = try optional(column + 1, as: Int32.self),
            let offset = try optional(column + 2, as: Int64.self)
        else { return nil }
        return EventPosition(topic: topic, partition: partition, offset: offset)
    }
}

extension Duration {
    /// Whole milliseconds, for intervals in SQL; what does not fit is the largest that does.
    package var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        return overflow ? .max : product + attoseconds / 1_000_000_000_000_000
    }
}
