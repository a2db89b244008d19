package import PostgresClient
package import WidgetModel

/// The stored columns of ``KindCounters``, in the order of its fields.
private enum Columns {
    static let names = [
        "requests", "asked", "reloaded", "unchanged", "failed", "deferred", "slept", "released", "bytes_stored",
        "bytes_spared", "messages_published", "messages_spared", "short_gaps", "single_entries_at_end", "round_hours",
    ]

    static func list(_ transform: (String) -> String = { $0 }) -> String {
        names.map(transform).joined(separator: ", ")
    }
}

/// Adds to what is counted of kinds today (UTC), in key order. A kind that does not exist is left out.
package struct AddKindStatistics: PostgresStatement {
    package static let sql = """
        INSERT INTO kind_statistics AS s (kind_id, day, \(Columns.list()))
        SELECT k.id, (now() AT TIME ZONE 'UTC')::date, \(Columns.list { "i.\($0)" })
        FROM unnest($1::int4[], \(Columns.names.indices.map { "$\($0 + 2)::int8[]" }.joined(separator: ", ")))
            AS i (kind_id, \(Columns.list())) JOIN kind k ON k.id = i.kind_id
        ORDER BY k.id
        ON CONFLICT (kind_id, day) DO UPDATE SET \(Columns.list { "\($0) = s.\($0) + excluded.\($0)" })
        """

    let increments: [(kindID: Int32, counters: KindCounters)]

    /// - Parameter increments: one for each kind.
    package init(_ increments: [(kindID: Int32, counters: KindCounters)]) {
        self.increments = increments
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(array: increments.map(\.kindID))
        for field in KindCounters.fields {
            parameters.append(array: increments.map { Int64($0.counters[keyPath: field.path]) })
        }
    }
}

/// Forgets the counts of days long past.
package struct PruneKindStatistics: PostgresStatement {
    package static let sql = "DELETE FROM kind_statistics WHERE day < (now() AT TIME ZONE 'UTC')::date - $1::int4"

    let days: Int

    package init(olderThan days: Int) {
        self.days = days
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(Int32(clamping: days))
    }
}

/// What was counted of an app's kinds in the last days (UTC), today included, by kind and day.
package struct ReadKindStatistics: PostgresStatement {
    package struct Row: Hashable, Sendable {
        package let kind: String
        package let isRetired: Bool
        /// `2026-06-22`; `nil` when nothing was counted in these days: the kind's only row then.
        package let day: String?
        package let counters: KindCounters

        package init(kind: String, isRetired: Bool, day: String?, counters: KindCounters) {
            self.kind = kind
            self.isRetired = isRetired
            self.day = day
            self.counters = counters
        }
    }

    package static let sql = """
        SELECT k.name, k.retired_at IS NOT NULL, to_char(s.day, 'YYYY-MM-DD'), \(Columns.list { "coalesce(s.\($0), 0)" })
        FROM app a
        JOIN kind k ON k.app_id = a.id
        LEFT JOIN kind_statistics s ON s.kind_id = k.id AND s.day > (now() AT TIME ZONE 'UTC')::date - $2::int4
        WHERE a.name = $1::text AND (k.retired_at IS NULL OR s.day IS NOT NULL)
        ORDER BY k.name, s.day
        """

    let app: String
    let days: Int

    package init(app: String, days: Int) {
        self.app = app
        self.days = days
    }

    package func bind(_ parameters: inout PostgresParameters) {
        parameters.append(app)
        parameters.append(Int32(clamping: days))
    }

    package static func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Row {
        var counters = KindCounters()
        for (index, field) in KindCounters.fields.enumerated() {
            counters[keyPath: field.path] = Int(try row.value(3 + index, as: Int64.self))
        }
        return Row(kind: try row.value(0), isRetired: try row.value(1), day: try row.optional(2), counters: counters)
    }
}
