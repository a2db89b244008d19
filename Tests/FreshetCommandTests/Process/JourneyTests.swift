// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import KafkaClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// A user's steps on the command line, one by one.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct JourneyTests {
    private static let app = Installation.app

    @Test("A widget is placed and reloaded by commands, and `timelines show` prints its content")
    func publishToShow() async throws {
        try await withInstallation { installation in
            let (process, _) = try await installation.run()
            let placed = try await installation.freshet(
                "publish", "widget", "placed", "--app", Self.app, "--user", "u42", "--device", "d1", "--kind",
                "RecentPurchases", "--configuration", #"{"card":"acme"}"#, "w1")
            #expect(placed.status == 0, "\(placed.err)")
            let first = try await Self.shown("w1", past: 0, in: installation)
            #expect(first["state"]?["requested"] == 1)
            #expect(first["configuration"] == ["card": "acme"])
            #expect(first["currentEntry"]?["content"]?["card"] == "Acme Card")

            let pushed = try await installation.freshet(
                "publish", "push", "--app", Self.app, "--user", "u42", "--kind", "RecentPurchases", "--matching",
                #"{"card":"acme"}"#)
            #expect(pushed.status == 0, "\(pushed.err)")
            let revision = try #require(first["revision"]?.numberValue?.int64)
            let second = try await Self.shown("w1", past: revision, in: installation)
            #expect(second["state"]?["requested"] == 2)
            #expect(second["content"] != first["content"])

            let text = try await installation.freshet("timelines", "show", "--app", Self.app, "--widget", "w1")
            #expect(text.status == 0)
            #expect(text.out.contains("\nstate      all requests are rendered\n"), "\(text.out)")
            // The shown entry is marked, and there once.
            let shown = text.out.split(separator: "\n").filter { $0.hasPrefix("* ") }
            #expect(shown.count == 1 && shown[0].contains("Acme Card"), "\(text.out)")
            let early = try await installation.freshet(
                "timelines", "show", "--app", Self.app, "--widget", "w1", "--at", "2001-01-01T00:00:00Z", "--json")
            #expect(try JSONValue.parse(early.out)["currentEntry"] == .null)

            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)
        }
    }

    @Test("`timelines show` of a missing widget or timeline fails")
    func showMissing() async throws {
        try await withStore { store in
            for arguments in [["--widget", "w2"], ["00000000-0000-0000-0000-000000000001"]] {
                let missing = try await FreshetProcess.run(
                    ["timelines", "show", "--app", Self.app] + arguments,
                    environment: ["FRESHET_POSTGRES_URL": store.connectionString])
                #expect(missing.status == 1 && missing.err.contains("has no"), "\(missing.err)")
            }
        }
    }

    /// Waits until a widget's timeline is rendered past the given revision with no pending request.
    private static func shown(
        _ widget: String, past revision: Int64, in installation: Installation
    ) async throws -> JSONValue {
        var document = JSONValue.null
        try await eventually("the timeline is past revision \(revision)") {
            let shown = try await installation.freshet(
                "timelines", "show", "--app", app, "--widget", widget, "--json")
            guard shown.status == 0 else { return false }
            document = try JSONValue.parse(shown.out)
            return (document["revision"]?.numberValue?.int64 ?? 0) > revision && document["state"]?["stale"] == false
        }
        return document
    }

    @Test("Bad lines from standard input are reported with their numbers, and the others are published")
    func lines() async throws {
        try await withInstallation { installation in
            let push = #"{"app":"com.example.bank","audience":{"user":"u1"},"kinds":"all"}"#
            let result = try await installation.freshet(
                "publish", "--stdin", "--json",
                input: """
                    {"type":"freshet.push.received.v1","data":\(push)}
                    {"type":"freshet.push.recieved.v1","data":\(push)}
                    not json

                    {"specversion":"1.0","id":"e1","source":"/x","type":"freshet.push.received.v1","data":\(push)}
                    {"type":"freshet.push.received.v1","data":{"app":"com.example.bank","audience":{"user":""}}}
                    """)
            #expect(result.status == 1)
            #expect(try JSONValue.parse(result.out) == ["published": 2, "failed": 3])
            #expect(
                result.err.contains("line 2: /type") && result.err.contains("did you mean \"freshet.push.received.v1\"")
            )
            #expect(result.err.contains("line 3: not JSON"))
            #expect(result.err.contains("line 6: /data/audience/user"))
        }
    }

    /// Runs `freshet kinds apply` with the text of a manifest.
    private func apply(
        _ manifest: String, _ options: String..., to store: TestStore
    ) async throws -> (status: Int32, out: String, err: String) {
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString)-kinds.yaml").path
        defer { try? FileManager.default.removeItem(atPath: file) }
        try manifest.write(toFile: file, atomically: true, encoding: .utf8)
        return try await FreshetProcess.run(
            ["kinds", "apply", file] + options, environment: ["FRESHET_POSTGRES_URL": store.connectionString])
    }

    @Test("A manifest replaces a secret only after a confirmation, and not during a rotation")
    func rotatesSecret() async throws {
        try await withStore([]) { store in
            func apply(_ secret: String, _ options: String...) async throws -> (status: Int32, out: String, err: String)
            {
                let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).yaml")
                    .path
                defer { try? FileManager.default.removeItem(atPath: file) }
                let manifest = """
                    app: com.example.bank
                    signingSecret: {environment: BANK_SECRET}
                    provider: {url: "https://example.com/bank"}
                    kinds: [{name: DueDate, placeholder: {}}]
                    """
                try manifest.write(toFile: file, atomically: true, encoding: .utf8)
                return try await FreshetProcess.run(
                    ["kinds", "apply", file] + options,
                    environment: ["FRESHET_POSTGRES_URL": store.connectionString, "BANK_SECRET": secret], input: "")
            }
            let secrets = (0..<3).map { _ in SigningSecret.random() }
            #expect(try await apply(secrets[0].exposed).status == 0)
            let same = try await apply(secrets[0].exposed)
            #expect(same.status == 0 && !same.err.contains("secret"), "\(same.err)")
            let dry = try await apply(secrets[1].exposed, "--dry-run")
            #expect(dry.status == 0 && dry.err.contains("would replace the signing secret of com.example.bank"))
            let unasked = try await apply(secrets[1].exposed)
            #expect(unasked.status == 64 && unasked.err.contains("Replace the signing secret of com.example.bank?"))
            #expect(unasked.err.contains("stays valid for 1d") && unasked.err.contains("give --yes"), "\(unasked.err)")
            #expect(try await apply(secrets[1].exposed, "--yes").status == 0)
            let second = try await apply(secrets[2].exposed, "--yes")
            #expect(second.status == 1 && second.err.contains("freshet apps end-rotation --app com.example.bank"))
            let signing = try await store.directory().apps["com.example.bank"]?.signingSecrets
            #expect(signing == [secrets[1].bytes, secrets[0].bytes])
        }
    }

    @Test("All errors in a manifest are reported with their lines, and nothing is applied")
    func wrongManifest() async throws {
        try await withStore([]) { store in
            let manifest = """
                app: com.example.bank
                provider: {url: "ftp://example.com"}
                kinds:
                  - name: DueDate
                    maxBatch: 0
                    placeholder: {}
                """
            let refused = try await apply(manifest, to: store)
            #expect(refused.status == 1)
            #expect(refused.err.contains("kinds.yaml:2") && refused.err.contains("kinds.yaml:5"))
            #expect(try await store.integer("SELECT count(*) FROM app") == 0)
        }
    }

    @Test("A manifest is applied unless it is a dry run, its differences are reported, and its kinds are shown")
    func kinds() async throws {
        try await withStore([]) { store in
            func manifest(maxBatch: Int, sharing: String = "perUser") -> String {
                """
                app: com.example.bank
                provider: {url: "https://example.com/bank"}
                kinds:
                  - name: DueDate
                    maxBatch: \(maxBatch)
                    sharing: \(sharing)
                    placeholder: {}
                """
            }
            func show(_ kind: String) async throws -> (status: Int32, out: String, err: String) {
                try await FreshetProcess.run(
                    ["kinds", "show", "--app", "com.example.bank", kind],
                    environment: ["FRESHET_POSTGRES_URL": store.connectionString])
            }
            #expect(try await apply(manifest(maxBatch: 50), "--dry-run", to: store).status == 0)
            #expect(try await store.integer("SELECT count(*) FROM app") == 0)
            #expect(try await apply(manifest(maxBatch: 50), to: store).out.contains("+ add"))
            let difference = try await apply(manifest(maxBatch: 60), "--dry-run", "--json", to: store)
            #expect(
                try JSONValue.parse(difference.out) == [
                    ["app": "com.example.bank", "kind": "DueDate", "action": "change", "fields": ["maxBatch"]]
                ])
            #expect(try JSONValue.parse(try await show("DueDate").out)["definition"]?["maxBatch"] == 50)
            let moved = try await apply(manifest(maxBatch: 50, sharing: "shared"), to: store)
            #expect(moved.status == 0 && moved.out.contains("sharing; 0 timelines will move"))
            let unknown = try await show("DueDat")
            #expect(unknown.status == 1 && unknown.err.contains("did you mean \"DueDate\""))
        }
    }

    @Test("F: a user's learned data is cleared after a confirmation; other data stays")
    func clearHabits() async throws {
        try await withInstallation { installation in
            try await installation.store.sql(
                "INSERT INTO person (app_id, user_id, habits, arrangement)"
                    + " SELECT a.id, 'u1', '\\x01', '{}' FROM app a WHERE a.name = '\(Self.app)'")
            let unasked = try await installation.freshet("users", "clear-habits", "--app", Self.app, "u1")
            #expect(unasked.status == 64)
            for cleared in [true, false] {
                let answer = try await installation.freshet(
                    "users", "clear-habits", "--app", Self.app, "u1", "--yes", "--json")
                #expect(try JSONValue.parse(answer.out) == ["cleared": .bool(cleared)])
            }
            let kept = "SELECT count(*) FROM person WHERE habits IS NULL AND arrangement IS NOT NULL"
            #expect(try await installation.store.integer(kept) == 1)
        }
    }

    @Test("An erased user disappears from the database, and the timelines' tombstones are published")
    func erase() async throws {
        try await withInstallation { installation in
            let (process, _) = try await installation.run()
            for user in ["u1", "u2"] {
                _ = try await installation.freshet(
                    "publish", "widget", "placed", "--app", Self.app, "--user", user, "--device", "d-\(user)", "--kind",
                    "DueDate", "w-\(user)")
            }
            let ids = [
                try await Self.shown("w-u1", past: 0, in: installation)["timeline"]?.stringValue,
                try await Self.shown("w-u2", past: 0, in: installation)["timeline"]?.stringValue,
            ]
            let unasked = try await installation.freshet("users", "erase", "--app", Self.app, "u1")
            #expect(unasked.status == 64)
            let erased = try await installation.freshet("users", "erase", "--app", Self.app, "u1", "--yes", "--json")
            #expect(try JSONValue.parse(erased.out) == ["widgets": 1, "timelines": 1, "deadLetters": 0])
            try await eventually("the erased timeline is collected") {
                try await installation.store.integer("SELECT count(*) FROM timeline") == 1
            }
            #expect(try await installation.store.integer("SELECT count(*) FROM widget") == 1)

            var last: [String: Bool] = [:]
            let topic = installation.kafka.name("freshet.timelines")
            let consumer = try KafkaConsumer(
                configuration: KafkaConsumerConfiguration(
                    kafka: installation.kafka.configuration, group: "tombstones"),
                logger: quietLogger)
            try await consumer.assignAll(of: [topic])
            reading: for try await event in consumer.events {
                switch event {
                case .offsetOutOfRange, .otherLog, .error, .interrupted, .advanced, .unreadable: break
                case .batch(let batch):
                    for index in 0..<batch.count {
                        let key = try #require(batch.key(index))
                        last[String(decoding: batch.bytes[key], as: UTF8.self)] = batch.value(index) == nil
                    }
                    if last.count == 2, last.values.contains(true) { break reading }
                }
            }
            await consumer.shutdown()
            #expect(last[try #require(ids[0])] == true)
            #expect(last[try #require(ids[1])] == false)
            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)
        }
    }

    @Test("Positions are shown and set, and a topic that is not consumed is refused")
    func positions() async throws {
        try await withStore { store in
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            func freshet(_ arguments: String...) async throws -> (status: Int32, out: String, err: String) {
                try await FreshetProcess.run(["positions"] + arguments, environment: environment)
            }
            #expect(try await freshet("set", "freshet.pushes", "3", "1200").status == 0)
            #expect(try await freshet("set", "freshet.widgets", "0", "earliest").status == 0)
            let shown = try JSONValue.parse(try await freshet("show", "--json").out).arrayValue ?? []
            #expect(shown.map { $0["topic"] } == ["freshet.pushes", "freshet.widgets"])
            #expect(shown.map { $0["nextOffset"] } == [1200, .null])
            let refused = try await freshet("set", "freshet.timelines", "0", "1")
            #expect(refused.status == 1 && refused.err.contains("freshet.pushes"))
        }
    }
}
