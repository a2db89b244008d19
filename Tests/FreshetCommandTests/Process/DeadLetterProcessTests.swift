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

/// Dead letters, diversions and halts from an operator's view.
@Suite(.tags(.process), .serialized, .timeLimit(.patience))
struct DeadLetterProcessTests {
    private static let app = Installation.app
    private static let other = "com.example.rail"

    private struct Shell: Sendable {
        let installation: Installation
        let environment: [String: String]

        init(_ installation: Installation, _ settings: [String: String] = [:]) {
            self.installation = installation
            environment = installation.environment.merging(settings) { $1 }
        }

        func callAsFunction(
            _ arguments: String...
        ) async throws -> (status: Int32, out: String, err: String) {
            try await FreshetProcess.run(arguments, environment: environment)
        }

        func json(_ arguments: String..., status: Int32 = 0) async throws -> JSONValue {
            let result = try await FreshetProcess.run(arguments + ["--json"], environment: environment)
            #expect(result.status == status, "\(arguments): \(result.err)")
            return try JSONValue.parse(result.out)
        }

        func run(_ arguments: String...) async throws -> (process: FreshetProcess, ready: JSONValue) {
            let process = try FreshetProcess(["run", "--print-ready"] + arguments, environment: environment)
            return (process, try await process.firstLine())
        }

        func push(_ app: String, _ user: String, kind: String, count: Int = 1) async throws {
            let data = #"{"app":"\#(app)","audience":{"user":"\#(user)"},"kinds":["\#(kind)"]}"#
            let line = #"{"type":"freshet.push.received.v1","data":\#(data)}"#
            let lines = Array(repeating: line, count: count).joined(separator: "\n")
            let result = try await FreshetProcess.run(
                ["publish", "--stdin", "--no-check"], environment: environment, input: lines + "\n")
            #expect(result.status == 0, "\(result.err)")
        }
    }

