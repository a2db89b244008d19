package import PostgresClient
package import WidgetModel

/// Content shown while a timeline has no content of its own.
package enum FallbackContent: Hashable, Sendable {
    /// Canonical JSON of one entry, and its storage time.
    case snapshot(entry: String, storedAt: Timestamp)
    /// JSON of the content, and the time of its fetch; nil for the manifest's placeholder.
    case placeholder(content: String, fetchedAt: Timestamp?)
}

/// A stored placeholder, or the manifest's.
package struct PlaceholderDetail: Sendable {
    package let app: String
    package let kind: String
    /// Family, locale and time zone are nil for the manifest's placeholder, which is the default for all environments.
    package let family: WidgetFamily?
    package let locale: String?
    /// Also nil if the kind does not vary by time zone.
    package let timeZone: String?
    /// Nil before the first fetch. Until then the manifest's placeholder is shown.
    package let content: String?
    package let fetchedAt: Timestamp?
    /// Time of the next fetch; nil if none is scheduled.
    package let dueAt: Timestamp?
    /// Failures since the last fetch.
    package let attempts: Int16
}

extension PostgresStatement where Self == Statements {
    /// The placeholder of a kind's widgets in an environment; no row if the app has no such kind.
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

    /// An app's placeholders. For each kind that is not retired, the manifest's placeholder precedes the provider's.
    ///
    /// - Parameter kind: name of the kind; nil for all.
    package static func listPlaceholders(app: String, kind: String? = nil, limit: Int) -> PostgresQuery<
        PlaceholderDetail
    > {
        PostgresQuery(
            """
            SELECT a.name AS app, k.name AS kind, l.family, l.locale, l.time_zone, l.content, l.fetched_at, l.due_at, l.attempts
            FROM app a
            JOIN kind k ON k.app_id = a.id AND k.retired_at IS NULL
            JOIN kind_definition d ON d.kind_id = k.id
            CROSS JOIN LATERAL (
                SELECT NULL::int2 AS family, NULL::text AS locale, '' AS time_zone,
                       (d.definition -> 'placeholder')::text AS content, NULL::timestamptz AS fetched_at,
                       'infinity'::timestamptz AS due_at, 0::int2 AS attempts
                UNION ALL
                SELECT p.family, p.locale, p.time_zone, p.content, p.fetched_at, p.due_at, p.attempts
                FROM placeholder p WHERE p.kind_id = k.id
            ) l
            WHERE a.name = $1::text AND ($2::text IS NULL OR k.name = $2::text)
            ORDER BY k.name, l.family NULLS FIRST, l.locale, l.time_zone
            LIMIT $3::int8
            """, app, kind, limit
        ) { row in
            let timeZone: String = try row.value("time_zone")
            let dueAt: Timestamp = try row.value("due_at")
            return try PlaceholderDetail(
                app: row.value("app"), kind: row.value("kind"),
                family: row.optional("family", as: Int16.self).flatMap { WidgetFamily(rawValue: $0) },
                locale: row.optional("locale"), timeZone: timeZone.isEmpty ? nil : timeZone,
                content: row.optional("content"), fetchedAt: row.optional("fetched_at"),
                dueAt: dueAt == .distantFuture ? nil : dueAt, attempts: row.value("attempts"))
        }
    }
}
