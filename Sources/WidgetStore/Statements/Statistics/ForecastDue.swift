package import PostgresClient
package import WidgetModel

/// Reloads that are scheduled already, by kind and hour (UTC).
///
/// It reads the claim's index (kind, lane, due_at) and nothing but it beyond the next two hours; only sooner can a row be
/// leased (leases are at most an hour) or about to be collected, which the index does not say. A kind without any has one
/// row without an hour.
package struct ForecastDue: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let app: String
        package let kind: String
        /// The provider's URL, as the manifest gives it.
        package let provider: String
        package let isPaused: Bool
        package let isRetired: Bool
        /// Whole hours from ``start``; -1: due already. `nil`: nothing.
        package let hour: Int?
        package let scheduled: Int
        /// Being fetched.
        package let leased: Int
        /// Begin of the current hour, and the database's time.
        package let start: Timestamp
        package let readAt: Timestamp

        package init(
            app: String, kind: String, provider: String, isPaused: Bool, isRetired: Bool, hour: Int?, scheduled: Int,
            leased: Int, start: Timestamp, readAt: Timestamp
        ) {
            self.app = app
            self.kind = kind
            self.provider = provider
            self.isPaused = isPaused
            self.isRetired = isRetired
            self.hour = hour
            self.scheduled = scheduled
            self.leased = leased
            self.start = start
            self.readAt = readAt
        }
    }

    private static let hour = "floor(extract(epoch FROM s.due_at - p.start) / 3600)::int4"
    private static let isLeased = "(s.leased AND s.due_at > now())"

    package static let sql = """
        WITH span AS (
            SELECT date_trunc('hour', now(), 'UTC') AS start,
                   date_trunc('hour', now(), 'UTC') + $2::int4 * interval '1 hour' AS stop,
                   now() + interval '2 hours' AS near
        )
        SELECT a.name, k.name, coalesce(d.definition->>'providerURL', ''),
               k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL, k.retired_at IS NOT NULL,
               n.hour, coalesce(sum(n.scheduled), 0)::int8, coalesce(sum(n.leased), 0)::int8, p.start, now()
        FROM app a
        JOIN kind k ON k.app_id = a.id
        JOIN kind_definition d ON d.kind_id = k.id
        CROSS JOIN span p
        LEFT JOIN LATERAL (
            SELECT CASE WHEN s.due_at <= now() THEN -1 ELSE \(hour) END AS hour,
                   count(*) FILTER (WHERE NOT \(isLeased)) AS scheduled, count(*) FILTER (WHERE \(isLeased)) AS leased
            FROM unnest(ARRAY[0, 1, 2, 3]::int2[]) AS l (lane)
            JOIN timeline_state s ON s.kind_id = k.id AND s.lane = l.lane
            WHERE s.due_at < least(p.near, p.stop) AND NOT s.orphaned
            GROUP BY 1
            UNION ALL
            SELECT \(hour), count(*), 0
            FROM unnest(ARRAY[0, 1, 2, 3]::int2[]) AS l (lane)
            JOIN timeline_state s ON s.kind_id = k.id AND s.lane = l.lane
            WHERE s.due_at >= p.near AND s.due_at < p.stop
            GROUP BY 1
        ) n ON true
        WHERE $1::text IS NULL OR a.name = $1::text
        GROUP BY a.name, k.name, d.definition->>'providerURL', k.paused_at, a.paused_at, k.retired_at, n.hour, p.start
        ORDER BY a.name, k.name, n.hour
        """

    let app: String?
    let hours: Int

    /// - Parameters:
    ///   - app: `nil`: every app.
    ///   - hours: from the begin of the current one.
    package init(app: String?, hours: Int) {
        self.app = app
        self.hours = hours
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(Int32(clamping: hours))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        Row(
            app: try row.value(0), kind: try row.value(1), provider: try row.value(2), isPaused: try row.value(3),
            isRetired: try row.value(4), hour: try row.optional(5, as: Int32.self).map { Int($0) },
            scheduled: Int(try row.value(6, as: Int64.self)), leased: Int(try row.value(7, as: Int64.self)),
            start: Timestamp(try row.value(8, as: PostgresTimestamp.self)),
            readAt: Timestamp(try row.value(9, as: PostgresTimestamp.self)))
    }
}
