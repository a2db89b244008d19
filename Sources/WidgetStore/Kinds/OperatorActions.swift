// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// A recorded action of an operator on an app or one of its kinds.
package struct RecordedAction: Hashable, Sendable {
    package enum Name: String, CaseIterable, PostgresConvertible, Sendable {
        case pause, resume
        /// Cancels reloads of everyone.
        case cancel
        /// Reloads everyone.
        case reload
        /// Of dead letters.
        case replay, discard
    }

    /// Most kept actions of an app, besides those of pauses in force.
    package static let kept = 100

    package let name: Name
    /// Nil: all kinds of the app.
    package let kind: String?
    package let action: OperatorAction
    /// Number of timelines whose reloads were cancelled, or of dead letters; nil for other actions.
    package let affected: Int?
}

/// CTEs that record an operator's action and delete the app's oldest ones, but those of pauses in force.
///
/// - Parameters:
///   - name: expression of the action's name.
///   - rows: CTE with the columns `app_id` and `kind_id` of what was acted on.
///   - note: parameters of the operator's name and the reason.
///   - affected: expression of ``RecordedAction/affected``.
func recording(
    _ name: String, on rows: String, note: (operatorName: String, reason: String), affected: String = "NULL::int8"
) -> String {
    """
    recorded AS (
        INSERT INTO operator_action (app_id, kind_id, action, operator, reason, affected)
        SELECT r.app_id, r.kind_id, \(name), \(note.operatorName)::text, \(note.reason)::text, \(affected)
        FROM \(rows) r
    ), pruned AS (
        DELETE FROM operator_action o USING \(rows) r
        WHERE o.app_id = r.app_id
            AND o.at < (SELECT p.at FROM operator_action p WHERE p.app_id = r.app_id
                        ORDER BY p.at DESC OFFSET \(RecordedAction.kept - 2) LIMIT 1)
            AND NOT EXISTS (SELECT FROM app a WHERE a.id = o.app_id AND o.kind_id IS NULL AND a.paused_at = o.at)
            AND NOT EXISTS (SELECT FROM kind k WHERE k.id = o.kind_id AND k.paused_at = o.at)
    )
    """
}

/// Columns of the pauses in force of an app `a` and a kind `k`, with the joins ``pauseJoins``.
let pauseColumns = """
    a.paused_at AS app_paused_at, ap.operator AS app_paused_by, ap.reason AS app_pause_reason,
    k.paused_at AS kind_paused_at, kp.operator AS kind_paused_by, kp.reason AS kind_pause_reason
    """

/// Joins of the actions that began the pauses of an app `a` and a kind `k`. An earlier version pauses without one.
let pauseJoins = """
    LEFT JOIN operator_action ap
        ON ap.app_id = a.id AND ap.kind_id IS NULL AND ap.action = 'pause' AND ap.at = a.paused_at
    LEFT JOIN operator_action kp
        ON kp.app_id = a.id AND kp.kind_id = k.id AND kp.action = 'pause' AND kp.at = k.paused_at
    """

extension PostgresRow {
    /// An operator's action in columns of these names; nil without a time.
    func operatorAction(
        at: StaticString, by operatorName: StaticString, reason: StaticString
    ) throws(PostgresError) -> OperatorAction? {
        guard let time = try optional(at, as: Timestamp.self) else { return nil }
        let (name, text) = (try optional(operatorName, as: String.self), try optional(reason, as: String.self))
        return OperatorAction(at: time, note: name.map { OperatorNote(by: $0, reason: text) })
    }

    /// The pause of the app in the columns of ``pauseColumns``.
    func appPause() throws(PostgresError) -> OperatorAction? {
        try operatorAction(at: "app_paused_at", by: "app_paused_by", reason: "app_pause_reason")
    }

    /// The pause of the kind in the columns of ``pauseColumns``.
    func kindPause() throws(PostgresError) -> OperatorAction? {
        try operatorAction(at: "kind_paused_at", by: "kind_paused_by", reason: "kind_pause_reason")
    }
}

/// Work of an app or a kind that operators' actions concern. Superseded ids in lists are counted too.
package struct OperatedWork: Hashable, Sendable {
    /// Most lists of a kind that each count reads.
    fileprivate static let limit = 10_000

    /// Timelines in lists that any worker may lease, or may once a pause ends.
    package let due: Int
    /// Timelines in leased lists.
    package let leased: Int
    /// Timelines in lists of reloads of everyone that no worker has leased.
    package let everyone: Int
    /// Reloads of everyone and recorded sweeps that are not done.
    package let sweeps: Int
    /// Share of the kind's timelines that the reload of everyone has listed, 0 to 1; nil without one.
    package let listedShare: Double?
}

