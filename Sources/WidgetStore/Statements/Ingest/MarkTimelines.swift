package import PostgresClient
package import WidgetModel

/// A targeted request, folded: every event of the batch for one audience, kind and match.
package struct TimelineMark: Hashable, Sendable {
    package var appID: Int32
    /// The user, device or widget: by the statement that it is given to, or by ``MarkAudiences/sorts``.
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

/// - Parameters:
///   - sort: what the audiences are; nil where parameter 14, or 17 of a statement that claims, tells of each.
///   - claims: whether what can be fetched at once is claimed (``MarkAndClaim``).
func markSQL(_ sort: MarkAudiences.Sort?, claims: Bool = false) -> String {
    // A widget is one row, and has one timeline: nothing to count, nothing found twice.
    let found =
        sort == .widget
        ? """
        too_many AS (
            SELECT NULL::int8 AS ord WHERE $11::int8 < 0
        ), found AS (
            SELECT i.ord, i.events, i.urgency, i.lane, i.matching, w.timeline_id
            FROM input i JOIN widget w ON w.app_id = i.app_id AND w.id = i.audience_id
            WHERE w.timeline_id IS NOT NULL AND (i.kind_id IS NULL OR w.kind_id = i.kind_id)
        )
        """
        : """
        hit AS MATERIALIZED (
            SELECT i.ord, i.events, i.urgency, i.lane, i.matching, w.timeline_id
            FROM input i CROSS JOIN LATERAL (
                \(MarkAudiences.timelines(of: sort, atMost: "$11::int8 + 1"))
            ) w
        ), too_many AS MATERIALIZED (
            SELECT ord FROM hit GROUP BY ord HAVING count(*) > $11::int8
        ), found AS (
            SELECT DISTINCT ord, events, urgency, lane, matching, timeline_id
            FROM hit WHERE ord NOT IN (SELECT ord FROM too_many)
        )
        """
    let sorts = sort == nil ? ", (SELECT $\(claims ? 17 : 14)::int2[])" : ""
    // What the last row of a timeline's input says is taken from the arrays by its place: a join less for each row. The
    // sub-selects keep the lengths of the arrays from the planner: it would find each call's so much cheaper than the
    // general plan that it would plan every call, which takes more than twice as long as marking a few timelines. They also
    // make sure of the order: for few rows the planner looks each up by its key as it comes, and so they are locked in the
    // order of their keys, without a lock of its own for each first (which took as long as marking it again). On a table of
    // a few pages it may join otherwise: should that end in a deadlock, ``LockMarked`` comes first for a while.
    return """
        WITH input AS MATERIALIZED (
            SELECT * FROM unnest((SELECT $1::int4[]), (SELECT $2::text[]), (SELECT $3::int4[]), (SELECT $4::text[]),
                                 (SELECT $5::int8[]), (SELECT $6::int2[]), (SELECT $7::int2[])\(sorts))
                WITH ORDINALITY AS i (app_id, audience_id, kind_id, matching, events, urgency, lane\(sort == nil ? ", sort" : ""), ord)
        ), \(found), target AS (
            SELECT f.timeline_id, sum(f.events)::int8 AS events, max(f.urgency) AS urgency, min(f.lane) AS lane,
                   max(f.ord)::int4 AS last
            FROM found f
            WHERE f.matching IS NULL OR EXISTS (
                SELECT 1 FROM timeline t WHERE t.id = f.timeline_id AND t.configuration::jsonb @> f.matching::jsonb)
            GROUP BY f.timeline_id
        ), ordered AS MATERIALIZED (
            SELECT timeline_id, events, lane, last, urgency > 0 AS free, urgency > 1 AS forced\(claims ? MarkAndClaim.number : "")
            FROM target ORDER BY timeline_id
        )\(claims ? MarkAndClaim.granted : ""), marked AS (
            UPDATE timeline_state s
            SET requested = s.requested + l.events,
                free_requested = CASE WHEN l.free THEN s.requested + l.events ELSE s.free_requested END,
                \(claims ? MarkAndClaim.assignments : MarkFormula.assignments),
                lane = least(s.lane, l.lane), requested_at = now(), cause_reason = ($12::int2[])[l.last],
                cause_topic = ($8::int2[])[l.last], cause_partition = ($9::int4[])[l.last],
                cause_offset = ($10::int8[])[l.last]
            FROM ordered l
            WHERE s.timeline_id = l.timeline_id
            RETURNING NOT s.leased AND s.due_at <= now() AS due\(claims ? MarkAndClaim.returned : "")
        ), outcome AS (
            SELECT count(*) AS marked, count(*) FILTER (WHERE due) AS due, (
                SELECT CASE WHEN $13::bool AND count(*) > 0 THEN ARRAY[1 / (count(*) - count(*))]
                            ELSE coalesce(array_agg(ord - 1), '{}') END
                FROM too_many) AS too_many
            FROM marked
        )
        \(claims ? MarkAndClaim.answer : "SELECT marked, due, too_many FROM outcome")
        """
}

extension MarkFormula {
    /// What a mark of `l` sets of when the row is due.
    fileprivate static var assignments: String {
        """
        due_at = \(dueAt(free: "l.free", forced: "l.forced")), free_at = \(freeAt(forced: "l.forced"))
        """
    }
}

extension PostgresParameters {
    /// The first 13 parameters.
    mutating func append(marks: [TimelineMark], limit: Int, isStrict: Bool = false) {
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
        append(isStrict)
    }
}

/// SQLSTATE of what a strict mark statement fails with when an audience has more widgets than the limit: a division by zero,
/// of which it has no other.
package enum LargeAudience {
    package static let state = "22012"
}

extension MarkOutcome {
    static func decode(_ row: borrowing PostgresRow, from column: Int = 0) throws(PostgresError) -> MarkOutcome {
        MarkOutcome(
            marked: try row.value(column), due: try row.value(column + 1),
            tooMany: try row.array(column + 2, of: Int64.self).map { Int($0) })
    }
}

/// Marks the timelines of users.
package struct MarkUsers: PostgresStatement {
    package static let sql = markSQL(.user)
    let marks: [TimelineMark]
    let limit: Int
    let isStrict: Bool

    /// - Parameter isStrict: fails with ``LargeAudience/state`` instead of naming the audiences that are too large.
    package init(_ marks: [TimelineMark], limit: Int, isStrict: Bool = false) {
        self.marks = marks
        self.limit = limit
        self.isStrict = isStrict
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: limit, isStrict: isStrict)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkOutcome {
        try MarkOutcome.decode(row)
    }
}

/// Marks the timelines shown on devices.
package struct MarkDevices: PostgresStatement {
    package static let sql = markSQL(.device)
    let marks: [TimelineMark]
    let limit: Int
    let isStrict: Bool

    /// - Parameter isStrict: fails with ``LargeAudience/state`` instead of naming the audiences that are too large.
    package init(_ marks: [TimelineMark], limit: Int, isStrict: Bool = false) {
        self.marks = marks
        self.limit = limit
        self.isStrict = isStrict
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: limit, isStrict: isStrict)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkOutcome {
        try MarkOutcome.decode(row)
    }
}

/// Marks the timelines of single widgets.
package struct MarkWidgets: PostgresStatement {
    package static let sql = markSQL(.widget)
    let marks: [TimelineMark]

    package init(_ marks: [TimelineMark]) {
        self.marks = marks
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: marks, limit: 1)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkOutcome {
        try MarkOutcome.decode(row)
    }
}

/// Marks the timelines of audiences of several sorts, all in one order: a statement for each sort would lock those of the
/// second while it holds those of the first, and wait for a worker's statement that waits for it.
package struct MarkTimelines: PostgresStatement {
    package static let sql = markSQL(nil)
    let audiences: MarkAudiences
    let limit: Int
    let isStrict: Bool

    /// - Parameter isStrict: fails with ``LargeAudience/state`` instead of naming the audiences that are too large.
    package init(_ audiences: MarkAudiences, limit: Int, isStrict: Bool = false) {
        self.audiences = audiences
        self.limit = limit
        self.isStrict = isStrict
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(marks: audiences.marks, limit: limit, isStrict: isStrict)
        audiences.bindSorts(&parameters)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> MarkOutcome {
        try MarkOutcome.decode(row)
    }
}
