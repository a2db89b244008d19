// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import KafkaClient
import PostgresClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

/// `freshet explain` from a person's view.
@Suite(.tags(.process), .timeLimit(.patience))
struct ExplainTests {
    private static let app = TestKinds.app

    /// Publishes a push in binary or structured mode.
    private static func push(_ id: String, app: String = app, structured: Bool, topic: String) -> KafkaMessage {
        let event = FreshetEvent.reload(ReloadRequest(app: app, audience: .user("u1"), kinds: .all, reason: .push))
        let time = Timestamp(rfc3339: "2026-06-22T10:00:00Z")
        if structured {
            return KafkaMessage(
                topic: topic, partition: 0, key: Array("u1".utf8),
                value: event.structured(id: id, source: "/tests", time: time),
                headers: [KafkaHeader(name: "content-type", value: FreshetEvent.structuredContentType)])
        }
        let encoded = event.encode(id: id, source: "/tests", time: time)
        return KafkaMessage(
            topic: topic, partition: 0, key: encoded.key, value: encoded.value,
            headers: encoded.headers.map { KafkaHeader(name: $0.name, value: $0.value) })
    }

    /// Runs the command until all events were looked up: each look-up has a short time limit, which a busy machine may
    /// exceed.
    private static func lookedUp(
        _ arguments: [String], _ environment: [String: String]
    ) async throws -> (status: Int32, out: String, err: String) {
        var result: (status: Int32, out: String, err: String) = (-1, "", "")
        try await eventually("Kafka answers in time") {
            result = try await FreshetProcess.run(["explain", "--app", app] + arguments, environment: environment)
            return !result.out.contains("not looked up")
        }
        return result
    }

    /// A widget with events in Kafka, and the environment of the command.
    private func withEvents(_ body: (TestStore, [String: String]) async throws -> Void) async throws {
        try await withKafka(topics: ["freshet.pushes"], partitions: 1) { kafka in
            try await withStore { store in
                let topic = kafka.name("freshet.pushes")
                let producer = try KafkaProducer(
                    configuration: kafka.configuration, deliveryTimeout: Patience.delivery, logger: quietLogger)
                let sent = await producer.send([
                    Self.push("binary-1", structured: false, topic: topic),
                    Self.push("structured-2", structured: true, topic: topic),
                    Self.push("foreign-3", app: TestKinds.otherApp, structured: true, topic: topic),
                ])
                #expect(try sent.map { try $0.get().offset } == [0, 1, 2])
                await producer.shutdown()
                try await store.place([.test("w1", user: "u1")])
                try await store.settle()
                try await store.sql(
                    """
                    UPDATE timeline SET cause_topic = 0, cause_partition = 0, cause_offset = 0, cause_reason = 5,
                        requested_at = now() - interval '2 minutes', decision_topic = 0, decision_partition = 0,
                        decision_offset = 1, decision_reason = 5, decided_at = now() - interval '1 minute',
                        last_decision = 1, decision_rule = 5, fetch_milliseconds = 42;
                    UPDATE kind SET cause_topic = 0, cause_partition = 0, cause_offset = 9, cause_reason = 5;
                    """)
                let environment = [
                    "FRESHET_POSTGRES_URL": store.connectionString,
                    "FRESHET_TOPICS_PUSHES": topic,
                    "FRESHET_KAFKA_BOOTSTRAP_SERVERS": kafka.configuration.bootstrapServers,
                    "FRESHET_KAFKA_PROPERTIES": kafka.configuration.properties.sorted { $0.key < $1.key }
                        .map { "\($0.key)=\($0.value)" }.joined(separator: ","),
                ]
                try await body(store, environment)
            }
        }
    }

