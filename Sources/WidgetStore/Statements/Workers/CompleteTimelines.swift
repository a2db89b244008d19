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
    /// Whether free requests keep the spacing too: the timeline is shared.
    package var isShared: Bool
    /// When the budget allows the next budgeted reload, by the database's clock.
    package var eligibleAt: Timestamp
    /// With what this reload has spent.
    package var ledger: BudgetLedger
    package var viewClass: ViewClass
    /// From the request to its answer.
    package var fetchTime: Duration
    package var decision: Decision
    package var rule: ReloadRule
    package var reason: ReloadReason
    /// The event that caused it; `nil`: its policy.
    package var cause: EventPosition?
    /// Where the claim left the hot row.
    package var tid: PostgresTID?

    package init(
        id: TimelineID, claim: Int64, requested: Int64, kindGeneration: Int64, appGeneration: Int64,
        publishedHash: ContentHash?, nextReload: Timestamp?, jitter: Duration, spacing: Duration,
        isShared: Bool = false, eligibleAt: Timestamp = .distantPast, ledger: BudgetLedger = BudgetLedger(),
        viewClass: ViewClass = .often, fetchTime: Duration = .zero, decision: Decision, rule: ReloadRule = .none,
        reason: ReloadReason = .policy, cause: EventPosition? = nil, tid: PostgresTID? = nil
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
        self.isShared = isShared
        self.eligibleAt = eligibleAt
        self.ledger = ledger
        self.viewClass = viewClass
        self.fetchTime = fetchTime
        self.decision = decision
        self.rule = rule
        self.reason = reason
        self.cause = cause
        self.tid = tid
    }
}

