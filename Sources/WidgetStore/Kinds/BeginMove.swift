package import PostgresClient
package import WidgetModel

extension KindDefinition {
    /// Binds which parts of a widget are in the identity of the kind's timelines.
    func bindIdentity(_ parameters: inout PostgresParameters) {
        parameters.append(variesBy.contains(.family))
        parameters.append(variesBy.contains(.locale))
        parameters.append(variesBy.contains(.timeZone))
        parameters.append(sharing == .perUser)
    }
}

/// Whether the timeline `t` is not one of the identity that is bound from parameter `first` on.
func isStray(from first: Int) -> String {
    """
    ((t.family IS NOT NULL) <> $\(first)::bool OR (t.locale IS NOT NULL) <> $\(first + 1)::bool
        OR (t.time_zone IS NOT NULL) <> $\(first + 2)::bool OR (t.user_id IS NOT NULL) <> $\(first + 3)::bool)
    """
}

/// Number of a kind's timelines whose identity is not that of a definition, among the first ones up to a limit.
package struct CountStrays: PostgresStatement {
    package static let sql = """
        SELECT count(*) FILTER (WHERE counted.is_stray) AS strays FROM (
            SELECT \(isStray(from: 3)) AS is_stray FROM timeline t WHERE t.kind_id = $1::int4 LIMIT $2::int8
        ) counted
        """

    package var parameters = PostgresParameters()

    package init(kindID: Int32, definition: KindDefinition, limit: Int) {
        parameters.append(kindID)
        parameters.append(limit)
        definition.bindIdentity(&parameters)
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int { try row.value("strays") }
}

/// Begins the move of a kind's widgets, anew where one is under way.
package struct BeginMove: PostgresStatement {
    package static let sql = """
        INSERT INTO kind_change AS c (kind_id, retires)
        SELECT k.id, false FROM kind k WHERE k.app_id = $1::int4 AND k.name = $2::text
        ON CONFLICT (kind_id) DO UPDATE
            SET retires = false, started_at = now(), pass = 1, pass_begins_at = now(), cursor = 0, changed = 0,
                changed_in_all = 0
        """

    package let parameters: PostgresParameters

    package init(appID: Int32, kind: String) {
        parameters = PostgresParameters(appID, kind)
    }
}
