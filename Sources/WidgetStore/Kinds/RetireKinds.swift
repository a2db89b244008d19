// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// Result of retiring a kind.
package struct Retirement: Hashable, Sendable {
    /// Whether this call retired it.
    package let isChanged: Bool
    /// Remaining timelines, counted up to ``WidgetStore/timelineCountLimit``.
    package let timelines: Int
    /// Whether it or its app is paused, so that the timelines stay until the resumption.
    package let isPaused: Bool
}

extension WidgetStore {
    /// Limit of counts of a kind's timelines for display.
    package static let timelineCountLimit = 1_000_000

    /// Retires a kind: its timelines cannot be read any more, sweepers remove their widgets, and workers publish their
    /// tombstones. Events that name the kind become dead letters.
    ///
    /// - Returns: `nil` without such a kind.
    /// - Throws: `PostgresError`.
    package func retire(app: String, kind: String) async throws -> Retirement? {
        let retirement: Retirement? = try await pool.withTransaction { connection in
            // A manifest under way may list the kind.
            _ = try await connection.query(.lockManifests())
            guard let row = try await connection.query(.retireKind(app: app, kind: kind)).first else { return nil }
            let count = Statements.countTimelines(kindID: row.kindID, limit: Self.timelineCountLimit)
            let timelines = try await connection.query(count).first ?? 0
            return Retirement(isChanged: row.isChanged, timelines: timelines, isPaused: row.isPaused)
        }
        if retirement != nil { await notifyWorkers() }
        return retirement
    }
}

private let cancelKindSQL = """
    WITH target AS (
        SELECT k.id, k.app_id, k.id AS kind_id FROM kind k JOIN app a ON a.id = k.app_id
        WHERE a.name = $1::text AND k.name = $2::text AND k.retired_at IS NULL
        FOR NO KEY UPDATE OF k
    ), changed AS (
        UPDATE kind k SET cancelled_generation = k.generation FROM target t WHERE k.id = t.id
    ), swept AS (
        DELETE FROM sweep s USING target t WHERE s.kind_id = t.id AND s.audience = 0 RETURNING 1
    ), dropped AS (
        DELETE FROM work w USING target t
        WHERE w.kind_id = t.id AND w.lane = \(ReloadLane.bulk.rawValue) AND w.generation IS NOT NULL
            AND w.leases = 0
        RETURNING cardinality(w.timelines) AS timelines
    ), total AS (
        SELECT coalesce(sum(timelines), 0)::int8 AS timelines FROM dropped
    ), \(recording("'cancel'", on: "target", note: ("$3", "$4"), affected: "(SELECT timelines FROM total)"))
    SELECT (SELECT count(*) FROM swept) AS sweeps, (SELECT timelines FROM total) AS timelines FROM target
    """

/// Cancelled bulk work of a kind: reloads of everyone under way and recorded sweeps, and timelines in the lists of
/// reloads of everyone.
package typealias CancelledWork = (sweeps: Int, timelines: Int)

extension WidgetStore {
    /// Cancels the pending reloads of everyone and recorded sweeps of a kind. Later requests, and requests to a person,
    /// a device or a widget, are not affected.
    ///
    /// - Returns: `nil` without such a kind.
    /// - Throws: `PostgresError`.
    package func cancelWork(app: String, kind: String, _ note: OperatorNote) async throws -> CancelledWork? {
        try await retryingConflicts {
            try await pool.query(.cancelKind(app: app, kind: kind, note)).first
        }
    }
}

