// SPDX-License-Identifier: Apache-2.0

import JSON
import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@Suite(.tags(.process), .timeLimit(.patience)) struct DoctorProcessTests {
    private static func findings(_ text: String) throws -> [(check: String, severity: String, message: String)] {
        try #require(JSONValue.parse(text)["findings"]?.arrayValue).map { finding in
            (
                finding["check"]?.stringValue ?? "", finding["severity"]?.stringValue ?? "",
                finding["message"]?.stringValue ?? ""
            )
        }
    }

    @Test("On a working installation every check reports, and only the server's settings may be wrong")
    func works() async throws {
        try await withInstallation { installation in
            // The test server may run without fsync, which is a problem elsewhere.
            let isSafe =
                try await installation.store.integer(
                    """
                    SELECT count(*)::int8 FROM pg_settings
                    WHERE name IN ('fsync', 'full_page_writes', 'autovacuum') AND setting = 'off'
                    """) == 0
            let doctor = try await installation.freshet(
                "doctor", "--json", "--time-limit", "300", "--set", "topics.partitions=8")
            let found = try Self.findings(doctor.out)
            let checks: Set = [
                "settings", "keys", "kafka", "kafka.cluster", "kafka.positions", "kafka.topics", "kafka.acls",
                "postgres", "postgres.settings", "postgres.connections", "postgres.migrations", "clock", "ingest",
                "kinds", "providers", "audit", "audit.progress", "processes", "sweeps", "retention", "history",
            ]
            #expect(checks.subtracting(found.map(\.check)) == [], "\(doctor.out)")
            let problems = found.filter { $0.severity == "problem" }
            #expect(problems.allSatisfy { $0.check == "postgres.settings" }, "\(problems)")
            #expect(problems.isEmpty == isSafe)
            #expect(doctor.status == (isSafe ? 0 : 1), "\(doctor.err)")
            let good = Set(found.filter { $0.severity == "ok" }.map(\.check))
            #expect(good.isSuperset(of: ["providers", "clock", "postgres.migrations"]), "\(doctor.out)")

            let text = try await installation.freshet(
                "doctor", "--time-limit", "300", "--set", "topics.partitions=9")
            #expect(text.out.contains("has 8 partitions; expected 9"))
            #expect(text.out.contains("→ run `freshet topics apply --add-partitions`"))
        }
    }

    @Test("A batch that cannot be read is named with the command that skips it, and the command goes on behind it")
    func unreadableBatch() async throws {
        try await withInstallation { installation in
            guard let embedded = installation.kafka.embedded else { return }
            let place = TopicPartition(topic: installation.kafka.name("freshet.pushes"), partition: 0)
            try await RawRecordBatch(.unreadableZstd).produce(to: embedded, place)
            try await RawRecordBatch(.message(value: Array("{}".utf8))).produce(to: embedded, place)
            _ = try await installation.store.pool.execute(
                .setPosition(topic: place.topic, partition: place.partition, nextOffset: 0))
            let doctor = try await installation.freshet("doctor", "--json", "--time-limit", "300")
            let finding = try #require(try Self.findings(doctor.out).first { $0.check == "kafka.positions" })
            #expect(finding.severity == "problem" && finding.message.contains("the batch at offset 0 cannot be read"))
            #expect(doctor.out.contains("freshet positions set \(place.topic) 0 readable"))

            let set = try await installation.freshet("positions", "set", place.topic, "0", "readable", "--json")
            #expect(set.status == 0, "\(set.err)")
            let printed = try JSONValue.parse(set.out)
            #expect(printed["nextOffset"]?.numberValue?.int64 == 1)
            let again = try await installation.freshet("positions", "set", place.topic, "0", "readable")
            #expect(again.status != 0 && again.err.contains("nothing is to be skipped"), "\(again.err)")
        }
    }

    @Test("A kind whose definition only a newer version can read is a problem that names the kind and the reason")
    func unreadableKind() async throws {
        try await withStore { store in
            try await store.overwrite("Purchases", with: #"{"sharing":"perHousehold"}"#)
            let doctor = try await FreshetProcess.run(
                ["doctor", "--json", "--time-limit", "300", "--set", "kafka.embedded=true"],
                environment: ["FRESHET_POSTGRES_URL": store.connectionString])
            let kinds = try Self.findings(doctor.out).filter { $0.check == "kinds" }
            #expect(kinds.map(\.severity) == ["problem"], "\(doctor.out)")
            #expect(kinds.allSatisfy { $0.message.contains("Purchases") && $0.message.contains("perHousehold") })
        }
    }

    @Test("No brokers are a problem without an embedded cluster and a warning with one")
    func brokers() async throws {
        for (embedded, severity) in [("false", "problem"), ("true", "warning")] {
            let doctor = try await FreshetProcess.run(["doctor", "--json", "--set", "kafka.embedded=\(embedded)"])
            let found = try Self.findings(doctor.out)
            #expect(found.contains { $0.check == "kafka" && $0.severity == severity }, "\(doctor.out)")
        }
    }

    @Test("On a machine without services everything missing is reported, and the status is a failure")
    func nothing() async throws {
        let doctor = try await HealthProbe.withSilentPort { port in
            try await FreshetProcess.run([
                "doctor", "--json", "--time-limit", "30", "--set", "kafka.bootstrapServers=127.0.0.1:\(port)",
                "--set", "postgres.url=host=127.0.0.1 port=\(port) dbname=x",
            ])
        }
        #expect(doctor.status == 1)
        let problems = try Self.findings(doctor.out).filter { $0.severity == "problem" }.map(\.check)
        #expect(Set(problems) == ["kafka", "postgres"], "\(doctor.out)")
    }
}
