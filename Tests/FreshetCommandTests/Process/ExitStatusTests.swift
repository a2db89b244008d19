// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite(.tags(.process), .timeLimit(.patience))
struct ExitStatusTests {
    @Test(
        "An invalid command line is a usage error",
        arguments: [
            ["bogus"], ["run", "--role", "nobody"], ["publish"], ["publish", "push", "--app", "a"],
            ["publish", "push", "--app", "a", "--user", "u", "--everyone"],
            ["publish", "push", "--app", "a", "--user", "u", "--matching", "[]"],
            [
                "publish", "widget", "placed", "--app", "a", "--user", "u", "--device", "d", "--kind", "K", "--family",
                "huge", "w",
            ],
            ["positions", "set", "freshet.pushes", "0", "-1"], ["positions", "set", "freshet.pushes", "0", "latest"],
            ["timelines", "show", "--app", "a"], ["timelines", "show", "--app", "a", "no-uuid"],
            ["config", "show", "--set", "api.port"], ["kafka", "--topic", "x"],
            ["provider", "--failing-requests", "2"], ["reload", "--app", "a"],
            ["reload", "--app", "a", "--user", "u", "--everyone"], ["pause"], ["cancel", "--app", "a"],
            ["pause", "--app", "a", "--kind", ""], ["kinds", "delete", "K"],
        ])
    func usage(_ arguments: [String]) async throws {
        let (status, out, err) = try await FreshetProcess.run(arguments)
        #expect(status == 64, "\(err)")
        #expect(out.isEmpty)
        #expect(err.contains("Usage: freshet") || err.contains("`freshet --help`"), "\(err)")
    }

    @Test(
        "A command that is told to use a proxy, which it does not, makes no requests and names the variable",
        arguments: [
            ("HTTPS_PROXY", ["run", "--set", "kafka.embedded=true", "--set", "postgres.url=host=127.0.0.1 port=1"]),
            ("http_proxy", ["lint", "--provider", "http://127.0.0.1:1/timelines", "--kind", "K"]),
            ("ALL_PROXY", ["preview", "--provider", "http://127.0.0.1:1/timelines", "--kind", "K"]),
        ])
    func proxy(_ variable: String, _ arguments: [String]) async throws {
        let (status, _, err) = try await FreshetProcess.run(arguments, environment: [variable: "http://proxy:3128"])
        #expect(status == 78 && err.contains(variable) && err.contains("NO_PROXY=*"), "\(err)")
    }

    @Test("All errors in the settings are reported at once, without secrets")
    func configuration() async throws {
        let (status, _, err) = try await FreshetProcess.run(
            ["run", "--set", "api.port=99999", "--set", "no.such=1", "--set", "workers.lease=soon"],
            environment: ["FRESHET_LOG_LEVEL": "loud", "FRESHET_KAFKA_PROPERTIES": "sasl.password"])
        #expect(status == 78)
        for part in [
            "api.port", "no.such", "workers.lease", "log.level", "FRESHET_LOG_LEVEL", "postgres.url",
            "kafka.properties", "kafka.bootstrapServers: is not set",
        ] {
            #expect(err.contains(part), "\(part) in \(err)")
        }
        #expect(!err.contains("sasl.password"))
    }

    @Test(
        "Well-formed settings with invalid content are configuration errors, too",
        arguments: [
            ["kafka.embedded=true", "postgres.url=host=x nonsense=geheim"],
            ["postgres.url=host=localhost", "kafka.embedded=true", "api.keys=/nowhere/keys.json"],
            ["postgres.url=host=localhost", "role=workers", "kafka.embedded=true"],
            [
                "postgres.url=host=localhost", "kafka.bootstrapServers=127.0.0.1:1",
                "kafka.properties=no.such.property=geheim",
            ],
        ])
    func content(_ settings: [String]) async throws {
        let (status, _, err) = try await FreshetProcess.run(
            ["run", "--set", "log.level=critical"] + settings.flatMap { ["--set", $0] })
        #expect(status == 78, "\(err)")
        #expect(err.contains(settings.last?.prefix { $0 != "=" } ?? ""))
        #expect(!err.contains("geheim"))
    }

    @Test("An empty variable stops the start", arguments: ["run", "doctor"])
    func emptyVariable(_ command: String) async throws {
        let (status, _, err) = try await FreshetProcess.run(
            [command],
            environment: ["FRESHET_POSTGRES_URL": "host=localhost", "FRESHET_KAFKA_BOOTSTRAP_SERVERS": ""])
        #expect(status == 78 && err.contains("(from FRESHET_KAFKA_BOOTSTRAP_SERVERS)"), "\(err)")
    }

    @Test("An unreachable database or broker is reported as unavailable, without the password")
    func unavailable() async throws {
        let database = try await FreshetProcess.run(
            ["kinds", "list", "--set", "postgres.acquireTimeout=500ms"],
            environment: ["FRESHET_POSTGRES_URL": "postgresql://me:geheim@127.0.0.1:1/x"])
        #expect(database.status == 69)
        #expect(database.err.contains("PostgreSQL cannot be reached"))
        #expect(!database.err.contains("geheim"))

        let broker = try await FreshetProcess.run(
            [
                "publish", "push", "--app", "a", "--user", "u", "--set", "kafka.bootstrapServers=127.0.0.1:1", "--set",
                "kafka.deliveryTimeout=500ms",
            ])
        #expect(broker.status == 69)
        #expect(broker.err.contains("Kafka cannot be reached"))
    }

