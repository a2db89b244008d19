// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
import WidgetModel

/// Objectives of kinds: the time within which devices are to fetch a change.
package struct FreshnessObjectives: Hashable, Sendable {
    /// Objective of the kinds without one of their own.
    package let general: Duration
    package let byKind: [Int32: Duration]

    package init(general: Duration, byKind: [Int32: Duration] = [:]) {
        self.general = general
        self.byKind = byKind
    }

    package init(general: Duration, kinds: some Sequence<RegisteredKind>) {
        self.init(
            general: general,
            byKind: Dictionary(
                kinds.compactMap { kind in kind.definition.freshnessObjective.map { (kind.id, $0) } },
                uniquingKeysWith: { $1 }))
    }

    private var sorted: [(key: Int32, value: Duration)] { byKind.sorted { $0.key < $1.key } }
    var kinds: PostgresArray<Int32> { PostgresArray(sorted.map(\.key)) }
    var limits: PostgresArray<Int64> { PostgresArray(sorted.map(\.value.wholeMilliseconds)) }
}

/// SQL of the objective of a kind in milliseconds. The general one, the kinds and their own are the parameters after
/// one.
func objective(of kind: String, after parameter: Int) -> String {
    """
    coalesce((SELECT o.objective FROM unnest($\(parameter + 2)::int4[], $\(parameter + 3)::int8[]) o (kind_id, objective)
              WHERE o.kind_id = \(kind)), $\(parameter + 1)::int8)
    """
}

