// SPDX-License-Identifier: Apache-2.0

package import JSON
package import PostgresClient
package import WidgetModel

/// A dependency that a process is not ready for, or that is slow.
package struct ProcessObstacle: Hashable, Sendable {
    /// `postgres`, `kafka`, `ingest`
    package let name: String
    package let reason: String
    /// Whether the dependency answers, but late: the process stays ready.
    package let isSlow: Bool

    package init(name: String, reason: String, isSlow: Bool = false) {
        (self.name, self.reason, self.isSlow) = (name, reason, isSlow)
    }

    /// Whether operators see the two as one: each process measures another time.
    fileprivate func isLike(_ other: ProcessObstacle) -> Bool {
        self == other || isSlow && other.isSlow && name == other.name
    }

    package var json: JSONValue { ["name": .string(name), "reason": .string(reason), "slow": .bool(isSlow)] }

    fileprivate init?(_ json: JSONValue) {
        guard let name = json["name"]?.stringValue, let reason = json["reason"]?.stringValue else { return nil }
        self.init(name: name, reason: reason, isSlow: json["slow"] == true)
    }
}

/// The latest failure of an app's provider in a worker process.
package struct ReportedFailure: Hashable, Sendable {
    /// Most failures that a process reports.
    package static let most = 100

    package let app: String
    /// URL of the provider.
    package let provider: String
    package let message: String
    package let at: Timestamp

    package init(app: String, provider: String, message: String, at: Timestamp) {
        (self.app, self.provider, self.message, self.at) = (app, provider, message, at)
    }

    fileprivate var json: JSONValue {
        ["app": .string(app), "provider": .string(provider), "message": .string(message), "at": .time(at)]
    }

    fileprivate init?(_ json: JSONValue) {
        guard let app = json["app"]?.stringValue, let provider = json["provider"]?.stringValue,
            let message = json["message"]?.stringValue,
            let at = json["at"]?.stringValue.flatMap({ Timestamp(rfc3339: $0) })
        else { return nil }
        self.init(app: app, provider: provider, message: message, at: at)
    }
}

/// Readiness of a process as it reported it last.
package struct ReportedProcess: Hashable, Sendable {
    package let id: UInt128
    /// `ingest`, `workers`, `delivery`, `api` or `all`
    package let role: String
    /// Empty for a ready process.
    package let obstacles: [ProcessObstacle]
    /// Providers whose latest request failed, or whose answers had errors of single timelines a short while ago.
    package var failures: [ReportedFailure] = []
}

/// An obstacle of the processes of a role, or a required role that no process has.
package struct RoleObstacle: Hashable, Sendable {
    package let role: String
    /// Number of the processes with this obstacle; 0: no process has the role.
    package let processes: Int
    package let obstacle: ProcessObstacle

    package init(role: String, processes: Int, obstacle: ProcessObstacle) {
        (self.role, self.processes, self.obstacle) = (role, processes, obstacle)
    }

    /// The processes in words.
    package var processWords: String {
        switch processes {
        case 0: "no process"
        case 1: "a process of the role \(role)"
        default: "\(processes) processes of the role \(role)"
        }
    }

    /// The obstacle for an operator of one of several apps: reasons name servers, topics and other apps. That of a
    /// missing role and of a slow dependency are Freshet's own sentences.
    package var withoutForeignDetails: RoleObstacle {
        guard processes > 0, !obstacle.isSlow else { return self }
        let reason = "does not work; an administrator sees the reason with `freshet doctor`"
        return RoleObstacle(
            role: role, processes: processes, obstacle: ProcessObstacle(name: obstacle.name, reason: reason))
    }
}

/// Roles without which timelines are not reloaded.
private let requiredRoles = [
    ("ingest", "no process of this role reports: events wait in Kafka"),
    ("workers", "no process of this role reports: timelines are not reloaded"),
]

extension [ReportedProcess] {
    /// The latest failure of each provider of an app, by URL.
    package func failures(of app: String) -> [ReportedFailure] {
        let latest = lazy.flatMap(\.failures).filter { Text.equal($0.app, app) }
            .reduce(into: [String: ReportedFailure]()) { found, failure in
                if found[failure.provider].map({ $0.at < failure.at }) ?? true { found[failure.provider] = failure }
            }
        return latest.values.sorted { $0.provider < $1.provider }
    }

    /// Obstacles of the processes, and one for each required role that no process has. Equal obstacles of a role are
    /// one. Empty without any process, since those of earlier versions do not report.
    ///
    /// - Parameter own: process whose obstacles are left out.
    package func obstacles(except own: UInt128? = nil) -> [RoleObstacle] {
        guard !isEmpty else { return [] }
        var found: [RoleObstacle] = []
        for process in self where process.id != own {
            for obstacle in process.obstacles {
                let known = found.firstIndex { $0.role == process.role && $0.obstacle.isLike(obstacle) }
                let count = known.map { found[$0].processes } ?? 0
                let new = RoleObstacle(role: process.role, processes: count + 1, obstacle: obstacle)
                if let known { found[known] = new } else { found.append(new) }
            }
        }
        for (role, reason) in requiredRoles where !contains(where: { $0.role == role || $0.role == "all" }) {
            found.append(
                RoleObstacle(role: role, processes: 0, obstacle: ProcessObstacle(name: role, reason: reason)))
        }
        return found
    }
}

/// Time after which a process without a report does not count any more: several reports may fail.
private let processMemory = "interval '30 seconds'"

extension PostgresStatement where Self == Statements {
    /// Reports a process's readiness and the failures of providers, every few seconds, and forgets processes that have
    /// long been silent.
    package static func reportProcess(
        _ id: UInt128, role: String, obstacles: [ProcessObstacle], failures: [ReportedFailure] = []
    ) -> PostgresQuery<Void> {
        PostgresQuery(
            """
            WITH gone AS (
                DELETE FROM process WHERE seen_at < now() - interval '1 hour' AND id <> $1::uuid
            )
            INSERT INTO process (id, role, obstacles, failures) VALUES ($1::uuid, $2::text, $3::text, $4::text)
            ON CONFLICT (id) DO UPDATE
            SET role = excluded.role, obstacles = excluded.obstacles, failures = excluded.failures, seen_at = now()
            """, id, role, JSONValue.array(obstacles.map(\.json)).canonical,
            JSONValue.array(failures.prefix(ReportedFailure.most).map(\.json)).canonical)
    }

    /// Forgets a process that stops in order.
    package static func forgetProcess(_ id: UInt128) -> PostgresQuery<Void> {
        PostgresQuery("DELETE FROM process WHERE id = $1::uuid", id)
    }

    /// Processes that have reported within half a minute, by role.
    package static func listProcesses() -> PostgresQuery<ReportedProcess> {
        PostgresQuery(
            """
            SELECT p.id, p.role, p.obstacles, p.failures FROM process p
            WHERE p.seen_at > now() - \(processMemory)
            ORDER BY p.role, p.id
            """
        ) { row in
            func array(_ text: String) -> [JSONValue] { (try? JSONValue.parse(text).arrayValue) ?? [] }
            return try ReportedProcess(
                id: row.value("id"), role: row.value("role"),
                obstacles: array(row.value("obstacles")).compactMap(ProcessObstacle.init),
                failures: array(row.value("failures")).compactMap(ReportedFailure.init))
        }
    }
}
