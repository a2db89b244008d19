// SPDX-License-Identifier: Apache-2.0

import JSON
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite(.tags(.api), .timeLimit(.patience))
struct HealthTests {
    @Test("The process is live without its dependencies, but ready only with all of them")
    func health() async throws {
        try await withStore { store in
            let checks = [
                ReadinessCheck(name: "postgres") { nil }, ReadinessCheck(name: "kafka") { "no broker answers" },
            ]
            try await withAPI(store, hasKeys: false, checks: checks) { client in
                let live = try await client.json("/health/live").status
                #expect(live == 200)
                let (status, _, document) = try await client.json("/health/ready")
                #expect(status == 503)
                #expect(document["missing"] == [["name": "kafka", "reason": "no broker answers"]])
            }
            try await withAPI(store, hasKeys: false, checks: [checks[0]]) { client in
                let (status, _, document) = try await client.json("/health/ready")
                #expect(status == 200)
                #expect(document == ["status": "ready", "missing": [], "slow": []])
            }
        }
    }

    private func readiness(counting runs: Tally, freshness: Duration) -> Readiness {
        Readiness(
            checks: [
                ReadinessCheck(name: "counted") {
                    runs.add()
                    return nil
                }
            ], freshness: freshness)
    }

    @Test("Readiness checks run once for many probes, and their result is reused for a while")
    func coalescing() async {
        let runs = Tally()
        let readiness = readiness(counting: runs, freshness: .seconds(600))
        let reports = await withTaskGroup(of: [ProcessObstacle].self) { group in
            for _ in 0..<50 { group.addTask { await readiness.obstacles() } }
            return await group.reduce(into: []) { $0.append($1) }
        }
        #expect(reports.count == 50 && reports.allSatisfy(\.isEmpty))
        #expect(runs.count == 1)
    }

    @Test("A stale readiness report is renewed")
    func freshness() async {
        let runs = Tally()
        let readiness = readiness(counting: runs, freshness: .zero)
        _ = await readiness.obstacles()
        _ = await readiness.obstacles()
        #expect(runs.count == 2)
    }

    @Test("A readiness check without an answer counts as missing after its time limit")
    func timeLimit() async throws {
        let readiness = Readiness(
            checks: [
                ReadinessCheck(name: "silent") {
                    // The time limit cancels it.
                    try? await Task.sleep(for: .seconds(600))
                    return nil
                },
                ReadinessCheck(name: "quick") { nil },
            ], timeLimit: .seconds(2), freshness: .zero)
        // On a busy machine the quick one may exceed the limit, too.
        try await eventually("only the quick check has an answer") {
            let obstacles = await readiness.obstacles()
            #expect(obstacles.first?.name == "silent")
            #expect(obstacles.first?.reason.hasPrefix("no answer within") == true)
            return obstacles.count == 1
        }
    }

    @Test("A dependency that answers late is told, and leaves the process ready")
    func slowness() async throws {
        let checks = [
            ReadinessCheck(name: "postgres", slowAfter: .zero) { nil },
            ReadinessCheck(name: "kafka", slowAfter: .seconds(600)) { nil },
        ]
        try await withStore { store in
            try await withAPI(store, hasKeys: false, checks: checks) { client in
                let (status, _, document) = try await client.json("/health/ready")
                #expect(status == 200 && document["status"] == "ready" && document["missing"] == [])
                #expect(document["slow"]?.arrayValue?.map { $0["name"] } == ["postgres"])
            }
        }
    }
}
