// SPDX-License-Identifier: Apache-2.0

import Foundation

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// The directory of a run: the database's files, the logs of all processes, and the report. When the test ends, even by
/// SIGKILL, a pipe closes and a guardian process ends everything that the run started.
final class RunDirectory: Sendable {
    struct Failure: Error, CustomStringConvertible {
        let description: String
    }

    let url: URL
    private let guardian: Process
    private let guardianInput: Pipe

    init(label: String) throws {
        var parent = FileManager.default.temporaryDirectory.path
        // A socket's path has at most 107 bytes.
        if parent.utf8.count > 50 { parent = "/tmp" }
        let word = label.map { $0.isLetter || $0.isNumber ? $0 : "-" }
        let name = "freshet-chaos-\(String(word))-\(String(UInt32.random(in: 0 ... .max), radix: 36))"
        url = URL(fileURLWithPath: parent).appendingPathComponent(name)
        try FileManager.default.createDirectory(
            at: url.appendingPathComponent("logs"), withIntermediateDirectories: true)
        // The account of the database server needs access.
        try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: url.path)
        guardian = Process()
        guardianInput = Pipe()
        guardian.executableURL = URL(fileURLWithPath: "/bin/bash")
        guardian.arguments = [
            "-c", Self.guardianScript, "guardian", url.path, Repository.file("deploy/local/postgres"),
        ]
        guardian.standardInput = guardianInput
        guardian.standardOutput = FileHandle.nullDevice
        guardian.standardError = FileHandle.nullDevice
        _ = fcntl(guardianInput.fileHandleForWriting.fileDescriptor, F_SETFD, FD_CLOEXEC)
        try guardian.run()
    }

    /// Kills the processes of this run, stops the server, and deletes the directory unless it is kept.
    private static let guardianScript = """
        trap '' INT TERM HUP
        cat >/dev/null
        while read -r pid; do
            case $(readlink "/proc/$pid/exe" 2>/dev/null) in */freshet) kill -KILL "$pid" 2>/dev/null ;; esac
        done <"$1/pids"
        for server in "$1"/postgres*; do [[ -d $server ]] && "$2" stop --immediate "$server"; done
        if [[ -e $1/keep ]]; then rm -rf "$1"/postgres*; else rm -rf "$1"; fi
        """

    /// Records a process that must not outlive the test.
    func note(pid: Int32) {
        let path = url.appendingPathComponent("pids").path
        guard let file = fopen(path, "a") else { return }
        fputs("\(pid)\n", file)
        fclose(file)
    }

    func log(_ name: String) -> URL { url.appendingPathComponent("logs/\(name).log") }

    /// Keeps logs and report.
    func keep() {
        try? Data().write(to: url.appendingPathComponent("keep"))
    }

    /// Ends the remaining processes; returns when they have ended.
    func close() {
        try? guardianInput.fileHandleForWriting.close()
        guardian.waitUntilExit()
    }
}

/// The repository of these tests.
enum Repository {
    static func file(_ path: String) -> String {
        URL(fileURLWithPath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().deletingLastPathComponent().appendingPathComponent(path).path
    }
}

/// Runs commands to completion on their own threads.
enum Command {
    struct Failed: Error, CustomStringConvertible {
        let description: String
    }

    /// - Returns: Standard output.
    @discardableResult
    static func run(
        _ path: String, _ arguments: [String], environment: [String: String]? = nil, log: URL? = nil
    ) async throws -> String {
        try await withCheckedThrowingContinuation { continuation in
            Thread.detachNewThread {
                continuation.resume(with: Result { try runBlocking(path, arguments, environment, log) })
            }
        }
    }

    private static func runBlocking(
        _ path: String, _ arguments: [String], _ environment: [String: String]?, _ log: URL?
    ) throws -> String {
        // Output goes to files: a server that the command starts would keep a pipe open.
        let folder = FileManager.default.temporaryDirectory
        let out = folder.appendingPathComponent("freshet-chaos-\(UUID().uuidString).out")
        defer { try? FileManager.default.removeItem(at: out) }
        let errors = log ?? out.appendingPathExtension("err")
        defer { if log == nil { try? FileManager.default.removeItem(at: errors) } }
        let status = try spawn(
            path, arguments, environment ?? ProcessInfo.processInfo.environment, out: out.path, errors: errors.path)
        let output = (try? String(contentsOf: out, encoding: .utf8)) ?? ""
        guard status == 0 else {
            let text = (try? String(contentsOf: errors, encoding: .utf8)) ?? ""
            throw Failed(description: "\(path) \(arguments) ended with \(status): \(output)\(text.suffix(2_000))")
        }
        return output
    }

    /// Spawns directly: Foundation considers a command to be running while processes that it started run.
    ///
    /// - Returns: The exit status, or 256 plus the number of the signal.
    private static func spawn(
        _ path: String, _ arguments: [String], _ environment: [String: String], out: String, errors: String
    ) throws -> Int32 {
        var actions = posix_spawn_file_actions_t()
        posix_spawn_file_actions_init(&actions)
        defer { posix_spawn_file_actions_destroy(&actions) }
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0)
        posix_spawn_file_actions_addopen(&actions, 1, out, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        posix_spawn_file_actions_addopen(&actions, 2, errors, O_WRONLY | O_CREAT | O_APPEND, 0o600)
        let argv = ([path] + arguments).map { strdup($0) } + [nil]
        let envp = environment.map { strdup("\($0.key)=\($0.value)") } + [nil]
        defer { for text in argv + envp { free(text) } }
        var pid: pid_t = 0
        let error = posix_spawn(&pid, path, &actions, nil, argv, envp)
        guard error == 0 else { throw Failed(description: "\(path): error \(error)") }
        var status: Int32 = 0
        while waitpid(pid, &status, 0) < 0 {
            guard errno == EINTR else { throw Failed(description: "\(path): error \(errno)") }
        }
        return status & 0x7f == 0 ? status >> 8 & 0xff : 256 + (status & 0x7f)
    }
}
