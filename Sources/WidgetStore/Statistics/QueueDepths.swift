// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

package struct QueueDepth: Hashable, Sendable {
    package let queue: KindLane
    /// Ready lists and their timelines, counted up to the limit in whole lists.
    package let lists: Int
    package let due: Int
    package let overdue: Int
    /// Seconds since the oldest list became due.
    package let oldest: Double
}

/// Number of waiting dead letters of a cause, of sweeps, or of diverted apps.
package struct WaitingWork: Hashable, Sendable {
    /// Causes of the rows for sweeps and diverted apps, which no dead letter has.
    package static let sweeps = "=sweeps"
    package static let diversions = "=diversions"

    package let cause: String
    package let count: Int64
}

private let waitingWorkSQL = """
    SELECT c.cause, d.n AS count
    FROM unnest($2::text[]) AS c (cause)
    CROSS JOIN LATERAL (
        SELECT count(*) AS n FROM (
            SELECT FROM dead_letter d
            WHERE d.cause = c.cause AND \(DeadLetterFilter.waiting)
            LIMIT $1::int8) waiting
    ) d
    UNION ALL
    SELECT '\(WaitingWork.sweeps)', count(*) FROM (SELECT FROM sweep LIMIT $1::int8) waiting
    UNION ALL
    SELECT '\(WaitingWork.diversions)', count(*) FROM diversion
    """

extension PostgresStatement where Self == Statements {
    /// Timelines in ready lists by kind and lane, overdue ones, and the age of the oldest, for metrics.
    ///
    /// Skips through the index of lists: the cost grows with the number of kinds and the limit, not with the backlog.
    /// Leaves out paused and retired kinds, and counts superseded ids.
    ///
    /// - Parameter limit: most counted timelines of a kind and lane.
    package static func queueDepths(limit: Int, overdueAfter: Duration) -> PostgresQuery<QueueDepth> {
        PostgresQuery(
            """
            SELECT k.id AS kind_id, l.lane, d.lists, d.due, d.overdue, extract(epoch FROM now() - d.since)::float8 AS oldest
            FROM kind k
            JOIN app a ON a.id = k.app_id
            CROSS JOIN unnest(ARRAY[0, 1, 2, 3]::int2[]) AS l (lane)
            CROSS JOIN LATERAL (
                SELECT count(*) AS lists, coalesce(sum(cardinality(o.timelines)), 0)::int8 AS due, min(o.due_at) AS since,
                       coalesce(sum(cardinality(o.timelines))
                           FILTER (WHERE o.due_at <= now() - $2::int8 * interval '1 millisecond'), 0)::int8 AS overdue
                FROM (SELECT w.timelines, w.due_at FROM work w
                      WHERE w.kind_id = k.id AND w.lane = l.lane AND w.ready_at <= now()
                      ORDER BY w.ready_at
                      LIMIT $1::int8) o
            ) d
            WHERE d.lists > 0 AND k.paused_at IS NULL AND k.retired_at IS NULL AND a.paused_at IS NULL
            """, (limit + workListLimit - 1) / workListLimit, overdueAfter.wholeMilliseconds
        ) { row in
            try QueueDepth(
                queue: KindLane(row), lists: row.value("lists"), due: row.value("due"),
                overdue: row.value("overdue"), oldest: row.value("oldest"))
        }
    }

    /// Waiting work by cause, each counted up to a limit, for metrics.
    package static func waitingWork(limit: Int) -> PostgresQuery<WaitingWork> {
        PostgresQuery(waitingWorkSQL, limit, PostgresArray(DeadLetterCause.allCases)) { row in
            try WaitingWork(cause: row.value("cause"), count: row.value("count"))
        }
    }

    /// Estimated number of timelines: the planner's, or as many as fit into a table that was never analysed.
    package static func timelineEstimate() -> PostgresQuery<Int> {
        PostgresQuery(
            """
            SELECT CASE WHEN c.reltuples >= 0 THEN c.reltuples::int8
                        ELSE pg_relation_size(c.oid) / current_setting('block_size')::int8 * 8 END AS rows
            FROM pg_class c WHERE c.oid = 'timeline'::regclass
            """
        ) { row in try row.value("rows") }
    }