    /// A manifest with a single kind.
    private static func manifest(_ app: String, _ kind: String, port: Int) throws -> String {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("freshet-manifest-\(UUID().uuidString).yaml").path
        let text = """
            app: \(app)
            developerMode: true
            kinds:
              - name: \(kind)
                provider: {url: "http://127.0.0.1:\(port)/bank"}
                placeholder: {}
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        return path
    }

    @Test(
        "A bad deploy diverts its app while the other app's widgets are reloaded; resume and replay recover its events"
    )
    func badDeploy() async throws {
        try await withInstallation { installation in
            let freshet = Shell(installation, ["FRESHET_DEAD_LETTERS_LIMIT": "5"])
            let port = installation.providerPort
            let rail = try Self.manifest(Self.other, "RecentPurchases", port: port)
            let fixed = try Self.manifest(Self.app, "Savings", port: port)
            defer { for path in [rail, fixed] { try? FileManager.default.removeItem(atPath: path) } }
            let (process, _) = try await freshet.run()

            // The other app's producers started before its manifest was applied.
            try await freshet.push(Self.other, "u1", kind: "RecentPurchases", count: 3)
            try await eventually("the events are kept") {
                try await installation.store.integer("SELECT count(*) FROM dead_letter WHERE cause = 'unknownApp'") == 3
            }
            let applied = try await freshet("kinds", "apply", rail)
            #expect(applied.status == 0)
            #expect(applied.err.contains("3 events of \(Self.other) were kept while it was not registered"))
            #expect(applied.err.contains("freshet dead-letters replay --app \(Self.other) --cause unknownApp"))

            let ids = try await installation.store.place([
                .test("w1", app: Self.app, user: "u1", kind: "RecentPurchases"),
                .test("w1", app: Self.other, user: "u1", kind: "RecentPurchases"),
            ])
            try await installation.store.settle()
            let replayed = try await freshet("dead-letters", "replay", "--app", Self.other)
            #expect(replayed.status == 0 && replayed.out == "replayed 3; 0 failed again\n", "\(replayed.err)")
            #expect(try await installation.store.timeline(ids[1], app: Self.other)?.requested == 4)

            // The bad deploy: a kind that is not registered yet. Exactly the limit; a seventh event would wait like the
            // others.
            try await freshet.push(Self.app, "u1", kind: "Savings", count: 6)
            try await eventually("the app is diverted") {
                try await installation.store.integer("SELECT count(*) FROM diversion") == 1
            }
            try await freshet.push(Self.app, "u1", kind: "RecentPurchases", count: 4)
            for round in 1...3 {
                try await freshet.push(Self.other, "u1", kind: "RecentPurchases")
                try await eventually("the other app's widget is reloaded") {
                    let timeline = try await installation.store.timeline(ids[1], app: Self.other)
                    return timeline?.requested == Int64(4 + round) && timeline?.rendered == timeline?.requested
                }
            }
            try await eventually("the good events wait") {
                try await installation.store.integer("SELECT count(*) FROM dead_letter WHERE cause = 'diverted'") == 4
            }
            #expect(try await installation.store.timeline(ids[0], app: Self.app)?.requested == 1)
            let diverted = try await freshet.json("dead-letters", "list", "--diverted")
            #expect(diverted.arrayValue?.map { [$0["app"], $0["waiting"]] } == [[.string(Self.app), 4]])
            try await eventually("the process reports the diversion") {
                process.standardError.contains("an app is over its limit of dead letters")
            }

            // The fix.
            let fix = try await freshet("kinds", "apply", fixed)
            #expect(fix.err.contains("6 events of \(Self.app) were kept for kinds that it did not have"))
            let resumed = try await freshet("dead-letters", "resume", "--app", Self.app)
            #expect(resumed.status == 0, "\(resumed.err)")
            #expect(resumed.out == "\(Self.app): replayed 4; 0 failed again; its events flow again\n")
            let rest = try await freshet.json("dead-letters", "replay", "--app", Self.app, "--cause", "unknownKind")
            #expect(rest["replayed"] == 6 && rest["failed"] == 0)
            try await freshet.push(Self.app, "u1", kind: "RecentPurchases")
            try await eventually("the widget is reloaded for all good events") {
                let timeline = try await installation.store.timeline(ids[0], app: Self.app)
                return timeline?.requested == 6 && timeline?.rendered == 6
            }
            #expect(try await freshet.json("dead-letters", "list") == .array([]))
            #expect(try await freshet.json("dead-letters", "replay", "--all-apps")["replayed"] == 0)
            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)
        }
    }

    @Test("Garbage halts its topic until the command in `doctor` and `ingest show` resumes it without a restart")
    func halting() async throws {
        try await withInstallation { installation in
            let freshet = Shell(installation, ["FRESHET_DEAD_LETTERS_LIMIT": "5"])
            let (process, ready) = try await freshet.run()
            let port = try #require(ready["apiPort"]?.numberValue?.int64)
            let garbage = try KafkaProducer(
                configuration: installation.kafka.configuration, deliveryTimeout: Patience.delivery, logger: quietLogger
            )
            let topic = installation.kafka.name("freshet.pushes")
            for result in await garbage.send((0..<9).map { _ in KafkaMessage(topic: topic, value: Array("{".utf8)) }) {
                _ = try result.get()
            }
            await garbage.shutdown()
            try await eventually("the topic is halted") {
                try await freshet("ingest", "show").out.contains("is halted since")
            }
            let command = "freshet ingest resume --topic \(topic)"
            #expect(try await freshet("ingest", "show").out.contains(command))
            let doctor = try await freshet("doctor", "--time-limit", "300")
            #expect(doctor.out.contains("→ fix the producers, then `\(command)`"))
            // Other topics are not halted, so the process has work to do.
            try await eventually("the process is ready") {
                try await freshet("health", "--ready", "--url", "http://127.0.0.1:\(port)").status == 0
            }
            let resumed = try await freshet("ingest", "resume", "--topic", topic)
            #expect(resumed.status == 0 && resumed.out == "resumed: \(topic)\n")
            #expect(try await freshet("ingest", "resume").out == "nothing was halted\n")
            let none = try await freshet("ingest", "resume", "--json")
            #expect(try JSONValue.parse(none.out) == ["resumed": []])
            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)
        }
    }

    /// Runs `freshet dead-letters` on a store.
    private struct Letters {
        let store: TestStore

        func callAsFunction(
            _ arguments: String..., input: String = ""
        ) async throws -> (status: Int32, out: String, err: String) {
            try await run(arguments, input: input)
        }

        func run(
            _ arguments: [String], input: String = ""
        ) async throws -> (status: Int32, out: String, err: String) {
            try await FreshetProcess.run(
                ["dead-letters"] + arguments, environment: ["FRESHET_POSTGRES_URL": store.connectionString],
                input: input)
        }

        func list(_ arguments: [String]) async throws -> [JSONValue] {
            let result = try await run(["list", "--json"] + arguments)
            return try #require(try JSONValue.parse(result.out).arrayValue, "\(result.err)")
        }

        func insert(_ offset: Int64, app: String?, code: String, payload: [UInt8]) async throws {
            let letter = DeadLetter(
                topic: "freshet.pushes", partition: 3, offset: offset, app: app, code: code, error: "wrong",
                pointer: "/kinds/0", messageTime: 1_700_000_000_000, key: Array("u1".utf8),
                headers: [
                    (name: "ce_id", value: Array("e1".utf8)),
                    (name: "Authorization", value: Array("Bearer hunter2".utf8)),
                ], payload: payload)
            _ = try await store.pool.execute(.insertDeadLetter(letter))
        }
    }

    /// Four dead letters of two apps and of none.
    private func withLetters(_ body: (Letters) async throws -> Void) async throws {
        try await withStore { store in
            let letters = Letters(store: store)
            try await letters.insert(1, app: TestKinds.app, code: "malformedJSON", payload: Array("{é".utf8))
            try await letters.insert(2, app: TestKinds.app, code: "unknownKind", payload: [0xFF, 0x00])
            try await letters.insert(3, app: nil, code: "malformedJSON", payload: [])
            try await letters.insert(
                4, app: TestKinds.otherApp, code: "diverted", payload: Array(repeating: 65, count: 9_000))
            try await body(letters)
        }
    }

    @Test("Dead letters are listed, the latest first, and by filters")
    func listed() async throws {
        try await withLetters { letters in
            let last = try await letters.list([]).last
            #expect(last?["pointer"] == "/kinds/0" && last?["cause"] == "malformed")
            for (arguments, offsets) in [
                ([], [4, 3, 2, 1]),
                (["--app", TestKinds.app], [2, 1]), (["--no-app"], [3]), (["--cause", "diverted"], [4]),
                (["--cause", "malformed", "--app", TestKinds.app], [1]), (["--partition", "2"], []),
                (["--topic", "freshet.pushes", "--limit", "1"], [4]), (["--since", "2999-01-01T00:00:00Z"], []),
                (["--until", "2999-01-01T00:00:00Z", "--id", "2"], [2]),
            ] as [([String], [Int64])] {
                let found = try await letters.list(arguments).compactMap { $0["offset"]?.numberValue?.int64 }
                #expect(found == offsets, "\(arguments)")
            }
        }
    }

    @Test("A dead letter is shown without secrets, readable or in hexadecimal, and cut unless it is wanted raw")
    func shown() async throws {
        try await withLetters { letters in
            let shown = try await letters("show", "1")
            #expect(shown.status == 0, "\(shown.err)")
            for part in ["malformed (malformedJSON)", "where        /kinds/0", "ce_id: e1", "{é", "freshet.pushes/3@1"]
            {
                #expect(shown.out.contains(part), "\(part) in \(shown.out)")
            }
            #expect(!shown.out.contains("hunter2"))
            let binary = try await letters("show", "2")
            #expect(binary.out.contains("hexadecimal") && binary.out.contains("\nff00\n"))
            #expect(try await letters("show", "4").out.contains("cut after 4096 bytes"))
            #expect(try await !letters("show", "4", "--raw").out.contains("cut after"))
            #expect(try await letters("show", "99").status == 1)
        }
    }

    @Test("Commands on dead letters of unnamed or unknown apps and causes are refused")
    func refused() async throws {
        try await withStore { store in
            let letters = Letters(store: store)
            for (arguments, status) in [
                (["discard", "--yes"], 64), (["replay", "--cause", "malformed"], 64),
                (["list", "--cause", "nonsense"], 64), (["resume"], 64),
                (["resume", "--app", "com.example.nobody"], 1),
            ] as [([String], Int32)] {
                let result = try await letters.run(arguments)
                #expect(result.status == status, "\(arguments): \(result.err)")
            }
        }
    }

    @Test("Dead letters are discarded after a confirmation, and then not replayed")
    func discarded() async throws {
        try await withLetters { letters in
            let unsure = try await letters("discard", "--app", TestKinds.app)
            #expect(unsure.status == 64 && unsure.err.contains("give --yes"))
            let discarded = try await letters("discard", "--app", TestKinds.app, "--cause", "malformed", "--yes")
            #expect(discarded.status == 0 && discarded.out == "discarded 1 dead letters\n")
            let all = try await letters.list(["--all", "--app", TestKinds.app])
            #expect(all.map { $0["state"] } == ["waiting", "discarded"])

            let failed = try await letters("replay", "--app", TestKinds.app)
            #expect(failed.status == 1 && failed.out.contains("0; 1 failed again"), "\(failed.out) \(failed.err)")
            #expect(try await letters("replay", "--id", "1").out == "replayed 0; 0 failed again\n")
        }
    }

    @Test("Diverted events are discarded only by their cause")
    func discardedByCause() async throws {
        try await withLetters { letters in
            try await letters.insert(
                5, app: TestKinds.otherApp, code: "invalidAttribute", payload: Array("{}".utf8))
            let others = ["--app", TestKinds.otherApp]
            #expect(
                try await letters("discard", "--app", TestKinds.otherApp, "--yes").out == "discarded 1 dead letters\n")
            #expect(try await letters.list(others).map { $0["cause"] } == ["diverted"])
            #expect(
                try await letters("discard", "--app", TestKinds.otherApp, "--cause", "diverted", "--yes").out
                    == "discarded 1 dead letters\n")
        }
    }

    /// Two removals of widgets with a wrong source and time, the first with broken data.
    private func withWrongRemovals(_ body: (Letters) async throws -> Void) async throws {
        try await withStore { store in
            for (offset, payload) in [(Int64(1), "{"), (2, #"{"app":"\#(TestKinds.app)","widget":"w"}"#)] {
                let letter = DeadLetter(
                    topic: "freshet.widgets", partition: 0, offset: offset, app: TestKinds.app,
                    code: "invalidAttribute", error: "wrong", messageTime: 1_700_000_000_000, key: nil,
                    headers: [
                        ("ce_specversion", "1.0"), ("ce_id", "e\(offset)"), ("ce_source", "\"/t\""),
                        ("ce_type", "freshet.widget.removed.v1"), ("ce_time", "yesterday"),
                    ].map { (name: $0.0, value: Array($0.1.utf8)) }, payload: Array(payload.utf8))
                _ = try await store.pool.execute(.insertDeadLetter(letter))
            }
            try await body(Letters(store: store))
        }
    }

    @Test("A dead letter whose header was edited is applied when it is replayed without its time")
    func replayedWithoutTime() async throws {
        try await withWrongRemovals { letters in
            let edited = try await letters("edit", "2", "--header", "ce_source=/t")
            #expect(edited.status == 0 && edited.out.contains("edited dead letter 2"), "\(edited.err)")
            let refused = try await letters("replay", "--id", "2")
            #expect(refused.status == 1 && refused.out.contains("invalidAttribute"), "\(refused.err)")
            #expect(try await letters("replay", "--id", "2", "--ignore-time").out == "replayed 1; 0 failed again\n")
            #expect(try await letters.store.integer("SELECT count(*) FROM widget WHERE id = 'w'") == 1)
        }
    }

    @Test("A dead letter whose headers and data were edited is applied when it is replayed, and cannot be edited then")
    func edited() async throws {
        try await withWrongRemovals { letters in
            #expect(try await letters("edit", "1").status == 64)
            #expect(try await letters("edit", "9", "--header", "a=b").status == 1)
            let edited = try await letters("edit", "1", "--header", "ce_source=/t")
            #expect(edited.status == 0 && edited.out.contains("edited dead letter 1"), "\(edited.err)")
            let payload = try await letters(
                "edit", "1", "--without-header", "ce_time", "--payload", "-",
                input: #"{"app":"\#(TestKinds.app)","widget":"v"}"#)
            #expect(payload.status == 0, "\(payload.err)")
            #expect(try await letters("replay", "--id", "1").out == "replayed 1; 0 failed again\n")
            #expect(try await letters("edit", "1", "--header", "a=b").status == 1)
            #expect(try await letters.store.integer("SELECT count(*) FROM widget WHERE id = 'v'") == 1)
        }
    }
}
