// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

/// Commands by which operators pause, cancel, retire, change and reload.
@Suite(.tags(.process), .timeLimit(.patience))
struct OperateTests {
    private struct Shell: Sendable {
        let store: TestStore

        func callAsFunction(_ arguments: String...) async throws -> (status: Int32, out: String, err: String) {
            try await FreshetProcess.run(arguments, environment: ["FRESHET_POSTGRES_URL": store.connectionString])
        }

        func json(_ arguments: String...) async throws -> JSONValue {
            let (status, out, err) = try await FreshetProcess.run(
                arguments + ["--json"], environment: ["FRESHET_POSTGRES_URL": store.connectionString])
            #expect(status == 0, "\(arguments): \(err)")
            return try JSONValue.parse(out)
        }
    }

    private static let app = TestKinds.app

    /// Operator of commands that the test runs.
    private static let user: String = {
        let process = ProcessInfo.processInfo
        return "\(process.environment["SUDO_USER"] ?? process.userName) (command line)"
    }()

    @Test("`pause` reports its effect, can be repeated, and shows in the lists")
    func pausing() async throws {
        try await withStore { store in
            let freshet = Shell(store: store)
            var result = try await freshet("pause", "--app", Self.app, "--kind", "Purchases")
            #expect(result.status == 0 && result.out == "paused com.example.bank Purchases\n")
            result = try await freshet("pause", "--app", Self.app, "--kind", "Purchases")
            #expect(result.status == 0 && result.out.contains("was paused already, by \(Self.user) since 20"))
            let app = try await freshet.json("pause", "--app", Self.app, "--reason", "a <new> schema")
            #expect(app["pause"]?["by"] == .string(Self.user) && app["pause"]?["reason"] == "a <new> schema")
            let long = String(repeating: "x", count: 201)
            let refused = try await freshet("pause", "--app", Self.app, "--reason", long)
            #expect(refused.status == 64 && refused.err.contains("must be at most 200 characters, is 201"))
            #expect(app["paused"] == true && app["changed"] == true && app["kind"] == .null)

            let list = try await freshet("kinds", "list").out.split(separator: "\n").map(String.init)
            #expect(list.count == 5)
            #expect(list.contains { $0.contains("Purchases") && $0.contains("paused, app paused") })
            #expect(list.contains { $0.contains("com.example.other") && $0.contains("live") })
            let shown = try await freshet.json("kinds", "show", "--app", Self.app, "DueDate")
            #expect(shown["paused"] == true && shown["pausedAt"] == .null && shown["appPausedAt"] == app["pausedAt"])
            #expect(shown["retired"] == false && shown["move"] == .null)
        }
    }

