// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import WidgetModel

/// An app that was paused while reloads kept coming: its timelines have been due for an hour. They are made by SQL,
/// since placing a million widgets takes long. Nothing reloads them during a run.
enum PausedApp {
    static let name = "com.chaos.paused"
    private static let timelinesOfList = 200
    private static let chunk = 100_000

    /// Manifest for `freshet kinds apply`.
    static func manifest(providerPort: Int) -> String {
        """
        ---
        app: \(name)
        provider: {url: "http://127.0.0.1:\(providerPort)/paused"}
        signingSecret: {environment: CHAOS_SECRET_PAUSED}
        kinds:
          - {name: Waiting, displayName: Waiting, description: for the chaos suite, sharing: perUser, placeholder: {}}

        """
    }

    static let environment = ["CHAOS_SECRET_PAUSED": "whsec_" + String(repeating: "A", count: 44)]

    /// Pauses the app and adds timelines with their lists. The lists have one time and are of people in any order, as
    /// those of pushes that came together.
    static func fill(_ count: Int, in pool: PostgresPool) async throws {
        try await pool.withConnection { connection in
            try await connection.simple("UPDATE app SET paused_at = now() - interval '2 hours' WHERE name = '\(name)'")
            for start in stride(from: 0, to: count, by: chunk) {
                try await connection.simple(sql(from: start, count: min(chunk, count - start)))
            }
            try await connection.simple("ANALYZE timeline, work")
        }
    }

    private static func sql(from start: Int, count: Int) -> String {
        """
        WITH made AS (
            INSERT INTO timeline (identity, kind_id, user_id, configuration, requested, requested_at, cause_reason, listed_at,
                                  listed_lane)
            SELECT md5('paused ' || n)::uuid, k.id, 'p' || n, '{}', 1, now() - interval '1 hour', 5,
                   date_trunc('hour', now()) - interval '2 hours', 1
            FROM generate_series(\(start), \(start + count - 1)) n
            CROSS JOIN (SELECT k.id FROM kind k JOIN app a ON a.id = k.app_id WHERE a.name = '\(name)') k
            RETURNING id, kind_id, listed_at
        )
        INSERT INTO work (due_at, ready_at, kind_id, lane, timelines)
        SELECT listed_at, listed_at, kind_id, 1, array_agg(id ORDER BY id)
        FROM (SELECT *, row_number() OVER (ORDER BY hashint8(id)) - 1 AS place FROM made) m
        GROUP BY kind_id, listed_at, place / \(timelinesOfList)
        """
    }
}

/// Number of the paused app's timelines whose lists are there.
struct PausedAppointments: PostgresStatement {
    let sql = """
        SELECT count(DISTINCT t.id) AS n
        FROM (SELECT w.kind_id, w.due_at, unnest(w.timelines) AS id FROM work w JOIN kind k ON k.id = w.kind_id
              JOIN app a ON a.id = k.app_id WHERE a.name = '\(PausedApp.name)') w
        JOIN timeline t ON t.id = w.id AND t.kind_id = w.kind_id AND t.listed_at = w.due_at
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Int64 { try row.value("n") }
}