extension PostgresStatement where Self == Statements {
    /// Retires a kind, ends a move of its widgets and deletes its sweeps; no row without such a kind.
    package static func retireKind(app: String, kind: String) -> PostgresQuery<
        (kindID: Int32, isChanged: Bool, isPaused: Bool)
    > {
        PostgresQuery(
            """
            WITH locked AS (
                SELECT k.id, k.retired_at, k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL AS paused
                FROM kind k JOIN app a ON a.id = k.app_id
                WHERE a.name = $1::text AND k.name = $2::text
                FOR NO KEY UPDATE OF k
            ), changed AS (
                UPDATE kind k SET retired_at = now() FROM locked l WHERE k.id = l.id AND l.retired_at IS NULL
            ), begun AS (
                INSERT INTO kind_change AS c (kind_id, retires) SELECT id, true FROM locked WHERE retired_at IS NULL
                ON CONFLICT (kind_id) DO UPDATE
                    SET retires = true, started_at = now(), pass = 1, pass_begins_at = now(), cursor = 0, changed = 0,
                        changed_in_all = 0
            ), swept AS (
                DELETE FROM sweep s USING locked l WHERE s.kind_id = l.id
            )
            SELECT id, retired_at IS NULL AS changed, paused FROM locked
            """, app, kind
        ) { row in
            try (kindID: row.value("id"), isChanged: row.value("changed"), isPaused: row.value("paused"))
        }
    }

    /// Number of timelines of a kind, counted up to a limit.
    package static func countTimelines(kindID: Int32, limit: Int) -> PostgresQuery<Int> {
        PostgresQuery(
            """
            SELECT count(*) AS count FROM (SELECT FROM timeline t WHERE t.kind_id = $1::int4 LIMIT $2::int8) counted
            """, kindID, limit
        ) { row in try row.value("count") }
    }

    /// Number of a kind's widgets with values that its definition does not allow.
    package static func countMisfits(kindID: Int32) -> PostgresQuery<Int> {
        PostgresQuery("SELECT count(*) AS count FROM widget w WHERE w.kind_id = $1::int4 AND w.misfits > 0", kindID) {
            row in try row.value("count")
        }
    }

    /// Cancels the reloads of everyone of a kind up to its present generation: deletes its sweeps and the lists with a
    /// generation; lists that a walk still appends name no timeline. Leased lists stay, since their timelines may be
    /// stored and not published. Records the action.
    ///
    /// No row without such a kind, or if it is retired.
    package static func cancelKind(app: String, kind: String, _ note: OperatorNote) -> PostgresQuery<CancelledWork> {
        PostgresQuery(cancelKindSQL, app, kind, note.operatorName, note.reason) { row in
            try (sweeps: row.value("sweeps"), timelines: row.value("timelines"))
        }
    }
}

/// Result of pausing or resuming.
package struct PauseOutcome: Hashable, Sendable {
    /// Whether the state changed.
    package let isChanged: Bool
    /// The pause in force; nil without one.
    package let pause: OperatorAction?
    /// Whether the kind's app is paused, so that its reloads wait anyway.
    package let isAppPaused: Bool
}

private func decodeOutcome(_ row: borrowing PostgresRow) throws(PostgresError) -> PauseOutcome {
    try PauseOutcome(
        isChanged: row.value("changed"), pause: row.operatorAction(at: "paused_at", by: "paused_by", reason: "reason"),
        isAppPaused: row.value("app_paused"))
}

extension WidgetStore {
    /// Pauses the reloads of an app, or of one of its kinds, and records who did it. Events are still applied, but no
    /// timeline is claimed, swept or collected until the resumption. A pause in force keeps its operator and reason.
    ///
    /// - Returns: `nil` without such an app or kind.
    /// - Throws: `PostgresError`.
    package func pause(app: String, kind: String? = nil, _ note: OperatorNote) async throws -> PauseOutcome? {
        try await set(isPaused: true, app, kind, note)
    }

    /// Resumes an app, or one of its kinds, records who did it, and wakes the workers.
    ///
    /// - Returns: `nil` without such an app or kind.
    /// - Throws: `PostgresError`.
    package func resume(app: String, kind: String? = nil, _ note: OperatorNote) async throws -> PauseOutcome? {
        let outcome = try await set(isPaused: false, app, kind, note)
        if outcome != nil { await notifyWorkers() }
        return outcome
    }

