package import PostgresClient
package import WidgetModel

/// A targeted request, folded: every event of the batch for one audience, kind and match.
package struct TimelineMark: Hashable, Sendable {
    package var appID: Int32
    /// The user, device or widget, by the statement that it is given to.
    package var audienceID: String
    /// `nil`: all kinds of the app.
    package var kindID: Int32?
    /// Canonical JSON object that the configuration must contain; `nil`: any.
    package var matching: String?
    /// How many events are folded into it.
    package var events: Int64
    package var urgency: RequestUrgency
    /// Raw value of the lane.
    package var lane: Int16
    /// The latest event folded into it, and its reason.
    package var cause: EventPosition
    package var reason: ReloadReason

    package init(
        appID: Int32, audienceID: String, kindID: Int32?, matching: String?, events: Int64, urgency: RequestUrgency,
        lane: Int16, cause: EventPosition, reason: ReloadReason
    ) {
        self.appID = appID
        self.audienceID = audienceID
        self.kindID = kindID
        self.matching = matching
        self.events = events
        self.urgency = urgency
        self.lane = lane
        self.cause = cause
        self.reason = reason
    }
}

/// What a mark statement did.
package struct MarkOutcome: Sendable {
    /// Rows of `timeline_state` written.
    package let marked: Int64
    /// How many of them are due now.
    package let due: Int64
    /// Positions (from 0) in the input of the audiences that have more widgets than the limit: nothing was marked for
    /// them; they must be recorded as sweeps in the same transaction.
    package let tooMany: [Int]
}

private func markSQL(audience: String, limited: Bool) -> String {
    """
    WITH input AS MATERIALIZED (
        SELECT * FROM unnest($1::int4[], $2::text[], $3::int4[], $4::text[], $5::int8[], $6::int2[], $7::int2[],
                             $8::int2[], $9::int4[], $10::int8[], $12::int2[])
            WITH ORDINALITY AS i (app_id, audience_id, kind_id, matching, events, urgency, lane,
                                  cause_topic, cause_partition, cause_offset, cause_reason, ord)
    ), hit AS MATERIALIZED (
        SELECT i.ord, w.timeline_id
        FROM input i CROSS JOIN LATERAL (
            SELECT w.timeline_id FROM widget w
            WHERE w.app_id = i.app_id AND w.\(audience) = i.audience_id AND w.timeline_id IS NOT NULL
                AND (i.kind_id IS NULL OR w.kind_id = i.kind_id)
            LIMIT $11::int8 + 1
        ) w
    ), too_many AS (
        \(limited ? "SELECT ord FROM hit GROUP BY ord HAVING count(*) > $11::int8" : "SELECT ord FROM hit WHERE false")
    ), target AS (
        SELECT h.timeline_id, sum(i.events)::int8 AS events, max(i.urgency) AS urgency, min(i.lane) AS lane,
               max(h.ord) AS last
        FROM (SELECT DISTINCT ord, timeline_id FROM hit WHERE ord NOT IN (SELECT ord FROM too_many)) h
        JOIN input i ON i.ord = h.ord
        WHERE i.matching IS NULL OR EXISTS (
            SELECT 1 FROM timeline t WHERE t.id = h.timeline_id AND t.configuration::jsonb @> i.matching::jsonb)
        GROUP BY h.timeline_id
    ), locked AS (
        SELECT s.timeline_id, t.events, t.lane, t.last, t.urgency > 0 AS free, t.urgency > 1 AS forced
        FROM target t JOIN timeline_state s ON s.timeline_id = t.timeline_id
        ORDER BY s.timeline_id
        FOR NO KEY UPDATE OF s
    ), marked AS (
        UPDATE timeline_state s
        SET requested = s.requested + l.events,
            free_requested = CASE WHEN l.free THEN s.requested + l.events ELSE s.free_requested END,
            due_at = \(MarkFormula.dueAt(free: "l.free", forced: "l.forced")),
            free_at = \(MarkFormula.freeAt(forced: "l.forced")),
            lane = least(s.lane, l.lane), requested_at = now(), cause_reason = i.cause_reason,
            cause_topic = i.cause_topic, cause_partition = i.cause_partition, cause_offset = i.cause_offset
        FROM locked l JOIN input i ON i.ord = l.last
        WHERE s.timeline_id = l.timeline_id
        RETURNING NOT s.leased AND s.due_at <= now() AS due
    )
    SELECT count(*), count(*) FILTER (WHERE due), (SELECT coalesce(array_agg(ord - 1), '{}') FROM too_many) FROM marked
    """
}

extension PostgresParameters {
    fileprivate mutating func append(marks: [TimelineMark], limit: Int) {
        append(array: marks.map(\.appID))
        append(array: marks.map(\.audienceID))
        append(array: marks.map(\.kindID))
        append(array: marks.map(\.matching))
        append(array: marks.map(\.events))
        append(array: marks.map(\.urgency.rawValue))
        append(array: marks.map(\.lane))
        append(array: marks.map(\.cause.topic))
        append(array: marks.map(\.cause.partition))
        append(array: marks.map(\.cause.offset))
        append(Int64(limit))
        append(array: marks.map(\.reason.rawValue))
    }
}

private func decodeOutcome(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkOutcome {
    MarkOutcome(
        marked: try row.value(0), due: try row.value(1), tooMany: try row.array(2, of: Int64.self).map { Int($0) })
}

/// Marks the timelines of users.
package struct MarkUsers: PostgresStatement {
    package static let sql = markSQL(audience: "user_id", limited: true)
    let marks: [TimelineMark]
    let limit: Int

    package init(_ marks: [TimelineMark], limit: Int) {
        self.marks = marks
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: limit)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkOutcome {
        try decodeOutcome(row)
    }
}

/// Marks the timelines shown on devices.
package struct MarkDevices: PostgresStatement {
    package static let sql = markSQL(audience: "device_id", limited: true)
    let marks: [TimelineMark]
    let limit: Int

    package init(_ marks: [TimelineMark], limit: Int) {
        self.marks = marks
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: limit)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkOutcome {
        try decodeOutcome(row)
    }
}

/// Marks the timelines of single widgets.
package struct MarkWidgets: PostgresStatement {
    package static let sql = markSQL(audience: "id", limited: false)
    let marks: [TimelineMark]

    package init(_ marks: [TimelineMark]) {
        self.marks = marks
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: 1)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkOutcome {
        try decodeOutcome(row)
    }
}
