package import PostgresClient
import WidgetModel

/// Timelines and widgets of a kind with families that this version does not know.
package struct UnknownFamilies: Hashable, Sendable {
    package let app: String
    package let kind: String
    /// Numbers of those found, in large tables by a sample.
    package let timelines: Int
    package let widgets: Int
}

private let unknownFamiliesSQL = """
    SELECT a.name AS app, k.name AS kind, sum(f.timelines)::int8 AS timelines, sum(f.widgets)::int8 AS widgets
    FROM (
        SELECT t.kind_id, count(*) AS timelines, 0 AS widgets
        FROM timeline t TABLESAMPLE SYSTEM (\(TableSample.percent(of: "timeline")))
        WHERE t.family <> ALL ($1::int2[]) GROUP BY t.kind_id
        UNION ALL
        SELECT w.kind_id, 0, count(*)
        FROM widget w TABLESAMPLE SYSTEM (\(TableSample.percent(of: "widget")))
        WHERE w.family <> ALL ($1::int2[]) AND w.timeline_id IS NOT NULL GROUP BY w.kind_id
    ) f JOIN kind k ON k.id = f.kind_id JOIN app a ON a.id = k.app_id
    WHERE $2::text IS NULL OR a.name = $2::text
    GROUP BY a.name, k.name ORDER BY a.name, k.name
    """

extension PostgresStatement where Self == Statements {
    /// Looks for timelines and widgets of unknown families. Reads a bounded part of large tables.
    ///
    /// - Parameters:
    ///   - known: the known families.
    ///   - app: nil: every app.
    package static func unknownFamilies(besides known: [Int16], app: String?) -> PostgresQuery<UnknownFamilies> {
        PostgresQuery(unknownFamiliesSQL, PostgresArray(known), app) { row in
            try UnknownFamilies(
                app: row.value("app"), kind: row.value("kind"), timelines: row.value("timelines"),
                widgets: row.value("widgets"))
        }
    }
}
