// SPDX-License-Identifier: Apache-2.0

import Foundation
import FreshetService
import JSON
import WidgetModel

/// A process of `freshet` whose first line of standard output is a JSON object with its addresses. It shares standard
/// error with this process.
final class ChildProcess: Sendable {
    let name: String
    let pid: Int32
    /// The first line.
    let greeting: JSONValue

    private let process: Process

    /// Time limit for the first line of a process, and for its orderly end.
    private static let startLimit = Duration.seconds(60)
    private static let endLimit = Duration.seconds(20)

    private init(name: String, process: Process, greeting: JSONValue) {
        self.name = name
        self.process = process
        self.greeting = greeting
        pid = process.processIdentifier
    }

    deinit {
        if process.isRunning { kill(pid, SIGKILL) }
    }

    /// The program `freshet` in this program's folder.
    ///
    /// - Throws: ``CommandFailure`` when it is not there.
    private static func program() throws(CommandFailure) -> URL {
        let link = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()
        let own = Bundle.main.executableURL ?? URL(fileURLWithPath: CommandLine.arguments[0])
        let folder = (link.lastPathComponent == "exe" ? own : link).deletingLastPathComponent()
        let program = folder.appendingPathComponent("freshet")
        guard FileManager.default.isExecutableFile(atPath: program.path) else {
            throw CommandFailure(.failure, "\(program.path) is missing: expected freshet in the folder of freshet-load")
        }
        return program
    }

    /// Starts a process and waits for its first line.
    ///
    /// - Parameters:
    ///   - name: for messages.
    ///   - onStart: called with the process once it is started.
    ///   - environment: variables besides this process's own ones, without Freshet's settings.
    /// - Throws: ``CommandFailure`` when it ends before, or takes too long; `CancellationError`.
    static func start(
        _ name: String, _ arguments: [String], environment: [String: String] = [:], onStart: (Int32) -> Void = { _ in }
    ) async throws -> ChildProcess {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-load-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // A file, not a pipe, which would block the process if it were not read.
        let file = folder.appendingPathComponent("out")
        try Data().write(to: file)
        let process = Process()
        process.executableURL = try program()
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("FRESHET_") }
            .merging(environment) { _, given in given }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: file)
        try process.run()
        onStart(process.processIdentifier)
        do {
            let greeting = try await firstLine(of: file, name: name, process)
            return ChildProcess(name: name, process: process, greeting: greeting)
        } catch {
            kill(process.processIdentifier, SIGKILL)
            throw error
        }
    }

    private static func firstLine(of file: URL, name: String, _ process: Process) async throws -> JSONValue {
        let start = ContinuousClock.now
        while true {
            let text = try String(contentsOf: file, encoding: .utf8)
            if let end = text.firstIndex(of: "\n") {
                do {
                    return try JSONValue.parse(String(text[..<end]))
                } catch {
                    throw CommandFailure(.failure, "the \(name) said something else than where it is")
                }
            }
            guard process.isRunning else {
                let status = process.terminationStatus
                throw CommandFailure(.failure, "the \(name) ended with status \(status) before it was ready")
            }
            guard start.duration(to: .now) < startLimit else {
                throw CommandFailure(.failure, "the \(name) was not ready within \(startLimit)")
            }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    var isRunning: Bool { process.isRunning }

    var cpuSeconds: Double? { ProcessUsage(of: pid)?.cpuSeconds }
    var peakResidentBytes: Int? { ProcessUsage.peakResidentBytes(of: pid) }

    /// Ends the process in order, and by force when that takes too long; also in a task that is cancelled.
    func stop() async {
        guard isRunning else { return }
        kill(pid, SIGTERM)
        // A task of its own, since this one may be cancelled.
        await Task { [process, pid] in
            let deadline = ContinuousClock.now + Self.endLimit
            while process.isRunning {
                if .now > deadline { kill(pid, SIGKILL) }
                try? await Task.sleep(for: .milliseconds(10))
            }
        }.value
    }
}
