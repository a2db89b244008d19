import Foundation
import Synchronization
import WidgetModel

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

/// Another process of this program, which says on its first line of standard output, as JSON, where it can be found.
///
/// What it says on standard error goes to this process's.
final class ChildProcess: Sendable {
    let name: String
    let pid: Int32
    /// The first line.
    let greeting: JSONValue

    private let process: Process
    private let ending: Ending

    /// Set on a thread of Foundation's.
    private final class Ending: Sendable {
        private struct State {
            var status: Int32?
            var waiting: [CheckedContinuation<Void, Never>] = []
        }

        private let state = Mutex(State())

        var status: Int32? { state.withLock { $0.status } }

        func ended(_ status: Int32) {
            let waiting = state.withLock { state in
                state.status = status
                defer { state.waiting = [] }
                return state.waiting
            }
            for continuation in waiting { continuation.resume() }
        }

        func wait() async {
            await withCheckedContinuation { continuation in
                let isOver = state.withLock { state in
                    if state.status == nil { state.waiting.append(continuation) }
                    return state.status != nil
                }
                if isOver { continuation.resume() }
            }
        }
    }

    /// How long a process may take until its first line, and until it has ended in order.
    private static let startLimit = Duration.seconds(60)
    private static let endLimit = Duration.seconds(20)

    private init(name: String, process: Process, greeting: JSONValue, ending: Ending) {
        self.name = name
        self.process = process
        self.greeting = greeting
        self.ending = ending
        pid = process.processIdentifier
    }

    deinit {
        if ending.status == nil { kill(pid, SIGKILL) }
    }

    /// The file of this very program.
    private static var program: URL {
        let link = "/proc/self/exe"
        if FileManager.default.fileExists(atPath: link) { return URL(fileURLWithPath: link).resolvingSymlinksInPath() }
        return Bundle.main.executableURL ?? URL(fileURLWithPath: CommandLine.arguments[0])
    }

    /// Starts a process and waits for its first line.
    ///
    /// - Parameters:
    ///   - name: for messages.
    ///   - onStart: told of the process as soon as there is one.
    ///   - environment: besides this process's own, in which what Freshet's settings are read from is left out.
    /// - Throws: ``CommandFailure`` when it ends before, or takes too long; `CancellationError`.
    static func start(
        _ name: String, _ arguments: [String], environment: [String: String] = [:], onStart: (Int32) -> Void = { _ in }
    ) async throws -> ChildProcess {
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent("freshet-load-\(UUID().uuidString)")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        // A file, not a pipe: nobody has to read it for the process to go on.
        let file = folder.appendingPathComponent("out")
        try Data().write(to: file)
        let process = Process()
        process.executableURL = program
        process.arguments = arguments
        process.environment = ProcessInfo.processInfo.environment.filter { !$0.key.hasPrefix("FRESHET_") }
            .merging(environment) { _, given in given }
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = try FileHandle(forWritingTo: file)
        let ending = Ending()
        process.terminationHandler = { ending.ended($0.terminationStatus) }
        try process.run()
        onStart(process.processIdentifier)
        do {
            let greeting = try await firstLine(of: file, name: name, ending: ending)
            return ChildProcess(name: name, process: process, greeting: greeting, ending: ending)
        } catch {
            kill(process.processIdentifier, SIGKILL)
            throw error
        }
    }

    private static func firstLine(of file: URL, name: String, ending: Ending) async throws -> JSONValue {
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
            if let status = ending.status {
                throw CommandFailure(.failure, "the \(name) ended with status \(status) before it was ready")
            }
            guard start.duration(to: .now) < startLimit else {
                throw CommandFailure(.failure, "the \(name) was not ready within \(startLimit)")
            }
            try await Task.sleep(for: .milliseconds(2))
        }
    }

    var isRunning: Bool { ending.status == nil }

    var usage: ProcessUsage? { ProcessUsage(of: pid) }
    var peakResidentBytes: Int? { ProcessUsage.peakResidentBytes(of: pid) }

    /// Ends it in order, and by force when that takes too long. Also works in a task that is cancelled.
    func stop() async {
        guard isRunning else { return }
        kill(pid, SIGTERM)
        let (pid, ending) = (pid, ending)
        let force = Task {
            try await Task.sleep(for: Self.endLimit)
            kill(pid, SIGKILL)
        }
        await ending.wait()
        force.cancel()
    }
}
