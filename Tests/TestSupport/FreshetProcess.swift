// SPDX-License-Identifier: Apache-2.0

package import Foundation
package import JSON
import Synchronization
import WidgetModel

/// A process of a built program; killed when the last reference goes away.
package final class FreshetProcess: Sendable {
    /// Exit status of a process.
    package struct Exit: Sendable, Equatable {
        package let status: Int32
        /// Whether a signal ended the process; `status` is then its number.
        package let isSignal: Bool

        package init(status: Int32, isSignal: Bool) {
            self.status = status
            self.isSignal = isSignal
        }
    }

    /// The process ended while a test waited for its output.
    package struct EndedEarly: Error, CustomStringConvertible {
        package let description: String

        package init(description: String) {
            self.description = description
        }
    }

    /// Settings with which no stall of the machine makes Kafka appear unavailable, or ends the lease of work. A lease
    /// must exceed a delivery.
    package static let patientDelivery = ["FRESHET_KAFKA_DELIVERY_TIMEOUT": "5m", "FRESHET_WORKERS_LEASE": "15m"]

    private let process: Process
    /// Folder of its files.
    package let folder: URL
    private let exit: Ending

    /// Exit, set on one of Foundation's threads.
    private final class Ending: Sendable {
        let value = Mutex<Exit?>(nil)
    }

    /// - Parameters:
    ///   - program: `freshet` or `freshet-load`.
    ///   - environment: Variables besides `PATH`; the tests' own environment is not inherited. The API listens on a
    ///     free port unless a port is set here.
    ///   - input: Content of standard input.
    package init(
        _ arguments: [String], program: String = "freshet", environment: [String: String] = [:], input: String = ""
    ) throws {
        folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-test-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        let exit = Ending()
        self.exit = exit
        process = Process()
        process.executableURL = try BuiltProgram.find(program)
        process.arguments = arguments
        process.environment = environment.merging([
            "PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin", "FRESHET_API_PORT": "0",
        ]) { given, _ in given }
        // Output goes to files: a pipe that nobody reads would block the process.
        try Data(input.utf8).write(to: folder.appendingPathComponent("in"))
        for name in ["out", "err"] { try Data().write(to: folder.appendingPathComponent(name)) }
        process.standardInput = try FileHandle(forReadingFrom: folder.appendingPathComponent("in"))
        process.standardOutput = try FileHandle(forWritingTo: folder.appendingPathComponent("out"))
        process.standardError = try FileHandle(forWritingTo: folder.appendingPathComponent("err"))
        process.terminationHandler = { process in
            exit.value.withLock {
                $0 = Exit(status: process.terminationStatus, isSignal: process.terminationReason == .uncaughtSignal)
            }
        }
        try process.runAndCloseFiles()
    }

    deinit {
        if process.isRunning { kill(process.processIdentifier, SIGKILL) }
        try? FileManager.default.removeItem(at: folder)
    }

    package var pid: Int32 { process.processIdentifier }
    package var isRunning: Bool { exit.value.withLock { $0 } == nil }

    /// Output so far.
    package var standardOutput: String { text("out") }
    package var standardError: String { text("err") }

    private func text(_ name: String) -> String {
        (try? String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)) ?? ""
    }

    package func send(signal: Int32) {
        kill(process.processIdentifier, signal)
    }

    /// Waits for the process to end.
    package func end() async throws -> Exit {
        try await eventually("\(process.arguments ?? []) ends; its errors so far: \(standardError.suffix(2_000))") {
            exit.value.withLock { $0 } != nil
        }
        return exit.value.withLock { $0 } ?? Exit(status: -1, isSignal: false)
    }

    /// Waits for the first line on standard output and parses its JSON.
    package func firstLine() async throws -> JSONValue {
        try await eventually("\(process.arguments ?? []) prints a line") {
            // Read before the output, which is complete once the process has ended.
            let exit = exit.value.withLock { $0 }
            if standardOutput.contains("\n") { return true }
            guard let exit else { return false }
            throw EndedEarly(description: "ended with \(exit): \(standardError.suffix(2_000))")
        }
        return try JSONValue.parse(String(standardOutput.prefix { $0 != "\n" }))
    }

    /// Runs a command to completion. It waits longer than by default for a connection to PostgreSQL, since tests share
    /// the machine.
    package static func run(
        _ arguments: [String], program: String = "freshet", environment: [String: String] = [:], input: String = ""
    ) async throws -> (status: Int32, out: String, err: String) {
        let patient = ["FRESHET_POSTGRES_ACQUIRE_TIMEOUT": "5m"].merging(environment) { $1 }
        let process = try FreshetProcess(arguments, program: program, environment: patient, input: input)
        let exit = try await process.end()
        return (exit.status, process.standardOutput, process.standardError)
    }
}
