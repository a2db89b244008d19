// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetClient
import JSON
import TestSupport
import Testing
import WidgetEvents
import WidgetModel
import WidgetStore

/// `freshet work` without workers, with `--wait`, and at rest.
@Suite(.tags(.process), .timeLimit(.patience))
struct WorkTests {
    @Test("Work lists are shown by lane, kind and state; --wait returns when nothing is due or at its timeout")
    func waiting() async throws {
        try await withInstallation { installation in
            let (ingest, _) = try await installation.run("--role", "ingest")
            try await installation.publish([Self.placement("w1"), Self.placement("w2")])
            try await eventually("both widgets are placed") {
                try await installation.store.integer(
                    "SELECT coalesce(sum(cardinality(timelines)), 0)::int8 FROM work") == 2
            }
            let text = try await installation.freshet("work")
            #expect(text.status == 0, "\(text.err)")
            #expect(text.out.contains("DueDate") && text.out.contains("interactive"), "\(text.out)")
            let json = try JSONValue.parse(try await installation.freshet("work", "--json").out)
            #expect(json["due"] == true && json["sweeps"] == 0)
            let lists = try #require(json["lists"]?.arrayValue)
            let ready = lists.compactMap { $0["ready"]?["timelines"]?.numberValue?.int64 }.reduce(0, +)
            #expect(ready == 2 && lists.allSatisfy { $0["app"]?.stringValue == Installation.app })

            let late = try await installation.freshet("work", "--wait", "--timeout", "1s")
            #expect(late.status == 1 && late.err.contains("due until the timeout"), "\(late.err)")
            let (workers, _) = try await installation.run("--role", "workers")
            let timeout = "\(Patience.limit.components.seconds)s"
            let done = try await installation.freshet("work", "--wait", "--timeout", timeout, "--json")
            #expect(done.status == 0, "\(done.err)")
            #expect(try JSONValue.parse(done.out)["due"] == false)
            #expect(try await installation.store.integer("SELECT count(*) FROM timeline WHERE content IS NULL") == 0)

            for process in [ingest, workers] {
                process.send(signal: SIGTERM)
                _ = try await process.end()
            }
        }
    }

    @Test("Paused kinds are shown and not waited for")
    func paused() async throws {
        try await withStore { store in
            try await store.place([.test("w1")])
            try await store.sql("UPDATE kind SET paused_at = now()")
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            let work = try await FreshetProcess.run(["work", "--wait"], environment: environment)
            #expect(work.status == 0 && work.out.contains("(paused)") && work.out.contains("nothing is due"))
            let unknown = try await FreshetProcess.run(
                ["work", "--app", "com.example.nobody"], environment: environment)
            #expect(unknown.status == 1 && unknown.err.contains("com.example.nobody"))
        }
    }

    @Test("A timeout requires --wait")
    func arguments() async throws {
        for arguments in [["--timeout", "10s"], ["--wait", "--timeout", "soon"]] {
            let (status, _, err) = try await FreshetProcess.run(["work"] + arguments)
            #expect(status == 64 && err.contains("--timeout"), "\(err)")
        }
    }

    private static func placement(_ widget: String) -> OutgoingEvent {
        OutgoingEvent(
            .placed(
                WidgetPlacement(
                    app: Installation.app, widget: widget, user: widget, device: "d", kind: "DueDate",
                    family: .systemSmall, environment: WidgetPlacement.test("w").environment)),
            time: Timestamp.now())
    }
}
