// SPDX-License-Identifier: Apache-2.0

import Foundation

/// Headless Chromium, driven by Python scripts through `browser.py`.
package enum HeadlessBrowser {
    /// Output of a script that failed.
    package struct Failure: Error, CustomStringConvertible {
        package let description: String
    }

    private static let chromium = ["/usr/bin/chromium", "/usr/bin/google-chrome"].first {
        FileManager.default.isExecutableFile(atPath: $0)
    }

    package static var isInstalled: Bool { chromium != nil }

    /// Runs a script with the arguments, followed by the folder for screenshots.
    ///
    /// - Parameter script: Path within the repository.
    package static func run(_ script: String, _ arguments: String...) async throws {
        guard let chromium else { throw Failure(description: "Chromium is not installed") }
        guard let path = Repository.path(script), let library = Repository.path("Tests/TestSupport") else {
            throw Failure(description: "no \(script)")
        }
        let own = FileManager.default.temporaryDirectory.appending(path: "freshet-browser-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: own, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: own) }
        let folder = ProcessInfo.processInfo.environment["FRESHET_TEST_SCREENSHOTS"] ?? own.path
        let output = own.appending(path: "output")
        try Data().write(to: output)
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = ["python3", "-B", path, chromium] + arguments + [folder]
        process.environment = ProcessInfo.processInfo.environment.merging(["PYTHONPATH": library]) { $1 }
        let handle = try FileHandle(forWritingTo: output)
        process.standardOutput = handle
        process.standardError = handle
        let ended = AsyncStream<Void>.makeStream()
        process.terminationHandler = { _ in ended.continuation.finish() }
        try process.runAndCloseFiles()
        for await _ in ended.stream {}
        guard !process.isRunning else {
            process.terminate()
            throw CancellationError()
        }
        guard process.terminationStatus == 0 else {
            throw Failure(description: (try? String(contentsOf: output, encoding: .utf8)) ?? "no output")
        }
    }
}
