package import PostgresClient
import WidgetModel

private let input = InputColumns<TimelineJob>([
    .init("id") { $0.timeline.row }, .init("kind_id") { $0.timeline.kindID },
    .init("list") { $0.claim.list.id }, .init("lease") { $0.claim.list.lease },
    .init("read_revision") { $0.revision }, .init("token") { $0.claim.token },
    .init("captured") { $0.timeline.state.requested }, .init("captured_generation") { $0.timeline.kind.current },
    .init("content") { $0.content.map { PostgresTextBytes($0) } }, .init("hash") { $0.hash.map { $0 } },
    .init("eligible_at") { $0.next?.eligibleAt }, .init("free_at") { $0.next?.freeAt },
    .init("policy_at") { $0.next?.policyAt },
    .init("budget") { $0.ledger.stored },
    .init("decision") { $0.content == nil ? Decision.unchanged : .reloaded },
    .init("rule") { $0.content == nil ? .gate : $0.rule },
    .init("reason") { $0.timeline.reason ?? .policy },
    .init("cause_topic") { $0.timeline.cause?.topic }, .init("cause_partition") { $0.timeline.cause?.partition },
    .init("cause_offset") { $0.timeline.cause?.offset },
    .init("fetch_milliseconds") { $0.fetchTime.map { Int32(clamping: $0.wholeMilliseconds) } },
])

private let formula = RowFormula(
    [
        "rendered": "greatest(t.rendered, i.captured)",
        "generation": "greatest(t.generation, i.captured_generation)",
        "eligible_at": "i.eligible_at", "free_at": "i.free_at", "policy_at": "i.policy_at",
        "retry_at": "'-infinity'::timestamptz", "asleep": "false",
    ], kind: "i.k_")

/// The row is as the claim read it, but for requests. The chaos tests replace this text to show that they notice.
package let storedRevisionCheck = "t.revision = i.read_revision"

private let storeTimelinesSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(input.rows("i"))
    ), \(HeldListsSQL.orderedInput), stored AS (
        UPDATE timeline t
        SET \(formula.assignments), \(formula.appointment),
            revision = i.token, content = coalesce(i.content, t.content),
            hash = CASE WHEN i.content IS NULL THEN t.hash ELSE i.hash END,
            content_revision = CASE WHEN i.content IS NULL THEN t.content_revision ELSE i.token END,
            stored_at = CASE WHEN i.content IS NULL THEN t.stored_at ELSE now() END,
            rendered_at = now(), attempts = 0, budget = i.budget, last_decision = i.decision,
            decision_rule = i.rule, decision_reason = i.reason, decided_at = now(),
            decision_topic = i.cause_topic, decision_partition = i.cause_partition,
            decision_offset = i.cause_offset, fetch_milliseconds = i.fetch_milliseconds
        FROM ordered i
        WHERE t.id = i.id AND \(storedRevisionCheck)
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew, t.eligible_at, t.content_revision,
            t.revision, t.rendered, t.asleep, t.user_id, i.reason
    ), \(Appending.lists(of: "stored")), unshown AS (
        DELETE FROM snapshot s USING stored d WHERE s.timeline_id = d.id
    ), relevance_changed AS (
        INSERT INTO relevance_change (timeline_id)
        SELECT d.id FROM stored d JOIN relevance r ON r.timeline_id = d.id WHERE d.content_revision = d.revision
    ), \(DeliveryChanges.noted(of: "stored"))
    SELECT \(WrittenTimeline.columns) FROM stored
    """

private let readTimelinesAgainSQL = """
    SELECT \(ClaimedTimeline.columns())
    FROM unnest((SELECT $1::int8[])) i (id) JOIN timeline t ON t.id = i.id JOIN kind k ON k.id = t.kind_id
    """

extension PostgresStatement where Self == Statements {
    /// Stores fetched timelines and appoints each anew, in one statement in id order.
    ///
    /// It first locks its lists `FOR SHARE` by id and lease token: rows of a list that is no longer held are dropped. A
    /// row whose revision has moved since the claim is left alone too; the answer names the rows that were stored.
    package static func storeTimelines(_ jobs: [TimelineJob]) -> PostgresQuery<WrittenTimeline> {
        PostgresQuery(storeTimelinesSQL, binding: input.parameters(jobs)) { row in try WrittenTimeline(row) }
    }

    /// Reads rows again, after a store or a comparison did not find them as they were read.
    package static func readTimelinesAgain(_ rows: [Int64]) -> PostgresQuery<ClaimedTimeline> {
        PostgresQuery(readTimelinesAgainSQL, PostgresArray(rows)) { row in try ClaimedTimeline(row) }
    }
}
