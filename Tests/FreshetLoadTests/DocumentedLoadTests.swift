// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import freshet_load

/// Commands of the load tool in documents and help.
@Suite(.timeLimit(.patience))
struct DocumentedLoadTests {
    @Test("Every command in the documents exists with its options", arguments: ["README.md", "deploy/capacity.md"])
    func documents(_ path: String) throws {
        let repository = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let text = try String(contentsOf: repository.appendingPathComponent(path), encoding: .utf8)
        let commands = DocumentedCommands.find("freshet-load", in: text)
        #expect(commands.count > 3)
        for command in commands {
            let problem = DocumentedCommands.problem(with: command, of: FreshetLoad.self)
            #expect(problem == nil, "\(path): \(command)")
        }
    }

    @Test("Every scenario is in the table of scenarios")
    func scenarios() throws {
        let repository = URL(fileURLWithPath: #filePath)
            .deletingLastPathComponent().deletingLastPathComponent().deletingLastPathComponent()
        let url = repository.appendingPathComponent("deploy/capacity.md")
        let lines = try String(contentsOf: url, encoding: .utf8).split(separator: "\n")
        for scenario in FreshetLoad.configuration.subcommands {
            let name = try #require(scenario.configuration.commandName)
            #expect(lines.contains { $0.hasPrefix("| `\(name)` | ") }, "\(name)")
        }
    }

    @Test("Every scenario has an abstract and examples")
    func help() {
        for scenario in FreshetLoad.configuration.subcommands {
            #expect(!scenario.configuration.abstract.isEmpty)
            #expect(scenario.configuration.discussion.contains("Examples:"), "\(scenario)")
        }
    }
}
