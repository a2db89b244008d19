// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// Stored columns of ``KindCounters`` with their fields.
private let columns: [(name: StaticString, path: KindCounters.Field)] = [
    ("requests", \.requests), ("asked", \.asked), ("reloaded", \.reloaded), ("unchanged", \.unchanged),
    ("failed", \.failed), ("deferred", \.deferred), ("slept", \.slept), ("released", \.released),
    ("bytes_stored", \.bytesStored), ("bytes_spared", \.bytesSpared), ("messages_published", \.messagesPublished),
    ("messages_spared", \.messagesSpared), ("short_gaps", \.shortGaps),
    ("single_entries_at_end", \.singleEntriesAtEnd), ("round_hours", \.roundHours),
    ("several_links", \.severalLinks),
]

private func list(_ expression: (StaticString) -> String) -> String {
    columns.map { expression($0.name) }.joined(separator: ", ")
}

package typealias KindStatisticsIncrement = (kindID: Int32, counters: KindCounters)

private let input = InputColumns<KindStatisticsIncrement>(
    [.init("kind_id") { $0.kindID }]
        + columns.map { name, path in
            InputColumns<KindStatisticsIncrement>.Column("\(name)") { $0.counters[keyPath: path] }
        })

private let addKindStatisticsSQL = """
    INSERT INTO kind_statistics AS s (kind_id, day, \(list { "\($0)" }))
    SELECT k.id, (now() AT TIME ZONE 'UTC')::date, \(list { "i.\($0)" })
    FROM \(input.rows("i")) JOIN kind k ON k.id = i.kind_id
    ORDER BY k.id
    ON CONFLICT (kind_id, day) DO UPDATE SET \(list { "\($0) = s.\($0) + excluded.\($0)" })
    """

package struct KindStatistics: Hashable, Sendable {
    package let kind: String
    package let isRetired: Bool
    /// `2026-06-22`; nil in the only row of a kind without counts in these days.
    package let day: String?
    package let counters: KindCounters
}

private let readKindStatisticsSQL = """
    SELECT k.name, k.retired_at IS NOT NULL AS retired, to_char(s.day, 'YYYY-MM-DD') AS day,
           \(list { "coalesce(s.\($0), 0) AS \($0)" })
    FROM app a
    JOIN kind k ON k.app_id = a.id
    LEFT JOIN kind_statistics s ON s.kind_id = k.id AND s.day > (now() AT TIME ZONE 'UTC')::date - $2::int4
    WHERE a.name = $1::text AND (k.retired_at IS NULL OR s.day IS NOT NULL)
    ORDER BY k.name, s.day
    """

extension PostgresStatement where Self == Statements {
    /// Adds to today's (UTC) counts of kinds, in key order. Missing kinds are left out.
    ///
    /// - Parameter increments: at most one for each kind.
    package static func addKindStatistics(_ increments: [KindStatisticsIncrement]) -> PostgresQuery<Void> {
        PostgresQuery(addKindStatisticsSQL, binding: input.parameters(increments))
    }

    /// Deletes the counts of old days.
    package static func pruneKindStatistics(olderThan days: Int) -> PostgresQuery<Void> {
        PostgresQuery(
            "DELETE FROM kind_statistics WHERE day < (now() AT TIME ZONE 'UTC')::date - $1::int4", Int32(clamping: days)
        )
    }

    /// Counts of an app's kinds in the last days (UTC), today included, by kind and day.
    package static func readKindStatistics(app: String, days: Int) -> PostgresQuery<KindStatistics> {
        PostgresQuery(readKindStatisticsSQL, app, Int32(clamping: days)) { row in
            var counters = KindCounters()
            for (name, path) in columns { counters[keyPath: path] = try row.value(name) }
            return try KindStatistics(
                kind: row.value("name"), isRetired: row.value("retired"), day: row.optional("day"), counters: counters)
        }
    }
}
