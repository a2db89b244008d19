// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import KafkaClient
import ReloadWorkers
import TestSupport
import Testing
import WidgetModel

@testable import FreshetService

/// The decisions topic of a running installation.
@Suite(.tags(.process), .timeLimit(.patience))
struct DecisionsTests {
    @Test("Every decision is published when the setting is on, and none when it is off")
    func topic() async throws {
        try await withInstallation { installation in
            let (quiet, _) = try await installation.run()
            try await Self.place("w0", user: "u0", in: installation)
            quiet.send(signal: SIGTERM)
            #expect(try await quiet.end().status == 0)

            let (process, _) = try await installation.run("--set", "workers.publishDecisions=true")
            try await Self.place("w1", user: "u1", in: installation)
            _ = try await installation.freshet(
                "publish", "push", "--app", Installation.app, "--user", "u1", "--kind", "NoSuchKind", "--no-check")
            let decisions = try await Self.read(until: ["reloaded", "refused"], in: installation)
            #expect(!decisions.contains { $0["user"] as? String == "u0" })
            let reloaded = try #require(decisions.first { $0["decision"] as? String == "reloaded" })
            #expect(
                ["rule", "reason", "kind", "user"].map { reloaded[$0] as? String }
                    == ["first", "placed", "DueDate", "u1"])
            let cause = try #require(reloaded["cause"] as? [String: Any])
            #expect(cause["topic"] as? String == installation.kafka.name("freshet.widgets"))
            let refused = try #require(decisions.first { $0["decision"] as? String == "refused" })
            #expect(refused["error"] as? String == "unknownKind" && refused["app"] as? String == Installation.app)
            // The history needs neither the topic nor Kafka.
            for widget in ["w0", "w1"] {
                let history = try await installation.freshet(
                    "explain", "--app", Installation.app, widget, "--history", "--json")
                let told = try JSONValue.parse(history.out).arrayValue ?? []
                #expect(told.last?["decision"] == "reloaded" && told.last?["rule"] == "first", "\(told)")
                #expect(told.last?["reason"] == "placed" && told.last?["at"] != .null)
            }
            let table = try await installation.freshet("explain", "--app", Installation.app, "w1", "--history")
            #expect(table.out.hasPrefix("TIME") && table.out.contains("it had never been rendered"), "\(table.out)")
            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)
        }
    }

    private static func place(_ widget: String, user: String, in installation: Installation) async throws {
        _ = try await installation.freshet(
            "publish", "widget", "placed", "--app", Installation.app, "--user", user, "--device", "d-\(user)", "--kind",
            "DueDate", widget)
        try await eventually("\(widget) is rendered") {
            try await installation.store.integer(
                """
                SELECT count(*) FROM timeline t JOIN widget w ON w.timeline_id = t.id
                WHERE w.id = '\(widget)' AND t.rendered_at IS NOT NULL
                """) == 1
        }
    }

    /// Waits until there is a message for each of these decisions; parses the data with an independent decoder.
    private static func read(until wanted: Set<String>, in installation: Installation) async throws -> [[String: Any]] {
        let consumer = try KafkaConsumer(
            configuration: KafkaConsumerConfiguration(
                kafka: installation.kafka.configuration, group: "decisions"),
            logger: quietLogger)
        try await consumer.assignAll(of: [installation.kafka.name("freshet.decisions")])
        var decisions: [[String: Any]] = []
        reading: for try await event in consumer.events {
            switch event {
            case .offsetOutOfRange, .otherLog, .error, .interrupted, .advanced, .unreadable: break
            case .batch(let batch):
                for index in 0..<batch.count {
                    let value = try #require(batch.value(index))
                    let object = try JSONSerialization.jsonObject(with: Data(batch.bytes[value]))
                    decisions.append(try #require(object as? [String: Any]))
                }
                if wanted.isSubset(of: Set(decisions.compactMap { $0["decision"] as? String })) { break reading }
            }
        }
        await consumer.shutdown()
        return decisions
    }

    @Test("The setting accepts only true and false")
    func setting() {
        for (text, value) in [("true", true), ("false", false), ("yes", nil), ("", nil)] as [(String, Bool?)] {
            var settings = Settings()
            let key = SettingKey.byName["workers.publishDecisions"]
            do {
                try key?.assign(&settings, text)
                #expect(settings.workers.publishDecisions == value)
            } catch {
                #expect(value == nil)
            }
        }
        #expect(!Settings().workers.publishDecisions)
    }
}
