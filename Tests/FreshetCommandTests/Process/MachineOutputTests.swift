// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetAPI
import WidgetModel

/// Machine-readable output of commands: data and errors with `--json`.
@Suite(.tags(.process), .timeLimit(.patience))
struct MachineOutputTests {
    private static func error(_ text: String) throws -> JSONValue {
        try JSONValue.parse(String(text.split(separator: "\n").last ?? ""))
    }

    @Test(
        "With --json an error is a line of JSON with its status",
        arguments: [
            (["kinds", "list", "--json", "--nonsense"], 64, "usage"),
            (["work", "--timeout", "5s", "--json"], 64, "usage"),
            (
                [
                    "kinds", "list", "--json", "--set", "postgres.url=host=127.0.0.1 port=1", "--set",
                    "postgres.acquireTimeout=300ms",
                ], 69, "unavailable"
            ),
            (["health", "--url", "http://127.0.0.1:1", "--json"], 1, "failure"),
            (["kinds", "list", "--json"], 78, "configuration"),
        ] as [([String], Int32, String)])
    func errors(_ arguments: [String], _ status: Int32, _ name: String) async throws {
        let result = try await FreshetProcess.run(arguments)
        #expect(result.status == status && result.out.isEmpty)
        let error = try Self.error(result.err)
        #expect(error["error"] == .string(name) && error["status"] == .number(JSONNumber(Int(status))))
        #expect(error["message"]?.stringValue?.isEmpty == false)
    }

    @Test("Help is always text, and so are errors without --json")
    func text() async throws {
        let help = try await FreshetProcess.run(["kinds", "list", "--json", "--help"])
        #expect(help.status == 0 && help.out.contains("USAGE"))
        #expect(try await FreshetProcess.run(["kinds", "list"]).err.hasPrefix("freshet: the settings cannot be used:"))
    }

    @Test("G: the help of tokens issue lists every scope")
    func scopes() async throws {
        let help = try await FreshetProcess.run(["tokens", "issue", "--help"]).out
        let words = help.split { $0.isWhitespace }.joined(separator: " ")
        #expect(words.contains("Scopes: \(TokenScope.allCases.map(\.rawValue).joined(separator: ", "))."))
    }