/// Completes regenerations whose claim still holds. What was requested during the fetch stays requested and becomes due
/// by the mark's formula; so does a row whose last message another worker has overwritten (`published_hash` cleared), and
/// one that the sweeper had made due for a generation that the claim's snapshot did not have yet: nobody would look for it
/// again (at once, so that the rules decide; on a shared timeline after its spacing, for it may be a free request). A
/// completion that is tried again after it went through finds the lease ended and changes nothing.
package struct CompleteTimelines: PostgresStatement {
    package struct Row: Sendable {
        package let id: TimelineID
        /// Whether it is due again at once.
        package let isDue: Bool
        /// When it is due; `nil`: only on request.
        package let dueAt: Timestamp?
        package let eligibleAt: Timestamp
        package let claim: Int64
    }

    /// A policy whose time is always past must not turn into a loop, not even where the spacing is lifted.
    private static let policyFloor = ReloadSchedule.developerSpacing

    private static let capture = Protection.generationCapture
    private static let captured = capture.sql("i.requested", otherwise: "s.requested")
    private static let currentKindGeneration = "(SELECT k.generation FROM kind k WHERE k.id = s.kind_id)"
    private static let currentAppGeneration =
        "(SELECT a.generation FROM app a JOIN kind k ON k.app_id = a.id WHERE k.id = s.kind_id)"

    // Of the row as it is under its lock, `s`, and of the completion, `i`.
    private static let hash = "coalesce(i.published_hash, s.published_hash)"
    private static let askedFree = "s.free_requested > \(captured)"
    private static let swept = capture.sql(
        "s.swept_generation > i.kind_generation + i.app_generation", otherwise: "false")
    private static let again = "(s.requested > \(captured) OR \(hash) IS NULL OR \(swept))"
    private static let atOnce =
        "(\(hash) IS NULL OR \(askedFree) AND (s.free_at = '-infinity' OR NOT i.shared))"

    /// A row's value of a parameter, taken from the array by its place: for values of a fixed size that are never NULL
    /// that is as quick as from a row, and `unnest` makes a table of every array that it is given.
    private static func given(_ parameter: Int, _ type: String, _ row: String = "i") -> String {
        "($\(parameter)::\(type)[])[\(row).ord::int4]"
    }

    /// Answers the rows whose claim held. `forced`: an operator's request came during the fetch (`free_at`); what it finds
    /// overwritten is published again at once, too.
    package static let sql = text(inPlace: false)

    /// - Parameter inPlace: rows are found by a 21st parameter, where their claims left them; see ``HotRow``.
    static func text(inPlace: Bool) -> String {
        """
        WITH input AS MATERIALIZED (
            SELECT i.*,\(inPlace ? " \(HotRow.tid(of: "i")) AS place," : "")
                   \(given(4, "int8")) AS kind_generation, \(given(5, "int8")) AS app_generation,
                   \(given(11, "bool")) AS shared, now() + \(given(9, "int8")) * interval '1 millisecond' AS spaced_at,
                   greatest(now() + \(given(9, "int8")) * interval '1 millisecond',
                            \(given(12, "timestamptz"))) AS budgeted_at
            FROM unnest((SELECT $1::uuid[]), (SELECT $2::int8[]), (SELECT $3::int8[]), (SELECT $6::uuid[]),
                        (SELECT $7::timestamptz[]), (SELECT $13::bytea[]), (SELECT $18::int2[]), (SELECT $19::int4[]),
                        (SELECT $20::int8[])\(inPlace ? ", (SELECT $21::tid[])" : ""))
                WITH ORDINALITY AS i (id, claim, requested, published_hash, next_reload, budget, cause_topic,
                                      cause_partition, cause_offset\(inPlace ? ", tid" : ""), ord)
            -- Rows are locked in this order, by a look-up each (as in the statements that mark).
            ORDER BY i.id
        ), live AS (
            SELECT i.*,
                   CASE WHEN i.next_reload IS NULL THEN 'infinity'
                        ELSE greatest(i.next_reload, i.budgeted_at,
                                      now() + \(policyFloor.wholeMilliseconds) * interval '1 millisecond')
                             + \(given(8, "int8")) * interval '1 millisecond' END AS policy_at
            FROM input i
        )
        UPDATE timeline_state s
        SET rendered = \(capture.sql("i.requested", otherwise: "s.requested")),
            -- A claim reads them in its snapshot, and the row's as it locks it: an earlier claim may have rendered later ones.
            rendered_kind_generation = greatest(
                s.rendered_kind_generation, \(capture.sql("i.kind_generation", otherwise: currentKindGeneration))),
            rendered_app_generation = greatest(
                s.rendered_app_generation, \(capture.sql("i.app_generation", otherwise: currentAppGeneration))),
            swept_generation = greatest(s.swept_generation, i.kind_generation + i.app_generation),
            published_hash = \(hash), leased = false, attempts = 0, rendered_at = now(), retry_at = '-infinity',
            eligible_at = i.budgeted_at, free_at = CASE WHEN i.shared THEN i.spaced_at ELSE '-infinity' END,
            policy_at = i.policy_at, budget = i.budget, view_class = \(given(14, "int2")),
            last_decision = \(given(10, "int2")), decision_rule = \(given(16, "int2")),
            decision_reason = \(given(17, "int2")), decided_at = now(),
            decision_topic = i.cause_topic, decision_partition = i.cause_partition, decision_offset = i.cause_offset,
            fetch_milliseconds = \(given(15, "int8")),
            due_at = CASE
                WHEN s.orphaned THEN now()
                WHEN \(again) THEN CASE WHEN \(atOnce) OR \(swept) AND NOT i.shared THEN now()
                                       WHEN \(askedFree) OR \(swept) THEN i.spaced_at
                                       ELSE i.budgeted_at END
                ELSE i.policy_at END,
            lane = CASE WHEN s.orphaned THEN \(ReloadLane.bulk.rawValue)
                        WHEN \(again) THEN s.lane
                        ELSE \(ReloadLane.scheduled.rawValue) END
        FROM live i WHERE \(inPlace ? "s.ctid = i.place AND " : "")s.timeline_id = i.id \(Protection.fencing.sql("AND s.claim = i.claim AND s.leased"))
        RETURNING s.timeline_id, s.due_at <= now(), s.due_at, s.eligible_at, s.claim
        """
    }

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
        parameters.append(array: completions.map(\.isShared))
        parameters.append(array: completions.map { PostgresTimestamp($0.eligibleAt) })
        parameters.append(array: completions.map { $0.ledger.stored.map { PostgresBytes($0) } })
        parameters.append(array: completions.map(\.viewClass.rawValue))
        parameters.append(array: completions.map(\.fetchTime.wholeMilliseconds))
        parameters.append(array: completions.map(\.rule.rawValue))
        parameters.append(array: completions.map(\.reason.rawValue))
        parameters.append(array: completions.map(\.cause?.topic))
        parameters.append(array: completions.map(\.cause?.partition))
        parameters.append(array: completions.map(\.cause?.offset))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        let dueAt: PostgresTimestamp = try row.value(2)
        return Row(
            id: TimelineID(try row.value(0, as: PostgresUUID.self)), isDue: try row.value(1),
            dueAt: dueAt.isFinite ? Timestamp(dueAt) : nil,
            eligibleAt: Timestamp(try row.value(3, as: PostgresTimestamp.self)), claim: try row.value(4))
    }
}

/// Completes regenerations as ``CompleteTimelines`` does, of rows that are where their claims left them; the others are found by
/// their keys. A row that gets a new version while the statement waits for it may be missing from the answer though its claim
/// holds: it is to be completed by ``CompleteTimelines`` then.
package struct CompleteTimelinesInPlace: PostgresStatement {
    package static let sql = CompleteTimelines.text(inPlace: true)
    let complete: CompleteTimelines

    package init(_ completions: [Completion]) {
        complete = CompleteTimelines(completions)
    }

    package func bind(_ parameters: inout PostgresParameters) {
        complete.bind(&parameters)
        parameters.append(array: complete.completions.map(\.tid))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> CompleteTimelines.Row {
        try CompleteTimelines.decode(row)
    }
}
