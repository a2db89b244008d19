// SPDX-License-Identifier: Apache-2.0

import JSON
import Waiting
import WidgetModel
import WidgetStore

/// State of the installation that every page of the console shows.
struct InstallationState: Sendable {
    /// What processes are not ready for, each with the process in words.
    var obstacles: [(process: String, obstacle: ProcessObstacle)] = []
    /// Whether the installation has several apps, so that its figures are not those of one.
    var isShared = true
}

extension Console {
    /// Age up to which the process's own readiness is shown. Checks of a missing dependency take seconds.
    private static let readinessAge = Duration.seconds(5)
    /// Time limit of reading what other processes have reported.
    private static let readingLimit = Duration.seconds(1)
    /// Roles without which timelines are not reloaded.
    private static let requiredRoles = [
        ("ingest", "no process of this role reports: events wait in Kafka"),
        ("workers", "no process of this role reports: timelines are not reloaded"),
    ]

    /// Readiness of this process, as it is now, and of all others, as they reported it last.
    func installation() async -> InstallationState {
        var state = InstallationState()
        let own = await readiness.obstacles(maximumAge: Self.readinessAge)
        state.obstacles = own.map { ("this process", $0) }
        // Without the database nothing is known of others.
        if !own.contains(where: { $0.name == "postgres" || $0.name == "migrations" }) {
            state.obstacles += await obstaclesOfOthers()
        }
        let known = routes.directory.directory().apps.count
        state.isShared = known != 1
        if state.isShared {
            // Reasons of ingest name apps and topics.
            state.obstacles = state.obstacles.map { process, obstacle in
                guard obstacle.name == "ingest", process != Self.noProcess else { return (process, obstacle) }
                let reason = "events are not applied; an administrator sees the reason with `freshet doctor`"
                return (process, ProcessObstacle(name: obstacle.name, reason: reason))
            }
        }
        return state
    }

    private static let noProcess = "no process"

    private func obstaclesOfOthers() async -> [(process: String, obstacle: ProcessObstacle)] {
        let store = routes.store
        let read = try? await withTimeLimit(Self.readingLimit) {
            _ = try await routes.directory.directory(maximumAge: .seconds(60))
            return try await store.query(.listProcesses())
        }
        // Processes of an earlier version do not report.
        guard let processes = read ?? nil, !processes.isEmpty else { return [] }
        let others = processes.filter { $0.id != configuration.process }
        let found = others.flatMap { process in
            process.obstacles.map { ("a process of the role \(process.role)", $0) }
        }
        let missing = Self.requiredRoles.filter { role, _ in
            !processes.contains { $0.role == role || $0.role == "all" }
        }
        return found + missing.map { (Self.noProcess, ProcessObstacle(name: $0, reason: $1)) }
    }
}

extension ConsoleVisit {
    /// Obstacles for templates, equal ones once.
    var obstacles: [[String: String]] {
        var seen: [(process: String, obstacle: ProcessObstacle, count: Int)] = []
        for (process, obstacle) in state.obstacles {
            if let index = seen.firstIndex(where: { $0.process == process && $0.obstacle == obstacle }) {
                seen[index].count += 1
            } else {
                seen.append((process, obstacle, 1))
            }
        }
        return seen.map { process, obstacle, count in
            [
                "process": count == 1 ? process : "\(process), \(count) alike", "name": obstacle.name,
                "reason": obstacle.reason,
            ]
        }
    }
}