    private func set(
        isPaused: Bool, _ app: String, _ kind: String?, _ note: OperatorNote
    ) async throws -> PauseOutcome? {
        guard let kind else { return try await pool.query(.pauseApp(app: app, isPaused: isPaused, note)).first }
        return try await pool.query(.pauseKind(app: app, kind: kind, isPaused: isPaused, note)).first
    }

    /// Wakes the workers after a commit. Only a hint, since they also poll.
    func notifyWorkers() async {
        _ = try? await pool.query(.notifyDue())
    }
}

/// Columns of ``PauseOutcome`` of a locked row `l` with the action `p` of its pause.
private func outcomeColumns(isPaused: String, note: (operatorName: String, reason: String)) -> String {
    """
    EXISTS (SELECT FROM changed) AS changed,
    CASE WHEN \(isPaused)::bool THEN coalesce(l.paused_at, now()) END AS paused_at,
    CASE WHEN l.paused_at IS NULL THEN \(note.operatorName)::text ELSE p.operator END AS paused_by,
    CASE WHEN l.paused_at IS NULL THEN \(note.reason)::text ELSE p.reason END AS reason
    """
}

private func pauseAction(_ isPaused: String) -> String { "CASE WHEN \(isPaused)::bool THEN 'pause' ELSE 'resume' END" }

private let pauseAppSQL = """
    WITH locked AS (
        SELECT a.id, a.paused_at FROM app a WHERE a.name = $1::text FOR NO KEY UPDATE
    ), changed AS (
        UPDATE app a SET paused_at = CASE WHEN $2::bool THEN now() END
        FROM locked l WHERE a.id = l.id AND (l.paused_at IS NOT NULL) <> $2::bool
        RETURNING a.id AS app_id, NULL::int4 AS kind_id
    ), \(recording(pauseAction("$2"), on: "changed", note: ("$3", "$4")))
    SELECT \(outcomeColumns(isPaused: "$2", note: ("$3", "$4"))), $2::bool AS app_paused
    FROM locked l LEFT JOIN operator_action p
        ON p.app_id = l.id AND p.kind_id IS NULL AND p.action = 'pause' AND p.at = l.paused_at
    """

private let pauseKindSQL = """
    WITH locked AS (
        SELECT k.id, k.app_id, k.paused_at, a.paused_at IS NOT NULL AS app_paused
        FROM kind k JOIN app a ON a.id = k.app_id
        WHERE a.name = $1::text AND k.name = $2::text
        FOR NO KEY UPDATE OF k
    ), changed AS (
        UPDATE kind k SET paused_at = CASE WHEN $3::bool THEN now() END
        FROM locked l WHERE k.id = l.id AND (l.paused_at IS NOT NULL) <> $3::bool
        RETURNING k.app_id, k.id AS kind_id
    ), \(recording(pauseAction("$3"), on: "changed", note: ("$4", "$5")))
    SELECT \(outcomeColumns(isPaused: "$3", note: ("$4", "$5"))), l.app_paused
    FROM locked l LEFT JOIN operator_action p
        ON p.app_id = l.app_id AND p.kind_id = l.id AND p.action = 'pause' AND p.at = l.paused_at
    """

extension PostgresStatement where Self == Statements {
    /// Pauses or resumes an app, and records a change; no row without the app.
    package static func pauseApp(app: String, isPaused: Bool, _ note: OperatorNote) -> PostgresQuery<PauseOutcome> {
        PostgresQuery(pauseAppSQL, app, isPaused, note.operatorName, note.reason) { row in try decodeOutcome(row) }
    }

    /// Pauses or resumes a kind, retired ones included, and records a change; no row without the kind.
    package static func pauseKind(
        app: String, kind: String, isPaused: Bool, _ note: OperatorNote
    ) -> PostgresQuery<PauseOutcome> {
        PostgresQuery(pauseKindSQL, app, kind, isPaused, note.operatorName, note.reason) { row in
            try decodeOutcome(row)
        }
    }
}
