package import PostgresClient
package import WidgetModel

/// A timeline that targeted requests of a batch have just marked, as it is in their transaction.
package struct MarkedTimeline: Hashable, Sendable {
    package let id: TimelineID
    package let kindID: Int32
    package let user: String?
    /// Events of this batch that hit it.
    package let events: Int64
    /// With these events.
    package let requested: Int64
    package let rendered: Int64
    package let lane: ReloadLane
    package let isLeased: Bool
    package let dueAt: Timestamp
    package let eligibleAt: Timestamp
    package let retryAt: Timestamp
    package let renderedAt: Timestamp?
    /// The latest of the events, and its reason.
    package let cause: EventPosition
    package let reason: ReloadReason?
    /// The database's time.
    package let markedAt: Timestamp

    package init(
        id: TimelineID, kindID: Int32, user: String?, events: Int64, requested: Int64, rendered: Int64,
        lane: ReloadLane, isLeased: Bool, dueAt: Timestamp, eligibleAt: Timestamp, retryAt: Timestamp,
        renderedAt: Timestamp?, cause: EventPosition, reason: ReloadReason?, markedAt: Timestamp
    ) {
        self.id = id
        self.kindID = kindID
        self.user = user
        self.events = events
        self.requested = requested
        self.rendered = rendered
        self.lane = lane
        self.isLeased = isLeased
        self.dueAt = dueAt
        self.eligibleAt = eligibleAt
        self.retryAt = retryAt
        self.renderedAt = renderedAt
        self.cause = cause
        self.reason = reason
        self.markedAt = markedAt
    }
}

/// Reads the timelines that the mark statement of the same transaction has marked: by the same audiences, and by the
/// cause that the marks have left. Only for those who publish decisions; the marks themselves answer no rows.
package struct MarkedTimelines: PostgresStatement {
    package static let sql = """
        WITH input AS MATERIALIZED (
            SELECT * FROM unnest($1::int2[], $2::int4[], $3::text[], $4::int4[], $5::text[], $6::int8[], $7::int2[],
                                 $8::int4[], $9::int8[])
                WITH ORDINALITY AS i (sort, app_id, audience_id, kind_id, matching, events, cause_topic, cause_partition,
                                      cause_offset, ord)
        ), hit AS MATERIALIZED (
            SELECT DISTINCT i.ord, w.timeline_id
            FROM input i CROSS JOIN LATERAL (\(MarkAudiences.timelines(atMost: "$10::int8"))) w
        ), target AS (
            SELECT h.timeline_id, sum(i.events)::int8 AS events
            FROM hit h JOIN input i ON i.ord = h.ord
            WHERE i.matching IS NULL OR EXISTS (
                SELECT 1 FROM timeline t WHERE t.id = h.timeline_id AND t.configuration::jsonb @> i.matching::jsonb)
            GROUP BY h.timeline_id
        )
        SELECT s.timeline_id, s.kind_id, t.user_id, g.events, s.requested, s.rendered, s.lane, s.leased, s.due_at,
               s.eligible_at, s.retry_at, s.rendered_at, s.cause_topic, s.cause_partition, s.cause_offset, s.cause_reason,
               now()
        FROM target g
        JOIN timeline_state s ON s.timeline_id = g.timeline_id
        JOIN timeline t ON t.id = g.timeline_id
        WHERE (s.cause_topic, s.cause_partition, s.cause_offset)
            IN (SELECT i.cause_topic, i.cause_partition, i.cause_offset FROM input i)
        ORDER BY s.timeline_id
        LIMIT $10::int8
        """

    let audiences: MarkAudiences
    let limit: Int

    /// - Parameter limit: the most widgets of an audience that are looked at, and the most timelines in the answer.
    package init(_ audiences: MarkAudiences, limit: Int) {
        self.audiences = audiences
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        audiences.bind(&parameters)
        let marks = audiences.marks
        parameters.append(array: marks.map(\.events))
        parameters.append(array: marks.map(\.cause.topic))
        parameters.append(array: marks.map(\.cause.partition))
        parameters.append(array: marks.map(\.cause.offset))
        parameters.append(Int64(limit))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkedTimeline {
        func time(_ column: Int, _ row: borrowing PostgresRow) throws(PostgresError) -> Timestamp {
            Timestamp(try row.value(column, as: PostgresTimestamp.self))
        }
        return MarkedTimeline(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), kindID: try row.value(1),
            user: try row.optional(2),
            events: try row.value(3), requested: try row.value(4), rendered: try row.value(5), lane: try row.lane(6),
            isLeased: try row.value(7), dueAt: try time(8, row), eligibleAt: try time(9, row),
            retryAt: try time(10, row),
            renderedAt: try row.optional(11, as: PostgresTimestamp.self).map { Timestamp($0) },
            cause: EventPosition(
                topic: try row.value(12), partition: try row.value(13), offset: try row.value(14)),
            reason: try row.optional(15, as: Int16.self).flatMap { ReloadReason(rawValue: $0) },
            markedAt: try time(16, row))
    }
}
