// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// Scripts that play a person's session with real processes, and what they write.
///
/// Serialized, since the provider of the first widget listens on one port.
@Suite(.serialized, .tags(.process), .timeLimit(.patience))
struct ScriptTests {
    @Test("The README and the page of the first widget work as one session beside a demo")
    func firstHour() async throws {
        #expect(try await Self.play("deploy/local/first-hour").contains("every line ran"))
    }

    @Test("The overview and explanations name what is wrong: a slow database, a provider, a pause, and Kafka")
    func drill() async throws {
        // A person waits for ten seconds; machines of tests are busy.
        let said = try await Self.play("deploy/local/drill", ["--within", "120"])
        #expect(said.contains("every cause was named"))
    }

    /// Runs a script with the built program, and returns what it printed.
    private static func play(_ script: String, _ arguments: [String] = []) async throws -> String {
        let output = FileManager.default.temporaryDirectory.appending(path: "script-\(UUID().uuidString)")
        defer { try? FileManager.default.removeItem(at: output) }
        try Data().write(to: output)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["bash", try #require(Repository.path(script))] + arguments
        var environment = ProcessInfo.processInfo.environment
        environment["FRESHET_PROGRAM"] = try BuiltProgram.find("freshet").path
        // The script starts a database of its own.
        environment["FRESHET_POSTGRES_URL"] = nil
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        let handle = try FileHandle(forWritingTo: output)
        process.standardOutput = handle
        process.standardError = handle
        try process.runAndCloseFiles()
        defer { if process.isRunning { process.terminate() } }
        try await eventually("\(script) ends") { !process.isRunning }
        let text = try String(contentsOf: output, encoding: .utf8)
        #expect(process.terminationStatus == 0, "\(text.suffix(4_000))")
        return text
    }
}
