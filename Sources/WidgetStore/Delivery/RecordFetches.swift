package import PostgresClient
import WidgetModel

/// Content that the API has served to a widget's device.
package struct ServedContent: Hashable, Sendable {
    package let app: String
    package let widget: String
    package let revision: Int64
    /// Time since it was served.
    package let age: Duration

    package init(app: String, widget: String, revision: Int64, age: Duration) {
        self.app = app
        self.widget = widget
        self.revision = revision
        self.age = age
    }

    fileprivate static let input = InputColumns<(offset: Int, element: ServedContent)>([
        .init("n") { Int32($0.offset) }, .init("app") { $0.element.app }, .init("widget") { $0.element.widget },
        .init("revision") { $0.element.revision }, .init("age") { $0.element.age.wholeMilliseconds },
    ])
}

/// Least time between two writes of a device's fetches.
private let spacing = "interval '1 minute'"

/// Numbers of fetches by power of two of milliseconds: classes up to an hour, and a last one for all later ones.
private let latencyClasses = 23

/// The time from the change is known only for the latest content: an earlier one is counted without it.
private let recordSQL = """
    WITH found AS MATERIALIZED (
        SELECT i.n, r.id, r.fetched_at, w.timeline_id, w.kind_id, i.revision,
               coalesce(r.fetched_revisions[array_position(r.fetched_timelines, w.timeline_id)], 0) AS before,
               CASE WHEN i.revision = t.content_revision THEN greatest(
                   extract(epoch FROM now() - t.stored_at) * 1000 - i.age, 0)::int8 END AS latency
        FROM \(ServedContent.input.rows("i")) JOIN app a ON a.name = i.app
        JOIN widget w ON w.app_id = a.id AND w.id = i.widget
        JOIN registration r ON r.app_id = w.app_id AND r.user_id = w.user_id AND r.device_id = w.device_id
        JOIN timeline t ON t.id = w.timeline_id
        WHERE r.channel <> 0
    ), due AS MATERIALIZED (
        SELECT r.id, r.fetched_timelines, r.fetched_revisions FROM registration r
        WHERE r.id = ANY (ARRAY(SELECT id FROM found))
            AND (r.fetched_at IS NULL OR r.fetched_at < now() - \(spacing))
        ORDER BY r.id FOR NO KEY UPDATE
    ), fresh AS (
        SELECT f.id, f.timeline_id, max(f.revision) AS revision FROM found f JOIN due d ON d.id = f.id
        GROUP BY f.id, f.timeline_id
    ), merged AS (
        SELECT m.id, array_agg(m.timeline_id ORDER BY m.timeline_id) AS timelines,
               array_agg(m.revision ORDER BY m.timeline_id) AS revisions
        FROM (
            SELECT id, timeline_id, revision FROM fresh
            UNION ALL
            SELECT d.id, o.timeline_id, o.revision
            FROM due d CROSS JOIN unnest(d.fetched_timelines, d.fetched_revisions) o (timeline_id, revision)
            JOIN registration r ON r.id = d.id
            WHERE NOT EXISTS (SELECT FROM fresh f WHERE f.id = d.id AND f.timeline_id = o.timeline_id)
                AND EXISTS (
                    SELECT FROM widget w
                    WHERE w.timeline_id = o.timeline_id AND w.app_id = r.app_id AND w.device_id = r.device_id)
        ) m GROUP BY m.id
    ), written AS (
        UPDATE registration r
        SET fetched_at = now(), fetched_timelines = m.timelines, fetched_revisions = m.revisions
        FROM merged m WHERE r.id = m.id
    ), news AS (
        SELECT f.kind_id, f.latency,
               CASE WHEN f.latency IS NULL THEN NULL
                    ELSE least(floor(log(2, greatest(f.latency, 1)::numeric))::int, \(latencyClasses - 1)) END AS class
        FROM found f JOIN due d ON d.id = f.id WHERE f.revision > f.before
    ), counted AS (
        INSERT INTO delivery_statistics AS s (kind_id, hour, fetched, late, latencies)
        SELECT n.kind_id, date_trunc('hour', now()), count(*),
               count(*) FILTER (WHERE n.latency > $\(ServedContent.input.count + 1)::int8),
               ARRAY(SELECT (SELECT count(*) FROM news o WHERE o.kind_id = n.kind_id AND o.class = c.class)
                     FROM generate_series(0, \(latencyClasses - 1)) c (class) ORDER BY c.class)
        FROM news n GROUP BY n.kind_id ORDER BY n.kind_id
        ON CONFLICT (kind_id, hour) DO UPDATE
        SET fetched = s.fetched + excluded.fetched, late = s.late + excluded.late,
            latencies = ARRAY(
                SELECT coalesce(x.old, 0) + coalesce(x.new, 0)
                FROM unnest(s.latencies, excluded.latencies) WITH ORDINALITY x (old, new, place) ORDER BY x.place)
    )
    SELECT f.n FROM found f WHERE NOT EXISTS (SELECT FROM due d WHERE d.id = f.id)
    """

