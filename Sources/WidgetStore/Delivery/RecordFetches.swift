// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
import WidgetModel

/// Content that the API has served to a widget's device for the first time since fetches were last recorded, with the
/// time since then.
package typealias ServedContent = (app: String, widget: String, revision: Int64, age: Duration)

private let input = InputColumns<(offset: Int, element: ServedContent)>([
    .init("n") { Int32($0.offset) }, .init("app") { $0.element.app }, .init("widget") { $0.element.widget },
    .init("revision") { $0.element.revision }, .init("age") { $0.element.age.wholeMilliseconds },
])

/// Least time between two writes of a device's fetches that spare it no push.
private let spacing = "interval '1 minute'"

/// Numbers of fetches by power of two of milliseconds: classes up to an hour, and a last one for all later ones.
private let latencyClasses = 23

/// SQL that rounds a time down to the five minutes that statistics are kept for.
func deliveryBucket(of time: String) -> String { "date_bin('5 minutes', \(time), 'epoch')" }

/// SQL of the numbers of fetches by class of the milliseconds in a column of `counts`, of the group of the row `n`.
private func classes(of column: String) -> String {
    """
    ARRAY(SELECT (SELECT count(*) FROM counts o
                  WHERE o.kind_id = n.kind_id AND o.bucket = n.bucket AND o.\(column) IS NOT NULL AND c.class =
                      least(floor(log(2, greatest(o.\(column), 1)::numeric))::int, \(latencyClasses - 1)))
          FROM generate_series(0, \(latencyClasses - 1)) c (class) ORDER BY c.class)
    """
}

/// SQL of the sum of two arrays, place by place.
private func sum(_ old: String, _ new: String) -> String {
    """
    ARRAY(SELECT coalesce(x.old, 0) + coalesce(x.new, 0)
          FROM unnest(\(old), \(new)) WITH ORDINALITY x (old, new, place) ORDER BY x.place)
    """
}

/// Devices whose fetches may be written now: those for which a minute has passed, and those whose fetch spares a push,
/// because they are not known to have the content and no push has told them of it. The statement that records them
/// follows in the transaction, so that it reads the contents that were stored before a mark for which this one has
/// waited.
private let lockSQL = """
    WITH served AS MATERIALIZED (
        SELECT o.id, bool_or(
                   i.revision >= t.content_revision AND t.stored_at > coalesce(o.sent_at, '-infinity')
                   AND i.revision > coalesce(o.fetched_revisions[array_position(o.fetched_timelines, t.id)], 0)
               ) AS spares
        FROM \(input.rows("i")) JOIN app a ON a.name = i.app
        JOIN widget w ON w.app_id = a.id AND w.id = i.widget
        JOIN registration o ON o.app_id = w.app_id AND o.user_id = w.user_id AND o.device_id = w.device_id
        JOIN timeline t ON t.id = w.timeline_id
        WHERE o.channel <> 0 GROUP BY o.id
    )
    SELECT r.id FROM registration r
    WHERE r.id = ANY (ARRAY(SELECT id FROM served))
        AND (r.recorded_at IS NULL OR r.recorded_at < now() - \(spacing)
             OR r.id = ANY (ARRAY(SELECT id FROM served WHERE spares)))
    ORDER BY r.id FOR NO KEY UPDATE
    """

