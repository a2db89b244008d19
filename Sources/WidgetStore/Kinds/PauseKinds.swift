package import PostgresClient
package import WidgetModel

/// Result of pausing or resuming.
package struct PauseOutcome: Hashable, Sendable {
    /// Whether the state changed.
    package let isChanged: Bool
    /// Begin of the pause; nil without one.
    package let pausedAt: Timestamp?
    /// Whether the kind's app is paused, so that its reloads wait anyway.
    package let isAppPaused: Bool
}

private func decodeOutcome(_ row: borrowing PostgresRow) throws(PostgresError) -> PauseOutcome {
    try PauseOutcome(
        isChanged: row.value("changed"), pausedAt: row.optional("paused_at"), isAppPaused: row.value("app_paused"))
}

extension WidgetStore {
    /// Pauses the reloads of an app, or of one of its kinds. Events are still applied, but no timeline is claimed,
    /// swept or collected until the resumption.
    ///
    /// - Returns: `nil` without such an app or kind.
    /// - Throws: `PostgresError`.
    package func pause(app: String, kind: String? = nil) async throws -> PauseOutcome? {
        try await set(isPaused: true, app, kind)
    }

    /// Resumes an app, or one of its kinds, and wakes the workers.
    ///
    /// - Returns: `nil` without such an app or kind.
    /// - Throws: `PostgresError`.
    package func resume(app: String, kind: String? = nil) async throws -> PauseOutcome? {
        let outcome = try await set(isPaused: false, app, kind)
        if outcome != nil { await notifyWorkers() }
        return outcome
    }

    private func set(isPaused: Bool, _ app: String, _ kind: String?) async throws -> PauseOutcome? {
        guard let kind else { return try await pool.query(.pauseApp(app: app, isPaused: isPaused)).first }
        return try await pool.query(.pauseKind(app: app, kind: kind, isPaused: isPaused)).first
    }

    /// Wakes the workers after a commit. Only a hint, since they also poll.
    func notifyWorkers() async {
        _ = try? await pool.query(.notifyDue())
    }
}

extension PostgresStatement where Self == Statements {
    /// Pauses or resumes an app; no row without one.
    package static func pauseApp(app: String, isPaused: Bool) -> PostgresQuery<PauseOutcome> {
        PostgresQuery(
            """
            WITH locked AS (
                SELECT a.id, a.paused_at FROM app a WHERE a.name = $1::text FOR NO KEY UPDATE
            ), changed AS (
                UPDATE app a SET paused_at = CASE WHEN $2::bool THEN now() END
                FROM locked l WHERE a.id = l.id AND (l.paused_at IS NOT NULL) <> $2::bool
                RETURNING a.id
            )
            SELECT EXISTS (SELECT FROM changed) AS changed,
                   CASE WHEN $2::bool THEN coalesce(l.paused_at, now()) END AS paused_at, $2::bool AS app_paused
            FROM locked l
            """, app, isPaused
        ) { row in try decodeOutcome(row) }
    }

    /// Pauses or resumes a kind, retired ones included; no row without one.
    package static func pauseKind(app: String, kind: String, isPaused: Bool) -> PostgresQuery<PauseOutcome> {
        PostgresQuery(
            """
            WITH locked AS (
                SELECT k.id, k.paused_at, a.paused_at IS NOT NULL AS app_paused
                FROM kind k JOIN app a ON a.id = k.app_id
                WHERE a.name = $1::text AND k.name = $2::text
                FOR NO KEY UPDATE OF k
            ), changed AS (
                UPDATE kind k SET paused_at = CASE WHEN $3::bool THEN now() END
                FROM locked l WHERE k.id = l.id AND (l.paused_at IS NOT NULL) <> $3::bool
                RETURNING k.id
            )
            SELECT EXISTS (SELECT FROM changed) AS changed,
                   CASE WHEN $3::bool THEN coalesce(l.paused_at, now()) END AS paused_at, l.app_paused
            FROM locked l
            """, app, kind, isPaused
        ) { row in try decodeOutcome(row) }
    }
}