    /// Ages of timelines since their render by kind, in seconds at the 50th and the 99th percentile of a sample of the
    /// table's pages. Kinds without a sampled timeline have no row.
    ///
    /// Reads about `rows` rows of a table with an estimated number.
    package static func timelineAges(rows: Int, of estimate: Int) -> PostgresQuery<
        (kindID: Int32, median: Double, late: Double)
    > {
        let percent = estimate <= rows ? 100 : max(0.000_1, 100 * Double(rows) / Double(estimate))
        return PostgresQuery(
            """
            SELECT t.kind_id,
                   percentile_disc(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM now() - t.rendered_at)::float8) AS median,
                   percentile_disc(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM now() - t.rendered_at)::float8) AS late
            FROM timeline t TABLESAMPLE SYSTEM ($1::float8)
            WHERE t.rendered_at IS NOT NULL AND NOT t.orphaned
            GROUP BY t.kind_id
            """, percent
        ) { row in
            try (kindID: row.value("kind_id"), median: row.value("median"), late: row.value("late"))
        }
    }
}

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
    /// Scheduled reloads by kind and hour (UTC): timelines, each in the hour of the first list that is not superseded.
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
                SELECT CASE WHEN s.due_at <= now() THEN -1
                            ELSE floor(extract(epoch FROM s.due_at - p.start) / 3600)::int4 END AS hour,
                       count(*) FILTER (WHERE NOT s.leased) AS scheduled, count(*) FILTER (WHERE s.leased) AS leased
                FROM (
                    SELECT min(w.due_at) AS due_at, bool_or(w.lease IS NOT NULL AND w.ready_at > now()) AS leased
                    FROM work w CROSS JOIN unnest(w.timelines) AS u (id) JOIN timeline t ON t.id = u.id
                    WHERE w.kind_id = k.id AND w.due_at < p.stop AND NOT t.orphaned AND \(isListed)
                    GROUP BY t.id
                ) s
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

package struct Overview: Hashable, Sendable {
    package let widgets: Int64
    package let timelines: Int64
    /// Timelines with something to do now.
    package let due: Int64
    /// Timelines in leased lists.
    package let leased: Int64
    /// Timelines with a request newer than the stored content.
    package let stale: Int64
    /// Stale timelines that are looked at later: their budget, the spacing or a failure delays them.
    package let waiting: Int64
    package let stored: Int64
    /// Sum of the targeted requests: one for each event and timeline that it hit, plus one a timeline.
    package let requested: Int64
    package let sweeps: Int64
    package let deadLetters: Int64
    package let deadLettersToForward: Int64
}

private let overviewSQL = """
    SELECT (SELECT count(*) FROM widget WHERE timeline_id IS NOT NULL) AS widgets, count(*) AS timelines,
           count(*) FILTER (WHERE \(RowFormula().nextLook) <= now()) AS due,
           (SELECT coalesce(sum(cardinality(timelines)), 0)::int8 FROM work
            WHERE lease IS NOT NULL AND ready_at > now()) AS leased,
           count(*) FILTER (WHERE \(RowFormula.isStale)) AS stale,
           count(*) FILTER (WHERE \(RowFormula.isStale) AND \(RowFormula().nextLook) > now()) AS waiting,
           count(*) FILTER (WHERE t.content_revision > 0) AS stored,
           coalesce(sum(t.requested), 0)::int8 AS requested, (SELECT count(*) FROM sweep) AS sweeps,
           (SELECT count(*) FROM dead_letter) AS dead_letters,
           (SELECT count(*) FROM dead_letter
            WHERE forwarded_at IS NULL AND unforwardable_at IS NULL AND cause <> 'diverted') AS to_forward
    FROM timeline t
    JOIN kind k ON k.id = t.kind_id
    """

extension PostgresStatement where Self == Statements {
    /// Counts over the whole store, for the demo. Full scans: not for a loop on a large database.
    package static func overview() -> PostgresQuery<Overview> {
        PostgresQuery(overviewSQL) { row in
            try Overview(
                widgets: row.value("widgets"), timelines: row.value("timelines"), due: row.value("due"),
                leased: row.value("leased"), stale: row.value("stale"), waiting: row.value("waiting"),
                stored: row.value("stored"),
                requested: row.value("requested"), sweeps: row.value("sweeps"), deadLetters: row.value("dead_letters"),
                deadLettersToForward: row.value("to_forward"))
        }
    }
}
