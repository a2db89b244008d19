// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import Synchronization
import TestSupport
import Testing

/// The examples of deploy/stacks.md, as they stand there.
@Suite("Examples of stacks", .tags(.process), .timeLimit(.patience))
struct StackExampleTests {
    /// Exit status, set on one of Foundation's threads.
    private final class Ending: Sendable {
        let status = Mutex<Int32?>(nil)
    }

    private static func example(_ name: String) throws -> String {
        let path = try #require(Repository.path("deploy/stacks.md"))
        let text = try String(contentsOfFile: path, encoding: .utf8)
        let parts = text.components(separatedBy: "<!-- example: \(name) -->\n```sh\n")
        try #require(parts.count == 2)
        return parts[1].components(separatedBy: "\n```")[0]
    }

    /// Runs an example with the built program.
    private static func run(_ name: String, _ installation: Installation) async throws {
        let folder = try BuiltProgram.find("freshet").deletingLastPathComponent().path
        let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
        let process = Process()
        process.executableURL = URL(fileURLWithPath: "/bin/sh")
        process.arguments = ["-e", "-c", try example(name)]
        process.environment = installation.environment.merging(["PATH": "\(folder):\(path)"]) { $1 }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = FileHandle.nullDevice
        process.standardError = FileHandle.nullDevice
        let ending = Ending()
        process.terminationHandler = { process in ending.status.withLock { $0 = process.terminationStatus } }
        try process.runAndCloseFiles()
        defer { if process.isRunning { process.terminate() } }
        try await eventually("the example ends") { ending.status.withLock { $0 } != nil }
        #expect(ending.status.withLock { $0 } == 0)
    }

    @Test("Events of stacks are published by name, and take effect on any day")
    func names() async throws {
        try await withInstallation { installation in
            let (process, _) = try await installation.run()
            for widget in ["w0", "w1"] {
                let placed = try await installation.freshet(
                    "publish", "widget", "placed", "--app", Installation.app, "--user", "u0", "--device", "d0",
                    "--kind",
                    "RecentPurchases", widget)
                #expect(placed.status == 0, "\(placed.err)")
            }
            try await Self.run("names.sh", installation)
            try await eventually("the stack was turned, and the shortcut is to come") {
                let explained = try await installation.freshet(
                    "explain", "--app", Installation.app, "--user", "u0", "--stack", "home")
                return explained.out.contains("* w1") && explained.out.contains("suggestion of DueDate")
            }
            let registered = try await installation.freshet(
                "publish", "device", "registered", "--app", Installation.app, "--user", "u0", "--channel",
                #"{"webhook":true}"#, "d0", "--json")
            #expect(try JSONValue.parse(registered.out)["outcome"] == "applied", "\(registered.err)")
            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)
        }
    }

    @Test("F: AcmeCard's purchases, viewed daily at noon, are suggested at noon by the donations alone")
    func acme() async throws {
        try await withInstallation { installation in
            let (process, _) = try await installation.run()
            try await Self.run("acme.sh", installation)
            try await eventually("the widget is suggested at noon") {
                let explained = try await installation.freshet(
                    "explain", "--app", Installation.app, "--user", "u42", "--stack", "home")
                return explained.out.contains("RecentPurchases") && explained.out.contains("T11:45:00")
                    && explained.out.contains("between 11:45 and 12:15")
            }
            process.send(signal: SIGTERM)
            #expect(try await process.end().status == 0)
        }
    }
}
