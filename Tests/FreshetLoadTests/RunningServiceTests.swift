// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

/// A drain through a service that is already running, as `deploy/container/verify` does it with containers.
@Suite(.tags(.process), .timeLimit(.patience))
struct RunningServiceTests {
    @Test("Events pass through the running service on its own topics, and the service keeps running")
    func drain() async throws {
        try await withDatabase { database in
            let broker = try FreshetProcess(["kafka"])
            let kafka = try await broker.firstLine()
            let servers = try #require(kafka["bootstrapServers"]?.stringValue)
            let properties = try #require(kafka["properties"]?.objectValue).members.map { member in
                "\(member.key)=\(member.value.stringValue ?? "")"
            }
            let provider = try FreshetProcess(["provider", "--port", "0"])
            let port = try #require(try await provider.firstLine()["port"]?.numberValue?.int64)
            let named = [
                "FRESHET_POSTGRES_URL": database.connectionString, "FRESHET_KAFKA_BOOTSTRAP_SERVERS": servers,
                "FRESHET_KAFKA_PROPERTIES": properties.joined(separator: ","), "FRESHET_API_PORT": "0",
                "FRESHET_PROVIDERS_ALLOW_PRIVATE_NETWORKS": "127.0.0.1",
            ]
            let environment = FreshetProcess.patientDelivery.merging(named) { $1 }
            let service = try FreshetProcess(["run", "--migrate", "--print-ready"], environment: environment)
            _ = try await service.firstLine()
            let (status, out, err) = try await FreshetProcess.run(
                [
                    "drain", "--running-service", "--bootstrap-servers", servers, "--provider",
                    "http://127.0.0.1:\(port)", "--users", "20", "--widgets-per-user", "2", "--kinds", "2", "--events",
                    "200", "--passes", "2", "--json",
                ], program: "freshet-load", environment: environment)
            #expect(status == 0, "\(out)\n\(err)")
            let report = try JSONValue.parse(out)
            #expect(report["lost"] == 0 && report["events"] == 200)
            #expect(report["verified"] == report["distinctTimelines"])
            #expect(service.isRunning)
            service.send(signal: SIGTERM)
            #expect(try await service.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        }
    }

    @Test("A running service is used only with a provider that it can reach")
    func refusal() async throws {
        let (status, _, err) = try await FreshetProcess.run(["drain", "--running-service"], program: "freshet-load")
        #expect(status == 64 && err.contains("--running-service"), "\(err)")
    }
}
