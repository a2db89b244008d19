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

/// SQL of the numbers of fetches by class of the milliseconds in a column of `ended`, of the kind of the row `n`.
private func classes(of column: String) -> String {
    """
    ARRAY(SELECT (SELECT count(*) FROM ended o
                  WHERE o.kind_id = n.kind_id AND o.\(column) IS NOT NULL AND c.class =
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

/// Devices whose fetches may be written now. The statement that records them follows in the transaction, so that it reads
/// the contents that were stored before a mark for which this one has waited.
private let lockSQL = """
    SELECT r.id FROM registration r
    WHERE r.id = ANY (ARRAY(
            SELECT o.id FROM \(ServedContent.input.rows("i")) JOIN app a ON a.name = i.app
            JOIN widget w ON w.app_id = a.id AND w.id = i.widget
            JOIN registration o ON o.app_id = w.app_id AND o.user_id = w.user_id AND o.device_id = w.device_id
            WHERE o.channel <> 0
        ))
        AND (r.recorded_at IS NULL OR r.recorded_at < now() - \(spacing))
    ORDER BY r.id FOR NO KEY UPDATE
    """

/// A timeline stops being stale on a device when its latest content is served; content that has changed again meanwhile
/// leaves it stale. The push is the one that the fetch follows, if it was sent after the change.
private let recordSQL = """
    WITH found AS MATERIALIZED (
        SELECT i.n, r.id, w.timeline_id, w.kind_id, i.revision, i.revision >= t.content_revision AS is_latest,
               now() - i.age * interval '1 millisecond' AS served_at
        FROM \(ServedContent.input.rows("i")) JOIN app a ON a.name = i.app
        JOIN widget w ON w.app_id = a.id AND w.id = i.widget
        JOIN registration r ON r.app_id = w.app_id AND r.user_id = w.user_id AND r.device_id = w.device_id
        JOIN timeline t ON t.id = w.timeline_id
        WHERE r.channel <> 0
    ), due AS MATERIALIZED (
        SELECT r.id, r.sent_at, r.fetched_at, r.fetched_timelines, r.fetched_revisions, r.stale_timelines, r.stale_since
        FROM registration r WHERE r.id = ANY ($\(ServedContent.input.count + 4)::int8[])
    ), served AS MATERIALIZED (
        SELECT f.id, f.timeline_id, f.kind_id, max(f.revision) AS revision, bool_or(f.is_latest) AS is_latest,
               min(f.served_at) FILTER (WHERE f.is_latest) AS served_at
        FROM found f JOIN due d ON d.id = f.id GROUP BY f.id, f.timeline_id, f.kind_id
    ), latest AS MATERIALIZED (
        SELECT d.id, s.served_at, CASE WHEN s.served_at >= d.sent_at AND (d.fetched_at IS NULL OR d.fetched_at < d.sent_at)
            THEN extract(epoch FROM s.served_at - d.sent_at) * 1000 END AS push_latency
        FROM due d JOIN (SELECT id, max(served_at) AS served_at FROM found GROUP BY id) s ON s.id = d.id
    ), ended AS MATERIALIZED (
        SELECT s.id, s.timeline_id, s.kind_id,
               greatest(extract(epoch FROM s.served_at - p.since) * 1000, 0)::int8 AS latency,
               CASE WHEN d.sent_at >= p.since AND s.served_at >= d.sent_at
                   THEN (extract(epoch FROM s.served_at - d.sent_at) * 1000)::int8 END AS push_latency
        FROM served s JOIN due d ON d.id = s.id
        CROSS JOIN unnest(d.stale_timelines, d.stale_since) p (timeline_id, since)
        WHERE p.timeline_id = s.timeline_id AND s.is_latest
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
        SELECT d.id, array_agg(p.timeline_id ORDER BY p.timeline_id) AS timelines,
               array_agg(p.since ORDER BY p.timeline_id) AS since
        FROM due d CROSS JOIN unnest(d.stale_timelines, d.stale_since) p (timeline_id, since)
        JOIN shown s ON s.id = d.id AND s.timeline_id = p.timeline_id
        WHERE NOT EXISTS (SELECT FROM ended e WHERE e.id = d.id AND e.timeline_id = p.timeline_id)
        GROUP BY d.id
    ), written AS (
        UPDATE registration r
        SET recorded_at = now(), fetched_at = greatest(r.fetched_at, f.served_at),
            fetched_timelines = coalesce(k.timelines, '{}'), fetched_revisions = coalesce(k.revisions, '{}'),
            stale_timelines = coalesce(s.timelines, '{}'), stale_since = coalesce(s.since, '{}'),
            answered_pushes = r.answered_pushes + (f.push_latency IS NOT NULL)::int,
            push_latencies = CASE WHEN f.push_latency IS NULL THEN r.push_latencies
                ELSE (least(f.push_latency, 2e9)::int || r.push_latencies)[1:\(Registration.latencyLimit)] END
        FROM latest f LEFT JOIN kept k ON k.id = f.id LEFT JOIN stale s ON s.id = f.id
        WHERE r.id = f.id
    ), counted AS (
        INSERT INTO delivery_statistics AS s (kind_id, hour, fetched, late, latencies, push_latencies)
        SELECT n.kind_id, date_trunc('hour', now()), count(*), count(*) FILTER (WHERE n.latency > coalesce(
                   (SELECT o.objective FROM unnest($\(ServedContent.input.count + 2)::int4[],
                        $\(ServedContent.input.count + 3)::int8[]) o (kind_id, objective)
                    WHERE o.kind_id = n.kind_id), $\(ServedContent.input.count + 1)::int8)),
               \(classes(of: "latency")), \(classes(of: "push_latency"))
        FROM ended n GROUP BY n.kind_id ORDER BY n.kind_id
        ON CONFLICT (kind_id, hour) DO UPDATE
        SET fetched = s.fetched + excluded.fetched, late = s.late + excluded.late,
            latencies = \(sum("s.latencies", "excluded.latencies")),
            push_latencies = \(sum("s.push_latencies", "excluded.push_latencies"))
    )
    SELECT f.n FROM found f WHERE NOT EXISTS (SELECT FROM due d WHERE d.id = f.id)
    """

/// Objectives of kinds: the time within which devices are to fetch a change.
package struct FreshnessObjectives: Hashable, Sendable {
    /// Objective of the kinds without one of their own.
    package let general: Duration
    package var byKind: [Int32: Duration] = [:]

    package init(general: Duration, byKind: [Int32: Duration] = [:]) {
        self.general = general
        self.byKind = byKind
    }
}

/// Numbers of durations by power of two of milliseconds.
package struct LatencyClasses: Hashable, Sendable {
    package let counts: [Int64]

    package init(_ counts: [Int64]) {
        self.counts = counts
    }

    /// A quantile, interpolated within a power of two; nil: there are none.
    package func quantile(_ quantile: Double) -> Duration? {
        let total = counts.reduce(0, +)
        guard total > 0 else { return nil }
        let rank = quantile * Double(total)
        var below = 0.0
        for (index, count) in counts.enumerated() where count > 0 {
            let here = Double(count)
            if below + here >= rank {
                let low = index == 0 ? 0 : Double(1 << index)
                return .milliseconds(Int64(low + (Double(2 << index) - low) * (rank - below) / here))
            }
            below += here
        }
        return .milliseconds(Int64(1) << Int64(counts.count))
    }
}

/// Delivery to the devices that show a kind's timelines.
package struct DeliveryTotals: Hashable, Sendable {
    package let kindID: Int32
    /// Timelines that became stale on a device.
    package let changes: Int64
    /// Those that the device has fetched.
    package let fetched: Int64
    /// Fetches that were later than the objective.
    package let late: Int64
    /// Times from the change to the fetch.
    package let latencies: LatencyClasses
    /// Times from the push to the fetch.
    package let pushLatencies: LatencyClasses

    package init(
        kindID: Int32, changes: Int64, fetched: Int64, late: Int64, latencies: LatencyClasses,
        pushLatencies: LatencyClasses
    ) {
        self.kindID = kindID
        self.changes = changes
        self.fetched = fetched
        self.late = late
        self.latencies = latencies
        self.pushLatencies = pushLatencies
    }

    /// Changes that the device has not fetched.
    package var notFetched: Int64 { max(0, changes - fetched) }

    /// Changes that were not fetched within the objective.
    package var missed: Int64 { notFetched + late }

    /// Share of the changes that were fetched within the objective; nil: there were none.
    package var attained: Double? {
        let all = notFetched + fetched
        return all > 0 ? Double(fetched - late) / Double(all) : nil
    }
}

/// Number of registered devices.
package struct DeviceTotals: Hashable, Sendable {
    package let devices: Int64
    /// Those that wait to be notified.
    package let waiting: Int64
    /// Those that were notified and have fetched nothing since.
    package let silent: Int64

    package init(devices: Int64, waiting: Int64, silent: Int64) {
        self.devices = devices
        self.waiting = waiting
        self.silent = silent
    }
}

/// SQL of the sums of an array of the rows of a kind, place by place, separated by commas.
private func sums(of column: String) -> String {
    """
    (SELECT string_agg(c.count::text, ',' ORDER BY c.place)
     FROM (SELECT x.place, sum(x.count) AS count
           FROM delivery_statistics o CROSS JOIN unnest(o.\(column)) WITH ORDINALITY x (count, place)
           WHERE o.kind_id = s.kind_id AND o.hour > now() - $1::int8 * interval '1 hour'
           GROUP BY x.place) c)
    """
}

private let totalsSQL = """
    SELECT s.kind_id, sum(s.changes)::int8 AS changes, sum(s.fetched)::int8 AS fetched, sum(s.late)::int8 AS late,
           \(sums(of: "latencies")) AS latencies, \(sums(of: "push_latencies")) AS push_latencies
    FROM delivery_statistics s WHERE s.hour > now() - $1::int8 * interval '1 hour'
    GROUP BY s.kind_id ORDER BY s.kind_id
    """

/// Rows from which numbers of devices are estimated.
private let sampledDevices = 50_000

extension PostgresStatement where Self == Statements {
    /// Locks the devices that have fetched something and whose fetches may be written now.
    package static func lockFetchers(of served: [ServedContent]) -> PostgresQuery<Int64> {
        PostgresQuery(lockSQL, binding: ServedContent.input.parameters(Array(served.enumerated()))) { row in
            try row.value("id")
        }
    }

    /// Records what locked devices have fetched. Answers the indexes of what other devices have fetched.
    package static func recordFetches(
        _ served: [ServedContent], of locked: [Int64], objectives: FreshnessObjectives
    ) -> PostgresQuery<Int> {
        let kinds = objectives.byKind.sorted { $0.key < $1.key }
        return PostgresQuery(
            recordSQL,
            binding: ServedContent.input.parameters(
                Array(served.enumerated()), objectives.general.wholeMilliseconds, PostgresArray(kinds.map(\.key)),
                PostgresArray(kinds.map(\.value.wholeMilliseconds)), PostgresArray(locked))
        ) { row in Int(try row.value("n", as: Int32.self)) }
    }

    /// Delivery by kind over the last hours.
    package static func deliveryTotals(hours: Int) -> PostgresQuery<DeliveryTotals> {
        PostgresQuery(totalsSQL, hours) { row in
            DeliveryTotals(
                kindID: try row.value("kind_id"), changes: try row.value("changes"), fetched: try row.value("fetched"),
                late: try row.value("late"), latencies: try row.latencies("latencies"),
                pushLatencies: try row.latencies("push_latencies"))
        }
    }

    /// Number of registered devices, of those that wait to be notified, and of those that were notified longer ago than a time
    /// and have fetched nothing since: an estimate from a part of the rows where there are many.
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

extension WidgetStore {
    /// Records what devices have fetched, at most once a minute for each device.
    ///
    /// - Returns: the indexes of what was not recorded yet.
    package func recordFetches(_ served: [ServedContent], objectives: FreshnessObjectives) async throws -> [Int] {
        try await pool.withTransaction { connection in
            let locked = try await connection.query(.lockFetchers(of: served))
            return try await connection.query(.recordFetches(served, of: locked, objectives: objectives))
        }
    }
}

extension PostgresRow {
    /// Numbers of latencies by class, separated by commas.
    fileprivate func latencies(_ name: StaticString) throws(PostgresError) -> LatencyClasses {
        LatencyClasses((try optional(name, as: String.self) ?? "").split(separator: ",").compactMap { Int64($0) })
    }
}