/// Delivery to the devices that show a kind's timelines.
package struct DeliveryTotals: Hashable, Sendable {
    package let kindID: Int32
    package let changes: Int64
    package let fetched: Int64
    package let late: Int64
    /// Numbers of fetches by power of two of milliseconds since the change.
    package let latencies: [Int64]

    /// Changes that no device fetched before the next one, or has not fetched yet.
    package var notFetched: Int64 { max(0, changes - fetched) }

    /// A quantile of the times from a change to its fetch, interpolated within a power of two; nil: there was none.
    package func latency(_ quantile: Double) -> Duration? {
        let total = latencies.reduce(0, +)
        guard total > 0 else { return nil }
        let rank = quantile * Double(total)
        var below = 0.0
        for (index, count) in latencies.enumerated() where count > 0 {
            let here = Double(count)
            if below + here >= rank {
                let low = index == 0 ? 0 : Double(1 << index)
                return .milliseconds(Int64(low + (Double(2 << index) - low) * (rank - below) / here))
            }
            below += here
        }
        return .milliseconds(Int64(1) << Int64(latencies.count))
    }
}

/// Number of registered devices.
package struct DeviceTotals: Hashable, Sendable {
    package let devices: Int64
    /// Those that wait to be told.
    package let waiting: Int64
    /// Those that were told and have fetched nothing since.
    package let silent: Int64
}

/// Rows from which numbers of devices are estimated.
private let sampledDevices = 50_000

extension PostgresStatement where Self == Statements {
    /// Records what devices have fetched, at most once a minute for each device. Answers the indexes of those that were not
    /// recorded yet.
    ///
    /// - Parameter objective: later fetches count as late.
    package static func recordFetches(_ served: [ServedContent], objective: Duration) -> PostgresQuery<Int> {
        PostgresQuery(
            recordSQL, binding: ServedContent.input.parameters(Array(served.enumerated()), objective.wholeMilliseconds)
        ) { row in Int(try row.value("n", as: Int32.self)) }
    }

    /// Delivery by kind over the last hours.
    package static func deliveryTotals(hours: Int) -> PostgresQuery<DeliveryTotals> {
        PostgresQuery(
            """
            SELECT s.kind_id, sum(s.changes)::int8 AS changes, sum(s.fetched)::int8 AS fetched, sum(s.late)::int8 AS late,
                   (SELECT string_agg(c.count::text, ',' ORDER BY c.place)
                    FROM (SELECT x.place, sum(x.count) AS count
                          FROM delivery_statistics o CROSS JOIN unnest(o.latencies) WITH ORDINALITY x (count, place)
                          WHERE o.kind_id = s.kind_id AND o.hour > now() - $1::int8 * interval '1 hour'
                          GROUP BY x.place) c) AS latencies
            FROM delivery_statistics s WHERE s.hour > now() - $1::int8 * interval '1 hour'
            GROUP BY s.kind_id ORDER BY s.kind_id
            """, hours
        ) { row in
            DeliveryTotals(
                kindID: try row.value("kind_id"), changes: try row.value("changes"), fetched: try row.value("fetched"),
                late: try row.value("late"),
                latencies: (try row.optional("latencies", as: String.self) ?? "").split(separator: ",").compactMap {
                    Int64($0)
                })
        }
    }

    /// Number of registered devices, of those that wait to be told, and of those that were told and have fetched nothing since,
    /// for longer than a time: an estimate of a part of the rows where there are many.
    package static func deviceTotals(silentFor time: Duration) -> PostgresQuery<DeviceTotals> {
        PostgresQuery(
            """
            WITH share AS MATERIALIZED (
                SELECT least(100, 100.0 * \(sampledDevices) / greatest(c.reltuples, 1))::real AS percent
                FROM pg_class c WHERE c.oid = 'registration'::regclass
            )
            SELECT (count(r.id) * 100 / s.percent)::int8 AS devices,
                   (count(*) FILTER (WHERE r.changed > r.sent) * 100 / s.percent)::int8 AS waiting,
                   (count(*) FILTER (WHERE r.sent_at < now() - $1::int8 * interval '1 millisecond'
                       AND (r.fetched_at IS NULL OR r.fetched_at < r.sent_at)) * 100 / s.percent)::int8 AS silent
            FROM share s LEFT JOIN (
                SELECT * FROM registration x TABLESAMPLE SYSTEM ((SELECT percent FROM share)) WHERE x.channel <> 0
            ) r ON true GROUP BY s.percent
            """, time.wholeMilliseconds
        ) { row in
            DeviceTotals(
                devices: try row.value("devices"), waiting: try row.value("waiting"), silent: try row.value("silent"))
        }
    }

    /// Deletes statistics, and devices that are registered no longer, that are older than a time; a part of them if there are
    /// many.
    package static func deleteOldDelivery(olderThan age: Duration) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH statistics AS (
                DELETE FROM delivery_statistics s WHERE s.hour < now() - $1::int8 * interval '1 millisecond'
            ), gone AS (
                SELECT r.id FROM registration r
                WHERE r.channel = 0 AND r.registered_at < now() - $1::int8 * interval '1 millisecond'
                ORDER BY r.id LIMIT 10000 FOR UPDATE SKIP LOCKED
            )
            DELETE FROM registration r USING gone g WHERE r.id = g.id
            """, age.wholeMilliseconds)
    }
}
