// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import TestSupport
import Testing

@testable import freshet

/// Completion scripts and help of the built program.
@Suite(.timeLimit(.patience)) struct CompletionTests {
    @Test(
        "A completion script is valid in its shell and lists the commands",
        arguments: ["bash", "zsh", "fish"])
    func script(_ shell: String) async throws {
        let generated = try await FreshetProcess.run(["--generate-completion-script", shell])
        #expect(generated.status == 0, "\(generated.err)")
        for word in ["run", "publish", "topics", "doctor", "dead-letters", "config"] {
            #expect(generated.out.contains(word), "\(word)")
        }
        // Runs only if the shell is installed.
        guard let path = Self.path(of: shell) else { return }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("\(UUID().uuidString).\(shell)")
        try generated.out.write(to: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(at: file) }
        let process = Process()
        process.executableURL = URL(fileURLWithPath: path)
        process.arguments = ["-n", file.path]
        process.standardError = FileHandle.nullDevice
        try process.run()
        process.waitUntilExit()
        #expect(process.terminationStatus == 0)
    }

    private static func path(of shell: String) -> String? {
        ["/usr/bin", "/bin", "/usr/local/bin"].map { "\($0)/\(shell)" }
            .first { FileManager.default.isExecutableFile(atPath: $0) }
    }

    private struct Named: Sendable {
        let name: String
        let command: any ParsableCommand.Type
    }

    /// Returns a command with all its subcommands.
    private static func all(_ command: any ParsableCommand.Type, _ name: String) -> [Named] {
        var found = [Named(name: name, command: command)]
        for child in command.configuration.subcommands {
            found += all(child, name + " " + (child.configuration.commandName ?? "\(child)"))
        }
        return found
    }

    @Test("Every command has an abstract, and the main ones a discussion with examples")
    func help() {
        let commands = Self.all(Freshet.self, "freshet")
        let silent = commands.filter { $0.command.configuration.abstract.isEmpty }.map { $0.name }
        #expect(silent.isEmpty)
        for name in [
            "run", "migrate", "kinds", "publish", "topics check", "topics apply", "doctor", "kafka", "explain",
        ] {
            let below = commands.filter { $0.name.hasPrefix("freshet \(name)") }
            let texts = below.map { $0.command.configuration.discussion }
            #expect(texts.contains { $0.contains("Examples:") }, "\(name) shows no examples")
        }
    }
}