private let operatedWorkSQL = """
    WITH target AS (
        SELECT k.id FROM app a JOIN kind k ON k.app_id = a.id
        WHERE a.name = $1::text AND ($2::text IS NULL OR k.name = $2::text) AND k.retired_at IS NULL
    ), counted AS (
        SELECT t.id, d.due, l.leased, e.everyone, s.sweeps, s.share FROM target t
        CROSS JOIN LATERAL (
            SELECT coalesce(sum(cardinality(o.timelines)), 0)::int8 AS due FROM (
                SELECT w.timelines FROM work w
                WHERE w.kind_id = t.id AND w.lane = ANY ('{0,1,2,3}') AND w.ready_at <= now()
                LIMIT \(OperatedWork.limit)) o
        ) d CROSS JOIN LATERAL (
            -- Leases are at most an hour.
            SELECT coalesce(sum(cardinality(o.timelines)), 0)::int8 AS leased FROM (
                SELECT w.timelines FROM work w
                WHERE w.kind_id = t.id AND w.lane = ANY ('{0,1,2,3}') AND w.lease IS NOT NULL
                    AND w.ready_at > now() AND w.ready_at <= now() + interval '1 hour'
                LIMIT \(OperatedWork.limit)) o
        ) l CROSS JOIN LATERAL (
            SELECT coalesce(sum(cardinality(o.timelines)), 0)::int8 AS everyone FROM (
                SELECT w.timelines FROM work w
                WHERE w.kind_id = t.id AND w.lane = \(ReloadLane.bulk.rawValue) AND w.generation IS NOT NULL
                    AND w.leases = 0
                LIMIT \(OperatedWork.limit)) o
        ) e CROSS JOIN LATERAL (
            SELECT count(*) AS sweeps, max(p.share) FILTER (WHERE s.generation IS NOT NULL) AS share
            FROM (
                SELECT o.* FROM sweep o WHERE o.kind_id = t.id AND o.audience = 0 LIMIT \(OperatedWork.limit)
            ) s CROSS JOIN LATERAL (
                SELECT min(o.id) AS first, max(o.id) AS last FROM timeline o WHERE o.kind_id = t.id
            ) r CROSS JOIN LATERAL (
                -- A walk begins where it was requested last, and turns around at the end.
                SELECT least(1, greatest(0, CASE WHEN s.wrapped THEN r.last - b.start + s.cursor - r.first + 1
                                            ELSE s.cursor - b.start END::float8 / (r.last - r.first + 1))) AS share
                FROM (SELECT greatest(s.until, r.first - 1) AS start) b
            ) p
        ) s
    )
    SELECT coalesce(sum(due), 0)::int8 AS due, coalesce(sum(leased), 0)::int8 AS leased,
           coalesce(sum(everyone), 0)::int8 AS everyone, coalesce(sum(sweeps), 0)::int8 AS sweeps, min(share) AS share
    FROM counted
    """

private let recordActionSQL = """
    WITH target AS (
        SELECT a.id AS app_id, k.id AS kind_id FROM app a LEFT JOIN kind k ON k.app_id = a.id AND k.name = $2::text
        WHERE a.name = $1::text
    ), \(recording("$3::text", on: "target", note: ("$4", "$5"), affected: "$6::int8"))
    SELECT FROM target
    """

extension PostgresStatement where Self == Statements {
    /// Records an action that is performed elsewhere.
    ///
    /// - Parameter kind: nil: all kinds of the app.
    package static func recordAction(
        _ name: RecordedAction.Name, app: String, kind: String? = nil, _ note: OperatorNote, affected: Int? = nil
    ) -> PostgresQuery<Void> {
        PostgresQuery(recordActionSQL, app, kind, name, note.operatorName, note.reason, affected)
    }

    /// The latest recorded actions, latest first: of a kind with those of its app, or of an app with its kinds.
    package static func listActions(app: String, kind: String?, limit: Int) -> PostgresQuery<RecordedAction> {
        PostgresQuery(
            """
            SELECT o.action, k.name AS kind, o.at, o.operator, o.reason, o.affected
            FROM app a JOIN operator_action o ON o.app_id = a.id LEFT JOIN kind k ON k.id = o.kind_id
            WHERE a.name = $1::text AND ($2::text IS NULL OR o.kind_id IS NULL OR k.name = $2::text)
            ORDER BY o.at DESC, o.id DESC
            LIMIT $3::int8
            """, app, kind, limit
        ) { row in
            try RecordedAction(
                name: row.value("action"), kind: row.optional("kind"),
                action: OperatorAction(
                    at: row.value("at"), note: OperatorNote(by: row.value("operator"), reason: row.optional("reason"))),
                affected: row.optional("affected"))
        }
    }

    /// Present work of an app, or of one of its kinds.
    package static func operatedWork(app: String, kind: String?) -> PostgresQuery<OperatedWork> {
        PostgresQuery(operatedWorkSQL, app, kind) { row in
            try OperatedWork(
                due: row.value("due"), leased: row.value("leased"), everyone: row.value("everyone"),
                sweeps: row.value("sweeps"), listedShare: row.optional("share"))
        }
    }

    /// Number of the timelines of an app, or of one of its kinds, counted up to a limit.
    package static func countTimelines(app: String, kind: String?, limit: Int) -> PostgresQuery<Int> {
        PostgresQuery(
            """
            SELECT count(*) AS count FROM (
                SELECT FROM app a JOIN kind k ON k.app_id = a.id JOIN timeline t ON t.kind_id = k.id
                WHERE a.name = $1::text AND ($2::text IS NULL OR k.name = $2::text) AND k.retired_at IS NULL
                LIMIT $3::int8) counted
            """, app, kind, limit
        ) { row in try row.value("count") }
    }
}
