package import PostgresClient
package import WidgetModel

extension PostgresStatement where Self == Statements {
    /// The placeholder of a kind's widgets in an environment; no row: the app has no such kind.
    package static func readKindPlaceholder(
        app: String, kind: String, family: WidgetFamily, environment: WidgetEnvironment
    ) -> PostgresQuery<FallbackContent> {
        PostgresQuery(
            """
            SELECT p.content, p.fetched_at, (d.definition -> 'placeholder')::text AS manifest
            FROM app a
            JOIN kind k ON k.app_id = a.id
            JOIN kind_definition d ON d.kind_id = k.id
            LEFT JOIN placeholder p ON p.kind_id = k.id AND p.family = $3::int2 AND p.locale = $4::text
                AND p.time_zone IN ('', $5::text) AND p.content IS NOT NULL
            WHERE a.name = $1::text AND k.name = $2::text AND k.retired_at IS NULL
            ORDER BY p.time_zone DESC NULLS LAST LIMIT 1
            """, app, kind, family, environment.locale, environment.timeZone
        ) { row in
            if let content = try row.optional("content", as: String.self) {
                return .placeholder(content: content, fetchedAt: try row.optional("fetched_at"))
            }
            return .placeholder(content: try row.value("manifest"), fetchedAt: nil)
        }
    }
}