    @Test("`config check` reports all errors at once, in form and content")
    func configuration() async throws {
        let wrong = [
            "postgres.url=host=x port=70000 password=geheim", "workers.lease=soon", "api.keys=/nowhere/keys.json",
            "kafka.properties=no.such.property=geheim", "providers.trustRoots=/nowhere/ca.pem", "no.such=1",
            "kafka.embedded=true",
        ].flatMap { ["--set", $0] }
        let names = [
            "postgres.url", "workers.lease", "api.keys", "kafka.properties", "providers.trustRoots", "no.such",
        ]
        let text = try await FreshetProcess.run(["config", "check"] + wrong)
        #expect(text.status == 78 && text.out.isEmpty)
        for name in names { #expect(text.err.contains("\(name): "), "\(name) in \(text.err)") }
        #expect(text.err.contains("70000") && !text.err.contains("geheim"))

        let result = try await FreshetProcess.run(["config", "check", "--json"] + wrong)
        let problems = try Self.error(result.err)["problems"]?.arrayValue ?? []
        #expect(Set(problems.compactMap { $0["setting"]?.stringValue }) == Set(names))
        #expect(problems.count == names.count && !result.err.contains("geheim"))

        // `run` also reports all errors of form at once.
        let run = try await FreshetProcess.run(["run"] + wrong)
        #expect(run.status == 78 && run.err.contains("70000") && run.err.contains("workers.lease"))

        let right = try await FreshetProcess.run([
            "config", "check", "--json", "--set", "postgres.url=dbname=x", "--set", "kafka.embedded=true",
        ])
        #expect(right.status == 0, "\(right.err)")
        #expect(try JSONValue.parse(right.out) == ["valid": true])
    }

    @Test("A manifest's errors have pointers, and a provider that the egress rules forbid is an error")
    func manifest() async throws {
        try await withStore([]) { store in
            let file = FileManager.default.temporaryDirectory.appendingPathComponent("m-\(UUID().uuidString).yaml")
            defer { try? FileManager.default.removeItem(at: file) }
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            func apply(_ url: String, _ more: String...) async throws -> (status: Int32, out: String, err: String) {
                try """
                app: com.example.bank
                provider: {url: "\(url)"}
                kinds:
                  - {name: DueDate, placeholder: {}}
                """.write(to: file, atomically: true, encoding: .utf8)
                return try await FreshetProcess.run(
                    ["kinds", "apply", file.path, "--json"] + more, environment: environment)
            }
            let malformed = try await apply("ftp://example.com")
            let problem = try Self.error(malformed.err)["problems"]?.arrayValue?.first
            #expect(malformed.status == 1 && problem?["line"] == 2 && problem?["path"] == "provider.url")

            for url in ["http://169.254.169.254/x", "http://localhost:1/x", "http://[::1]:1/x"] {
                var refused = try await apply(url)
                // A host that is not resolved within two seconds is left to the workers.
                for _ in 1..<10 where refused.status == 0 { refused = try await apply(url) }
                #expect(refused.status == 1 && refused.out.isEmpty, "\(url)")
                #expect(refused.err.contains("an address that is not public"), "\(refused.err)")
            }
            let dry = try await apply("http://10.0.0.1/x", "--dry-run")
            #expect(dry.status == 1)
            let listed = try await apply("http://10.0.0.1/x", "--set", "providers.allowPrivateNetworks=10.0.0.1")
            #expect(listed.status == 0, "\(listed.err)")
        }
    }

    @Test("`config keys` lists the settings that begin with a prefix")
    func keys() async throws {
        let listed = try await FreshetProcess.run(["config", "keys", "workers.", "--json"])
        let workers = try JSONValue.parse(listed.out).arrayValue ?? []
        #expect(workers.count > 5 && workers.allSatisfy { $0["name"]?.stringValue?.hasPrefix("workers.") == true })
        let wrong = try await FreshetProcess.run(["config", "keys", "worker_"])
        #expect(wrong.status == 1 && wrong.err.contains(#"no setting begins with "worker_"; did you mean "workers"?"#))
    }

    @Test("`health`, `tokens` and `positions` print JSON")
    func data() async throws {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("t-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let keys = folder.appendingPathComponent("keys.json").path
        func json(_ arguments: String..., environment: [String: String] = [:], input: String = "") async throws
            -> JSONValue
        {
            let result = try await FreshetProcess.run(
                arguments + ["--json"], environment: environment, input: input)
            #expect(result.status == 0, "\(arguments): \(result.err)")
            return try JSONValue.parse(result.out)
        }
        #expect(
            try await json("tokens", "keys", "--output", keys)
                == ["file": .string(keys), "id": "dev", "algorithm": "EdDSA"])
        let issued = try await json("tokens", "issue", "--keys", keys, "--app", "a.b", "--scope", "reload")
        let token = try #require(issued["token"]?.stringValue)
        #expect(issued["expiresAt"]?.stringValue != nil)
        #expect(try await json("tokens", "show", "--keys", keys, input: token)["app"] == "a.b")

        try await withStore { store in
            let environment = ["FRESHET_POSTGRES_URL": store.connectionString]
            let expected: JSONValue = ["topic": "freshet.pushes", "partition": 3, "nextOffset": 12]
            #expect(
                try await json("positions", "set", "freshet.pushes", "3", "12", environment: environment) == expected)
            let moved = try await FreshetProcess.run(
                ["positions", "set", "freshet.pushes", "3", "earliest"], environment: environment)
            #expect(
                moved.out.contains("continues at its earliest message within seconds; it was at offset 12"),
                "\(moved.out)")
            let apps = try await json("apps", "list", environment: environment).arrayValue ?? []
            #expect(apps.compactMap { $0["app"]?.stringValue } == [TestKinds.app, TestKinds.otherApp])

            let process = try FreshetProcess(
                ["run", "--set", "kafka.embedded=true", "--print-ready"],
                environment: environment.merging(["FRESHET_API_PORT": "0"]) { $1 })
            let port = try #require(try await process.firstLine()["apiPort"]?.numberValue?.int64)
            let timeout = "\(Patience.limit.components.seconds)s"
            #expect(
                try await json("health", "--url", "http://127.0.0.1:\(port)", "--timeout", timeout)["status"] == "live")
            process.send(signal: SIGTERM)
            _ = try await process.end()
        }
    }
}
