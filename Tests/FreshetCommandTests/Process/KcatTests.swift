// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import KafkaClient
import Synchronization
import TestSupport
import Testing
import WidgetModel

@testable import freshet

/// Publishing with kcat as the README shows it.
@Suite(.tags(.process), .timeLimit(.patience))
struct KcatTests {
    struct Missing: Error, CustomStringConvertible {
        let description: String
    }

    @Test("The README contains the line that the demo prints")
    func documented() throws {
        var root = URL(fileURLWithPath: #filePath)
        for _ in 0..<4 { root.deleteLastPathComponent() }
        let readme = try String(contentsOf: root.appendingPathComponent("README.md"), encoding: .utf8)
        // The README breaks the line after the pipe.
        let parts = Demo.kcatExample.components(separatedBy: " | ")
        try #require(parts.count == 2 && parts[0].hasPrefix("echo '{") && parts[1].hasPrefix("kcat "))
        for part in parts { #expect(readme.contains(part)) }
    }

    @Test("The README's kcat line reloads a widget")
    func reloads() async throws {
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        guard path.split(separator: ":").contains(where: { FileManager.default.isExecutableFile(atPath: "\($0)/kcat") })
        else { throw Missing(description: "kcat is not in PATH; deploy/local/setup installs it") }

        try await withInstallation { installation in
            let (process, _) = try await installation.run("--role", "all")
            let placed = try await installation.freshet(
                "publish", "widget", "placed", "--app", Installation.app, "--user", "u0", "--device", "d0", "--kind",
                "RecentPurchases", "--configuration", #"{"card":"acme"}"#, "w0")
            #expect(placed.status == 0, "\(placed.err)")
            let first = try await Self.revision(past: 0, in: installation)

            // The line is unchanged on the embedded cluster; on a real broker the test's topic has a unique name.
            let command = Demo.kcatExample.replacing(
                "-t freshet.pushes ", with: "-t \(installation.kafka.name("freshet.pushes")) ")
            let (status, err) = try await Self.shell(command, path: path, installation)
            #expect(status == 0, "\(err)")
            let second = try await Self.revision(past: first, in: installation)
            #expect(second > first)
            let deadLetters = try await installation.store.integer("SELECT count(*) FROM dead_letter")
            #expect(deadLetters == 0)

            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)
        }
    }

    /// Waits for a revision past the given one in `timelines show`.
    private static func revision(past revision: Int64, in installation: Installation) async throws -> Int64 {
        var found: Int64 = 0
        try await eventually("the timeline is past revision \(revision)") {
            let shown = try await installation.freshet(
                "timelines", "show", "--app", Installation.app, "--widget", "w0", "--json")
            guard shown.status == 0 else { return false }
            found = try JSONValue.parse(shown.out)["revision"]?.numberValue?.int64 ?? 0
            return found > revision
        }
        return found
    }

    /// Runs a line in a shell to completion.
    private static func shell(
        _ command: String, path: String, _ installation: Installation
    ) async throws -> (status: Int32, err: String) {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("kcat-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let kafka = installation.kafka
        var environment = ["PATH": path, "FRESHET_KAFKA_BOOTSTRAP_SERVERS": kafka.configuration.bootstrapServers]
        if kafka.embedded == nil {
            // Access to a real broker (TLS, SASL) is set in kcat's configuration file.
            let file = folder.appendingPathComponent("kcat.conf")
            let lines = kafka.configuration.properties.map { "\($0.key)=\($0.value)\n" }
            try Data(lines.joined().utf8).write(to: file)
            environment["KCAT_CONFIG"] = file.path
        }
        let errors = folder.appendingPathComponent("err")
        try Data().write(to: errors)

        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-c", command]
        process.environment = environment
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = try FileHandle(forWritingTo: errors)
        let ending = Ending()
        process.terminationHandler = { process in ending.status.withLock { $0 = process.terminationStatus } }
        try process.runAndCloseFiles()
        defer { if process.isRunning { process.terminate() } }
        try await eventually("kcat ends") { ending.status.withLock { $0 } != nil }
        return (ending.status.withLock { $0 } ?? -1, try String(contentsOf: errors, encoding: .utf8))
    }

    /// Exit status, set on one of Foundation's threads.
    private final class Ending: Sendable {
        let status = Mutex<Int32?>(nil)
    }
}
