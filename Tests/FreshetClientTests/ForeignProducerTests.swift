// SPDX-License-Identifier: Apache-2.0

import Foundation
import JSON
import KafkaClient
import TestSupport
import Testing
import WidgetEvents
import WidgetModel

@testable import FreshetClient

/// Paths of programs that the examples need.
private enum Programs {
    /// A Python with confluent-kafka; `deploy/local/contracts` installs one.
    static let python = ProcessInfo.processInfo.environment["FRESHET_TEST_PYTHON"]
    static let kcat = (ProcessInfo.processInfo.environment["PATH"] ?? "").split(separator: ":")
        .map { "\($0)/kcat" }.first { FileManager.default.isExecutableFile(atPath: $0) }

    struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    /// Runs a program to completion.
    static func run(_ program: String, _ arguments: [String], bootstrapServers: String) async throws {
        let output = FileManager.default.temporaryDirectory.appending(path: "freshet-\(UUID().uuidString).log")
        try Data().write(to: output)
        defer { try? FileManager.default.removeItem(at: output) }
        let process = Process()
        process.executableURL = URL(filePath: program)
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment
            .merging(["FRESHET_KAFKA_BOOTSTRAP_SERVERS": bootstrapServers]) { $1 }
        process.standardInput = FileHandle.nullDevice
        let handle = try FileHandle(forWritingTo: output)
        process.standardOutput = handle
        process.standardError = handle
        let status = try await withCheckedThrowingContinuation {
            (continuation: CheckedContinuation<Int32, any Error>) in
            process.terminationHandler = { continuation.resume(returning: $0.terminationStatus) }
            do {
                try process.runAndCloseFiles()
            } catch {
                process.terminationHandler = nil
                continuation.resume(throwing: error)
            }
        }
        guard status == 0 else {
            let text = (try? String(contentsOf: output, encoding: .utf8)) ?? ""
            throw Failed(description: "\(program) ended with \(status): \(text)")
        }
    }
}

/// Checks that the examples in deploy/publishing.md for other languages publish valid events.
@Suite(.timeLimit(.patience))
struct ForeignProducerTests {
    private static func example(_ name: String) throws -> String {
        let blocks = try Snippets.blocks("deploy/publishing.md").filter { $0.mark == "example: \(name)" }
        try #require(blocks.count == 1, "deploy/publishing.md has \(blocks.count) examples marked \(name)")
        return blocks[0].text
    }

    private static let app = "com.example.bank"

    private static func push() throws -> FreshetEvent {
        .reload(
            ReloadRequest(
                app: app, audience: .user("u42"), kinds: .kinds(["RecentPurchases"]),
                matching: try WidgetConfiguration(["card": "acme"]), reason: .push))
    }

    private static func expect(_ received: [Received], _ events: [FreshetEvent]) {
        #expect(received.map(\.event.event) == events)
        for event in received {
            #expect(event.key == "u42" && event.event.source == "/bank/payments")
            #expect(event.headers["ce_specversion"] == "1.0")
        }
        #expect(Set(received.map(\.event.id)).count == events.count)
    }

    @Test(
        "Python",
        .enabled(
            if: Programs.python != nil,
            "FRESHET_TEST_PYTHON names no Python with confluent-kafka; deploy/local/contracts makes one"))
    func python() async throws {
        let python = try #require(Programs.python)
        let file = FileManager.default.temporaryDirectory.appending(path: "freshet-\(UUID().uuidString).py")
        try Self.example("publish.py").write(to: file, atomically: true, encoding: .utf8)
        defer { try? FileManager.default.removeItem(at: file) }
        try await withCluster { kafka in
            try await Programs.run(python, [file.path], bootstrapServers: kafka.bootstrapServers)
            let received = try await kafka.received(count: 2)
            let environment = try WidgetEnvironment(locale: "en-US", timeZone: "Europe/Berlin")
            let placement = WidgetPlacement(
                app: Self.app, widget: "w1", user: "u42", device: "d1", kind: "RecentPurchases",
                family: .systemMedium, configuration: try WidgetConfiguration(["card": "acme"]),
                environment: environment)
            Self.expect(
                received.sorted { $0.topic > $1.topic }, [.placed(placement), try Self.push()])
            #expect(received.allSatisfy { $0.event.time != nil })
        }
    }

    @Test("kcat", .enabled(if: Programs.kcat != nil, "kcat is not in PATH; deploy/local/setup installs it"))
    func kcat() async throws {
        let script = try Self.example("publish.sh")
        try await withCluster { kafka in
            try await Programs.run(
                "/bin/sh", ["-e", "-c", script], bootstrapServers: kafka.bootstrapServers)
            Self.expect(try await kafka.received(count: 1), [try Self.push()])
        }
    }
}
