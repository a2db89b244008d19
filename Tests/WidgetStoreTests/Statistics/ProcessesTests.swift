// SPDX-License-Identifier: Apache-2.0

import PostgresClient
import TestSupport
import Testing

@testable import WidgetStore

@Suite("Processes that report their readiness", .timeLimit(.patience))
struct ProcessesTests {
    private let kafka = ProcessObstacle(name: "kafka", reason: "no \"broker\" answers")

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
            try await store.sql("UPDATE process SET seen_at = now() - interval '2 hours'")
            _ = try await pool.execute(.reportProcess(3, role: "api", obstacles: []))
            #expect(try await store.integer("SELECT count(*) FROM process") == 1)
        }
    }
}
