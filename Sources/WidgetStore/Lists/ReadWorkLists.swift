package import PostgresClient
package import WidgetModel

package struct WorkCount: Hashable, Sendable {
    package let lists: Int
    package let timelines: Int
}

package struct WorkLists: Hashable, Sendable {
    package let app: String
    package let kind: String
    package let lane: ReloadLane
    package let isPaused: Bool
    /// Lists that any worker may lease now.
    package let ready: WorkCount
    /// Lists that a worker has leased.
    package let leased: WorkCount
    /// Due lists that were given back and wait, for a provider that is left alone or for Kafka.
    package let resting: WorkCount
    /// Lists that lie ahead.
    package let later: WorkCount
    /// Time since the oldest due list became due; nil: none is due.
    package let oldest: Duration?
    /// When the next list that lies ahead becomes due.
    package let next: Timestamp?

    package var isDue: Bool { oldest != nil }
}

private let states = [
    ("ready", "w.ready_at <= now()"), ("leased", "w.ready_at > now() AND w.lease IS NOT NULL"),
    ("resting", "w.ready_at > now() AND w.lease IS NULL AND w.due_at <= now()"),
    ("later", "w.ready_at > now() AND w.lease IS NULL AND w.due_at > now()"),
]

private let counts = states.map { name, condition in
    """
    count(*) FILTER (WHERE \(condition)) AS \(name)_lists,
    coalesce(sum(cardinality(w.timelines)) FILTER (WHERE \(condition)), 0)::int8 AS \(name)_timelines
    """
}.joined(separator: ",\n")

private let readWorkListsSQL = """
    SELECT a.name AS app, k.name AS kind, w.lane, k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL AS paused,
        \(counts),
        extract(epoch FROM now() - min(w.due_at) FILTER (WHERE w.due_at <= now()))::float8 AS oldest,
        min(w.due_at) FILTER (WHERE w.due_at > now()) AS next
    FROM work w JOIN kind k ON k.id = w.kind_id JOIN app a ON a.id = k.app_id
    WHERE $1::text IS NULL OR a.name = $1::text
    GROUP BY a.name, k.name, w.lane, k.paused_at, a.paused_at
    ORDER BY a.name, k.name, w.lane
    """

extension PostgresStatement where Self == Statements {
    /// Work left by kind and lane. Reads every work list, so it is for commands, not for metrics.
    ///
    /// - Parameter app: nil: every app.
    package static func readWorkLists(app: String?) -> PostgresQuery<WorkLists> {
        PostgresQuery(readWorkListsSQL, app) { row in
            try WorkLists(
                app: row.value("app"), kind: row.value("kind"), lane: row.value("lane"), isPaused: row.value("paused"),
                ready: WorkCount(lists: row.value("ready_lists"), timelines: row.value("ready_timelines")),
                leased: WorkCount(lists: row.value("leased_lists"), timelines: row.value("leased_timelines")),
                resting: WorkCount(lists: row.value("resting_lists"), timelines: row.value("resting_timelines")),
                later: WorkCount(lists: row.value("later_lists"), timelines: row.value("later_timelines")),
                oldest: row.optional("oldest", as: Double.self).map { .seconds($0) }, next: row.optional("next"))
        }
    }

    /// Number of sweeps that are not done, those of paused kinds and apps left out.
    ///
    /// - Parameter app: nil: every app.
    package static func countSweeps(app: String?) -> PostgresQuery<Int> {
        PostgresQuery(
            """
            SELECT count(*) AS sweeps FROM sweep s JOIN app a ON a.id = s.app_id LEFT JOIN kind k ON k.id = s.kind_id
            WHERE a.paused_at IS NULL AND k.paused_at IS NULL AND ($1::text IS NULL OR a.name = $1::text)
            """, app
        ) { row in try row.value("sweeps") }
    }
}
