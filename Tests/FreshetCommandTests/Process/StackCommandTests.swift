// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Stacks as an operator imports and explains them.
@Suite(.tags(.process), .timeLimit(.patience))
struct StackCommandTests {
    private static let app = TestKinds.app

    private static func line(_ widgets: String, time: String) -> String {
        #"{"app":"\#(app)","user":"u1","device":"d1","stack":"home","widgets":\#(widgets),"time":"\#(time)"}"#
    }

    @Test("Stacks are imported, an older one is left out, and the widgets are explained in their order")
    func importing() async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            let file = FileManager.default.temporaryDirectory.appendingPathComponent(
                "stacks-\(UUID().uuidString).jsonl")
            defer { try? FileManager.default.removeItem(at: file) }
            let lines = [
                Self.line(#"["w2","w1"]"#, time: "2026-01-02T00:00:00Z"),
                Self.line(#"["w1"]"#, time: "2026-01-01T00:00:00Z"),
            ]
            try lines.joined(separator: "\n").write(to: file, atomically: true, encoding: .utf8)
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            let imported = try await FreshetProcess.run(
                ["widgets", "import", file.path, "--json"], environment: environment)
            #expect(imported.status == 0, "\(imported.err)")
            let counts = try JSONValue.parse(imported.out)
            #expect(counts["stacks"] == 1 && counts["older"] == 1, "\(imported.out)")

            let json = try await FreshetProcess.run(Self.explain + ["--json"], environment: environment)
            #expect(json.status == 0, "\(json.err)")
            let stacks = try #require(try JSONValue.parse(json.out).arrayValue)
            #expect(stacks.map { $0["plan"]?["device"] } == ["d1"])
            let items = try #require(stacks.first?["now"]?["items"]?.arrayValue)
            #expect(items.map { $0["widget"] } == ["w2", "w1"] && items.map { $0["top"] } == [true, false])
        }
    }

    private static let explain = ["explain", "--app", app, "--user", "u1", "--stack", "home"]

    /// A stack of two widgets, and the environment of the command.
    private func withStack(
        _ body: (_ store: TestStore, _ environment: [String: String]) async throws -> Void
    ) async throws {
        try await withStore { store in
            try await store.place([.test("w1"), .test("w2", kind: "DueDate")])
            let app = try #require(try await store.directory().apps[Self.app])
            let stack = StackArrangement(device: "d1", name: "home", widgets: ["w2", "w1"])
            _ = try await store.store.importStacks([(app: app, user: "u1", arrangement: stack, time: Timestamp.now())])
            try await body(store, ["FRESHET_POSTGRES_URL": store.connectionString])
        }
    }

    @Test("Each widget of a stack is explained, and why the stack is held")
    func explain() async throws {
        try await withStack { store, environment in
            let text = try await FreshetProcess.run(Self.explain, environment: environment)
            #expect(text.status == 0, "\(text.err)")
            for part in ["stack home on device d1", "* w2", "w1: there is no evidence for it", "until "] {
                #expect(text.out.contains(part), "\(part): \(text.out)")
            }
            #expect(text.out.contains("held: nobody has read its schedule"), "\(text.out)")
            let key = StackPlan.Key(app: Self.app, user: "u1", device: "d1", stack: "home")
            _ = try await store.pool.query(.wantSchedule(key))
            let wanted = try await FreshetProcess.run(Self.explain, environment: environment)
            #expect(wanted.out.contains("held: its first plan is due"), "\(wanted.out)")
        }
    }

    @Test("A missing stack and a stack of another device are not explained")
    func missing() async throws {
        try await withStack { _, environment in
            let missing = try await FreshetProcess.run(Self.explain.dropLast() + ["none"], environment: environment)
            #expect(missing.status == 1 && missing.err.contains("has no stack"))
            let elsewhere = try await FreshetProcess.run(
                Self.explain + ["--device", "d2"], environment: environment)
            #expect(elsewhere.status == 1)
        }
    }

    @Test("Relevance is drawn with the ranks by which stacks are planned: among all recorded scores of the timeline")
    func relevance() async throws {
        try await withStore { store in
            let timeline = try #require(try await store.place([.test("w1")]).first)
            let content =
                #"{"entries":[{"content":1,"date":"2026-06-22T07:41:00Z","relevance":{"duration":1800,"score":5}},"#
                + #"{"content":2,"date":"2026-06-22T10:00:00Z","relevance":{"score":2}}],"policy":"never"}"#
            try await store.sql(
                """
                UPDATE timeline SET content = '\(content)', content_revision = 2, revision = 2,
                    stored_at = '2026-06-22T07:00:00Z'
                WHERE identity = '\(timeline)'
                """)
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            func ranks() async throws -> [JSONValue?] {
                let arguments = ["relevance", "show", "--app", Self.app, "--widget", "w1", "--day", "2026-06-22"]
                let run = try await FreshetProcess.run(arguments + ["--json"], environment: environment)
                #expect(run.status == 0, "\(run.err)")
                return try JSONValue.parse(run.out)["steps"]?.arrayValue?.map { $0["rank"] } ?? []
            }
            // Nothing is recorded yet: the present timeline is all there is.
            #expect(try await ranks() == [.rounded(0.75), 0, .rounded(0.25)])
            // Nine earlier entries had higher scores.
            var record = RelevanceRecord()
            let day = try #require(Timestamp(rfc3339: "2026-06-22T06:00:00Z"))
            for number in 0..<9 {
                let time = day + .seconds(60 * number)
                record.replace(with: RelevanceCurve([.init(date: time, score: Double(10 + number))]), at: time)
            }
            let row = try await store.integer("SELECT id FROM timeline WHERE identity = '\(timeline)'")
            let write: RelevanceWrite = (timeline: Int64(row), revision: 1, relevance: record)
            _ = try await store.pool.execute(.writeRelevance([write]))
            record.replace(
                with: try RelevanceCurve(timeline: Array(content.utf8)), at: day + .seconds(3_600))
            let planned = RelevanceRanks(record.history, with: record.curve)
            #expect(planned.rank(of: 5) < 0.2)
            // The earlier score goes on until the timeline's first entry.
            #expect(
                try await ranks()
                    == [
                        .rounded(planned.rank(of: 18)), .rounded(planned.rank(of: 5)), 0, .rounded(planned.rank(of: 2)),
                    ])
        }
    }
}
