// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import ServiceLifecycle
import Waiting
import WidgetAPI
import WidgetStore

/// Reports the readiness of a process and the failures of providers to the database, where consoles and the doctor find it.
struct ReadinessReporter: Service, CustomStringConvertible {
    /// The process among those that report.
    let process: UInt128
    let role: ProcessRole
    let readiness: Readiness
    /// Failures of providers in this process.
    let failures: @Sendable () -> [ReportedFailure]
    let pool: PostgresPool

    /// Interval of the reports.
    private static let interval = Duration.seconds(5)
    /// Time limit of the last statement: a process must stop without the database.
    private static let farewell = Duration.seconds(1)

    var description: String { "readiness" }

    func run() async throws {
        try? await cancelWhenGracefulShutdown {
            while true {
                let obstacles = await readiness.obstacles(maximumAge: Self.interval)
                // A report that fails is missed for a while only; a missing database is logged elsewhere.
                _ = try? await PostgresPool.inBackground {
                    try await pool.execute(
                        .reportProcess(process, role: role.rawValue, obstacles: obstacles, failures: failures()))
                }
                try await Task.sleep(for: Self.interval)
            }
        }
        // A task of its own, since this one may be cancelled.
        await Task {
            _ = try? await withTimeLimit(Self.farewell) { try await pool.execute(.forgetProcess(process)) }
        }.value
    }
}