/// The first change of a stale timeline is fetched when its content or a later one is first served (`answered`). Where
/// the content has changed again since that one, the newest change counts as a further one (`newest`): it is fetched
/// already, or leaves the timeline stale. So does a change that the device has fetched before it was marked. The push
/// is the last known one between the change and the fetch.
private let recordSQL = """
    WITH found AS MATERIALIZED (
        SELECT i.n, r.id, w.timeline_id, w.kind_id, i.revision, t.content_revision, t.stored_at,
               now() - i.age * interval '1 millisecond' AS served_at
        FROM \(input.rows("i")) JOIN app a ON a.name = i.app
        JOIN widget w ON w.app_id = a.id AND w.id = i.widget
        JOIN registration r ON r.app_id = w.app_id AND r.user_id = w.user_id AND r.device_id = w.device_id
        JOIN timeline t ON t.id = w.timeline_id
        WHERE r.channel <> 0
    ), due AS MATERIALIZED (
        SELECT r.id, r.first_sent_at, r.sent_at, r.fetched_at, r.fetched_timelines, r.fetched_revisions,
               r.stale_timelines, r.stale_revisions, r.stale_since
        FROM registration r WHERE r.id = ANY ($\(input.count + 4)::int8[])
    ), served AS MATERIALIZED (
        SELECT f.id, f.timeline_id, f.kind_id, f.content_revision, f.stored_at, max(f.revision) AS revision,
               min(f.served_at) FILTER (WHERE f.revision >= f.content_revision) AS latest_at,
               d.fetched_revisions[array_position(d.fetched_timelines, f.timeline_id)] AS known
        FROM found f JOIN due d ON d.id = f.id
        GROUP BY f.id, f.timeline_id, f.kind_id, f.content_revision, f.stored_at, known
    ), latest AS MATERIALIZED (
        SELECT d.id, s.served_at,
               s.served_at >= d.sent_at AND (d.fetched_at IS NULL OR d.fetched_at < d.sent_at) AS answers_push
        FROM due d JOIN (SELECT id, max(served_at) AS served_at FROM found GROUP BY id) s ON s.id = d.id
    ), pending AS MATERIALIZED (
        SELECT d.id, p.timeline_id, p.revision, p.since FROM due d
        CROSS JOIN unnest(d.stale_timelines, d.stale_revisions, d.stale_since) p (timeline_id, revision, since)
    ), answered AS MATERIALIZED (
        SELECT p.id, p.timeline_id, f.kind_id, p.since, min(f.revision) AS revision, min(f.served_at) AS served_at
        FROM pending p JOIN found f
            ON f.id = p.id AND f.timeline_id = p.timeline_id AND f.revision >= p.revision
        GROUP BY p.id, p.timeline_id, f.kind_id, p.since
    ), newest AS MATERIALIZED (
        SELECT s.id, s.timeline_id, s.kind_id, s.stored_at AS since, s.content_revision AS revision,
               s.latest_at AS served_at
        FROM served s LEFT JOIN answered a ON a.id = s.id AND a.timeline_id = s.timeline_id
        LEFT JOIN pending p ON p.id = s.id AND p.timeline_id = s.timeline_id
        WHERE s.stored_at IS NOT NULL AND (a.id IS NOT NULL AND s.content_revision > a.revision
            OR p.id IS NULL AND s.content_revision > s.known AND s.latest_at IS NOT NULL)
    ), ended AS MATERIALIZED (
        SELECT e.id, e.kind_id, e.since, greatest(extract(epoch FROM e.served_at - e.since) * 1000, 0)::int8 AS latency,
               (extract(epoch FROM e.served_at - p.sent_at) * 1000)::int8 AS push_latency
        FROM (
            SELECT id, kind_id, since, served_at FROM answered
            UNION ALL
            SELECT id, kind_id, since, served_at FROM newest WHERE served_at IS NOT NULL
        ) e JOIN due d ON d.id = e.id CROSS JOIN LATERAL (
            SELECT max(t.sent_at) AS sent_at FROM unnest(ARRAY[d.first_sent_at, d.sent_at]) t (sent_at)
            WHERE t.sent_at BETWEEN e.since AND e.served_at
        ) p
    ), shown AS MATERIALIZED (
        SELECT DISTINCT d.id, w.timeline_id FROM due d JOIN registration r ON r.id = d.id
        JOIN widget w ON w.app_id = r.app_id AND w.device_id = r.device_id AND w.user_id = r.user_id
        WHERE w.timeline_id IS NOT NULL
    ), kept AS MATERIALIZED (
        SELECT m.id, array_agg(m.timeline_id ORDER BY m.timeline_id) AS timelines,
               array_agg(m.revision ORDER BY m.timeline_id) AS revisions
        FROM (
            SELECT u.id, u.timeline_id, max(u.revision) AS revision
            FROM (
                SELECT id, timeline_id, revision FROM served
                UNION ALL
                SELECT d.id, o.timeline_id, o.revision
                FROM due d CROSS JOIN unnest(d.fetched_timelines, d.fetched_revisions) o (timeline_id, revision)
            ) u JOIN shown s ON s.id = u.id AND s.timeline_id = u.timeline_id GROUP BY u.id, u.timeline_id
        ) m GROUP BY m.id
    ), stale AS MATERIALIZED (
        SELECT p.id, array_agg(p.timeline_id ORDER BY p.timeline_id) AS timelines,
               array_agg(p.revision ORDER BY p.timeline_id) AS revisions,
               array_agg(p.since ORDER BY p.timeline_id) AS since
        FROM (
            SELECT o.id, o.timeline_id, o.revision, o.since FROM pending o
            WHERE NOT EXISTS (SELECT FROM answered a WHERE a.id = o.id AND a.timeline_id = o.timeline_id)
            UNION ALL
            SELECT id, timeline_id, revision, since FROM newest WHERE served_at IS NULL
        ) p JOIN shown s ON s.id = p.id AND s.timeline_id = p.timeline_id
        GROUP BY p.id
    ), samples AS MATERIALIZED (
        SELECT id, array_agg(least(push_latency, 2e9)::int ORDER BY since DESC, kind_id) AS latencies,
               array_agg(kind_id ORDER BY since DESC, kind_id) AS kinds
        FROM ended WHERE push_latency IS NOT NULL GROUP BY id
    ), written AS (
        UPDATE registration r
        SET recorded_at = now(), fetched_at = greatest(r.fetched_at, f.served_at),
            first_sent_at = CASE WHEN r.sent_at > f.served_at THEN r.sent_at END,
            fetched_timelines = coalesce(k.timelines, '{}'), fetched_revisions = coalesce(k.revisions, '{}'),
            stale_timelines = coalesce(s.timelines, '{}'), stale_revisions = coalesce(s.revisions, '{}'),
            stale_since = coalesce(s.since, '{}'),
            answered_pushes = r.answered_pushes + coalesce(f.answers_push, false)::int,
            push_latencies = (p.latencies || r.push_latencies)[1:\(Registration.latencyLimit)],
            push_kinds = (p.kinds || r.push_kinds)[1:\(Registration.latencyLimit)]
        FROM latest f LEFT JOIN kept k ON k.id = f.id LEFT JOIN stale s ON s.id = f.id LEFT JOIN samples p ON p.id = f.id
        WHERE r.id = f.id
    ), counts AS MATERIALIZED (
        SELECT kind_id, \(deliveryBucket(of: "since")) AS bucket, latency, push_latency, false AS is_new FROM ended
        UNION ALL
        SELECT kind_id, \(deliveryBucket(of: "since")), NULL, NULL, true FROM newest
    ), counted AS (
        INSERT INTO delivery_statistics AS s (kind_id, bucket, changes, fetched, late, latencies, push_latencies)
        SELECT n.kind_id, n.bucket, count(*) FILTER (WHERE n.is_new), count(n.latency),
               count(*) FILTER (WHERE n.latency > \(objective(of: "n.kind_id", after: input.count))),
               \(classes(of: "latency")), \(classes(of: "push_latency"))
        FROM counts n GROUP BY n.kind_id, n.bucket ORDER BY n.kind_id, n.bucket
        ON CONFLICT (kind_id, bucket) DO UPDATE
        SET changes = s.changes + excluded.changes, fetched = s.fetched + excluded.fetched, late = s.late + excluded.late,
            latencies = \(sum("s.latencies", "excluded.latencies")),
            push_latencies = \(sum("s.push_latencies", "excluded.push_latencies"))
    )
    SELECT f.n FROM found f WHERE NOT EXISTS (SELECT FROM due d WHERE d.id = f.id)
    """

