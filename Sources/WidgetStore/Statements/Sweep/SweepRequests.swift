package import PostgresClient
package import WidgetModel

/// A recorded sweep on its way through the timelines.
package struct SweepProgress: Sendable {
    package let id: Int64
    package let appID: Int32
    package let audience: SweepRequest.Audience
    /// Ascending.
    package let kindIDs: [Int32]
    package let matching: String?
    package let events: Int64
    package let urgency: RequestUrgency
    package let cause: EventPosition
    package let reason: ReloadReason
    package var cursorKind: Int32
    package var cursorTimeline: TimelineID
    package var cursorWidget: String
}

/// Marks the waiting sweeps as started, so that equal requests from now on are sweeps of their own.
package struct StartSweeps: PostgresStatement {
    package static let sql = """
        WITH waiting AS (
            SELECT id FROM sweep WHERE NOT started ORDER BY id LIMIT $1::int8 FOR NO KEY UPDATE SKIP LOCKED
        )
        UPDATE sweep s SET started = true FROM waiting w WHERE s.id = w.id
        """

    let limit: Int

    package init(limit: Int) {
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int64(limit))
    }
}

/// Locks the oldest started sweep after a given one that no other process is working on, so that each sweep gets a chunk
/// in turn and none waits behind one whose kinds have no room.
package struct NextSweep: PostgresStatement {
    package static let sql = """
        SELECT id, app_id, audience, audience_id, kind_ids, matching, events, free,
               cause_topic, cause_partition, cause_offset, cursor_kind, cursor_timeline, cursor_widget, forced, cause_reason
        FROM sweep WHERE started AND id > $1::int8 ORDER BY id LIMIT 1
        FOR NO KEY UPDATE SKIP LOCKED
        """

    let id: Int64

    /// - Parameter id: the sweep that had its turn last; ids start at 1.
    package init(after id: Int64 = 0) {
        self.id = id
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(id)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> SweepProgress {
        let audience: SweepRequest.Audience
        let raw: Int16 = try row.value(2)
        switch raw {
        case 0: audience = .everyone
        case 1: audience = .user(try row.value(3))
        case 2: audience = .device(try row.value(3))
        default: throw PostgresError.unexpectedValue(column: 2, "\(raw)", expected: "an audience from 0 to 2")
        }
        return SweepProgress(
            id: try row.value(0), appID: try row.value(1), audience: audience,
            kindIDs: try row.array(4, of: Int32.self).sorted(), matching: try row.optional(5),
            events: try row.value(6), urgency: try Self.urgency(row),
            cause: EventPosition(
                topic: try row.value(8), partition: try row.value(9), offset: try row.value(10)),
            reason: try row.optional(15, as: Int16.self).flatMap { ReloadReason(rawValue: $0) } ?? .push,
            cursorKind: try row.value(11), cursorTimeline: TimelineID(try row.value(12, as: PostgresUUID.self)),
            cursorWidget: try row.value(13))
    }

    private static func urgency(_ row: borrowing PostgresRow) throws(PostgresError) -> RequestUrgency {
        if try row.value(14) { return .forced }
        return try row.value(7) ? .free : .budgeted
    }
}

/// What one chunk of a sweep did.
package struct SweepChunkOutcome: Sendable {
    /// Rows looked at; fewer than the limit: the kind, or the audience, is done.
    package let examined: Int
    package let marked: Int
    /// The last timeline looked at (of everyone), or the last widget (of an audience).
    package let lastTimeline: TimelineID?
    package let lastWidget: String?
}

/// - Parameter requestedAt: an audience has asked for its timelines; everyone has not.
private func chunkMark(requestedAt: String) -> String {
    """
    , locked AS (
        SELECT s.timeline_id FROM hit h JOIN timeline_state s ON s.timeline_id = h.id
        ORDER BY s.timeline_id
        FOR NO KEY UPDATE OF s
    ), marked AS (
        UPDATE timeline_state s
        SET requested = s.requested + $5::int8,
            free_requested = CASE WHEN $6::bool THEN s.requested + $5::int8 ELSE s.free_requested END,
            due_at = \(MarkFormula.dueAt(free: "$6::bool", forced: "$10::bool")),
            free_at = \(MarkFormula.freeAt(forced: "$10::bool")),
            lane = \(MarkFormula.bulkLane(free: "$6::bool", forced: "$10::bool")), requested_at = \(requestedAt),
            cause_topic = $7::int2, cause_partition = $8::int4, cause_offset = $9::int8, cause_reason = $11::int2
        FROM locked l WHERE s.timeline_id = l.timeline_id
        RETURNING 1
    )
    """
}

extension PostgresParameters {
    fileprivate mutating func appendEnd(of sweep: SweepProgress) {
        append(sweep.events)
        append(sweep.urgency >= .free)
        append(sweep.cause.topic)
        append(sweep.cause.partition)
        append(sweep.cause.offset)
        append(sweep.urgency >= .forced)
        append(sweep.reason.rawValue)
    }
}

/// One chunk of a sweep over everyone: a kind's timelines in id order, from the cursor on.
package struct SweepEveryoneChunk: PostgresStatement {
    package static let sql = """
        WITH page AS MATERIALIZED (
            SELECT t.id, t.configuration FROM timeline t
            WHERE t.kind_id = $1::int4 AND t.id > $2::uuid
            ORDER BY t.id LIMIT $4::int8
        ), hit AS (
            SELECT id FROM page WHERE $3::text IS NULL OR configuration::jsonb @> $3::jsonb
        )\(chunkMark(requestedAt: "s.requested_at"))
        SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM marked),
               (SELECT id FROM page ORDER BY id DESC LIMIT 1)
        """

    let sweep: SweepProgress
    let kindID: Int32
    let limit: Int

    package init(_ sweep: SweepProgress, kindID: Int32, limit: Int) {
        self.sweep = sweep
        self.kindID = kindID
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(kindID)
        parameters.append(PostgresUUID(sweep.cursorTimeline))
        parameters.append(sweep.matching)
        parameters.append(Int64(limit))
        parameters.appendEnd(of: sweep)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> SweepChunkOutcome {
        SweepChunkOutcome(
            examined: Int(try row.value(0, as: Int64.self)), marked: Int(try row.value(1, as: Int64.self)),
            lastTimeline: try row.optional(2, as: PostgresUUID.self).map { TimelineID($0) }, lastWidget: nil)
    }
}

/// One chunk of a sweep over an audience of very many widgets: its widgets in id order, from the cursor on.
package struct SweepAudienceChunk: PostgresStatement {
    package static let sql = """
        WITH page AS MATERIALIZED (
            (SELECT w.id, w.timeline_id, w.kind_id FROM widget w
             WHERE $12::int2 = 1 AND w.app_id = $1::int4 AND w.user_id = $13::text AND w.timeline_id IS NOT NULL
                 AND w.id > $2::text
             ORDER BY w.id LIMIT $4::int8)
            UNION ALL
            (SELECT w.id, w.timeline_id, w.kind_id FROM widget w
             WHERE $12::int2 = 2 AND w.app_id = $1::int4 AND w.device_id = $13::text AND w.timeline_id IS NOT NULL
                 AND w.id > $2::text
             ORDER BY w.id LIMIT $4::int8)
        ), hit AS (
            SELECT DISTINCT p.timeline_id AS id FROM page p JOIN timeline t ON t.id = p.timeline_id
            WHERE p.kind_id = ANY ($14::int4[]) AND ($3::text IS NULL OR t.configuration::jsonb @> $3::jsonb)
        )\(chunkMark(requestedAt: "now()"))
        SELECT (SELECT count(*) FROM page), (SELECT count(*) FROM marked), (SELECT max(id) FROM page)
        """

    let sweep: SweepProgress
    let limit: Int

    package init(_ sweep: SweepProgress, limit: Int) {
        self.sweep = sweep
        self.limit = limit
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(sweep.appID)
        parameters.append(sweep.cursorWidget)
        parameters.append(sweep.matching)
        parameters.append(Int64(limit))
        parameters.appendEnd(of: sweep)
        switch sweep.audience {
        case .everyone:
            parameters.append(Int16(0))
            parameters.append("")
        case .user(let id):
            parameters.append(Int16(1))
            parameters.append(id)
        case .device(let id):
            parameters.append(Int16(2))
            parameters.append(id)
        }
        parameters.append(array: sweep.kindIDs)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> SweepChunkOutcome {
        SweepChunkOutcome(
            examined: Int(try row.value(0, as: Int64.self)), marked: Int(try row.value(1, as: Int64.self)),
            lastTimeline: nil, lastWidget: try row.optional(2))
    }
}

/// Moves a sweep's cursor.
package struct MoveSweep: PostgresStatement {
    package static let sql = """
        UPDATE sweep SET cursor_kind = $2::int4, cursor_timeline = $3::uuid, cursor_widget = $4::text WHERE id = $1::int8
        """

    let sweep: SweepProgress

    package init(_ sweep: SweepProgress) {
        self.sweep = sweep
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(sweep.id)
        parameters.append(sweep.cursorKind)
        parameters.append(PostgresUUID(sweep.cursorTimeline))
        parameters.append(sweep.cursorWidget)
    }
}

/// Leaves some of a sweep's kinds to a sweep of their own, which goes on from the same cursor, so that kinds that are
/// paused do not hold up the others.
package struct SplitSweep: PostgresStatement {
    package static let sql = """
        WITH others AS (
            UPDATE sweep s SET kind_ids = $2::int4[] WHERE s.id = $1::int8 RETURNING s.*
        )
        INSERT INTO sweep (predicate, app_id, audience, audience_id, kind_ids, matching, events, free, forced, started,
                           cursor_kind, cursor_timeline, cursor_widget, cause_topic, cause_partition, cause_offset,
                           cause_reason, created_at)
        SELECT predicate, app_id, audience, audience_id, $3::int4[], matching, events, free, forced, true,
               cursor_kind, cursor_timeline, cursor_widget, cause_topic, cause_partition, cause_offset,
               cause_reason, created_at
        FROM others
        """

    let id: Int64
    let kindIDs: [Int32]
    let paused: [Int32]

    /// - Parameters:
    ///   - kindIDs: what the sweep keeps.
    ///   - paused: what the new one has.
    package init(_ id: Int64, keeping kindIDs: [Int32], leaving paused: [Int32]) {
        self.id = id
        self.kindIDs = kindIDs
        self.paused = paused
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(id)
        parameters.append(array: kindIDs)
        parameters.append(array: paused)
    }
}

/// Ends a sweep: everything in its scope has been made due.
package struct FinishSweep: PostgresStatement {
    package static let sql = "DELETE FROM sweep WHERE id = $1::int8"

    let id: Int64

    package init(_ id: Int64) {
        self.id = id
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(id)
    }
}
