// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing
import WidgetModel

@testable import WidgetStore

@Suite("Processes that report their readiness", .timeLimit(.patience))
struct ProcessesTests {
    private let kafka = ProcessObstacle(name: "kafka", reason: "no \"broker\" answers")

    @Test("Equal obstacles of a role are one, and a required role that no process has is an obstacle")
    func roles() {
        func process(_ id: UInt128, _ role: String, _ obstacles: [ProcessObstacle] = []) -> ReportedProcess {
            ReportedProcess(id: id, role: role, obstacles: obstacles)
        }
        let ingest = [process(1, "ingest", [kafka]), process(2, "ingest", [kafka])]
        #expect(ingest.obstacles().map(\.processWords) == ["2 processes of the role ingest", "no process"])
        #expect(ingest.obstacles(except: 2).map(\.processes) == [1, 0])
        #expect(ingest.obstacles().last?.obstacle.name == "workers")
        #expect([process(3, "all")].obstacles().isEmpty && [ReportedProcess]().obstacles().isEmpty)
        let slow = (4...5).map { id in
            process(id, "all", [ProcessObstacle(name: "postgres", reason: "\(id) s", isSlow: true)])
        }
        #expect(slow.obstacles().map(\.processes) == [2], "times alone make no difference")
        let secret = RoleObstacle(
            role: "ingest", processes: 1, obstacle: ProcessObstacle(name: "ingest", reason: "another app"))
        #expect(!secret.withoutForeignDetails.obstacle.reason.contains("another app"))
    }

    @Test("A process has its latest report, until it stops or is silent for half a minute")
    func reports() async throws {
        try await withStore { store in
            let pool = store.pool
            _ = try await pool.execute(.reportProcess(1, role: "ingest", obstacles: []))
            _ = try await pool.execute(.reportProcess(2, role: "workers", obstacles: []))
            _ = try await pool.execute(.reportProcess(1, role: "ingest", obstacles: [kafka]))
            let found = try await pool.query(.listProcesses())
            #expect(found.map(\.role) == ["ingest", "workers"])
            #expect(found.map(\.obstacles) == [[kafka], []] && found.map(\.id) == [1, 2])
            _ = try await pool.execute(.forgetProcess(2))
            try await store.sql("UPDATE process SET seen_at = now() - interval '40 seconds'")
            #expect(try await pool.query(.listProcesses()).isEmpty)
            let date = try #require(Timestamp(rfc3339: "2026-06-22T10:00:05Z"))
            let failures = ["a", "b", "a"].enumerated().map { index, app in
                ReportedFailure(app: app, provider: "http://p", message: "\(index)", at: date + .seconds(index))
            }
            _ = try await pool.execute(.reportProcess(1, role: "workers", obstacles: [], failures: failures))
            let reported = try await pool.query(.listProcesses())
            #expect(reported.failures(of: "a").map(\.message) == ["2"], "the latest of the app's own")
            let slow = ProcessObstacle(name: "postgres", reason: "slow", isSlow: true)
            _ = try await pool.execute(.reportProcess(1, role: "ingest", obstacles: [slow]))
            #expect(try await pool.query(.listProcesses()).map(\.obstacles) == [[slow]])
            try await store.sql("UPDATE process SET seen_at = now() - interval '2 hours'")
            _ = try await pool.execute(.reportProcess(3, role: "api", obstacles: []))
            #expect(try await store.integer("SELECT count(*) FROM process") == 1)
        }
    }
}
