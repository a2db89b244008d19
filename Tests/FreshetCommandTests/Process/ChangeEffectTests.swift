// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@Suite("Effects of published changes", .tags(.process), .timeLimit(.patience))
struct ChangeEffectTests {
    @Test("publish and configure report a change that has no effect, and one that is not applied yet")
    func reported() async throws {
        try await withInstallation { installation in
            func publish(_ name: String, _ arguments: String...) async throws -> (
                status: Int32, out: String, err: String
            ) {
                try await FreshetProcess.run(
                    ["publish", "widget", name, "--app", Installation.app, "--user", "u1", "--json"] + arguments,
                    environment: installation.environment)
            }
            let unapplied = try await publish("removed", "--id", "early", "w1")
            #expect(unapplied.status == 0 && unapplied.err.contains("its effect is not known"), "\(unapplied.err)")

            let (process, _) = try await installation.run("--role", "ingest")
            let placed = try await publish("placed", "--device", "d1", "--kind", "DueDate", "w1")
            #expect(placed.status == 0, "\(placed.err)")

            let old = try await publish("removed", "--time", "2020-06-22T10:00:00Z", "w1")
            #expect(old.status == 1 && old.err.contains("no effect: a newer change had been applied"), "\(old.err)")
            let outcomes = try [unapplied, placed, old].map { try JSONValue.parse($0.out)["outcome"] }
            #expect(outcomes == [.null, "applied", "outdated"])
            let unknown = try await publish("removed", "w9")
            #expect(unknown.status == 1 && unknown.err.contains("no such widget was placed"), "\(unknown.err)")
            let repeated = try await publish("removed", "--id", "early", "w1")
            #expect(repeated.status == 1 && repeated.err.contains("was published before"), "\(repeated.err)")

            let configured = try await installation.freshet(
                "widgets", "configure", "--app", Installation.app, "w1", "card=acme", "--time", "2020-06-22T10:00:00Z")
            #expect(configured.status == 1 && configured.err.contains("a newer change"), "\(configured.err)")
            process.send(signal: SIGTERM)
            _ = try await process.end()
        }
    }
}
