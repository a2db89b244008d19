// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// CTEs that lock the lists of the rows of `input` by id and lease, and name the rows of those that are still held, in
/// id order with the columns of their kinds: `ordered`.
private let orderedInput = """
    held AS MATERIALIZED (
        SELECT w.id FROM (SELECT DISTINCT list, lease FROM input) i JOIN work w ON w.id = i.list AND w.lease = i.lease
        WHERE w.id = ANY (ARRAY(SELECT list FROM input))
        ORDER BY w.id FOR SHARE OF w
    ), ordered AS MATERIALIZED (
        SELECT i.*, \(RowFormula.kindColumns)
        FROM input i JOIN held h ON h.id = i.list JOIN kind k ON k.id = i.kind_id ORDER BY i.id
    )
    """

private let storeTimelinesInput = InputColumns<TimelineJob>([
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

/// Expression of a timeline's history with a decision that is made now.
///
/// - Parameter input: makes the expression of an input's column.
private func recordedHistory(_ input: (String) -> String) -> String {
    """
    substring(
        decision_record(
            now(), \(input("decision")), \(input("rule")), \(input("reason")), \(input("fetch_milliseconds")))
            || coalesce(t.history, '')
        FOR \(DecisionRecord.kept * DecisionRecord.storedBytes))
    """
}

/// Texts of the statements that store, for the chaos tests: they replace them to show that they notice.
package enum StoreTexts {
    /// The row is as the claim read it, but for requests.
    package static let revisionChecks = ["i.read_revision", storedElement("read_revision")].map { "t.revision = \($0)" }
    /// The requests in the next appointment, with what is rendered.
    package static let requests = ["i.captured", storedElement("captured")].map {
        "t.requested, greatest(t.rendered, \($0)), t.free_requested"
    }
}

/// CTEs `stored`, with the lists of the rows' next appointments, and `relevance_changed`.
///
/// - Parameters:
///   - input: makes the expression of an input's column.
///   - check: condition that the row is as the claim read it.
private func storing(_ input: (String) -> String, if check: String) -> String {
    let formula = RowFormula(
        [
            "rendered": "greatest(t.rendered, \(input("captured")))",
            "generation": "greatest(t.generation, \(input("captured_generation")))",
            "eligible_at": input("eligible_at"), "free_at": input("free_at"), "policy_at": input("policy_at"),
            "retry_at": "'-infinity'::timestamptz", "asleep": "false",
        ], kind: "i.k_")
    let isUnchanged = "\(input("content")) IS NULL"
    return """
        stored AS (
            UPDATE timeline t
            SET \(formula.assignments), \(formula.appointment),
                revision = \(input("token")), content = coalesce(\(input("content")), t.content),
                hash = CASE WHEN \(isUnchanged) THEN t.hash ELSE \(input("hash")) END,
                content_revision = CASE WHEN \(isUnchanged) THEN t.content_revision ELSE \(input("token")) END,
                stored_at = CASE WHEN \(isUnchanged) THEN t.stored_at ELSE now() END,
                rendered_at = now(), attempts = 0, budget = \(input("budget")), last_decision = \(input("decision")),
                decision_rule = \(input("rule")), decision_reason = \(input("reason")), decided_at = now(),
                decision_topic = \(input("cause_topic")), decision_partition = \(input("cause_partition")),
                decision_offset = \(input("cause_offset")), fetch_milliseconds = \(input("fetch_milliseconds")),
                history = \(recordedHistory(input))
            FROM ordered i
            WHERE t.id = i.id AND \(check)
            RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew, t.eligible_at, t.content_revision,
                t.revision, t.rendered, t.asleep, t.user_id, \(input("reason")) AS reason
        ), \(appendedLists(of: "stored")), relevance_changed AS (
            INSERT INTO relevance_change (timeline_id)
            SELECT d.id FROM stored d JOIN relevance r ON r.timeline_id = d.id WHERE d.content_revision = d.revision
        )
        """
}

private let storeTimelinesSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(storeTimelinesInput.rows("i"))
    ), \(orderedInput), \(storing({ "i.\($0)" }, if: StoreTexts.revisionChecks[0])), unshown AS (
        DELETE FROM snapshot s USING stored d WHERE s.timeline_id = d.id
    ), \(notedDeliveryChanges(of: "stored"))
    SELECT \(WrittenTimeline.columns) FROM stored
    """

/// Columns that the rows `i` have themselves: the key, and those of variable length.
private let copiedColumns = ["id", "content", "budget"]

/// A column of the input at the place of the row `i`.
private func storedElement(_ column: String) -> String {
    copiedColumns.contains(column) ? "i.\(column)" : storeTimelinesInput.element(column, at: "i.ord")
}

/// ``storeTimelinesSQL`` for content that replaces other content, of apps without devices, in two thirds of its time:
/// most of the input's columns are not copied from node to node.
private let replaceContentSQL = """
    WITH held AS MATERIALIZED (
        SELECT w.id, w.lease FROM work w
        WHERE w.id = ANY (\(storeTimelinesInput.array(of: "list"))) AND w.lease = ANY (\(storeTimelinesInput.array(of: "lease")))
        ORDER BY w.id FOR SHARE OF w
    ), ordered AS MATERIALIZED (
        SELECT i.*, \(RowFormula.kindColumns)
        FROM \(storeTimelinesInput.rows("i", only: copiedColumns))
        JOIN held h ON h.id = \(storedElement("list")) AND h.lease = \(storedElement("lease"))
        JOIN kind k ON k.id = \(storedElement("kind_id"))
        WHERE NOT EXISTS (SELECT FROM app a WHERE a.id = k.app_id AND a.delivers)
            -- One may be left: it can be stored while the first content waits for its lock.
            AND NOT EXISTS (SELECT FROM snapshot s WHERE s.timeline_id = i.id)
        ORDER BY i.id
    ), \(storing(storedElement, if: "\(StoreTexts.revisionChecks[1]) AND t.content_revision > 0"))
    SELECT \(WrittenTimeline.columns) FROM stored
    """

private let readTimelinesAgainSQL = """
    SELECT \(ClaimedTimeline.columns())
    FROM unnest($1::int8[]) i (id) JOIN timeline t ON t.id = i.id JOIN kind k ON k.id = t.kind_id
    """

extension PostgresStatement where Self == Statements {
    /// Stores fetched timelines and appoints each anew (rule 3 of work lists in DESIGN.md), in one statement in id
    /// order.
    ///
    /// It first locks its lists `FOR SHARE` by id and lease token: rows of a list that is no longer held are dropped. A
    /// row whose revision has moved since the claim is left alone too; the answer names the rows that were stored.
    package static func storeTimelines(_ jobs: [TimelineJob]) -> PostgresQuery<WrittenTimeline> {
        PostgresQuery(storeTimelinesSQL, binding: storeTimelinesInput.parameters(jobs)) { row in
            try WrittenTimeline(row)
        }
    }

    /// Stores timelines like ``storeTimelines(_:)``, those that have content, no snapshot, and an app without devices.
    /// It leaves the others alone.
    package static func replaceContent(_ jobs: [TimelineJob]) -> PostgresQuery<WrittenTimeline> {
        PostgresQuery(replaceContentSQL, binding: storeTimelinesInput.parameters(jobs)) { row in
            try WrittenTimeline(row)
        }
    }

    /// Reads rows again, after a store or a comparison did not find them as they were read.
    package static func readTimelinesAgain(_ rows: [Int64]) -> PostgresQuery<ClaimedTimeline> {
        PostgresQuery(readTimelinesAgainSQL, PostgresArray(rows)) { row in try ClaimedTimeline(row) }
    }
}

extension TimelineJob {
    /// Whether ``PostgresStatement/replaceContent(_:)`` is likely to store it.
    package var replacesContent: Bool { timeline.contentRevision > 0 && !claim.app.delivers }

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

private let rescheduleTimelinesInput = InputColumns<TimelineJob>([
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

private let rescheduleTimelinesFormula = RowFormula(
    [
        "eligible_at": "coalesce(i.eligible_at, t.eligible_at)",
        // The policy's reload takes budget too: unchanged, it would be due again at once.
        "policy_at": "greatest(t.policy_at, i.eligible_at)", "retry_at": "coalesce(i.retry_at, t.retry_at)",
        "asleep": asleep,
        "looked_generation": """
        CASE WHEN i.swept THEN greatest(t.looked_generation, i.k_generation) ELSE t.looked_generation END
        """,
    ], kind: "i.k_")

/// The look has no decision to record: also for a timeline that does not go to sleep after all, and is looked at again.
private let isSilent = "(i.decision = 0 OR i.sleeps AND NOT \(asleep))"

/// Timelines of retired kinds get a look only once they are orphaned.
private let nextLook =
    "CASE WHEN i.k_retired_at IS NULL OR t.orphaned THEN \(rescheduleTimelinesFormula.newLook) ELSE 'infinity' END"

/// The row's appointment is the list's: it ends, and is made anew. Another one is only improved.
private let mine = "(NOT i.swept AND t.listed_at = i.list_due)"

private let rescheduleTimelinesSQL = """
    WITH input AS MATERIALIZED (
        SELECT * FROM \(rescheduleTimelinesInput.rows("i"))
    ), \(orderedInput), rescheduled AS (
        UPDATE timeline t
        SET \(rescheduleTimelinesFormula.assignments), \(rescheduleTimelinesFormula.improvement(to: nextLook, lane: rescheduleTimelinesFormula.nextLane, orIf: mine)),
            attempts = CASE WHEN i.retry_at IS NULL THEN t.attempts ELSE least(t.attempts + 1, 32767) END,
            last_decision = CASE WHEN \(isSilent) THEN t.last_decision ELSE i.decision END,
            decision_rule = CASE WHEN \(isSilent) THEN t.decision_rule ELSE i.rule END,
            decision_reason = CASE WHEN \(isSilent) THEN t.decision_reason ELSE i.reason END,
            decided_at = CASE WHEN \(isSilent) THEN t.decided_at ELSE now() END,
            decision_topic = CASE WHEN \(isSilent) THEN t.decision_topic ELSE i.cause_topic END,
            decision_partition = CASE WHEN \(isSilent) THEN t.decision_partition ELSE i.cause_partition END,
            decision_offset = CASE WHEN \(isSilent) THEN t.decision_offset ELSE i.cause_offset END,
            fetch_milliseconds = coalesce(i.fetch_milliseconds, t.fetch_milliseconds),
            history = CASE WHEN \(isSilent) THEN t.history ELSE \(recordedHistory { "i.\($0)" }) END
        FROM ordered i
        WHERE t.id = i.id AND CASE WHEN i.retry_at IS NOT NULL THEN t.revision = i.read_revision
                                   ELSE i.swept OR t.listed_at = i.list_due END
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew, t.asleep,
            t.eligible_at, t.content_revision, t.rendered
    ), \(appendedLists(of: "rescheduled"))
    SELECT \(WrittenTimeline.columns) FROM rescheduled
    """

extension PostgresStatement where Self == Statements {
    /// Ends looks that stored nothing: their appointments are made anew (rule 3 of work lists in DESIGN.md), those
    /// through a sweep's list only improved (rule 2).
    ///
    /// The row's own appointment must still be the list's, and a failure, like a store, needs the revision that was
    /// read. A timeline goes to sleep only if `requested`, the last view and the last placement are those that were
    /// decided on.
    package static func rescheduleTimelines(_ jobs: [TimelineJob]) -> PostgresQuery<WrittenTimeline> {
        PostgresQuery(rescheduleTimelinesSQL, binding: rescheduleTimelinesInput.parameters(jobs)) { row in
            try WrittenTimeline(row)
        }
    }
}

/// Reasons up to this one are those of changes that a person waits for.
private let lastUrgentReason = ReloadReason.foreground.rawValue

/// A CTE `noted` that notes changes of content for the devices of apps that deliver. Changes of a shared timeline that
/// waits or is being walked already move the end of its walk.
///
/// - Parameter rows: a CTE with `id`, `kind_id`, `user_id`, `reason`, `revision` and `content_revision`.
func notedDeliveryChanges(of rows: String) -> String {
    """
    noted AS (
        INSERT INTO delivery_change AS d (app_id, shared, urgent, timelines)
        SELECT app_id, shared, urgent, array_agg(id ORDER BY id)
        FROM (
            SELECT (SELECT k.app_id FROM kind k WHERE k.id = kind_id) AS app_id,
                   CASE WHEN user_id IS NULL THEN id END AS shared, reason <= \(lastUrgentReason) AS urgent, id
            FROM \(rows)
            WHERE content_revision = revision AND kind_id = ANY (ARRAY(
                SELECT k.id FROM app a JOIN kind k ON k.app_id = a.id WHERE a.delivers))
        ) c
        GROUP BY app_id, shared, urgent ORDER BY shared
        ON CONFLICT (shared) WHERE shared IS NOT NULL DO UPDATE
        SET changed_at = excluded.changed_at, urgent = d.urgent OR excluded.urgent, is_second_round = false,
            end_app = d.cursor_app, end_widget = d.cursor_widget
    )
    """
}

/// Revision of this process's last message for a timeline; 0 for none or a tombstone.
package typealias PublishedRevision = (row: Int64, revision: Int64)

/// A row by its primary key, with the timeline (nil if the row is gone) and the content to publish.
package typealias PublishedDifference = (row: Int64, timeline: ClaimedTimeline?, content: [UInt8]?)

private let comparePublishedInput = InputColumns<PublishedRevision>([
    .init("id") { $0.row }, .init("published") { $0.revision },
])

private let comparePublishedSQL = """
    SELECT i.id AS compared, \(ClaimedTimeline.columns()), t.content
    FROM \(comparePublishedInput.rows("i"))
    LEFT JOIN timeline t ON t.id = i.id LEFT JOIN kind k ON k.id = t.kind_id
    WHERE t.id IS NULL OR t.orphaned OR t.content_revision <> i.published AND t.content_revision > 0
    """

extension PostgresStatement where Self == Statements {
    /// Rows whose stored content differs from this process's last message, in a snapshot after the acknowledgement, and
    /// rows that are gone or orphaned: content between a tombstone and the deletion must not be the last message.
    package static func comparePublished(_ published: [PublishedRevision]) -> PostgresQuery<PublishedDifference> {
        PostgresQuery(comparePublishedSQL, binding: comparePublishedInput.parameters(published)) { row in
            let isGone = try row.optional("row", as: Int64.self) == nil
            return try PublishedDifference(
                row: row.value("compared"), timeline: isGone ? nil : ClaimedTimeline(row),
                content: row.optional("content", as: PostgresTextBytes.self)?.bytes)
        }
    }
}

/// A message of a timeline: its content's revision, or the tombstone's of an orphaned one.
package typealias TimelineRevision = (row: Int64, id: TimelineID, revision: Int64)

private let collectTimelinesInput = InputColumns<TimelineRevision>([
    .init("id") { $0.row }, .init("revision") { $0.revision },
])

private let buryOrphansSQL = """
    WITH mine AS MATERIALIZED (
        SELECT t.id FROM timeline t WHERE t.id = ANY ($1::int8[]) AND t.orphaned
        ORDER BY t.id FOR NO KEY UPDATE SKIP LOCKED
    )
    UPDATE timeline t SET revision = nextval('token') FROM mine m WHERE t.id = m.id
    RETURNING t.id, t.identity, t.revision
    """

private let lockOrphansSQL = """
    SELECT t.id FROM \(collectTimelinesInput.rows("i")) JOIN timeline t ON t.id = i.id
    WHERE t.orphaned AND t.revision = i.revision
    ORDER BY t.id FOR UPDATE OF t SKIP LOCKED
    """

private let collectTimelinesFormula = RowFormula(
    ["orphaned": "false", "requested": "t.requested + 1", "free_requested": "t.requested + 1"], kind: "m.k_")

private let collectTimelinesSQL = """
    WITH mine AS MATERIALIZED (
        SELECT t.id, EXISTS (SELECT FROM widget w WHERE w.timeline_id = t.id) AS shown, \(RowFormula.kindColumns)
        FROM timeline t JOIN kind k ON k.id = t.kind_id WHERE t.id = ANY ($1::int8[]) ORDER BY t.id
    ), revived AS (
        UPDATE timeline t SET \(collectTimelinesFormula.assignments), \(collectTimelinesFormula.appointment), hash = NULL
        FROM mine m WHERE t.id = m.id AND m.shown
        RETURNING t.id, t.kind_id, t.listed_at, t.listed_lane, t.listed_anew
    ), \(appendedLists(of: "revived")), unshown AS (
        DELETE FROM snapshot s USING mine m WHERE s.timeline_id = m.id AND NOT m.shown
    ), irrelevant AS (
        DELETE FROM relevance r USING mine m WHERE r.timeline_id = m.id AND NOT m.shown
    ), gone AS (
        DELETE FROM timeline t USING mine m WHERE t.id = m.id AND NOT m.shown
    )
    SELECT id FROM revived
    """

extension PostgresStatement where Self == Statements {
    /// Gives orphaned timelines the revisions of their tombstones. Whatever was stored before has a lower one, and a
    /// store with a lower one is discarded from here on, so that consumers ignore content that lands after the
    /// tombstone. Rows that somebody else has locked are left out.
    package static func buryOrphans(_ rows: [Int64]) -> PostgresQuery<TimelineRevision> {
        PostgresQuery(buryOrphansSQL, PostgresArray(rows)) { row in
            try (row: row.value("id"), id: row.value("identity"), revision: row.value("revision"))
        }
    }

    /// Locks orphaned timelines for collection, after their tombstones were acknowledged. Rows that somebody else has
    /// locked are left out of the answer, and those that were stored since they were buried, for content may have been
    /// published after the tombstone: their list goes back.
    package static func lockOrphans(_ orphans: [TimelineRevision]) -> PostgresQuery<Int64> {
        PostgresQuery(lockOrphansSQL, binding: collectTimelinesInput.parameters(orphans)) { row in try row.value("id") }
    }

    /// Deletes locked orphans. A new statement after ``PostgresStatement/lockOrphans``, so that it sees every widget
    /// placed before the lock: a timeline that a widget shows again stays, is requested anew, and is appointed by rule
    /// 1; its next fetch is published. Returns the timelines that stay.
    package static func collectTimelines(_ rows: [Int64]) -> PostgresQuery<Int64> {
        PostgresQuery(collectTimelinesSQL, PostgresArray(rows)) { row in try row.value("id") }
    }
}
