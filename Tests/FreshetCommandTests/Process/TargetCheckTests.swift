// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

/// Refusal of unregistered apps and kinds by `publish` and `reload`.
@Suite(.tags(.process), .timeLimit(.patience))
struct TargetCheckTests {
    @Test("An unregistered app or kind is refused unless the check is disabled")
    func single() async throws {
        try await withInstallation { installation in
            let app = Installation.app
            let refused: [(arguments: [String], message: String)] = [
                (["reload", "--app", app + "s", "--user", "u"], "no app \"com.example.banks\" is registered"),
                (["reload", "--app", app, "--user", "u", "--kind", "DueDat"], "did you mean \"DueDate\"?"),
                (["publish", "push", "--app", app, "--everyone", "--kind", "Nothing"], "has no kind \"Nothing\""),
                (["publish", "app-change", "--app", "x", "--user", "u", "--state", "foreground"], "no app \"x\""),
                (
                    [
                        "publish", "widget", "placed", "--app", app, "--user", "u", "--device", "d", "--kind", "K",
                        "w",
                    ], "has no kind \"K\""
                ),
                (["publish", "widget", "removed", "--app", "x", "--user", "u", "w"], "no app \"x\""),
            ]
            for (arguments, message) in refused {
                let result = try await FreshetProcess.run(arguments, environment: installation.environment)
                #expect(result.status == 1 && result.out.isEmpty, "\(arguments)")
                #expect(result.err.contains(message) && result.err.contains("--no-check"), "\(result.err)")
                let unchecked = try await FreshetProcess.run(
                    arguments + ["--no-check"], environment: installation.environment)
                #expect(unchecked.status == 0, "\(arguments): \(unchecked.err)")
            }
            let known = try await installation.freshet("reload", "--app", app, "--user", "u", "--kind", "DueDate")
            #expect(known.status == 0, "\(known.err)")
            var environment = installation.environment
            environment["FRESHET_POSTGRES_URL"] = nil
            let elsewhere = try await FreshetProcess.run(
                ["reload", "--app", "x", "--user", "u"], environment: environment)
            #expect(elsewhere.status == 0, "without a database nothing is checked: \(elsewhere.err)")
        }
    }

    @Test("Lines with an unregistered app or kind are reported with their numbers, and the others are published")
    func lines() async throws {
        try await withInstallation { installation in
            func line(_ app: String, _ kind: String) -> String {
                #"{"type":"freshet.push.received.v1","data":{"app":"\#(app)","audience":{"user":"u"},"kinds":["\#(kind)"]}}"#
            }
            let input = [line(Installation.app, "DueDate"), line(Installation.app, "Due"), line("x", "DueDate")]
                .joined(separator: "\n")
            let result = try await installation.freshet("publish", "--stdin", "--json", input: input)
            #expect(result.status == 1)
            #expect(try JSONValue.parse(result.out) == ["published": 1, "failed": 2])
            #expect(result.err.contains("line 2: /data/kinds: ") && result.err.contains("line 3: /data/app: "))
            let unchecked = try await installation.freshet("publish", "--stdin", "--json", "--no-check", input: input)
            #expect(try JSONValue.parse(unchecked.out) == ["published": 3, "failed": 0])
        }
    }
}