    @Test("A command for an app that is not registered says so, with a suggestion")
    func wrongApp() async throws {
        try await withStore { store in
            let freshet = Shell(store: store)
            for arguments in [
                ["explain", "--app", "com.example.bnak", "w1"],
                ["timelines", "show", "--app", "com.example.bnak", "--widget", "w1"],
                ["widgets", "list", "--app", "com.example.bnak"], ["kinds", "list", "--app", "com.example.bnak"],
                ["work", "--app", "com.example.bnak"],
            ] {
                let result = try await FreshetProcess.run(
                    arguments, environment: ["FRESHET_POSTGRES_URL": store.connectionString])
                #expect(result.status == 1, "\(arguments)")
                #expect(
                    result.err.contains(
                        #"no app "com.example.bnak" is registered; did you mean "com.example.bank"?"#), "\(result.err)")
            }
            #expect(try await freshet("explain", "--app", Self.app, "w9").err.contains(#"has no widget "w9""#))
        }
    }

    @Test("`resume` reports its effect and an app that is still paused, and can be repeated")
    func resuming() async throws {
        try await withStore { store in
            let freshet = Shell(store: store)
            for kind in [nil, "Purchases"] { _ = try await store.store.pause(app: Self.app, kind: kind) }
            var result = try await freshet("resume", "--app", Self.app, "--kind", "Purchases")
            #expect(result.out == "resumed com.example.bank Purchases\n")
            #expect(result.err.contains("the app is paused too"))
            #expect(try await freshet.json("resume", "--app", Self.app)["paused"] == false)
            result = try await freshet("resume", "--app", Self.app)
            #expect(result.status == 0 && result.out == "com.example.bank was not paused\n")
        }
    }

    @Test("An unregistered app or kind is reported with a suggestion")
    func unknown() async throws {
        try await withStore { store in
            let freshet = Shell(store: store)
            for command in [["pause"], ["resume"], ["cancel"]] {
                let kind = try await FreshetProcess.run(
                    command + ["--app", Self.app, "--kind", "Purchase"],
                    environment: ["FRESHET_POSTGRES_URL": store.connectionString])
                #expect(kind.status == 1 && kind.out.isEmpty)
                #expect(kind.err.contains(#"app "com.example.bank" has no kind "Purchase"; did you mean "Purchases"?"#))
            }
            for result in [
                try await freshet("pause", "--app", "com.example.nobody"),
                try await freshet("resume", "--app", "com.example.nobody"),
                try await freshet("cancel", "--app", "com.example.nobody", "--kind", "K"),
                try await freshet("kinds", "delete", "--app", "com.example.nobody", "K", "--yes"),
            ] {
                #expect(result.status == 1 && result.err.contains("no app"), "\(result.err)")
            }
        }
    }

    @Test("`cancel` reports the number of cancelled requests")
    func cancelling() async throws {
        try await withStore { store in
            let freshet = Shell(store: store)
            try await store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            try await store.settle()
            try await store.sql(
                """
                UPDATE kind SET generation = generation + 1 WHERE name = 'Purchases';
                INSERT INTO work (kind_id, lane, due_at, ready_at, generation, timelines)
                SELECT t.kind_id, 3, now(), now(), 1, array_agg(t.id) FROM timeline t GROUP BY t.kind_id
                """)
            var result = try await freshet("cancel", "--app", Self.app, "--kind", "Purchases")
            #expect(result.status == 0 && result.out == "cancelled 0 sweeps, 3 timelines\n", "\(result.err)")
            try await store.sql(
                """
                UPDATE kind SET generation = generation + 1 WHERE name = 'Purchases';
                INSERT INTO sweep (app_id, kind_id, generation)
                SELECT app_id, id, generation FROM kind WHERE name = 'Purchases' AND generation > 0
                """)
            let cancelled = try await freshet.json("cancel", "--app", Self.app, "--kind", "Purchases")
            #expect(cancelled == ["sweeps": 1, "timelines": 0])
            result = try await freshet("cancel", "--app", Self.app, "--kind", "Purchases")
            #expect(result.out == "cancelled 0 sweeps, 0 timelines\n")
        }
    }

    @Test("Deleting a kind needs a confirmation, reports its effect and can be repeated")
    func deleting() async throws {
        try await withStore { store in
            let freshet = Shell(store: store)
            try await store.place([.test("w1")])
            let unsure = try await freshet("kinds", "delete", "--app", Self.app, "Purchases")
            #expect(unsure.status == 64 && unsure.err.contains("give --yes"))
            #expect(try await freshet("widgets", "show", "--app", Self.app, "w1").status == 0)

            var result = try await freshet("kinds", "delete", "--app", Self.app, "Purchases", "--yes")
            #expect(result.status == 0)
            #expect(result.out == "retired com.example.bank Purchases: 1 timelines are to be removed\n")
            result = try await freshet("kinds", "delete", "--app", Self.app, "Purchases", "--yes")
            #expect(result.status == 0 && result.out.contains("was retired already: 1 timelines are left"))
        }
    }

    @Test("A deleted kind's widgets disappear, and it cannot be created again until its timelines are removed")
    func deleted() async throws {
        try await withStore { store in
            let freshet = Shell(store: store)
            try await store.place([.test("w1")])
            _ = try await store.store.retire(app: Self.app, kind: "Purchases")
            for arguments in [
                ["widgets", "show", "--app", Self.app, "w1"],
                ["timelines", "show", "--app", Self.app, "--widget", "w1"],
            ] {
                let gone = try await FreshetProcess.run(
                    arguments, environment: ["FRESHET_POSTGRES_URL": store.connectionString])
                #expect(gone.status == 1 && gone.err.contains(#"has no widget "w1""#))
            }
            let shown = try await freshet.json("kinds", "show", "--app", Self.app, "Purchases")
            #expect(shown["retired"] == true && shown["timelinesLeft"] == 1)
            #expect(try await freshet("kinds", "list").out.contains("retired"))

            try await withManifest(variesBy: "[family]") { path in
                let refused = try await freshet("kinds", "apply", path)
                #expect(refused.status == 1)
                #expect(refused.err.contains("com.example.bank/Purchases: is being retired: 1 timelines left"))
                #expect(try await freshet("kinds", "apply", path, "--dry-run").status == 1)
            }
        }
    }

    @Test("A change of a kind's dimensions reports the number of moves and their progress")
    func moving() async throws {
        try await withStore { store in
            let freshet = Shell(store: store)
            try await store.place((0..<3).map { .test("w\($0)", user: "u\($0)") })
            try await withManifest(variesBy: "[family]") { path in
                let difference = try await freshet("kinds", "apply", path, "--dry-run")
                #expect(difference.status == 0)
                #expect(difference.out.contains("variesBy") && difference.out.contains("; 3 timelines will move"))
                let applied = try await freshet.json("kinds", "apply", path)
                let change = try #require(applied.arrayValue?.first { $0["kind"] == "Purchases" })
                #expect(change["moving"] == 3 && change["action"] == "change")
                let again = try await freshet.json("kinds", "apply", path)
                #expect(again.arrayValue?.allSatisfy { $0["moving"] == nil } == true)
            }
            #expect(try await freshet("kinds", "list").out.contains("moving"))
            let move = try #require(try await freshet.json("kinds", "show", "--app", Self.app, "Purchases")["move"])
            #expect(move["pass"] == 1 && move["moved"] == 0 && move["passProgress"] == 0)
        }
    }

    @Test("`reload` publishes to Kafka and makes timelines due at once, regardless of limits")
    func reloading() async throws {
        try await withInstallation { installation in
            let app = Installation.app
            let id = try await installation.store.place([
                .test("w1", app: app, user: "u1", kind: "RecentPurchases")
            ])[0]
            try await installation.store.settle()
            try await installation.store.sql("UPDATE timeline SET eligible_at = now() + interval '1 hour'")
            let (process, _) = try await installation.run("--role", "ingest")
            let reload = try await installation.freshet(
                "reload", "--app", app, "--user", "u1", "--kind", "RecentPurchases", "--id", "by-hand")
            #expect(reload.status == 0 && reload.out.hasPrefix("by-hand  "), "\(reload.err)")
            #expect(reload.out.contains(installation.kafka.name("freshet.app-changes")))
            try await eventually("the timeline is due") {
                let timeline = try await installation.store.timeline(id)
                return timeline.map { $0.requested == 2 && $0.timeline.listedAt <= $0.readAt } ?? false
            }
            #expect(try await installation.store.timeline(id)?.lane == .interactive)
            let everyone = try await installation.freshet("reload", "--app", app, "--everyone", "--json")
            #expect(everyone.status == 0)
            #expect(try JSONValue.parse(everyone.out)["id"]?.stringValue?.isEmpty == false)
            try await eventually("the generation of every kind of the app") {
                try await installation.store.integer(
                    "SELECT min(k.generation) FROM kind k JOIN app a ON a.id = k.app_id WHERE a.name = '\(app)'") == 1
            }
            process.send(signal: SIGTERM)
            _ = try await process.end()
        }
    }

    /// Passes a manifest of the bank's Purchases to the closure.
    private func withManifest(variesBy: String, _ body: (String) async throws -> Void) async throws {
        let path = FileManager.default.temporaryDirectory
            .appendingPathComponent("freshet-manifest-\(UUID().uuidString).yaml").path
        let text = """
            app: com.example.bank
            kinds:
              - name: Purchases
                provider: {url: "https://bank.example/widgets"}
                variesBy: \(variesBy)
                placeholder: {}
            """
        try Data(text.utf8).write(to: URL(fileURLWithPath: path))
        defer { try? FileManager.default.removeItem(atPath: path) }
        try await body(path)
    }
}
