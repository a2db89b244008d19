package import PostgresClient
package import WidgetModel

extension TimelineJob {
    /// The decision to record, and its rule. A timeline without work, or whose result was discarded, has none.
    package var reschedule: (decision: Decision, rule: ReloadRule) {
        if let failure { return (.failed, failure.rule) }
        return switch outcome {
        case .wait(_, let rule): (.deferred, rule)
        case .sleep: (.slept, .dormant)
        case .nothing, .fetch, .collect: (.none, .none)
        }
    }

    /// Time until which spacing or budget delay it.
    package var waitsUntil: Timestamp? {
        if case .wait(let until, _) = outcome { until } else { nil }
    }
}

private let input = InputColumns<TimelineJob>([
    .init("id") { $0.timeline.row }, .init("kind_id") { $0.timeline.kindID },
    .init("list") { $0.claim.list.id }, .init("lease") { $0.claim.list.lease },
    .init("list_due") { $0.claim.list.dueAt }, .init("swept") { $0.claim.list.generation != nil },
    .init("read_revision") { $0.timeline.revision }, .init("captured") { $0.timeline.state.requested },
    .init("viewed_at") { $0.timeline.viewedAt.map { $0 } },
    .init("placed_at") { $0.timeline.views.lastPlaced.map { $0 } },
    .init("sleeps") { $0.outcome == .sleep }, .init("eligible_at") { $0.waitsUntil.map { $0 } },
    .init("retry_at") { $0.retryAt.map { $0 } },
    .init("decision") { $0.reschedule.decision }, .init("rule") { $0.reschedule.rule },
    .init("reason") { $0.timeline.reason ?? .policy },
    .init("cause_topic") { $0.timeline.cause?.topic }, .init("cause_partition") { $0.timeline.cause?.partition },
    .init("cause_offset") { $0.timeline.cause?.offset },
    .init("fetch_milliseconds") { $0.fetchTime.map { Int32(clamping: $0.wholeMilliseconds) } },
])

private let asleep = """
    (t.asleep OR i.sleeps AND t.requested = i.captured AND t.viewed_at IS NOT DISTINCT FROM i.viewed_at
        AND t.placed_at = i.placed_at)
    """

private let formula = RowFormula(
    [
        "eligible_at": "coalesce(i.eligible_at, t.eligible_at)",
        // The policy's reload takes budget too: unchanged, it would be due again at once.
        "policy_at": "greatest(t.policy_at, i.eligible_at)", "retry_at": "coalesce(i.retry_at, t.retry_at)",
        "asleep": asleep,
    ], kind: "i.k_")

/// The look has no decision to record: also for a timeline that does not go to sleep after all, and is looked at again.
private let isSilent = "(i.decision = 0 OR i.sleeps AND NOT \(asleep))"

/// Timelines of retired kinds get a look only once they are orphaned.
private let nextLook =
    "CASE WHEN i.k_retired_at IS NULL OR t.orphaned THEN \(formula.nextLook) ELSE 'infinity' END"

/// The row's appointment is the list's: it ends, and is made anew. Another one is only improved.
private let mine = "(NOT i.swept AND t.listed_at = i.list_due)"

private let rescheduleTimelinesSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(input.rows("i"))
    ), \(HeldListsSQL.orderedInput), rescheduled AS (
        UPDATE timeline t
        SET \(formula.assignments), \(formula.improvement(to: nextLook, lane: formula.nextLane, orIf: mine)),
            attempts = CASE WHEN i.retry_at IS NULL THEN t.attempts ELSE least(t.attempts + 1, 32767) END,
            last_decision = CASE WHEN \(isSilent) THEN t.last_decision ELSE i.decision END,
            decision_rule = CASE WHEN \(isSilent) THEN t.decision_rule ELSE i.rule END,
            decision_reason = CASE WHEN \(isSilent) THEN t.decision_reason ELSE i.reason END,
            decided_at = CASE WHEN \(isSilent) THEN t.decided_at ELSE now() END,
            decision_topic = CASE WHEN \(isSilent) THEN t.decision_topic ELSE i.cause_topic END,
            decision_partition = CASE WHEN \(isSilent) THEN t.decision_partition ELSE i.cause_partition END,
            decision_offset = CASE WHEN \(isSilent) THEN t.decision_offset ELSE i.cause_offset END,
            fetch_milliseconds = coalesce(i.fetch_milliseconds, t.fetch_milliseconds)
        FROM ordered i
        WHERE t.id = i.id AND CASE WHEN i.retry_at IS NOT NULL THEN t.revision = i.read_revision
                                   ELSE i.swept OR t.listed_at = i.list_due END
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew, t.asleep,
            t.eligible_at, t.content_revision, t.rendered
    ), \(Appending.lists(of: "rescheduled"))
    SELECT \(WrittenTimeline.columns) FROM rescheduled
    """

extension PostgresStatement where Self == Statements {
    /// Ends looks that stored nothing: their appointments are made anew (rule 3 of work lists in DESIGN.md), those through
    /// a sweep's list only improved (rule 2).
    ///
    /// The row's own appointment must still be the list's, and a failure, like a store, needs the revision that was
    /// read. A timeline goes to sleep only if `requested`, the last view and the last placement are those that were
    /// decided on.
    package static func rescheduleTimelines(_ jobs: [TimelineJob]) -> PostgresQuery<WrittenTimeline> {
        PostgresQuery(rescheduleTimelinesSQL, binding: input.parameters(jobs)) { row in try WrittenTimeline(row) }
    }
}