/// Delivery to the devices that show a kind's timelines.
package struct DeliveryTotals: Hashable, Sendable {
    /// Days for which statistics are kept.
    package static let keptDays = 31

    package let kindID: Int32
    /// Timelines that became stale on a device.
    package let changes: Int64
    /// Those that the device has fetched.
    package let fetched: Int64
    /// Fetches that were later than the objective.
    package let late: Int64
    /// Changes that are older than the objective.
    package let due: Int64
    /// Those that the device has fetched within the objective.
    package let inTime: Int64
    /// Times from the change to the fetch, as ``quantile(_:of:)`` reads them.
    package let latencies: [Int64]
    /// Times from the push to the fetch.
    package let pushLatencies: [Int64]

    /// Changes that the device has not fetched.
    package var notFetched: Int64 { max(0, changes - fetched) }

    /// Share of the changes that the device has not fetched; nil: there were none.
    package var notFetchedShare: Double? { changes > 0 ? Double(notFetched) / Double(changes) : nil }

    /// Changes that are older than the objective and were not fetched within it.
    package var missed: Int64 { max(0, due - inTime) }

    /// Share of the changes that were fetched within the objective; nil: there were none.
    package var attained: Double? { due > 0 ? Double(due - missed) / Double(due) : nil }

    /// A quantile of durations whose numbers by power of two of milliseconds these are, interpolated within a power of
    /// two; nil: there are none.
    package static func quantile(_ quantile: Double, of counts: [Int64]) -> Duration? {
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

/// Number of registered devices.
package struct DeviceTotals: Hashable, Sendable {
    package let devices: Int64
    /// Those that wait to be notified.
    package let waiting: Int64
    /// Those that were notified and have fetched nothing since.
    package let silent: Int64

    package static let zero = DeviceTotals(devices: 0, waiting: 0, silent: 0)
}

private let totalsSQL = """
    WITH totals AS MATERIALIZED (
        SELECT b.*, b.bucket + interval '5 minutes'
                   <= now() - coalesce(o.objective, $2::int8) * interval '1 millisecond' AS is_due
        FROM delivery_statistics b
        LEFT JOIN unnest($3::int4[], $4::int8[]) o (kind_id, objective) ON o.kind_id = b.kind_id
        WHERE b.bucket > now() - $1::int8 * interval '1 hour' AND b.kind_id = ANY ($5::int4[])
    ), classes AS (
        SELECT t.kind_id, x.place, coalesce(sum(x.latencies), 0) AS latencies,
               coalesce(sum(x.push_latencies), 0) AS push_latencies
        FROM totals t CROSS JOIN unnest(t.latencies, t.push_latencies) WITH ORDINALITY
            x (latencies, push_latencies, place)
        GROUP BY t.kind_id, x.place
    ), distributions AS (
        SELECT c.kind_id, string_agg(c.latencies::text, ',' ORDER BY c.place) AS latencies,
               string_agg(c.push_latencies::text, ',' ORDER BY c.place) AS push_latencies
        FROM classes c GROUP BY c.kind_id
    ), counts AS (
        SELECT t.kind_id, sum(t.changes)::int8 AS changes, sum(t.fetched)::int8 AS fetched, sum(t.late)::int8 AS late,
               coalesce(sum(t.changes) FILTER (WHERE t.is_due), 0)::int8 AS due,
               coalesce(sum(t.fetched - t.late) FILTER (WHERE t.is_due), 0)::int8 AS in_time
        FROM totals t GROUP BY t.kind_id
    )
    SELECT c.kind_id, c.changes, c.fetched, c.late, c.due, c.in_time, d.latencies, d.push_latencies
    FROM counts c LEFT JOIN distributions d ON d.kind_id = c.kind_id ORDER BY c.kind_id
    """

/// Rows from which numbers of devices are estimated.
private let sampledDevices = 50_000

extension PostgresStatement where Self == Statements {
    /// Delivery by kind over the last hours, to five minutes; ``DeliveryTotals/keptDays`` at most.
    package static func deliveryTotals(
        of kinds: some Sequence<Int32>, hours: Int, objectives: FreshnessObjectives
    ) -> PostgresQuery<DeliveryTotals> {
        PostgresQuery(
            totalsSQL, hours, objectives.general.wholeMilliseconds, objectives.kinds, objectives.limits,
            PostgresArray(Array(kinds))
        ) { row in
            try DeliveryTotals(
                kindID: row.value("kind_id"), changes: row.value("changes"), fetched: row.value("fetched"),
                late: row.value("late"), due: row.value("due"), inTime: row.value("in_time"),
                latencies: row.latencies("latencies"), pushLatencies: row.latencies("push_latencies"))
        }
    }

    /// Numbers of registered devices, of waiting ones, and of those that were notified longer ago than a time
    /// and have fetched nothing since: an estimate from a part of the rows where there are many.
    ///
    /// - Parameter app: nil for the devices of all apps.
    package static func deviceTotals(of app: String? = nil, silentFor time: Duration) -> PostgresQuery<DeviceTotals> {
        PostgresQuery(
            """
            WITH share AS MATERIALIZED (
                SELECT least(100, 100.0 * \(sampledDevices) / greatest(c.reltuples, 1))::real AS percent
                FROM pg_class c WHERE c.oid = 'registration'::regclass
            )
            SELECT (count(r.id) * 100 / s.percent)::int8 AS devices,
                   (count(*) FILTER (WHERE r.changed > r.sent) * 100 / s.percent)::int8 AS waiting,
                   (count(*) FILTER (WHERE r.first_sent_at < now() - $1::int8 * interval '1 millisecond'
                       AND (r.fetched_at IS NULL OR r.fetched_at < r.first_sent_at)) * 100 / s.percent)::int8 AS silent
            FROM share s LEFT JOIN (
                SELECT * FROM registration x TABLESAMPLE SYSTEM ((SELECT percent FROM share))
                WHERE x.channel <> 0
                    AND ($2::text IS NULL OR x.app_id = (SELECT a.id FROM app a WHERE a.name = $2::text))
            ) r ON true GROUP BY s.percent
            """, time.wholeMilliseconds, app
        ) { row in
            try DeviceTotals(devices: row.value("devices"), waiting: row.value("waiting"), silent: row.value("silent"))
        }
    }

    /// Deletes statistics older than ``DeliveryTotals/keptDays``, and a chunk of the devices that were unregistered
    /// three months ago. Changes as many rows as devices are deleted.
    package static func deleteOldDelivery(limit: Int) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH statistics AS (
                DELETE FROM delivery_statistics s WHERE s.bucket < now() - interval '\(DeliveryTotals.keptDays) days'
            ), old AS MATERIALIZED (
                SELECT r.id FROM registration r
                WHERE r.channel = 0 AND r.registered_at < now() - interval '90 days'
                ORDER BY r.registered_at LIMIT $1::int8 FOR UPDATE SKIP LOCKED
            ), ahead AS MATERIALIZED (
                -- The time of a clock that was ahead, which no later event respects.
                SELECT r.id FROM registration r
                WHERE r.channel = 0 AND r.registered_at > now() + interval '90 days'
                LIMIT $1::int8 FOR UPDATE SKIP LOCKED
            )
            DELETE FROM registration r USING (SELECT id FROM old UNION ALL SELECT id FROM ahead) g WHERE r.id = g.id
            """, limit)
    }
}

extension PostgresRow {
    /// Numbers of latencies by class, separated by commas.
    fileprivate func latencies(_ name: StaticString) throws(PostgresError) -> [Int64] {
        let text: String = try optional(name) ?? ""
        return text.split(separator: ",").compactMap { Int64($0) }
    }
}
