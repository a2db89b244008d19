package import PostgresClient
package import WidgetModel

extension KindDefinition {
    /// True for each part that the identity of the kind's timelines has: family, locale, time zone, user.
    var identityParts: PostgresArray<Bool> {
        PostgresArray([
            variesBy.contains(.family), variesBy.contains(.locale), variesBy.contains(.timeZone), sharing == .perUser,
        ])
    }
}

/// Condition that the identity of the timeline `t` has other parts than those bound as `parameter`.
func isStray(_ parameter: String) -> String {
    """
    ARRAY[t.family IS NOT NULL, t.locale IS NOT NULL, t.time_zone IS NOT NULL, t.user_id IS NOT NULL] <> \(parameter)::bool[]
    """
}

private let countStraysSQL = """
    SELECT count(*) FILTER (WHERE counted.is_stray) AS strays FROM (
        SELECT \(isStray("$3")) AS is_stray FROM timeline t WHERE t.kind_id = $1::int4 LIMIT $2::int8
    ) counted
    """

extension PostgresStatement where Self == Statements {
    /// Number of a kind's timelines whose identity is not that of a definition, among the first ones up to a limit.
    package static func countStrays(kindID: Int32, definition: KindDefinition, limit: Int) -> PostgresQuery<Int> {
        PostgresQuery(countStraysSQL, kindID, limit, definition.identityParts) { row in try row.value("strays") }
    }

    /// Begins the move of a kind's widgets, anew where one is under way.
    package static func beginMove(appID: Int32, kind: String, configurations: Bool) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            INSERT INTO kind_change AS c (kind_id, retires, configurations)
            SELECT k.id, false, $3::bool FROM kind k WHERE k.app_id = $1::int4 AND k.name = $2::text
            ON CONFLICT (kind_id) DO UPDATE
                SET retires = false, started_at = now(), pass = 1, pass_begins_at = now(), cursor = 0, changed = 0,
                    changed_in_all = 0, configurations = c.configurations OR excluded.configurations
            """, appID, kind, configurations
        )
    }
}
