// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import JSON
import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

/// Start of a process while Kafka or PostgreSQL is unreachable.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct StartTests {
    private struct Absent: Sendable, CustomTestStringConvertible {
        var kafka = false
        var postgres = false
        var testDescription: String { [kafka ? "Kafka" : "", postgres ? "PostgreSQL" : ""].joined(separator: " ") }
    }

    private static func placement() -> OutgoingEvent {
        let environment = WidgetPlacement.test("w").environment
        return OutgoingEvent(
            .placed(
                WidgetPlacement(
                    app: Installation.app, widget: "w", user: "u", device: "d", kind: "DueDate", family: .systemSmall,
                    environment: environment)),
            time: Timestamp.now())
    }

    @Test(
        "The process is live but not ready, and reports the missing service, until it appears",
        arguments: [Absent(kafka: true), Absent(postgres: true), Absent(kafka: true, postgres: true)])
    private func waits(for absent: Absent) async throws {
        try await withInstallation { installation in
            guard let embedded = installation.kafka.embedded else { return }
            let proxy = try TestProxy(to: installation.store.pool.configuration)
            if absent.kafka { try embedded.stopBroker(1) }
            if !absent.postgres { try proxy.start() }
            defer { proxy.stop() }
            var environment = installation.environment
            environment["FRESHET_POSTGRES_URL"] = proxy.connectionString
            let health = HealthProbe(port: try await FreePort.find())
            environment["FRESHET_HEALTH_PORT"] = "\(health.port)"
            let process = try FreshetProcess(["run"], environment: environment)

            try await eventually("health is served") { try await health.ask("live").status == 200 }
            if absent.postgres {
                try await eventually("the process waits for PostgreSQL") {
                    process.standardError.contains("waiting for PostgreSQL")
                }
                let answer = try await health.ask("ready")
                #expect(answer.status == 503)
                #expect(answer.reason("process")?.contains("waits for PostgreSQL") == true)
                #expect(answer.reason("postgres") != nil)
            } else {
                try await eventually("the process waits for Kafka") {
                    process.standardError.contains("waiting for Kafka")
                }
            }
            if absent.kafka {
                try await eventually("readiness reports Kafka", every: .milliseconds(300)) {
                    let answer = try await health.ask("ready")
                    return answer.status == 503 && answer.reason("kafka") != nil
                }
            }
            #expect(try await health.ask("live").status == 200)
            #expect(process.isRunning)

            if absent.kafka { try embedded.startBroker(1) }
            if absent.postgres { try proxy.start() }
            try await health.becomesReady()
            try await installation.publish([Self.placement()])
            try await eventually("a placed widget is rendered") {
                try await installation.store.integer("SELECT count(*) FROM timeline WHERE content IS NOT NULL") == 1
            }
            process.send(signal: SIGTERM)
            #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        }
    }

    @Test("A signal ends the process in order while it waits for PostgreSQL")
    func stoppedWhileWaiting() async throws {
        try await HealthProbe.withSilentPort { port in
            let process = try FreshetProcess([
                "run", "--set", "kafka.embedded=true", "--set", "postgres.url=host=127.0.0.1 port=\(port) dbname=x",
            ])
            try await eventually("the process waits") { process.standardError.contains("waiting for PostgreSQL") }
            process.send(signal: SIGTERM)
            #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
            #expect(process.standardError.contains("stopped"))
        }
    }

    @Test("Each role serves its health and reports its failed checks", arguments: ["ingest", "workers", "api"])
    func roles(_ role: String) async throws {
        try await withInstallation { installation in
            let (process, ready) = try await installation.run("--role", role, "--set", "health.port=0")
            let health = HealthProbe(port: Int(try #require(ready["healthPort"]?.numberValue?.int64)))
            #expect(try await health.ask("live").document == ["status": "live"])
            try await health.becomesReady()
            try await installation.publish([Self.placement()])
            try await eventually("the role's work is counted") {
                let metrics = try await health.metrics()
                return switch role {
                case "ingest":
                    metrics.contains(#"freshet_ingest_events_total{outcome="applied",type="widget.placed"} 1"#)
                        && metrics.contains("freshet_ingest_offsets_out_of_range_total 0")
                        && !metrics.contains { $0.hasPrefix("freshet_workers") }
                case "workers":
                    metrics.contains("freshet_provider_breakers_open 0")
                        && !metrics.contains { $0.hasPrefix("freshet_ingest") }
                default: metrics.contains(#"freshet_build_info{role="api",version="0.1.0"} 1"#)
                }
            }
            if let embedded = installation.kafka.embedded {
                try embedded.setTopicError(installation.kafka.name("freshet.widgets"), .unknownTopicOrPartition)
                try await eventually("the removed topic is reported", every: .milliseconds(300)) {
                    let answer = try await health.ask("ready")
                    return answer.status == 503 && answer.reason("kafka")?.contains("freshet.widgets") == true
                }
                #expect(try await health.ask("live").status == 200)
            }
            process.send(signal: SIGTERM)
            #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        }
    }
}
