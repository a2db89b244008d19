// SPDX-License-Identifier: Apache-2.0

import Foundation
import TestSupport
import Testing

/// The fuzzer detects planted defects.
@Suite("The fuzzer", .timeLimit(.patience))
struct FuzzToolTests {
    private struct NotBuilt: Error {}

    private struct Ended {
        let status: Int32
        let isSignal: Bool
        let said: String
    }

    private static let root = URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
        .deletingLastPathComponent().path

    private func executable() throws -> URL {
        let starts =
            [Bundle.main.bundleURL, URL(fileURLWithPath: ProcessInfo.processInfo.arguments[0])]
            + Bundle.allBundles.map(\.bundleURL)
        for start in starts {
            var folder = start
            for _ in 0..<5 {
                let candidate = folder.appendingPathComponent("fuzz")
                if FileManager.default.isExecutableFile(atPath: candidate.path) { return candidate }
                folder = folder.deletingLastPathComponent()
            }
        }
        throw NotBuilt()
    }

    private func run(_ arguments: [String]) async throws -> Ended {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("fuzz-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let output = folder.appendingPathComponent("out")
        try Data().write(to: output)
        let process = Process()
        process.executableURL = try executable()
        process.arguments = arguments + ["--root", Self.root, "--input", folder.appendingPathComponent("input").path]
        // Disables Swift's crash report, which takes seconds.
        process.environment = ["SWIFT_BACKTRACE": "enable=no"]
        let handle = try FileHandle(forWritingTo: output)
        process.standardOutput = handle
        process.standardError = handle
        try await withCheckedThrowingContinuation { (done: CheckedContinuation<Void, any Error>) in
            process.terminationHandler = { _ in done.resume() }
            do { try process.runAndCloseFiles() } catch { done.resume(throwing: error) }
        }
        return Ended(
            status: process.terminationStatus, isSignal: process.terminationReason == .uncaughtSignal,
            said: String(decoding: try Data(contentsOf: output), as: UTF8.self))
    }

    @Test("Without findings the tool prints counts by target and outcome and succeeds") func clean() async throws {
        let ended = try await run(["72", "--seed", "3"])
        #expect(!ended.isSignal && ended.status == 0, "\(ended.said)")
        #expect(ended.said.contains("fuzz: timelines: 6 inputs") && ended.said.contains("malformedJSON"))
        #expect(ended.said.contains("fuzz: 72 inputs, seed 3") && ended.said.contains("0 crashes, 0 hangs"))
    }

    @Test(
        "A harmful input ends the process, which reports the input",
        arguments: [
            ("finding", "FINDING", 1), ("crash", "CRASH", nil), ("overflow", "CRASH", nil), ("hang", "HANG", 3),
            ("memory", "TOO MUCH MEMORY", 4),
        ] as [(String, String, Int32?)])
    func provoked(what: String, word: String, status: Int32?) async throws {
        // The machine may be slow beside other tests, or stop for a while: only a hang may exceed the limit.
        let limit = what == "hang" ? 15 : Int(Patience.limit.components.seconds)
        let ended = try await run([
            "10", "--seed", "5", "--target", "json", "--limit", "\(limit)", "--provoke", what,
        ])
        if let status {
            #expect(!ended.isSignal && ended.status == status, "\(ended)")
        } else {
            #expect(ended.isSignal, "\(ended)")
        }
        #expect(ended.said.contains("fuzz: \(word): --seed 5 --target json --from 9\n"), "\(ended.said)")
        #expect(ended.said.contains("again with: deploy/local/test --fuzz 1 --seed 5 --target json --from 9\n"))
        #expect(ended.said.contains("the input, bytes: "))
    }
}
