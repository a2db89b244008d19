// SPDX-License-Identifier: Apache-2.0

import HTTPTypes
import Logging
import PostgresClient
import TestSupport
import Testing
import WidgetModel
import WidgetStore

@testable import WidgetAPI

@Suite("The audit log of the console", .tags(.api), .timeLimit(.patience))
struct ConsoleAuditTests {
    /// An action of an operator, with the page of its form and the line that it writes.
    private struct Act {
        let path: String
        let page: String
        var fields: [String: String] = [:]
        let what: String
        var outcome = "200"
    }

    private static let kind = "/console/kinds/Purchases"
    private static let letters = "/console/dead-letters"

    private static let confirmed = ["confirmed": "yes"]

    private static let acts = [
        Act(path: "/console/app/pause", page: "/console/kinds", fields: confirmed, what: "pauseApp"),
        Act(path: "/console/app/resume", page: "/console/kinds", fields: confirmed, what: "resumeApp"),
        Act(path: kind + "/pause", page: kind, fields: confirmed, what: "pauseKind"),
        Act(path: kind + "/resume", page: kind, fields: confirmed, what: "resumeKind"),
        Act(path: kind + "/reload", page: kind, fields: confirmed, what: "requestReload", outcome: "202"),
        Act(path: kind + "/cancel", page: kind, fields: confirmed, what: "consoleCancel"),
        Act(path: kind + "/test", page: "/console/providers", what: "testProvider"),
        Act(path: "/console/widgets/w1/reload", page: "/console/widgets/w1", what: "requestReload", outcome: "202"),
        Act(path: "/console/manifest", page: "/console/manifest", fields: ["manifest": "x"], what: "consoleManifest"),
        Act(
            path: "/console/simulator", page: "/console/simulator",
            fields: ["from": "2026-06-22", "days": "1", "people": "2", "seed": "1"], what: "consoleSimulation"),
        Act(path: letters + "/replay", page: letters, what: "consoleReplay"),
        Act(path: letters + "/replay", page: letters, fields: ["confirmed": "yes"], what: "consoleReplay"),
        Act(path: letters + "/discard", page: letters, what: "consoleDiscard"),
        Act(path: letters + "/discard", page: letters, fields: ["confirmed": "yes"], what: "consoleDiscard"),
    ]

    @Test("Every action writes one line with its bearer, path and outcome, and none goes without")
    func actions() async throws {
        let log = RecordedLog(level: .notice)
        @Sendable func lines() -> [Logger.Metadata] { log.lines.filter { $0.text == "audit" }.map(\.metadata) }
        try await withStore { store in
            try await store.place([.test("w1")])
            for offset in 1...2 { try await store.keepLetter(Int64(offset)) }
            let configuration = try ConsoleConfiguration.test()
            try await withAPI(store, logger: log.logger, console: configuration) { api in
                let browser = ConsoleClient(api)
                #expect(try await browser.signIn(api.token).status == 303)
                for act in Self.acts {
                    let count = lines().count
                    let answer = try await browser.post(act.path, from: act.page, act.fields)
                    #expect(answer.status < 400, "\(act.path): \(answer.text)")
                    let new = lines().dropFirst(count)
                    #expect(new.count == 1, "\(act.path): \(new)")
                    let line = new.first ?? [:]
                    #expect(
                        line["what"] == "\(act.what)" && line["outcome"] == "\(act.outcome)", "\(act.path): \(line)")
                    #expect(line["app"] == "\(TestKinds.app)" && line["path"].map { "\($0)" }?.isEmpty == false)
                    #expect(line["who"] == lines().first?["who"] && line["who"] != "nobody")
                }
                #expect(try await browser.post("/console/sign-out", from: "/console/kinds").status == 303)
                #expect(lines().last?["what"] == "consoleSignOut")
            }
        }
    }

    @Test("Every audited route and every form is in the table of actions")
    func completeness() {
        #expect(Set(Console.operations.filter(\.isAudited).map(\.id)).isSubset(of: Self.acts.map(\.what)))
        for form in Console.actions.map(\.path) {
            let pattern = form.split(separator: "/")
            #expect(
                Self.acts.contains { act in
                    let path = act.path.dropFirst(Console.base.count).split(separator: "/")
                    return path.count == pattern.count
                        && zip(path, pattern).allSatisfy { $1.hasPrefix("{") || $0 == $1 }
                }, "\(form)")
        }
    }

    @Test("Refused sign-ins and forms are in the log too, and no line has a token")
    func refusals() async throws {
        let log = RecordedLog(level: .notice)
        try await withStore { store in
            try await withAPI(store, logger: log.logger, console: try .test()) { api in
                let browser = ConsoleClient(api)
                _ = try await browser.post("/console/sign-in", from: nil, ["token": api.token])
                _ = try await browser.signIn("wrong")
                _ = try await browser.signIn(api.token)
                _ = try await browser.post("/console/app/pause", from: nil)
                let viewer = ConsoleClient(api)
                _ = try await viewer.signIn(try await api.viewer())
                _ = try await viewer.post("/console/app/pause", from: "/console/kinds", Self.confirmed)
                // The limit lets another one pass every few seconds.
                while try await browser.signIn("wrong").status != 429 {}
                let lines = log.lines.filter { $0.text == "audit" }.map { line in
                    "\(line.metadata["what"] ?? "") \(line.metadata["outcome"] ?? "")"
                }
                let begin = [
                    "consoleSignIn 403", "consoleSignIn 403", "consoleSignIn 303", "consoleForm 403",
                    "consoleSignIn 303", "pauseApp 403",
                ]
                #expect(Array(lines.prefix(begin.count)) == begin)
                #expect(lines.last == "consoleSignIn 429")
                #expect(log.count(of: api.token) == 0 && log.count(of: "wrong") == 0)
            }
        }
    }
}
