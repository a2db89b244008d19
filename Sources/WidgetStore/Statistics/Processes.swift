// SPDX-License-Identifier: Apache-2.0

package import JSON
package import PostgresClient

/// A dependency that a process is not ready for.
package struct ProcessObstacle: Hashable, Sendable {
    /// `postgres`, `kafka`, `ingest`
    package let name: String
    package let reason: String

    package init(name: String, reason: String) {
        (self.name, self.reason) = (name, reason)
    }

    package var json: JSONValue { ["name": .string(name), "reason": .string(reason)] }

    fileprivate init?(_ json: JSONValue) {
        guard let name = json["name"]?.stringValue, let reason = json["reason"]?.stringValue else { return nil }
        self.init(name: name, reason: reason)
    }
}

/// Readiness of a process as it reported it last.
package struct ReportedProcess: Hashable, Sendable {
    package let id: UInt128
    /// `ingest`, `workers`, `delivery`, `api` or `all`
    package let role: String
    /// Empty for a ready process.
    package let obstacles: [ProcessObstacle]
}

/// Time after which a process without a report does not count any more: several reports may fail.
private let processMemory = "interval '30 seconds'"

extension PostgresStatement where Self == Statements {
    /// Reports a process's readiness, every few seconds, and forgets processes that have long been silent.
    package static func reportProcess(
        _ id: UInt128, role: String, obstacles: [ProcessObstacle]
    ) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH gone AS (
                DELETE FROM process WHERE seen_at < now() - interval '1 hour' AND id <> $1::uuid
            )
            INSERT INTO process (id, role, obstacles) VALUES ($1::uuid, $2::text, $3::text)
            ON CONFLICT (id) DO UPDATE SET role = excluded.role, obstacles = excluded.obstacles, seen_at = now()
            """, id, role, JSONValue.array(obstacles.map(\.json)).canonical)
    }

    /// Forgets a process that stops in order.
    package static func forgetProcess(_ id: UInt128) -> PostgresQuery<Void> {
        PostgresQuery("DELETE FROM process WHERE id = $1::uuid", id)
    }

    /// Processes that have reported within half a minute, by role.
    package static func listProcesses() -> PostgresQuery<ReportedProcess> {
        PostgresQuery(
            """
            SELECT p.id, p.role, p.obstacles FROM process p
            WHERE p.seen_at > now() - \(processMemory)
            ORDER BY p.role, p.id
            """
        ) { row in
            let obstacles = try? JSONValue.parse(row.value("obstacles", as: String.self)).arrayValue
            return try ReportedProcess(
                id: row.value("id"), role: row.value("role"),
                obstacles: (obstacles ?? []).compactMap(ProcessObstacle.init))
        }
    }
}
