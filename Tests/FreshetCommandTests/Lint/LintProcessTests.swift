// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import TestSupport
import Testing
import WidgetModel

@testable import ProviderTools

@Suite("freshet lint", .tags(.process), .timeLimit(.patience))
struct LintProcessTests {
    private static func findings(_ json: String) throws -> [JSONValue] {
        try #require(try JSONValue.parse(json)["findings"]?.arrayValue)
    }

    /// Runs lint until it has at most notes, and returns its last result; after ten runs, whatever it has. A busy
    /// machine may exceed the short time limits of answers, and a time that is relative to the request may happen to be
    /// a full hour.
    private static func lint(_ arguments: [String]) async throws -> (status: Int32, out: String, err: String) {
        var result = try await FreshetProcess.run(["lint"] + arguments)
        for _ in 1..<10 where result.status == 1 { result = try await FreshetProcess.run(["lint"] + arguments) }
        return result
    }

    @Test("The sample provider has at most notes, in every kind")
    func sample() async throws {
        let result = try await Self.lint(["--sample", "--json"])
        #expect(result.status == 0, "\(result.out) \(result.err)")
        #expect(try JSONValue.parse(result.out)["kinds"]?.arrayValue?.count == 7)
        let findings = try Self.findings(result.out)
        #expect(findings.allSatisfy { $0["severity"] == "note" }, "\(result.out)")
        // A ranger heals every minute.
        #expect(
            findings.contains { $0["rule"] == "schedule/short-gap" && $0["kind"] == "com.example.rangers/EmojiRanger" })
    }

    @Test("A faulty provider has a finding for every rule")
    func faulty() async throws {
        try await withStubProvider { provider in
            FaultyProvider.make(provider)
            let folder = FileManager.default.temporaryDirectory.appending(path: "freshet-lint-\(UUID().uuidString)")
            try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
            defer { try? FileManager.default.removeItem(at: folder) }
            try Data(FaultyProvider.secret.exposed.utf8).write(to: folder.appending(path: "secret"))
            let manifest = folder.appending(path: "kinds.yaml").path
            try Data(FaultyProvider.manifest(provider.url, secretFile: "secret").utf8)
                .write(to: URL(filePath: manifest))

            // A run whose requests end at their time limits, on a busy machine, finds only that.
            var missing = Set(LintRule.all.map(\.id))
            try await eventually("every rule has a finding; missing so far: \(missing.sorted())") {
                let result = try await FreshetProcess.run(["lint", "--manifest", manifest, "--format", "json"])
                #expect(result.status == 1, "\(result.err)")
                #expect(!result.out.contains(FaultyProvider.secret.exposed))
                missing.subtract(try Self.findings(result.out).compactMap { $0["rule"]?.stringValue })
                return missing.isEmpty
            }

            // Ignored rules and lower severities do not fail.
            let loose = ["lint", "--manifest", manifest, "--kind", "Loose"]
            let ignored =
                LintRule.all.filter { $0.id.hasPrefix("signature/") }.flatMap { ["--ignore", $0.id] } + [
                    "--ignore", "links/unsafe",
                ]
            let passed = try await FreshetProcess.run(loose + ignored + ["--fail-on", "error", "--format", "sarif"])
            #expect(passed.status == 0, "\(passed.out) \(passed.err)")
            let run = try #require(try JSONValue.parse(passed.out)["runs"]?.arrayValue?.first)
            let levels = Set(try #require(run["results"]?.arrayValue).compactMap { $0["level"]?.stringValue })
            #expect(levels == ["warning", "note"])
            let failed = try await FreshetProcess.run(loose + ["--format", "sarif"])
            #expect(failed.status == 1, "\(failed.err)")
        }
    }

    @Test("A provider can be checked by its URL and a secret, and refuses without the secret")
    func url() async throws {
        let secret = FileManager.default.temporaryDirectory.appending(path: "freshet-secret-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: secret) }
        try Data(FaultyProvider.secret.exposed.utf8).write(to: secret)
        let provider = try FreshetProcess([
            "provider", "--port", "0", "--change-every", "5m", "--secret-file", secret.path,
        ])
        let port = try #require(try await provider.firstLine()["port"]?.numberValue?.int64)
        let arguments = ["--provider", "http://127.0.0.1:\(port)/bank", "--kind", "DueDate"]
        let signed = try await Self.lint(arguments + ["--secret-file", secret.path])
        #expect(signed.status == 0, "\(signed.out) \(signed.err)")
        let unsigned = try await FreshetProcess.run(["lint"] + arguments)
        #expect(unsigned.status == 1 && unsigned.out.contains("contract/answer"))
        #expect(unsigned.out.contains("status 401; no secret was given: --secret-file"), "\(unsigned.out)")
        #expect(unsigned.err.contains("requests are not signed"), "\(unsigned.err)")
    }

    @Test(
        "Invalid arguments are reported with exit status 64",
        arguments: [
            ([], "--provider"), (["--provider", "http://127.0.0.1:1"], "--kind"),
            (["--provider", "ftp://x", "--kind", "K"], "http"), (["--sample", "--manifest", "x"], "--sample"),
            (["--sample", "--ignore", "links/non"], "did you mean \"links/none\"?"),
            (["--sample", "--format", "xml"], "format"), (["--sample", "--json", "--format", "sarif"], "--json"),
        ])
    func arguments(arguments: [String], expected: String) async throws {
        let result = try await FreshetProcess.run(["lint"] + arguments)
        #expect(result.status == 64 && result.err.contains(expected), "\(result.err)")
    }

    @Test("An unknown kind is reported with a suggestion")
    func unknownKind() async throws {
        let result = try await FreshetProcess.run(["lint", "--sample", "--kind", "DueDat"])
        #expect(result.status == 1 && result.err.contains("did you mean \"DueDate\"?"), "\(result.err)")
    }
}
