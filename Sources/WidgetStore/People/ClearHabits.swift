package import PostgresClient

/// The cleared person is locked before the schedules, as in writes of people.
private let clearHabitsSQL = """
    WITH cleared AS (
        UPDATE person p SET habits = NULL
        WHERE p.app_id = (SELECT a.id FROM app a WHERE a.name = $1::text) AND p.user_id = $2::text
            AND p.habits IS NOT NULL
        RETURNING p.app_id, p.user_id
    ), locked AS (
        SELECT s.id, s.due_at > now() AS is_later
        FROM cleared c JOIN stack_schedule s ON s.app_id = c.app_id AND s.user_id = c.user_id
        ORDER BY s.id
        FOR NO KEY UPDATE OF s
    ), due AS (
        UPDATE stack_schedule s SET due_at = now() FROM locked l WHERE s.id = l.id AND l.is_later
    )
    SELECT count(*) > 0 AS cleared FROM cleared
    """

extension WidgetStore {
    /// Deletes what was learned about when a user looks, and makes the schedules of the user's stacks due. Stacks,
    /// shortcuts and widgets stay.
    ///
    /// - Returns: whether anything had been learned.
    /// - Throws: `PostgresError`.
    package func clearHabits(of user: String, app: String) async throws -> Bool {
        try await retryingConflicts { try await pool.query(.clearHabits(app: app, user: user)).first ?? false }
    }
}

extension PostgresStatement where Self == Statements {
    /// Clears a user's habits; answers whether there were any.
    package static func clearHabits(app: String, user: String) -> PostgresQuery<Bool> {
        PostgresQuery(clearHabitsSQL, app, user) { row in try row.value("cleared") }
    }
}
