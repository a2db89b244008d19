package import PostgresClient
package import WidgetModel

/// A claim that ends without a new timeline.
package struct EndedClaim: Sendable {
    package var id: TimelineID
    package var claim: Int64
    /// Until when nothing makes it due.
    package var delay: Duration
    package var decision: Decision
    package var rule: ReloadRule
    /// The request that was claimed, and its event.
    package var reason: ReloadReason
    package var cause: EventPosition?
    /// From the request to its failure; `nil` when there was none.
    package var fetchTime: Duration?

    package init(
        id: TimelineID, claim: Int64, delay: Duration, decision: Decision, rule: ReloadRule = .none,
        reason: ReloadReason = .policy, cause: EventPosition? = nil, fetchTime: Duration? = nil
    ) {
        self.id = id
        self.claim = claim
        self.delay = delay
        self.decision = decision
        self.rule = rule
        self.reason = reason
        self.cause = cause
        self.fetchTime = fetchTime
    }
}

extension PostgresParameters {
    fileprivate mutating func append(claims: [EndedClaim]) {
        append(array: claims.map { PostgresUUID($0.id) })
        append(array: claims.map(\.claim))
        append(array: claims.map(\.delay.wholeMilliseconds))
        append(array: claims.map(\.decision.rawValue))
        append(array: claims.map(\.rule.rawValue))
        append(array: claims.map(\.reason.rawValue))
        append(array: claims.map(\.cause?.topic))
        append(array: claims.map(\.cause?.partition))
        append(array: claims.map(\.cause?.offset))
        append(array: claims.map { $0.fetchTime?.wholeMilliseconds })
    }
}

private func endSQL(retryAt: String, attempts: String) -> String {
    """
    WITH live AS (
        SELECT s.timeline_id, i.*, now() + i.delay * interval '1 millisecond' AS again_at
        FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int2[], $5::int2[], $6::int2[], $7::int2[], $8::int4[],
                    $9::int8[], $10::int8[])
            AS i (id, claim, delay, decision, rule, reason, cause_topic, cause_partition, cause_offset, fetch_ms)
        JOIN timeline_state s ON s.timeline_id = i.id \(Protection.fencing.sql("AND s.claim = i.claim AND s.leased"))
        ORDER BY s.timeline_id
        FOR NO KEY UPDATE OF s
    )
    UPDATE timeline_state s
    SET leased = false, due_at = l.again_at, retry_at = \(retryAt), attempts = \(attempts), last_decision = l.decision,
        decision_rule = l.rule, decision_reason = l.reason, decided_at = now(), decision_topic = l.cause_topic,
        decision_partition = l.cause_partition, decision_offset = l.cause_offset,
        fetch_milliseconds = coalesce(l.fetch_ms, s.fetch_milliseconds)
    FROM live l WHERE s.timeline_id = l.timeline_id
    """
}

/// Failed fetches: nothing, free requests included, makes them due before the back-off has passed. The last good
/// timeline and all that was requested stay as they are.
package struct FailTimelines: PostgresStatement {
    package static let sql = endSQL(retryAt: "l.again_at", attempts: "least(s.attempts + 1, 32767)")
    let claims: [EndedClaim]

    package init(_ claims: [EndedClaim]) {
        self.claims = claims
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(claims: claims)
    }
}

/// Gives claims back, due again after the delay; not the provider's fault, so no attempt is counted.
package struct ReleaseTimelines: PostgresStatement {
    package static let sql = endSQL(retryAt: "s.retry_at", attempts: "s.attempts")
    let claims: [EndedClaim]

    package init(_ claims: [EndedClaim]) {
        self.claims = claims
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(claims: claims)
    }
}

/// After a message went out whose claim was gone by then: what was last published may not be what is stored. Forgets what
/// was published and makes the rows due, so that the stored content is published once more, with a higher revision.
///
/// Whoever has a row claimed meanwhile loses the claim: he may have published before that message, and would complete as
/// if his were the last one, or collect the timeline as if its tombstone were.
package struct RepublishTimelines: PostgresStatement {
    package static let sql = """
        WITH locked AS (
            SELECT s.timeline_id FROM timeline_state s WHERE s.timeline_id = ANY ($1::uuid[])
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE
        )
        UPDATE timeline_state s
        SET published_hash = NULL, leased = false, claim = nextval('timeline_claim'),
            due_at = least(s.due_at, \(MarkFormula.dueTime(free: "true", forced: "true")))
        FROM locked l WHERE s.timeline_id = l.timeline_id
        RETURNING s.timeline_id
        """

    let ids: [TimelineID]

    package init(_ ids: [TimelineID]) {
        self.ids = ids
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: ids.map { PostgresUUID($0) })
    }

    /// Those that still exist; the others were collected meanwhile.
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> TimelineID {
        TimelineID(try row.value(0, as: PostgresUUID.self))
    }
}

/// Deletes timelines that no widget shows, after their tombstones were published and acknowledged. A timeline that a
/// widget shows again by now stays and becomes due, so that it is published anew. Two statements of one transaction:
/// ``LockTimelines`` first, so that this one sees every widget placed before the lock.
package struct CollectTimelines: PostgresStatement {
    package static let sql = """
        WITH mine AS (
            SELECT s.timeline_id,
                   s.orphaned AND NOT EXISTS (SELECT 1 FROM widget w WHERE w.timeline_id = s.timeline_id) AS gone
            FROM unnest($1::uuid[], $2::int8[]) AS i (id, claim)
            JOIN timeline_state s ON s.timeline_id = i.id AND s.claim = i.claim
            ORDER BY s.timeline_id
            FOR UPDATE OF s
        ), revived AS (
            UPDATE timeline_state s
            SET orphaned = false, leased = false, published_hash = NULL, due_at = now(),
                lane = least(s.lane, \(ReloadLane.push.rawValue))
            FROM mine m WHERE s.timeline_id = m.timeline_id AND NOT m.gone
        ), content AS (
            DELETE FROM timeline_content c USING mine m WHERE c.timeline_id = m.timeline_id AND m.gone
        ), stand_in AS (
            DELETE FROM snapshot p USING mine m WHERE p.timeline_id = m.timeline_id AND m.gone
        ), cold AS (
            DELETE FROM timeline t USING mine m WHERE t.id = m.timeline_id AND m.gone
        ), hot AS (
            DELETE FROM timeline_state s USING mine m WHERE s.timeline_id = m.timeline_id AND m.gone
            RETURNING 1
        )
        SELECT count(*) FROM hot
        """

    let claims: [(id: TimelineID, claim: Int64)]

    package init(_ claims: [(id: TimelineID, claim: Int64)]) {
        self.claims = claims
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: claims.map { PostgresUUID($0.id) })
        parameters.append(array: claims.map(\.claim))
    }

    /// How many were deleted.
    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 {
        try row.value(0)
    }
}
