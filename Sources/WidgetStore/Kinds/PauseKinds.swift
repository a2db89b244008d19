package import PostgresClient
package import WidgetModel

/// Result of pausing or resuming.
package struct PauseOutcome: Hashable, Sendable {
    /// Whether the state changed.
    package let isChanged: Bool
    /// Since when it is paused; nil: it is not.
    package let pausedAt: Timestamp?
    /// Of a kind: whether its app is paused, so that its reloads wait anyway.
    package let isAppPaused: Bool
}

private func decodeOutcome(_ row: borrowing PostgresRow) throws(PostgresError) -> PauseOutcome {
    PauseOutcome(
        isChanged: try row.value("changed"), pausedAt: try row.optional("paused_at"),
        isAppPaused: try row.value("app_paused"))
}

extension PostgresStatement where Self == Statements {
    /// Pauses an app or lets it go on; no row: there is no such app.
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

    /// Pauses a kind, a retired one too, or lets it go on; no row: there is no such kind.
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
