package import PostgresClient
package import WidgetModel

package struct DueReloads: Hashable, Sendable {
    package let app: String
    package let kind: String
    /// URL of the provider, from the manifest.
    package let provider: String
    package let isPaused: Bool
    package let isRetired: Bool
    /// Whole hours from ``start``, -1 for overdue timelines; nil without any.
    package let hour: Int?
    package let scheduled: Int
    /// Timelines under way.
    package let leased: Int
    /// Begin of the current hour, and the database's time.
    package let start: Timestamp
    package let readAt: Timestamp
}

extension PostgresStatement where Self == Statements {
    /// Scheduled reloads by kind and hour (UTC): timelines of lists that are not superseded.
    ///
    /// Lists lie at most a day ahead, so later timelines count in the hour of their next look. Reads the rows of the
    /// lists of these hours. A kind without any has one row without an hour.
    ///
    /// - Parameters:
    ///   - app: name of the app; nil for all.
    ///   - hours: number of hours from the begin of the current one.
    package static func forecastDue(app: String?, hours: Int) -> PostgresQuery<DueReloads> {
        PostgresQuery(
            """
            WITH span AS (
                SELECT date_trunc('hour', now(), 'UTC') AS start,
                       date_trunc('hour', now(), 'UTC') + $2::int4 * interval '1 hour' AS stop
            )
            SELECT a.name AS app, k.name AS kind, coalesce(d.definition->>'providerURL', '') AS provider,
                   k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL AS paused, k.retired_at IS NOT NULL AS retired,
                   n.hour, coalesce(n.scheduled, 0)::int8 AS scheduled, coalesce(n.leased, 0)::int8 AS leased, p.start,
                   now() AS read_at
            FROM app a
            JOIN kind k ON k.app_id = a.id
            JOIN kind_definition d ON d.kind_id = k.id
            CROSS JOIN span p
            LEFT JOIN LATERAL (
                SELECT CASE WHEN w.due_at <= now() THEN -1
                            ELSE floor(extract(epoch FROM w.due_at - p.start) / 3600)::int4 END AS hour,
                       count(*) FILTER (WHERE w.lease IS NULL OR w.ready_at <= now()) AS scheduled,
                       count(*) FILTER (WHERE w.lease IS NOT NULL AND w.ready_at > now()) AS leased
                FROM work w CROSS JOIN unnest(w.timelines) AS u (id) JOIN timeline t ON t.id = u.id
                WHERE w.kind_id = k.id AND w.due_at < p.stop AND NOT t.orphaned
                    AND CASE WHEN w.generation IS NULL THEN t.listed_at = w.due_at
                             ELSE t.generation < w.generation AND w.generation > k.cancelled_generation END
                GROUP BY 1
            ) n ON true
            WHERE $1::text IS NULL OR a.name = $1::text
            ORDER BY a.name, k.name, n.hour
            """, app, Int32(clamping: hours)
        ) { row in
            try DueReloads(
                app: row.value("app"), kind: row.value("kind"), provider: row.value("provider"),
                isPaused: row.value("paused"), isRetired: row.value("retired"), hour: row.optional("hour"),
                scheduled: row.value("scheduled"), leased: row.value("leased"), start: row.value("start"),
                readAt: row.value("read_at"))
        }
    }
}