extension PostgresStatement where Self == Statements {
    /// Locks the devices that have fetched something and whose fetches may be written now.
    package static func lockFetchers(of served: [ServedContent]) -> PostgresQuery<Int64> {
        PostgresQuery(lockSQL, binding: input.parameters(Array(served.enumerated()))) { row in
            try row.value("id")
        }
    }

    /// Records what locked devices have fetched. Answers the indexes of what other devices have fetched.
    package static func recordFetches(
        _ served: [ServedContent], of locked: [Int64], objectives: FreshnessObjectives
    ) -> PostgresQuery<Int> {
        PostgresQuery(
            recordSQL,
            binding: input.parameters(
                Array(served.enumerated()), objectives.general.wholeMilliseconds, objectives.kinds, objectives.limits,
                PostgresArray(locked))
        ) { row in Int(try row.value("n", as: Int32.self)) }
    }
}

extension WidgetStore {
    /// Records what devices have fetched: at once if that spares a push, otherwise at most once a minute for each
    /// device.
    ///
    /// - Returns: the indexes of what was not recorded yet.
    package func recordFetches(_ served: [ServedContent], objectives: FreshnessObjectives) async throws -> [Int] {
        try await pool.withTransaction { connection in
            let locked = try await connection.query(.lockFetchers(of: served))
            return try await connection.query(.recordFetches(served, of: locked, objectives: objectives))
        }
    }
}
