package import PostgresClient
package import WidgetModel

/// A claimed timeline that the rules do not let be fetched now.
package struct Deferral: Sendable {
    package var id: TimelineID
    package var claim: Int64
    /// The generations as captured by the claim.
    package var requested: Int64
    package var kindGeneration: Int64
    package var appGeneration: Int64
    /// When it may be fetched, by the database's clock; `nil`: not before somebody looks at it, or asks.
    package var until: Timestamp?
    /// When somebody last looked at it or placed it, as far as the claim saw.
    package var lastActive: Timestamp?
    package var rule: ReloadRule
    package var reason: ReloadReason
    package var cause: EventPosition?

    package init(
        id: TimelineID, claim: Int64, requested: Int64, kindGeneration: Int64, appGeneration: Int64,
        until: Timestamp?, lastActive: Timestamp? = nil, rule: ReloadRule, reason: ReloadReason,
        cause: EventPosition?
    ) {
        self.id = id
        self.claim = claim
        self.requested = requested
        self.kindGeneration = kindGeneration
        self.appGeneration = appGeneration
        self.until = until
        self.lastActive = lastActive
        self.rule = rule
        self.reason = reason
        self.cause = cause
    }
}

/// Ends claims that the rules defer: nothing is dropped, and nothing is claimed again before its time. What was asked for
/// since the claim counts by the mark's formula; what the sweeper had made due for a generation that the claim did not see
/// is due as a free request is, as with a completion.
///
/// What is to sleep does not when somebody has looked at it, or placed it, since the claim: it is due, for the rules to
/// decide anew. For that, ``LockTimelines`` has to come first in the same transaction, so that this statement sees what
/// was committed under the lock: views of leased timelines and placements take it too. Nor does it sleep when something
/// is stored that was not published: it would not be before somebody looks.
package struct DeferTimelines: PostgresStatement {
    package struct Row: Sendable {
        package let id: TimelineID
        package let isDue: Bool
    }

    /// What a claim stored and did not complete is not what was published last.
    private static let isUnpublished = """
        i.until IS NULL AND EXISTS (
            SELECT 1 FROM timeline_content c WHERE c.timeline_id = i.id AND c.hash IS DISTINCT FROM s.published_hash)
        """

    package static let sql = """
        WITH input AS (
            SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::timestamptz[], $6::int2[], $7::int2[],
                                 $8::int2[], $9::int4[], $10::int8[], $11::timestamptz[])
                AS i (id, claim, requested, generation, until, rule, reason, cause_topic, cause_partition, cause_offset,
                      last_active)
        ), live AS (
            SELECT i.*, s.free_requested > i.requested AS asked_free, s.requested > i.requested AS asked,
                   s.swept_generation > i.generation AS swept,
                   coalesce(i.until, s.eligible_at) AS eligible_at,
                   i.until IS NULL AND NOT EXISTS (
                       SELECT 1 FROM widget w WHERE w.timeline_id = i.id
                           AND greatest(w.placed_at, w.last_viewed_at) > coalesce(i.last_active, '-infinity'))
                       AND NOT (\(isUnpublished)) AS sleeps,
                   \(isUnpublished) AS unpublished
            FROM input i JOIN timeline_state s ON s.timeline_id = i.id AND s.claim = i.claim AND s.leased
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE OF s
        )
        UPDATE timeline_state s
        SET leased = false, eligible_at = l.eligible_at,
            published_hash = CASE WHEN NOT l.unpublished THEN s.published_hash END,
            due_at = CASE WHEN s.orphaned THEN now()
                          WHEN l.asked_free OR l.swept THEN greatest(now(), s.free_at)
                          WHEN l.asked OR l.until IS NOT NULL THEN l.eligible_at
                          WHEN l.sleeps THEN 'infinity'
                          ELSE greatest(now(), s.retry_at) END,
            lane = CASE WHEN s.orphaned THEN \(ReloadLane.bulk.rawValue) ELSE s.lane END,
            view_class = CASE WHEN l.sleeps THEN \(ViewClass.dormant.rawValue) ELSE s.view_class END,
            last_decision = CASE WHEN l.sleeps THEN \(Decision.slept.rawValue)
                                 ELSE \(Decision.deferred.rawValue) END,
            decision_rule = l.rule, decision_reason = l.reason, decided_at = now(), decision_topic = l.cause_topic,
            decision_partition = l.cause_partition, decision_offset = l.cause_offset
        FROM live l WHERE s.timeline_id = l.id
        RETURNING s.timeline_id, s.due_at <= now()
        """

    let deferrals: [Deferral]

    package init(_ deferrals: [Deferral]) {
        self.deferrals = deferrals
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: deferrals.map { PostgresUUID($0.id) })
        parameters.append(array: deferrals.map(\.claim))
        parameters.append(array: deferrals.map(\.requested))
        parameters.append(array: deferrals.map { $0.kindGeneration + $0.appGeneration })
        parameters.append(array: deferrals.map { $0.until.map { PostgresTimestamp($0) } })
        parameters.append(array: deferrals.map(\.rule.rawValue))
        parameters.append(array: deferrals.map(\.reason.rawValue))
        parameters.append(array: deferrals.map(\.cause?.topic))
        parameters.append(array: deferrals.map(\.cause?.partition))
        parameters.append(array: deferrals.map(\.cause?.offset))
        parameters.append(array: deferrals.map { $0.lastActive.map { PostgresTimestamp($0) } })
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(id: TimelineID(try row.value(0, as: PostgresUUID.self)), isDue: try row.value(1))
    }
}
