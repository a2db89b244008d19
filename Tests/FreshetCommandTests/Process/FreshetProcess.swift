import Foundation
import Synchronization
import Testing
import WidgetModel

/// A process of the built `freshet`.
final class FreshetProcess: Sendable {
    /// How it ended.
    struct Exit: Sendable, Equatable {
        let status: Int32
        /// Killed by a signal, whose number the status is.
        let isSignal: Bool
    }

    private struct Output {
        var out: [UInt8] = []
        var err: [UInt8] = []
        var isClosed = (out: false, err: false)
        var exit: Exit?
    }

    private let process: Process
    private let output: Mutex<Output>
    /// Yields whenever there is more output, or the end.
    private let changes: AsyncStream<Void>

    /// - Parameters:
    ///   - environment: besides `PATH`; nothing of the tests' own environment is handed on.
    ///   - input: what standard input holds.
    init(_ arguments: [String], environment: [String: String] = [:], input: String = "") throws {
        process = Process()
        let output = Mutex(Output())
        self.output = output
        let (changes, change) = AsyncStream<Void>.makeStream(bufferingPolicy: .bufferingNewest(1))
        self.changes = changes
        process.executableURL = try Self.executable()
        process.arguments = arguments
        process.environment = environment.merging(
            ["PATH": ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"]) { $1 }
        let (out, err, standardInput) = (Pipe(), Pipe(), Pipe())
        process.standardOutput = out
        process.standardError = err
        process.standardInput = standardInput
        let state = OutputState(output: output, change: change)
        out.fileHandleForReading.readabilityHandler = { state.read($0, isError: false) }
        err.fileHandleForReading.readabilityHandler = { state.read($0, isError: true) }
        process.terminationHandler = { process in
            state.ended(
                Exit(status: process.terminationStatus, isSignal: process.terminationReason == .uncaughtSignal))
        }
        try process.run()
        try standardInput.fileHandleForWriting.write(contentsOf: Data(input.utf8))
        try standardInput.fileHandleForWriting.close()
    }

    /// The writers' end: called on the threads of Foundation.
    private struct OutputState: Sendable {
        let output: Box
        let change: AsyncStream<Void>.Continuation

        final class Box: Sendable {
            let state: Mutex<Output>
            init(_ state: consuming sending Mutex<Output>) { self.state = state }
        }
    }
}
