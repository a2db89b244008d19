package import PostgresClient
package import WidgetModel

/// A regeneration that succeeded.
package struct Completion: Sendable {
    package var id: TimelineID
    package var claim: Int64
    /// The generations as captured by the claim, before the fetch.
    package var requested: Int64
    package var kindGeneration: Int64
    package var appGeneration: Int64
    /// Set when the content was published under this claim.
    package var publishedHash: ContentHash?
    /// The policy's earliest next reload; `nil` for `never`.
    package var nextReload: Timestamp?
    /// Delay by jitter on top of it; never negative.
    package var jitter: Duration
    /// The kind's minimum spacing; zero lifts it (developer mode).
    package var spacing: Duration
    package var decision: Decision

    package init(
        id: TimelineID, claim: Int64, requested: Int64, kindGeneration: Int64, appGeneration: Int64,
        publishedHash: ContentHash?, nextReload: Timestamp?, jitter: Duration, spacing: Duration, decision: Decision
    ) {
        self.id = id
        self.claim = claim
        self.requested = requested
        self.kindGeneration = kindGeneration
        self.appGeneration = appGeneration
        self.publishedHash = publishedHash
        self.nextReload = nextReload
        self.jitter = jitter
        self.spacing = spacing
        self.decision = decision
    }
}

/// Completes regenerations whose claim still holds. What was requested during the fetch stays requested and becomes due
/// by the mark's formula; so does a row whose last message another worker has overwritten (`published_hash` cleared), and
/// one that the sweeper had made due for a generation that the claim's snapshot did not have yet: nobody would look for it
/// again. A completion that is tried again after it went through finds the lease ended and changes nothing.
package struct CompleteTimelines: PostgresStatement {
    package struct Row: Sendable {
        package let id: TimelineID
        /// Whether it is due again at once.
        package let isDue: Bool
    }

    /// A policy whose time is always past must not turn into a loop, not even where the spacing is lifted.
    private static let policyFloor = ReloadSchedule.developerSpacing

    /// Answers the rows whose claim held.
    package static let sql = """
        WITH input AS (
            SELECT * FROM unnest($1::uuid[], $2::int8[], $3::int8[], $4::int8[], $5::int8[], $6::uuid[],
                                 $7::timestamptz[], $8::int8[], $9::int8[], $10::int2[])
                AS i (id, claim, requested, kind_generation, app_generation, published_hash, next_reload, jitter,
                      spacing, decision)
        ), live AS (
            SELECT i.*, now() + i.spacing * interval '1 millisecond' AS eligible_at,
                   coalesce(i.published_hash, s.published_hash) AS hash,
                   s.requested > i.requested OR coalesce(i.published_hash, s.published_hash) IS NULL
                       OR s.swept_generation > i.kind_generation + i.app_generation AS again,
                   s.free_requested > i.requested OR coalesce(i.published_hash, s.published_hash) IS NULL AS free
            FROM input i JOIN timeline_state s ON s.timeline_id = i.id AND s.claim = i.claim AND s.leased
            ORDER BY s.timeline_id
            FOR NO KEY UPDATE OF s
        )
        UPDATE timeline_state s
        SET rendered = l.requested, rendered_kind_generation = l.kind_generation,
            rendered_app_generation = l.app_generation,
            swept_generation = greatest(s.swept_generation, l.kind_generation + l.app_generation),
            published_hash = l.hash, leased = false, attempts = 0, rendered_at = now(), retry_at = '-infinity',
            eligible_at = l.eligible_at, last_decision = l.decision,
            due_at = CASE
                WHEN s.orphaned THEN now()
                WHEN l.again THEN CASE WHEN l.free THEN now() ELSE l.eligible_at END
                WHEN l.next_reload IS NULL THEN 'infinity'
                ELSE greatest(l.next_reload, now() + greatest(l.spacing, \(policyFloor.wholeMilliseconds))
                                  * interval '1 millisecond') + l.jitter * interval '1 millisecond' END,
            lane = CASE WHEN l.again AND NOT s.orphaned THEN s.lane
                        WHEN s.orphaned THEN \(ReloadLane.bulk.rawValue)
                        ELSE \(ReloadLane.scheduled.rawValue) END
        FROM live l WHERE s.timeline_id = l.id
        RETURNING s.timeline_id, s.due_at <= now()
        """

    let completions: [Completion]

    package init(_ completions: [Completion]) {
        self.completions = completions
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: completions.map { PostgresUUID($0.id) })
        parameters.append(array: completions.map(\.claim))
        parameters.append(array: completions.map(\.requested))
        parameters.append(array: completions.map(\.kindGeneration))
        parameters.append(array: completions.map(\.appGeneration))
        parameters.append(array: completions.map { $0.publishedHash.map { PostgresUUID($0) } })
        parameters.append(array: completions.map { $0.nextReload.map { PostgresTimestamp($0) } })
        parameters.append(array: completions.map(\.jitter.wholeMilliseconds))
        parameters.append(array: completions.map(\.spacing.wholeMilliseconds))
        parameters.append(array: completions.map(\.decision.rawValue))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(id: TimelineID(try row.value(0, as: PostgresUUID.self)), isDue: try row.value(1))
    }
}
