package import PostgresClient
package import WidgetModel

/// How many timelines of one kind and lane to claim.
package struct ClaimWish: Hashable, Sendable {
    package var kindID: Int32
    package var lane: ReloadLane
    package var count: Int

    package init(kindID: Int32, lane: ReloadLane, count: Int) {
        self.kindID = kindID
        self.lane = lane
        self.count = count
    }
}

/// A claimed timeline: what to ask the provider for, and the state captured before the fetch.
package struct ClaimedTimeline: Sendable {
    package let id: TimelineID
    package let kindID: Int32
    package let lane: ReloadLane
    /// Fencing token of the lease and revision of what will be published.
    package let claim: Int64
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
    package let cause: EventPosition?
}

/// Leases due timelines. An expired lease is a due row like any other, so the work of a crashed worker needs no rescue.
///
/// The generations of the kind and the app are read in the statement's snapshot, the row's own under its lock: all of
/// them before the fetch starts, so a request that comes later is never taken for rendered.
package struct ClaimTimelines: PostgresStatement {
    package static let sql = """
        WITH want AS (
            SELECT * FROM unnest($1::int4[], $2::int2[], $3::int4[]) AS w (kind_id, lane, n)
        ), picked AS (
            SELECT p.timeline_id FROM want w
            JOIN kind k ON k.id = w.kind_id AND k.paused_at IS NULL
            JOIN app a ON a.id = k.app_id AND a.paused_at IS NULL
            CROSS JOIN LATERAL (
                SELECT s.timeline_id FROM timeline_state s
                WHERE s.kind_id = w.kind_id AND s.lane = w.lane AND s.due_at <= now()
                    AND (k.retired_at IS NULL OR s.orphaned)
                ORDER BY s.due_at
                LIMIT w.n
                FOR NO KEY UPDATE SKIP LOCKED
            ) p
        ), claimed AS (
            UPDATE timeline_state s
            SET leased = true, due_at = now() + $4::int8 * interval '1 millisecond', claim = nextval('timeline_claim')
            FROM picked p WHERE s.timeline_id = p.timeline_id
            RETURNING s.timeline_id, s.kind_id, s.lane, s.claim, s.requested, s.published_hash, s.attempts, s.orphaned,
                      s.cause_topic, s.cause_partition, s.cause_offset
        )
        SELECT c.timeline_id, c.kind_id, c.lane, c.claim, c.requested, k.generation, a.generation, c.published_hash,
               c.attempts, c.orphaned, t.family, t.configuration, t.locale, t.time_zone, t.user_id,
               c.cause_topic, c.cause_partition, c.cause_offset
        FROM claimed c
        JOIN timeline t ON t.id = c.timeline_id
        JOIN kind k ON k.id = c.kind_id
        JOIN app a ON a.id = k.app_id
        """

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
        var cause: EventPosition?
        if let topic = try row.optional(15, as: Int16.self), let partition = try row.optional(16, as: Int32.self),
            let offset = try row.optional(17, as: Int64.self)
        {
            cause = EventPosition(topic: topic, partition: partition, offset: offset)
        }
        return ClaimedTimeline(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), kindID: try row.value(1), lane: try row.lane(2),
            claim: try row.value(3), requested: try row.value(4), kindGeneration: try row.value(5),
            appGeneration: try row.value(6),
            publishedHash: try row.optional(7, as: PostgresUUID.self).map { ContentHash($0) },
            attempts: try row.value(8), isOrphaned: try row.value(9), family: try row.optionalFamily(10),
            configuration: WidgetConfiguration(storedCanonical: try row.value(11)), locale: try row.optional(12),
            timeZone: try row.optional(13), user: try row.optional(14), cause: cause)
    }
}

extension Duration {
    /// Whole milliseconds, for intervals in SQL; what does not fit is the largest that does.
    var wholeMilliseconds: Int64 {
        let (seconds, attoseconds) = components
        let (product, overflow) = seconds.multipliedReportingOverflow(by: 1000)
        return overflow ? .max : product + attoseconds / 1_000_000_000_000_000
    }
}
