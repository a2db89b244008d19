// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// A targeted request, folded: every event of the batch for one audience, kind and match.
package struct TimelineMark: Hashable, Sendable {
    package enum Audience: Int16, CaseIterable, Sendable, PostgresConvertible {
        case user
        case device
        case widget

        /// The column of `widget` that names it, beside `app_id`.
        fileprivate var column: String {
            switch self {
            case .user: "user_id"
            case .device: "device_id"
            case .widget: "id"
            }
        }
    }

    package var audience: Audience
    package var appID: Int32
    /// The user, device or widget.
    package var audienceID: String
    /// `nil`: all kinds of the app.
    package var kindID: Int32?
    /// Canonical JSON object that the configuration must contain; `nil`: any.
    package var matching: String?
    /// Number of folded events.
    package var events: Int64
    package var urgency: RequestUrgency
    package var lane: ReloadLane
    /// The latest event folded into it, and its reason.
    package var cause: EventPosition
    package var reason: ReloadReason

    /// Whether ``PostgresStatement/markUsers(_:limit:handOver:reports:)`` may write it.
    package var isOfUser: Bool { audience == .user && matching == nil }

    package init(
        audience: Audience, appID: Int32, audienceID: String, kindID: Int32?, matching: String?, events: Int64,
        urgency: RequestUrgency, lane: ReloadLane, cause: EventPosition, reason: ReloadReason
    ) {
        self.audience = audience
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

/// A view of a widget.
package typealias WidgetView = (appID: Int32, widget: String, time: Timestamp)

/// All changes of a transaction of ingest to existing timelines.
package struct MarkInput: Sendable {
    /// In the order of the log; a timeline's row records the cause of its last mark.
    package var marks: [TimelineMark] = []
    /// In the order of the log.
    package var views: [WidgetView] = []
    /// Rows that a widget shows again: orphaned, asleep, placed last more than an hour ago, or new with a delay.
    package var revived: [Int64] = []
    /// Cause and reason of the revival; nil without an event.
    package var revival: (cause: EventPosition, reason: ReloadReason)?
    /// Lane of the next look at revived timelines.
    package var revivalLane = ReloadLane.interactive
    /// Rows that a widget has left: locked here, checked by ``PostgresStatement/orphanTimelines``.
    package var departed: [Int64] = []

    package init() {}

    package var isEmpty: Bool { marks.isEmpty && views.isEmpty && revived.isEmpty && departed.isEmpty }
}

/// Room that this process's workers keep free for marked timelines, whose lists are appended with leases of the
/// process. Any worker may claim the timelines beyond the room.
package struct HandOver: Hashable, Sendable {
    /// Kinds that share requests to a provider, with the number of timelines that the provider has room for.
    package struct Share: Hashable, Sendable {
        package let kindIDs: [Int32]
        package let timelines: Int

        package init(kindIDs: [Int32], timelines: Int) {
            self.kindIDs = kindIDs
            self.timelines = timelines
        }
    }

    package let shares: [Share]
    package let lease: Duration
    /// Clock reading of the workers before the lease began.
    package let grantedAt: Duration

    package init(shares: [Share], lease: Duration, grantedAt: Duration = .zero) {
        (self.shares, self.lease, self.grantedAt) = (shares, lease, grantedAt)
    }

    /// Most timelines that are handed over.
    package var timelines: Int { shares.reduce(0) { $0 + $1.timelines } }
}

/// A timeline written by a mark, with its list if that was handed over.
package struct MarkedTimeline: Sendable {
    package let timeline: ClaimedTimeline
    /// Number of the batch's events for it.
    package let events: Int64
    package let listedAt: Timestamp
    package let lane: ReloadLane
    /// The list handed over to this process; nil if a worker will claim it.
    package let list: ListHold?
}

/// Result of a mark statement: one row, or one for each timeline that is handed over or reported.
package struct MarkRow: Sendable {
    /// Rows written, and lists appended that are ready now.
    package let marked: Int64
    package let due: Int64
    /// Audiences with more widgets than the limit: recorded as sweeps.
    package let swept: Int64
    package let timeline: MarkedTimeline?
}

private let marks = InputColumns<TimelineMark>([
    .init("audience") { $0.audience }, .init("app_id") { $0.appID },
    .init("audience_id") { $0.audienceID }, .init("kind_id") { $0.kindID }, .init("matching") { $0.matching },
    .init("events") { $0.events }, .init("urgency") { $0.urgency }, .init("lane") { $0.lane },
    .init("cause_topic") { $0.cause.topic }, .init("cause_partition") { $0.cause.partition },
    .init("cause_offset") { $0.cause.offset }, .init("cause_reason") { $0.reason },
])

private let views = InputColumns<WidgetView>([
    .init("app_id") { $0.appID }, .init("widget") { $0.widget }, .init("at") { $0.time },
])

private typealias KindRoom = (kindID: Int32, share: Int32, timelines: Int)

private let rooms = InputColumns<KindRoom>([
    .init("kind_id") { $0.kindID }, .init("share") { $0.share }, .init("timelines") { $0.timelines },
])

private let hits = TimelineMark.Audience.allCases.map { audience in
    """
    (SELECT w.timeline_id, w.kind_id FROM widget w
     WHERE i.audience = \(audience.rawValue) AND w.app_id = i.app_id AND w.\(audience.column) = i.audience_id
         AND w.timeline_id IS NOT NULL AND (i.kind_id IS NULL OR w.kind_id = i.kind_id)
     LIMIT $8::int8 + 1)
    """
}.joined(separator: "\nUNION ALL\n")

private let added = "(l.events + CASE WHEN l.revived AND t.orphaned THEN 1 ELSE 0 END)"

private let isFree = "(l.urgency > 0 OR l.revived AND t.orphaned)"

private let formula = RowFormula(
    [
        "requested": "t.requested + \(added)",
        "free_requested": "CASE WHEN \(isFree) THEN t.requested + \(added) ELSE t.free_requested END",
        "forced_requested": "CASE WHEN l.urgency > 1 THEN t.requested + \(added) ELSE t.forced_requested END",
        "asleep": "t.asleep AND l.is_departure", "orphaned": "t.orphaned AND NOT l.revived",
    ], kind: "l.k_")

private let causes = [("topic", "$3::int2"), ("partition", "$4::int4"), ("offset", "$5::int8"), ("reason", "$6::int2")]
    .map { part, revival in
        """
        cause_\(part) = CASE WHEN l.events > 0 THEN l.cause_\(part)
            WHEN l.revived AND t.orphaned THEN \(revival) ELSE t.cause_\(part) END
        """
    }.joined(separator: ", ")

/// Whether a marked row may be handed over, as far as there is room.
private let isUrgent = "(m.listed_anew AND m.listed_at <= now() AND m.listed_lane <= \(ReloadLane.push.rawValue))"

/// Time of the latest counted view.
private let viewedAt = usableTime("t.viewed_at")

private let markTimelinesSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(marks.rows("i", first: 11))
    ), hit AS MATERIALIZED (
        SELECT i.ord, i.events, i.urgency, i.lane, i.matching, w.timeline_id, w.kind_id
        FROM input i CROSS JOIN LATERAL (\(hits)) w
    ), too_many AS MATERIALIZED (
        SELECT ord FROM hit GROUP BY ord HAVING count(*) > $8::int8
    ), swept AS (
        INSERT INTO sweep AS s (app_id, kind_id, audience, audience_id, matching, events, urgency, cause_topic,
                                cause_partition, cause_offset, cause_reason)
        SELECT i.app_id, i.kind_id, i.audience + 1, i.audience_id, i.matching, i.events, i.urgency, i.cause_topic,
               i.cause_partition, i.cause_offset, i.cause_reason
        FROM too_many m JOIN input i ON i.ord = m.ord
        ORDER BY i.app_id, i.kind_id, i.audience, i.audience_id, i.matching
        ON CONFLICT \(waitingSweeps) DO UPDATE SET \(mergingSweeps)
        RETURNING 1
    ), viewed AS MATERIALIZED (
        SELECT w.timeline_id, w.kind_id, array_agg(least(v.at, now()) ORDER BY v.ord) AS times
        FROM \(views.rows("v", first: 11 + marks.count))
        JOIN widget w ON w.app_id = v.app_id AND w.id = v.widget
        WHERE w.timeline_id IS NOT NULL GROUP BY w.timeline_id, w.kind_id
    ), found AS (
        SELECT DISTINCT ord, timeline_id AS id, kind_id, events, urgency, lane, NULL::timestamptz[] AS times,
               false AS revived, false AS is_departure
        FROM hit
        WHERE ord NOT IN (SELECT ord FROM too_many) AND (matching IS NULL OR EXISTS (
            SELECT 1 FROM timeline t
            WHERE t.id = hit.timeline_id AND t.configuration::jsonb @> hit.matching::jsonb))
        UNION ALL
        SELECT NULL, v.timeline_id, v.kind_id, 0, 0, NULL, v.times, false, false
        FROM viewed v JOIN timeline t ON t.id = v.timeline_id
        WHERE t.asleep OR \(viewedAt) IS NULL
            OR (SELECT max(at) FROM unnest(v.times) AS u (at)) >= t.viewed_at + interval '1 hour'
        UNION ALL
        SELECT NULL, t.id, t.kind_id, 0, 0, $7::int2, NULL, true, false
        FROM unnest($1::int8[]) r (id) JOIN timeline t ON t.id = r.id
        UNION ALL
        SELECT NULL, t.id, t.kind_id, 0, 0, NULL, NULL, false, true
        FROM unnest($2::int8[]) r (id) JOIN timeline t ON t.id = r.id
    ), ordered AS MATERIALIZED (
        SELECT g.*, i.cause_topic, i.cause_partition, i.cause_offset, i.cause_reason, \(RowFormula.kindColumns)
        FROM (
            SELECT f.id, min(f.kind_id) AS kind_id, sum(f.events)::int8 AS events, max(f.urgency) AS urgency,
                   coalesce(min(f.lane), \(ReloadLane.scheduled.rawValue)) AS lane, max(f.ord) AS last,
                   max(f.times) AS times, bool_or(f.revived) AS revived, bool_and(f.is_departure) AS is_departure
            FROM found f GROUP BY f.id
        ) g JOIN kind k ON k.id = g.kind_id LEFT JOIN input i ON i.ord = g.last
        -- Sweeps are locked first: a chunk of a sweep holds it while it waits for timelines.
        WHERE (SELECT count(*) FROM swept) >= 0
        ORDER BY g.id
    ), marked AS (
        UPDATE timeline t
        SET \(formula.assignments), \(formula.improvement(lane: "l.lane")), \(causes),
            requested_at = CASE WHEN \(added) > 0 THEN now() ELSE t.requested_at END,
            -- A tombstone may be out: whatever is fetched next is published.
            hash = CASE WHEN l.revived AND t.orphaned THEN NULL ELSE t.hash END,
            placed_at = CASE WHEN l.revived THEN now() ELSE t.placed_at END,
            views = CASE WHEN l.times IS NULL THEN t.views
                ELSE t.views + (count_views(t.view_rate, \(viewedAt), l.times)).views END,
            view_rate = CASE WHEN l.times IS NULL THEN t.view_rate
                ELSE (count_views(t.view_rate, \(viewedAt), l.times)).view_rate END,
            viewed_at = CASE WHEN l.times IS NULL THEN t.viewed_at
                ELSE (count_views(t.view_rate, \(viewedAt), l.times)).viewed_at END
        FROM ordered l WHERE t.id = l.id
        RETURNING t.listed_anew, t.listed_lane, t.id, l.events, \(ClaimedTimeline.columns(kind: "l.k_"))
    ), \(handedOver(
        swept: "(SELECT count(*) FROM swept)", lease: "$9", reports: "$10", room: 11 + marks.count + views.count))
    """

private let userMarks = InputColumns<TimelineMark>([
    .init("user_id") { $0.audienceID }, .init("app_id") { $0.appID }, .init("kind_id") { $0.kindID },
    .init("events") { $0.events }, .init("urgency") { $0.urgency }, .init("lane") { $0.lane },
    .init("cause_topic") { $0.cause.topic }, .init("cause_partition") { $0.cause.partition },
    .init("cause_offset") { $0.cause.offset }, .init("cause_reason") { $0.reason },
])

/// A column of the mark at a place.
private func userMark(_ column: String, at place: String) -> String { userMarks.element(column, at: place, first: 4) }

private let userFormula = RowFormula(
    [
        "requested": "t.requested + l.events",
        "free_requested": "CASE WHEN l.urgency > 0 THEN t.requested + l.events ELSE t.free_requested END",
        "forced_requested": "CASE WHEN l.urgency > 1 THEN t.requested + l.events ELSE t.forced_requested END",
        "asleep": "false",
    ], kind: "l.k_")

private let userCauses = ["topic", "partition", "offset", "reason"]
    .map { "cause_\($0) = \(userMark("cause_\($0)", at: "l.last"))" }.joined(separator: ", ")

/// ``markTimelinesSQL`` for marks of users only, in half of the plan nodes.
private let markUsersSQL = """
    WITH hit AS MATERIALIZED (
        SELECT i.ord, w.timeline_id, w.kind_id
        FROM \(userMarks.rows("i", only: ["user_id"], first: 4)) CROSS JOIN LATERAL (
            SELECT w.timeline_id, w.kind_id FROM widget w
            WHERE w.app_id = \(userMark("app_id", at: "i.ord")) AND w.user_id = i.user_id AND w.timeline_id IS NOT NULL
                AND coalesce(w.kind_id = \(userMark("kind_id", at: "i.ord")), true)
            LIMIT $1::int8 + 1
        ) w
    ), ordered AS MATERIALIZED (
        SELECT g.*, \(RowFormula.kindColumns)
        FROM (
            SELECT f.timeline_id AS id, min(f.kind_id) AS kind_id,
                   sum(\(userMark("events", at: "f.ord")))::int8 AS events,
                   max(\(userMark("urgency", at: "f.ord"))) AS urgency, min(\(userMark("lane", at: "f.ord"))) AS lane,
                   max(f.ord) AS last
            FROM (SELECT DISTINCT ord, timeline_id, kind_id FROM hit) f GROUP BY f.timeline_id
        ) g JOIN kind k ON k.id = g.kind_id
        WHERE CASE WHEN EXISTS (SELECT FROM hit GROUP BY ord HAVING count(*) > $1::int8) THEN raise_too_many_widgets()
                   ELSE true END
        ORDER BY g.id
    ), marked AS (
        UPDATE timeline t
        SET \(userFormula.assignments), \(userFormula.improvement(lane: "l.lane")), \(userCauses), requested_at = now()
        FROM ordered l WHERE t.id = l.id
        RETURNING t.listed_anew, t.listed_lane, t.id, l.events, \(ClaimedTimeline.columns(kind: "l.k_"))
    ), \(handedOver(swept: "0::int8", lease: "$2", reports: "$3", room: 4 + userMarks.count))
    """

/// CTEs and the select list behind `marked`: appends the lists, and returns the timelines that are handed over or
/// reported. The lists that are handed over have one token, their lease and the revision of what is stored.
///
/// - Parameters:
///   - swept: number of audiences that became sweeps.
///   - lease: the parameter with the milliseconds of the lists' leases, which is NULL without a hand-over.
///   - reports: the parameter that says whether to return every marked timeline.
///   - room: number of the first parameter of ``rooms``.
private func handedOver(swept: String, lease: String, reports: String, room: Int) -> String {
    """
    taken AS MATERIALIZED (
        -- After the count, so that the token is above every revision in the rows: all of them are locked.
        SELECT count(*) AS marked_count, CASE WHEN \(lease)::int8 IS NOT NULL THEN nextval('token') END AS token
        FROM marked
    ), handable AS (
        SELECT m.id, m.kind_id, m.listed_lane, m.listed_at, m.listed_anew,
               CASE WHEN \(isUrgent) AND r.timelines >= row_number() OVER (
                   PARTITION BY r.share, \(isUrgent) ORDER BY m.listed_lane, m.id)
               THEN (SELECT token FROM taken) END AS lease
        FROM marked m LEFT JOIN \(rooms.rows("r", first: room)) ON r.kind_id = m.kind_id
    ), \(appendedLists(
        of: "handable", lease: "lease", leaseEnds: "now() + \(lease)::int8 * interval '1 millisecond'")), outcome AS (
        SELECT (SELECT marked_count FROM taken) AS marked_count, \(swept) AS swept_count,
               (SELECT count(*) FROM appended WHERE due_at <= now()) AS due_count
    ), handed AS (
        SELECT a.id AS list, a.lease, u.id AS handed_row FROM appended a, unnest(a.timelines) u (id)
        WHERE a.lease IS NOT NULL
    )
    SELECT o.*, m.*, h.list, h.lease
    FROM outcome o LEFT JOIN (marked m LEFT JOIN handed h ON h.handed_row = m.id)
        ON h.list IS NOT NULL OR \(reports)::bool
    """
}

extension PostgresStatement where Self == Statements {
    /// Marks the timelines of audiences, counts views, revives timelines that are shown again, locks those that were
    /// left, and appends the lists, in id order. Appointments follow rule 2 of work lists (DESIGN.md). It is the only
    /// statement of a transaction that locks existing timelines.
    ///
    /// An audience with more widgets than the limit becomes a sweep. A view within the hour after the last counted one
    /// writes nothing.
    ///
    /// - Parameters:
    ///   - limit: most widgets of an audience that are marked at once.
    ///   - handOver: room of this process's workers, whose lists are returned; nil without any.
    ///   - reports: whether the result names every marked timeline.
    package static func markTimelines(_ input: MarkInput, limit: Int, handOver: HandOver? = nil, reports: Bool = false)
        -> PostgresQuery<MarkRow>
    {
        var parameters = PostgresParameters(
            PostgresArray(input.revived), PostgresArray(input.departed), input.revival?.cause.topic,
            input.revival?.cause.partition, input.revival?.cause.offset, input.revival?.reason ?? .placed,
            input.revivalLane, limit, handOver?.lease.wholeMilliseconds, reports)
        marks.bind(input.marks, to: &parameters)
        views.bind(input.views, to: &parameters)
        handOver.bindRooms(to: &parameters)
        return PostgresQuery(markTimelinesSQL, binding: parameters) { row in try MarkRow(row) }
    }

    /// Marks the timelines of users like ``markTimelines(_:limit:handOver:reports:)``, in half of its time: in id
    /// order, with appointments by rule 2 of work lists (DESIGN.md). Every mark must name a user and match any
    /// configuration (``TimelineMark/isOfUser``).
    ///
    /// It fails the transaction with SQLSTATE `FR004` if a user has more widgets than the limit.
    package static func markUsers(
        _ marks: [TimelineMark], limit: Int, handOver: HandOver? = nil, reports: Bool = false
    ) -> PostgresQuery<MarkRow> {
        var parameters = PostgresParameters(limit, handOver?.lease.wholeMilliseconds, reports)
        userMarks.bind(marks, to: &parameters)
        handOver.bindRooms(to: &parameters)
        return PostgresQuery(markUsersSQL, binding: parameters) { row in try MarkRow(row) }
    }
}

extension HandOver? {
    fileprivate func bindRooms(to parameters: inout PostgresParameters) {
        let shares = self?.shares ?? []
        rooms.bind(
            shares.enumerated().flatMap { place, share in
                share.kindIDs.map { (kindID: $0, share: Int32(clamping: place), timelines: share.timelines) }
            }, to: &parameters)
    }
}

extension PostgresError {
    /// Whether ``PostgresStatement/markUsers(_:limit:handOver:reports:)`` found a user with more widgets than the
    /// limit.
    package var findsTooManyWidgets: Bool { sqlState == "FR004" }
}

extension MarkRow {
    fileprivate init(_ row: borrowing PostgresRow) throws(PostgresError) {
        var timeline: MarkedTimeline?
        if let key = try row.optional("row", as: Int64.self) {
            var hold: ListHold?
            if let list = try row.optional("list", as: Int64.self) {
                hold = try ListHold(id: list, lease: row.value("lease"))
            }
            timeline = try MarkedTimeline(
                timeline: ClaimedTimeline(row, key: key), events: row.value("events"), listedAt: row.value("listed_at"),
                lane: row.lane("listed_lane"), list: hold)
        }
        try self.init(
            marked: row.value("marked_count"), due: row.value("due_count"), swept: row.value("swept_count"),
            timeline: timeline)
    }
}
