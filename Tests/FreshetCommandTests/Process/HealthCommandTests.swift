// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetAPI
import WidgetModel

@testable import FreshetService
@testable import freshet

/// `freshet health`, which containers run.
@Suite(.tags(.process), .timeLimit(.patience))
struct HealthCommandTests {
    @Test(
        "The command distinguishes live from ready, and reports failed checks and a process that does not answer",
        arguments: [("0.0.0.0", "127.0.0.1"), ("::", "localhost")])
    func answers(_ host: String, _ reached: String) async throws {
        func environment(port: Int) -> [String: String] {
            ["FRESHET_HEALTH_PORT": "\(port)", "FRESHET_HEALTH_HOST": host]
        }
        try await HealthProbe.withSilentPort { silent in
            let nobody = try await FreshetProcess.run(["health"], environment: environment(port: silent))
            let said = nobody.err.contains("http://\(reached):\(silent)/health/live does not answer")
            #expect(nobody.status == 1 && said, "\(nobody)")

            // The database does not exist, so the process is live but not ready.
            let port = try await FreePort.find()
            let environment = environment(port: port)
            let process = try FreshetProcess(
                ["run", "--set", "kafka.embedded=true"],
                environment: environment.merging([
                    "FRESHET_POSTGRES_URL": "host=127.0.0.1 port=\(silent) dbname=x", "FRESHET_API_PORT": "0",
                ]) { $1 })
            let health = HealthProbe(port: port)
            try await eventually("health is served") { try await health.ask("live").status == 200 }
            let patient = ["health", "--timeout", "\(Patience.limit.components.seconds)s"]
            var result = try await FreshetProcess.run(patient, environment: environment)
            #expect(result.status == 0 && result.out == "live\n", "\(result.err)")
            result = try await FreshetProcess.run(patient + ["--ready"], environment: environment)
            #expect(result.status == 1 && result.err.contains("postgres: "), "\(result.err)")
            result = try await FreshetProcess.run(patient + ["--ready", "--url", "http://127.0.0.1:\(port)"])
            #expect(result.status == 1 && result.err.contains("not ready"))
            process.send(signal: SIGTERM)
            _ = try await process.end()
        }
    }

    @Test(
        "The command connects to a wildcard address through the loopback interface",
        arguments: [
            ("0.0.0.0", "http://127.0.0.1:81"), ("::", "http://localhost:81"), ("::1", "http://[::1]:81"),
            ("10.0.0.3", "http://10.0.0.3:81"), ("localhost", "http://localhost:81"),
        ])
    func addresses(host: String, expected: String) throws {
        var settings = Settings()
        (settings.healthHost, settings.healthPort) = (host, 81)
        #expect(try HealthCommand.address(in: settings) == expected)
        settings.healthPort = nil
        settings.api.port = 82
        #expect(try HealthCommand.address(in: settings) == "http://127.0.0.1:82")
        settings.api.port = 0
        #expect(throws: CommandFailure.self) { try HealthCommand.address(in: settings) }
    }

    @Test("Failed checks are reported on separate lines")
    func trouble() throws {
        let missing: JSONValue = ["status": "notReady", "missing": [["name": "kafka", "reason": "no topics"]]]
        #expect(HealthCommand.trouble(missing) == "not ready\nkafka: no topics")
        let wedged: JSONValue = ["status": "wedged", "loops": [["name": "ingest", "silentSeconds": 400]]]
        #expect(HealthCommand.trouble(wedged) == "a loop does not come round: ingest")
        #expect(HealthCommand.trouble(.null) == "not well")
    }
}