    @Test("A process that does not reach Kafka is named until it stops, and so is the role that it leaves")
    func unready() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            let environment = [
                "FRESHET_POSTGRES_URL": store.connectionString, "FRESHET_KAFKA_BOOTSTRAP_SERVERS": "127.0.0.1:1",
            ]
            let process = try FreshetProcess(["run", "--role", "ingest"], environment: environment)
            let arguments = ["explain", "--app", Self.app, "w1"]
            try await eventually("explain names Kafka") {
                let explained = try await FreshetProcess.run(arguments, environment: environment)
                return explained.out.contains("not ready  kafka (a process of the role ingest): ")
                    && explained.out.contains("not ready  workers (no process): ")
            }
            process.send(signal: SIGTERM)
            _ = try await process.end()
            #expect(try await store.integer("SELECT count(*) FROM process") == 0)
            let explained = try await FreshetProcess.run(arguments + ["--json"], environment: environment)
            #expect(try JSONValue.parse(explained.out)["unready"] == [])
        }
    }

    @Test("Events are found in Kafka in either mode; removed ones are reported with their offset")
    func events() async throws {
        try await withEvents { store, environment in
            let json = try await Self.lookedUp(["w1", "--json"], environment)
            #expect(json.status == 0, "\(json.err)")
            let document = try JSONValue.parse(json.out)
            let events = try #require(document["events"]?.arrayValue)
            #expect(events.map { $0["of"] } == ["request", "decision", "kind"])
            #expect(events.map { $0["id"] } == ["binary-1", "structured-2", nil])
            #expect(events[0]["type"] == "freshet.push.received.v1" && events[0]["time"] == "2026-06-22T10:00:00Z")
            let topic = try #require(environment["FRESHET_TOPICS_PUSHES"])
            #expect(events[1]["source"] == "/tests" && events[1]["topic"] == .string(topic))
            #expect(events[2]["lookup"] == "no longer in Kafka", "it is past the end of the log")
        }
    }

    @Test("The last decision and fetch are explained with their rules, for programs and people")
    func decision() async throws {
        try await withEvents { store, environment in
            let json = try await Self.lookedUp(["w1", "--json"], environment)
            let document = try JSONValue.parse(json.out)
            #expect(document["lastDecision"]?["rule"] == "token")
            #expect(document["lastFetch"]?["milliseconds"] == 42)
            #expect(document["status"] == "onRequest")

            let text = try await Self.lookedUp(["w1"], environment)
            #expect(text.status == 0, "\(text.err)")
            for part in [
                "widget     w1 · com.example.bank Purchases", "id binary-1 · freshet.push.received.v1",
                "offset 9 · no longer in Kafka", "(rule token)", "only a request reloads it (rule policy)",
                "took 42 ms", "reason push",
            ] {
                #expect(text.out.contains(part), "\(part) in\n\(text.out)")
            }
        }
    }

    @Test("Another app's event at the offset is not shown: the log is another one by now")
    func foreignEvent() async throws {
        try await withEvents { store, environment in
            try await store.sql("UPDATE kind SET cause_offset = 2")
            let foreign = try await Self.lookedUp(["w1", "--json"], environment)
            let events = try JSONValue.parse(foreign.out)["events"]?.arrayValue
            #expect(events?.last?["lookup"] == "no longer in Kafka")
            #expect(!foreign.out.contains("foreign-3") && !foreign.out.contains(TestKinds.otherApp))
        }
    }

    @Test("An explanation does not depend on Kafka")
    func withoutKafka() async throws {
        try await withEvents { _, environment in
            var environment = environment
            environment["FRESHET_KAFKA_BOOTSTRAP_SERVERS"] = "127.0.0.1:1"
            let away = try await FreshetProcess.run(["explain", "w1", "--app", Self.app], environment: environment)
            #expect(away.status == 0)
            #expect(away.out.contains("partition 0 offset 0 · not looked up: "))
            environment["FRESHET_KAFKA_BOOTSTRAP_SERVERS"] = nil
            let unset = try await FreshetProcess.run(["explain", "w1", "--app", Self.app], environment: environment)
            #expect(unset.out.contains("not looked up: kafka.bootstrapServers is not set"))
        }
    }

    /// Widgets whose timelines wait, sleep and have content nobody fetched, and a removed one.
    private func withStates(
        _ body: (TestStore, _ explain: (String) async throws -> (text: String, json: JSONValue)) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.place([
                .test("w1", user: "u1"), .test("w2", user: "u2"), .test("w3", user: "u3"), .test("gone", user: "u4"),
            ])
            try await store.settle()
            try await store.sql(
                """
                UPDATE timeline SET requested_at = NULL, placed_at = now() - interval '40 days',
                    viewed_at = now() - interval '30 days';
                UPDATE timeline t SET viewed_at = now(), requested = requested + 5,
                    rendered_at = now() - interval '100 s', eligible_at = now() + interval '200 s',
                    listed_at = now() + interval '200 s' FROM widget w WHERE w.timeline_id = t.id AND w.id = 'w1';
                UPDATE timeline t SET policy_at = now() + interval '1 hour', asleep = true, last_decision = 6,
                    decision_rule = 12 FROM widget w WHERE w.timeline_id = t.id AND w.id = 'w2';
                UPDATE widget SET timeline_id = NULL WHERE id = 'gone';
                """)
            try await body(store) { widget in
                let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
                let text = try await FreshetProcess.run(
                    ["explain", widget, "--app", Self.app], environment: environment)
                let json = try await FreshetProcess.run(
                    ["explain", widget, "--app", Self.app, "--json"], environment: environment)
                #expect(text.status == 0 && json.status == 0, "\(text.err)\(json.err)")
                // The explanation contains neither content nor configuration values.
                #expect(!json.out.contains("signing") && !json.out.contains("placeholder\":{"))
                return (text.out, try JSONValue.parse(json.out))
            }
        }
    }

    @Test("A timeline that waits is explained with its rule, merged requests and budget")
    func waits() async throws {
        try await withStates { _, explain in
            let spaced = try await explain("w1")
            #expect(spaced.text.contains("waits for the kind's spacing of 5 min 0 s: next at"))
            #expect(spaced.text.contains("merged: 5 requests are one reload (rule coalescing)"))
            #expect(spaced.json["status"] == "waiting" && spaced.json["next"]?["rule"] == "spacing")
            #expect(spaced.json["requests"]?["pending"] == 5)
            let budget = try #require(spaced.json["budget"])
            #expect(budget["reloadsADay"] == 8 && budget["left"] == 4 && budget["lifted"] == false)
        }
    }

    @Test("Timelines that sleep and widgets that were removed are explained")
    func sleepsAndGone() async throws {
        try await withStates { _, explain in
            let asleep = try await explain("w2")
            #expect(asleep.text.contains("sleeps: not viewed since") && asleep.text.contains("(rule dormant)"))
            #expect(asleep.json["status"] == "sleeping" && asleep.json["views"]?["dormant"] == true)
            let gone = try await explain("gone")
            #expect(gone.text.contains("the widget was removed") && gone.json["status"] == "removed")
        }
    }

    @Test("A kind paused by an operator is explained with cancelled reloads, fallback content and a lifted budget")
    func paused() async throws {
        try await withStates { store, explain in
            try await store.sql(
                """
                UPDATE kind SET paused_at = now(), generation = 3, cancelled_generation = 3;
                UPDATE app SET developer_mode = true
                """)
            let paused = try await explain("w3")
            for part in [
                "reloads of the kind are paused by an operator", "3 reloads of everyone cancelled by an operator",
                "devices show the manifest's placeholder", "lifted by developer mode",
            ] {
                #expect(paused.text.contains(part), "\(part) in\n\(paused.text)")
            }
            #expect(paused.json["status"] == "paused" && paused.json["budget"]?["lifted"] == true)
            let everyone = try #require(paused.json["requests"]?["everyone"])
            #expect(everyone["pending"] == 3 && everyone["unswept"] == false && everyone["cancelled"] == true)
            #expect(paused.json["shows"] == ["content": "placeholder", "fetchedAt": .null])
        }
    }

    @Test("An unknown widget, or another app's, is exit status 1; an invalid command line is 64")
    func exits() async throws {
        try await withStore { store in
            try await store.place([.test("w1", app: TestKinds.otherApp)])
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            let app = try #require(try await store.directory().apps[Self.app])
            let removal = EventOutcome(
                appID: app.id, event: "e", source: "/s", type: "freshet.widget.removed.v1", topic: "freshet.widgets",
                partition: 0, offset: 7, widget: "w1", result: .ignored, code: "unknownWidget",
                detail: "no such widget was placed")
            _ = try await store.pool.execute(.insertEventOutcomes([removal]))
            for arguments in [["w1"], ["w1", "--json"], ["nobody"]] {
                let (status, out, err) = try await FreshetProcess.run(
                    ["explain", "--app", Self.app] + arguments, environment: environment)
                #expect(status == 1 && out.isEmpty)
                #expect(err.contains("has no widget"))
                #expect(err.contains("no such widget was placed") == (arguments != ["nobody"]), "\(err)")
            }
            for arguments in [["explain"], ["explain", "w1"], ["explain", "--app", "a"]] {
                let (status, out, err) = try await FreshetProcess.run(arguments, environment: environment)
                #expect(status == 64 && out.isEmpty, "\(err)")
            }
        }
    }

    @Test("An explanation ends with the device: time, kind and answer of its notification, and its last fetch")
    func device() async throws {
        try await withStore { store in
            try await store.place([.test("w1", user: "u1"), .test("w2", user: "u2", device: "d2")])
            try await store.sql(
                """
                INSERT INTO registration (app_id, user_id, device_id, registered_at, channel, environment, topic, token_key,
                    token, changed, sent, listed_at, tried_at, sent_at, fetched_at, answer, reason, fetched_timelines,
                    fetched_revisions)
                SELECT 1, 'u1', 'd1', now(), 1, 1, 'com.example.bank.push-type.widgets', 'k1', 'secret token', 7, 6,
                    now() + interval '1 minute', now() - interval '10 s', now() - interval '2 minutes',
                    now() - interval '1 minute', 429, 'TooManyRequests', ARRAY[timeline_id], ARRAY[5]
                FROM widget WHERE id = 'w1'
                """)
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            let text = try await FreshetProcess.run(["explain", "w1", "--app", Self.app], environment: environment)
            #expect(text.status == 0, "\(text.err)")
            let lines = text.out.split(separator: "\n").suffix(4)
            #expect(lines.first?.hasPrefix("device") == true && lines.first?.contains("by apns") == true)
            for part in ["sent at", "answered 429 TooManyRequests", "1 change waiting", "fetched at"] {
                #expect(lines.contains { $0.contains(part) }, "\(part) in\n\(text.out)")
            }
            #expect(!text.out.contains("secret"))
            let json = try await FreshetProcess.run(
                ["explain", "w1", "--app", Self.app, "--json"], environment: environment)
            let delivery = try #require(JSONValue.parse(json.out)["delivery"])
            #expect(delivery["answer"] == 429 && delivery["waiting"] == 1 && delivery["channel"] == "apns")
            #expect(delivery["fetchedRevision"] == 5)
            #expect(delivery["token"] == nil && !json.out.contains("secret"))
            let other = try await FreshetProcess.run(
                ["explain", "w2", "--app", Self.app, "--json"], environment: environment)
            #expect(try JSONValue.parse(other.out)["delivery"] == .null)
        }
    }
}