    @Test("`run` reports that it waits for an unreachable database, and a signal ends the wait")
    func waitsForDatabase() async throws {
        let process = try FreshetProcess(
            ["run", "--set", "postgres.acquireTimeout=200ms", "--set", "kafka.bootstrapServers=127.0.0.1:1"],
            environment: ["FRESHET_POSTGRES_URL": "postgresql://me:geheim@127.0.0.1:1/x", "FRESHET_LOG_FORMAT": "json"])
        try await eventually("the process reports that it waits") {
            process.standardError.components(separatedBy: "waiting for PostgreSQL").count > 2
        }
        process.send(signal: SIGTERM)
        #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        #expect(!process.standardError.contains("geheim"))
        for line in process.standardError.split(separator: "\n") {
            let document = try JSONValue.parse(String(line))
            #expect(document["level"]?.stringValue != nil && document["message"]?.stringValue != nil)
        }
    }

    @Test("A database without its migrations is refused until they are applied")
    func migrations() async throws {
        try await withDatabase { database in
            let environment = ["FRESHET_POSTGRES_URL": database.connectionString]
            func freshet(_ arguments: String...) async throws -> (status: Int32, out: String, err: String) {
                try await FreshetProcess.run(arguments, environment: environment)
            }
            for arguments in [
                ["run", "--set", "kafka.embedded=true"], ["kinds", "list"], ["migrate", "--check"],
            ] {
                let (status, _, err) = try await FreshetProcess.run(arguments, environment: environment)
                #expect(status == 78, "\(arguments)")
                #expect(err.contains("freshet migrate"))
            }
            let applied = try await freshet("migrate", "--json")
            #expect(applied.status == 0)
            #expect(try JSONValue.parse(applied.out)["applied"]?.arrayValue?.isEmpty == false)
            #expect(try await freshet("migrate", "--check").status == 0)
            #expect(try JSONValue.parse(try await freshet("migrate", "--json").out)["applied"] == [])
            #expect(try await freshet("kinds", "list").status == 0)
        }
    }

    @Test("`run --migrate` applies migrations, starts an embedded cluster, prints its address and can be repeated")
    func embedded() async throws {
        try await withDatabase { database in
            for _ in 0..<2 { try await runEmbedded(database) }
        }
    }

    private func runEmbedded(_ database: TestDatabase) async throws {
        let process = try FreshetProcess(
            [
                "run", "--migrate", "--print-ready", "--set", "kafka.embedded=true", "--set",
                "kafka.embeddedPartitions=2",
            ],
            environment: ["FRESHET_POSTGRES_URL": database.connectionString])
        let ready = try await process.firstLine()
        #expect(ready["pid"]?.numberValue?.int64 == Int64(process.pid))
        let servers = try #require(ready["bootstrapServers"]?.stringValue)
        #expect((ready["apiPort"]?.numberValue?.int64 ?? 0) > 0)
        let published = try await FreshetProcess.run(
            ["publish", "push", "--app", "a", "--everyone", "--json"],
            environment: FreshetProcess.patientDelivery.merging(["FRESHET_KAFKA_BOOTSTRAP_SERVERS": servers]) { $1 })
        #expect(published.status == 0, "\(published.err)")
        let place = try JSONValue.parse(published.out)
        #expect(place["topic"] == "freshet.pushes" && place["offset"] == 0, "\(published.out)")
        try await eventually("the event is applied") {
            let rows = try await database.pool.query(.listPositions())
            return rows.compactMap(\.nextOffset).reduce(0, +) == 1
        }
        process.send(signal: SIGINT)
        #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        // Kafka logs nothing alarming: no line of librdkafka, and none above notice.
        let alarming = process.standardError.split(separator: "\n").filter { line in
            line.contains("facility=")
                || line.contains("[KafkaClient]") && !line.contains(" info ") && !line.contains(" notice ")
        }
        #expect(alarming.isEmpty)
        #expect(process.standardError.contains("partitions=\"freshet.app-changes[0-1] "))
    }

    @Test("A port in use is a failure that names the setting")
    func portTaken() async throws {
        try await withStore { store in
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString, "FRESHET_KAFKA_EMBEDDED": "true"]
            let first = try FreshetProcess(["run", "--print-ready"], environment: environment)
            let port = try #require(try await first.firstLine()["apiPort"]?.numberValue?.int64)
            let second = try await FreshetProcess.run(
                ["run", "--set", "api.port=\(port)"], environment: environment)
            #expect(second.status == 1)
            #expect(second.err.contains("127.0.0.1:\(port) (api.host, api.port)"))
            first.send(signal: SIGTERM)
            #expect(try await first.end() == FreshetProcess.Exit(status: 0, isSignal: false))
        }
    }

    @Test("`freshet kafka` serves until it is stopped")
    func kafka() async throws {
        let process = try FreshetProcess(["kafka", "--topic", "mine=3"])
        let ready = try await process.firstLine()
        let servers = try #require(ready["bootstrapServers"]?.stringValue)
        let published = try await FreshetProcess.run(
            ["publish", "push", "--app", "a", "--user", "u", "--set", "topics.pushes=mine"],
            environment: FreshetProcess.patientDelivery.merging(["FRESHET_KAFKA_BOOTSTRAP_SERVERS": servers]) { $1 })
        #expect(published.status == 0, "\(published.err)")
        process.send(signal: SIGTERM)
        #expect(try await process.end() == FreshetProcess.Exit(status: 0, isSignal: false))
    }
}
