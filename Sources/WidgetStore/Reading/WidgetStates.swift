// SPDX-License-Identifier: Apache-2.0

package import PostgresClient
package import WidgetModel

/// State of a widget for operators, the first that applies.
package enum WidgetState: String, CaseIterable, Sendable {
    /// An operator has paused its kind or its app.
    case paused
    /// The last fetch of its timeline failed.
    case failing
    /// Its timeline has been due for longer than ``overdueAfter``, and no worker has finished it.
    case overdue
    /// A request is newer than its content, and waits for a worker, for spacing or for budget.
    case stale
    /// Nothing is stored yet.
    case empty
    /// Not viewed for a long time: only a request or a view reloads it.
    case sleeping
    case fresh

    /// Time for which a due timeline may wait for a worker.
    package static let overdueAfter = Duration.seconds(60)
    /// Most widgets whose state is looked at for a list or a count.
    package static let examined = 10_000

    /// Expression of a timeline `t`, its kind `k` and its app `a`; NULL without a timeline.
    static let sql = """
        CASE WHEN t.id IS NULL THEN NULL
             WHEN k.paused_at IS NOT NULL OR a.paused_at IS NOT NULL THEN '\(paused.rawValue)'
             WHEN t.attempts > 0 THEN '\(failing.rawValue)'
             WHEN t.listed_at < now() - interval '\(overdueAfter.wholeMilliseconds) milliseconds'
                 THEN '\(overdue.rawValue)'
             WHEN \(RowFormula.isStale) THEN '\(stale.rawValue)'
             WHEN t.content_revision = 0 THEN '\(empty.rawValue)'
             WHEN t.asleep THEN '\(sleeping.rawValue)'
             ELSE '\(fresh.rawValue)' END
        """
}

extension WidgetState: PostgresConvertible {}

/// Number of widgets of a kind in a state.
package struct WidgetStateCount: Hashable, Sendable {
    package let kind: String
    package let state: WidgetState
    package let widgets: Int
    /// The highest id.
    package let last: String
}

extension PostgresStatement where Self == Statements {
    /// Since when the oldest ready work list of each kind of an app has been due, without paused and retired kinds;
    /// kinds without one have no row. Looks only at the front of each queue.
    package static func oldestDue(app: String) -> PostgresQuery<(kind: String, since: Timestamp)> {
        PostgresQuery(
            """
            SELECT k.name AS kind, min(d.due_at) AS since
            FROM app a
            JOIN kind k ON k.app_id = a.id
            CROSS JOIN unnest(ARRAY[0, 1, 2, 3]::int2[]) AS l (lane)
            CROSS JOIN LATERAL (
                SELECT w.due_at FROM work w
                WHERE w.kind_id = k.id AND w.lane = l.lane AND w.ready_at <= now()
                ORDER BY w.ready_at
                LIMIT 1
            ) d
            WHERE a.name = $1::text AND a.paused_at IS NULL AND k.paused_at IS NULL AND k.retired_at IS NULL
            GROUP BY k.name
            ORDER BY since
            """, app
        ) { row in try (kind: row.value("kind"), since: row.value("since")) }
    }
}
