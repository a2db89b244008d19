// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import FreshetService
@testable import freshet

/// Existence of the commands, options, settings and alerts in the documents.
@Suite(.timeLimit(.patience))
struct DocumentedCommandsTests {
    private static let repository = URL(fileURLWithPath: #filePath)
        .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent()

    private static func text(_ path: String) throws -> String {
        try String(contentsOf: repository.appendingPathComponent(path), encoding: .utf8)
    }

    @Test(
        "Every command in the documents exists with its options",
        arguments: [
            "deploy/runbook.md", "deploy/README.md", "deploy/api.md", "deploy/observe.md", "README.md",
            "deploy/first-widget.md", "deploy/capacity.md", "deploy/operations.md", "deploy/providers.md",
            "deploy/publishing.md", "CONTRIBUTING.md", "DESIGN.md", "deploy/stacks.md", "deploy/delivery.md",
        ])
    func documents(_ path: String) throws {
        let commands = DocumentedCommands.find("freshet", in: try Self.text(path))
        #expect(!commands.isEmpty)
        for command in commands {
            let problem = DocumentedCommands.problem(with: command, of: Freshet.self)
            #expect(problem == nil, "\(path): \(command)")
        }
    }

    @Test("No command in the documents and the help has a date, so that all work on any day")
    func dates() throws {
        let pattern = /\d{4}-\d{2}-\d{2}/
        for path in [
            "README.md", "deploy/operations.md", "deploy/providers.md", "deploy/publishing.md",
            "deploy/stacks.md", "deploy/delivery.md", "deploy/runbook.md", "deploy/api.md", "deploy/README.md",
        ] {
            let dated = DocumentedCommands.find("freshet", in: try Self.text(path)).filter { $0.contains(pattern) }
            #expect(dated.isEmpty, "\(path): \(dated)")
        }
        func check(_ command: any ParsableCommand.Type) {
            let lines = command.configuration.discussion.split(separator: "\n")
            let dated = lines.filter { $0.contains("freshet ") && $0.contains(pattern) }
            #expect(dated.isEmpty, "\(dated)")
            for child in command.configuration.subcommands { check(child) }
        }
        check(Freshet.self)
    }

    @Test("The check reports missing commands and options")
    func canFail() {
        func problem(_ command: String) -> String? { DocumentedCommands.problem(with: command, of: Freshet.self) }
        #expect(problem("freshet explain --app A W") == nil)
        #expect(problem("freshet dead-letters replay --app A --rate 500") == nil)
        #expect(problem("freshet explian --app A") == "freshet has no command explian")
        #expect(problem("freshet explain --ap A") == "freshet explain has no option --ap")
        #expect(problem("freshet positions reset") == "freshet positions has no command reset")
        let found = DocumentedCommands.find(
            "freshet", in: "Use `freshet a b` and `x`.\n```sh\nX=1 freshet c \\\n  --d | kcat\nload e\n```\n")
        #expect(found == ["freshet a b", "freshet c --d"])
    }

    @Test(
        "Every setting in the documents exists",
        arguments: [
            "deploy/runbook.md", "deploy/README.md", "deploy/operations.md", "deploy/providers.md",
            "deploy/publishing.md", "deploy/observe.md", "deploy/api.md",
        ])
    func settings(_ path: String) throws {
        let groups = Set(SettingKey.knownNames.compactMap { $0.split(separator: ".").first.map(String.init) })
        let spans = try Self.text(path).split(separator: "`", omittingEmptySubsequences: false).enumerated()
            .filter { $0.offset % 2 == 1 }.map { String($0.element) }
        for span in spans {
            let name = String(span.prefix { $0 != "=" && $0 != ":" })
            let parts = name.split(separator: ".", omittingEmptySubsequences: false)
            guard parts.count == 2, groups.contains(String(parts[0])),
                !["yaml", "sql", "properties"].contains(parts[1]),
                parts[1].allSatisfy({ $0.isLetter })
            else { continue }
            #expect(SettingKey.knownNames.contains(name), "\(path): \(name)")
        }
    }

    @Test("Every alert links to a heading of the runbook")
    func alerts() throws {
        let headings = Set(
            try Self.text("deploy/runbook.md").split(separator: "\n").filter { $0.hasPrefix("#") }
                .map { $0.drop { $0 == "#" || $0 == " " }.lowercased() })
        let file = "deploy/prometheus/rules.yaml"
        guard FileManager.default.fileExists(atPath: Self.repository.appendingPathComponent(file).path) else { return }
        let anchors = try Self.text(file).split(separator: "\n").compactMap { line -> String? in
            line.firstRange(of: "runbook.md#").map { range in
                String(line[range.upperBound...].prefix { $0.isLetter || $0.isNumber || $0 == "-" })
            }
        }
        for anchor in anchors { #expect(headings.contains(anchor), "\(anchor)") }
    }

    @Test(
        "Settings files of the deployments contain only existing settings",
        arguments: [
            "deploy/kubernetes/base/freshet.yaml", "deploy/compose/freshet.yaml", "deploy/samples/freshet.yaml",
        ])
    func settingsFiles(_ path: String) throws {
        let file = SettingSource(file: Self.repository.appendingPathComponent(path).path)
        #expect(file.problems.isEmpty)
        #expect(!file.values.isEmpty)
    }
}
