// SPDX-License-Identifier: Apache-2.0

import Waiting
import WidgetModel
import WidgetStore

/// State of the installation that every page of the console shows.
struct InstallationState: Sendable {
    /// Obstacles, each with its processes in words, such as "2 processes of the role ingest".
    var obstacles: [(process: String, obstacle: ProcessObstacle)]
    /// Processes that report.
    let processes: [ReportedProcess]
    /// Whether the installation has several apps. Its own figures and reasons are then hidden.
    let isShared: Bool

    /// Whether nothing can be read from the database, as far as this process knows.
    var isWithoutDatabase: Bool {
        obstacles.contains { $0.process == Self.ownProcess && $0.obstacle.name == "postgres" && !$0.obstacle.isSlow }
    }

    fileprivate static let ownProcess = "this process"
}

extension Console {
    /// Age up to which the process's own readiness is shown. Checks of a missing dependency take seconds.
    private static let readinessAge = Duration.seconds(5)
    /// Time limit of reading what other processes have reported.
    private static let readingLimit = Duration.seconds(1)

    /// Readiness of this process, as it is now, and of all others, as they reported it last.
    func installation() async -> InstallationState {
        let own = await readiness.obstacles(maximumAge: Self.readinessAge).map {
            RoleObstacle(role: "", processes: 1, obstacle: $0)
        }
        // Without the database nothing is known of others.
        let isAlone = own.contains {
            !$0.obstacle.isSlow && ["postgres", "migrations"].contains($0.obstacle.name)
        }
        let processes = isAlone ? [] : await reportedProcesses()
        let others = processes.obstacles(except: configuration.process)
        let isShared = routes.isShared
        func words(_ found: RoleObstacle, _ process: String) -> (process: String, obstacle: ProcessObstacle) {
            (process, isShared ? found.withoutForeignDetails.obstacle : found.obstacle)
        }
        return InstallationState(
            obstacles: own.map { words($0, InstallationState.ownProcess) } + others.map { words($0, $0.processWords) },
            processes: processes, isShared: isShared)
    }

    private func reportedProcesses() async -> [ReportedProcess] {
        let routes = routes
        let read = try? await withTimeLimit(Self.readingLimit) {
            _ = try await routes.directory.directory(maximumAge: .seconds(60))
            return try await routes.store.query(.listProcesses())
        }
        return (read ?? nil) ?? []
    }
}

extension Routes {
    /// Whether the installation has several apps, or its apps are not known yet.
    var isShared: Bool { directory.directory().apps.count != 1 }
}
