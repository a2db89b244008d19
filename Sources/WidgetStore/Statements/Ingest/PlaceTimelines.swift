package import PostgresClient
package import WidgetModel

/// A timeline that a widget shows from now on: what to write if it is new.
package struct TimelinePlacement: Sendable {
    package var id: TimelineID
    package var kindID: Int32
    package var identity: TimelineIdentity
    package var lane: ReloadLane
    package var cause: EventPosition?
    package var reason: ReloadReason

    package init(
        id: TimelineID, kindID: Int32, identity: TimelineIdentity, lane: ReloadLane, cause: EventPosition?,
        reason: ReloadReason
    ) {
        self.id = id
        self.kindID = kindID
        self.identity = identity
        self.lane = lane
        self.cause = cause
        self.reason = reason
    }
}

/// Locks hot rows in key order, so that nothing collects them and the last of several removals sees the others.
package struct LockTimelines: PostgresStatement {
    package static let sql = """
        SELECT 1 FROM timeline_state s WHERE s.timeline_id = ANY ($1::uuid[]) ORDER BY s.timeline_id FOR NO KEY UPDATE
        """

    let ids: [TimelineID]

    package init(_ ids: [TimelineID]) {
        self.ids = ids
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: ids.map { PostgresUUID($0) })
    }
}

/// Makes timelines exist. A new one, and one that was about to be collected, is requested at once, free of budget and of
/// spacing; so is one that sleeps because nobody looked at it. Any other that widgets show already is left as it is: its
/// content serves the new widget too.
package struct PlaceTimelines: PostgresStatement {
    package static let sql = """
        WITH input AS MATERIALIZED (
            SELECT * FROM unnest($1::uuid[], $2::int4[], $3::int2[], $4::text[], $5::text[], $6::text[], $7::text[],
                                 $8::int2[], $9::int2[], $10::int4[], $11::int8[], $12::int2[])
                AS i (id, kind_id, family, configuration, locale, time_zone, user_id, lane,
                      cause_topic, cause_partition, cause_offset, cause_reason)
        ), cold AS (
            INSERT INTO timeline (id, kind_id, family, configuration, locale, time_zone, user_id)
            SELECT id, kind_id, family, configuration, locale, time_zone, user_id FROM input ORDER BY id
            ON CONFLICT (id) DO NOTHING
        ), hot AS (
            INSERT INTO timeline_state AS s (timeline_id, kind_id, requested, free_requested, swept_generation, due_at,
                                             lane, requested_at, cause_topic, cause_partition, cause_offset,
                                             cause_reason)
            SELECT i.id, i.kind_id, 1, 1, k.generation + a.generation, now(), i.lane, now(),
                   i.cause_topic, i.cause_partition, i.cause_offset, i.cause_reason
            FROM input i JOIN kind k ON k.id = i.kind_id JOIN app a ON a.id = k.app_id
            ORDER BY i.id
            ON CONFLICT (timeline_id) DO UPDATE
                SET orphaned = false, requested = s.requested + 1, free_requested = s.requested + 1,
                    swept_generation = least(s.swept_generation, excluded.swept_generation),
                    due_at = \(MarkFormula.dueAt(free: "true", forced: "s.orphaned")),
                    free_at = \(MarkFormula.freeAt(forced: "s.orphaned")), lane = least(s.lane, excluded.lane),
                    published_hash = CASE WHEN NOT s.orphaned THEN s.published_hash END, requested_at = now(),
                    cause_topic = excluded.cause_topic, cause_partition = excluded.cause_partition,
                    cause_offset = excluded.cause_offset, cause_reason = excluded.cause_reason
                WHERE s.orphaned OR s.view_class = \(ViewClass.dormant.rawValue)
            RETURNING s.timeline_id
        )
        SELECT count(*) FROM hot
        """

    let placements: [TimelinePlacement]

    package init(_ placements: [TimelinePlacement]) {
        self.placements = placements
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: placements.map { PostgresUUID($0.id) })
        parameters.append(array: placements.map(\.kindID))
        parameters.append(array: placements.map { $0.identity.family?.rawValue })
        parameters.append(array: placements.map(\.identity.configuration.canonical))
        parameters.append(array: placements.map(\.identity.locale))
        parameters.append(array: placements.map(\.identity.timeZone))
        parameters.append(array: placements.map(\.identity.user))
        parameters.append(array: placements.map(\.lane.rawValue))
        parameters.append(array: placements.map(\.cause?.topic))
        parameters.append(array: placements.map(\.cause?.partition))
        parameters.append(array: placements.map(\.cause?.offset))
        parameters.append(array: placements.map(\.reason.rawValue))
    }

    /// How many timelines were created or revived.
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}

/// Marks those of the given timelines that no widget shows any more for collection, in the bulk lane.
/// Their rows must have been locked by an earlier statement of the transaction.
package struct OrphanTimelines: PostgresStatement {
    package static let sql = """
        WITH gone AS (
            SELECT s.timeline_id FROM timeline_state s
            WHERE s.timeline_id = ANY ($1::uuid[]) AND NOT s.orphaned
                AND NOT EXISTS (SELECT 1 FROM widget w WHERE w.timeline_id = s.timeline_id)
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE
        )
        UPDATE timeline_state s
        SET orphaned = true, due_at = CASE WHEN s.leased THEN s.due_at ELSE now() END,
            lane = CASE WHEN s.leased THEN s.lane ELSE \(ReloadLane.bulk.rawValue) END
        FROM gone g WHERE s.timeline_id = g.timeline_id
        """

    let ids: [TimelineID]

    package init(_ ids: [TimelineID]) {
        self.ids = ids
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: ids.map { PostgresUUID($0) })
    }
}
