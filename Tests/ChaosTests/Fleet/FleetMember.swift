// SPDX-License-Identifier: Apache-2.0

import Foundation
import Synchronization
import TestSupport

#if canImport(Glibc)
import Glibc
#else
import Darwin
#endif

/// A member of the fleet: a process of `freshet run` that is restarted whenever it has ended, as by an orchestrator.
/// Each member has its own proxies to the database and the brokers.
final class FleetMember: Sendable {
    enum Role: String, Sendable {
        case ingest, workers, delivery, api, all
    }

    private struct State {
        var process: Process?
        /// Whether a task is starting a process; several tasks call ``tend()``.
        var isStarting = false
        /// Whether the process is restarted when it ends.
        var isWanted = false
        /// Earliest time of the next start.
        var startsAt = ContinuousClock.now
        /// Reason for the process to end, if the run itself ends it.
        var expectedEnd: String?
        var isFrozen = false
    }

    let name: String
    let role: Role
    let postgres: FaultProxy
    /// One proxy for each embedded broker.
    let brokers: [FaultProxy]
    private let directory: RunDirectory
    private let report: ChaosReport
    private let environment: [String: String]
    private let state = Mutex(State())

    init(
        name: String, role: Role, server: ChaosPostgres, kafka: ChaosKafka, environment: [String: String],
        rewrites: [TextRewrite], directory: RunDirectory, report: ChaosReport
    ) throws {
        self.name = name
        self.role = role
        self.directory = directory
        self.report = report
        postgres = try server.proxy(rewrites: rewrites)
        brokers = try kafka.brokerPorts.map { try FaultProxy(to: $0, resetsTarget: true) }
        var environment = environment
        environment["FRESHET_POSTGRES_URL"] = server.url(through: postgres.port)
        if !brokers.isEmpty {
            environment["FRESHET_KAFKA_ROUTES"] = zip(kafka.brokerPorts, brokers)
                .map { "\($0)=\($1.port)" }.joined(separator: ",")
        }
        self.environment = environment
    }

    var isRunning: Bool { state.withLock { $0.process?.isRunning ?? false } }
    var log: URL { directory.log(name) }

    // MARK: Orders

    /// Keeps a process running from now on.
    func start() {
        state.withLock { $0.isWanted = true }
        tend()
    }

    /// Starts a process if none is running, like an orchestrator's loop.
    func tend() {
        let ended: (status: Int32, isSignal: Bool, expected: String?)? = state.withLock { state in
            guard let process = state.process, !process.isRunning else { return nil }
            state.process = nil
            state.isFrozen = false
            defer { state.expectedEnd = nil }
            return (process.terminationStatus, process.terminationReason == .uncaughtSignal, state.expectedEnd)
        }
        if let ended { judge(ended) }
        let starts = state.withLock { state in
            guard state.isWanted, state.process == nil, !state.isStarting, state.startsAt <= .now else { return false }
            state.isStarting = true
            return true
        }
        guard starts else { return }
        let process: Process?
        do {
            process = try spawn()
        } catch {
            process = nil
            report.violated(.noCrash, "\(name) cannot be started: \(error)")
        }
        state.withLock { state in
            state.process = process
            state.isStarting = false
            if process == nil { state.startsAt = .now + .seconds(1) }
        }
    }

    private func spawn() throws -> Process {
        let process = Process()
        process.executableURL = try BuiltProgram.find("freshet")
        process.arguments = ["run", "--role", role.rawValue]
        process.environment = environment
        // Opened for appending: several processes and descriptors write to the file.
        let descriptor = open(log.path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw RunDirectory.Failure(description: "no log \(log.path): error \(errno)") }
        let output = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        process.standardInput = FileHandle.nullDevice
        process.standardOutput = output
        process.standardError = output
        try process.run()
        try? output.close()
        directory.note(pid: process.processIdentifier)
        return process
    }

    /// Reports an exit, unless the run sent the signal or requested the exit and it was in order.
    private func judge(_ ended: (status: Int32, isSignal: Bool, expected: String?)) {
        report.checked(.noCrash)
        if let expected = ended.expected {
            let wasKilled = ended.isSignal && ended.status == SIGKILL
            if expected == "SIGTERM", ended.isSignal || ended.status != 0, !wasKilled {
                report.violated(
                    .noCrash, "\(name) was asked to stop and ended with \(Self.text(ended)); see \(log.path)")
            }
            return
        }
        report.violated(.noCrash, "\(name) ended by itself with \(Self.text(ended)); see \(log.path)")
        // Orchestrators also wait before a restart.
        state.withLock { $0.startsAt = .now + .seconds(1) }
    }

    private static func text(_ ended: (status: Int32, isSignal: Bool, expected: String?)) -> String {
        ended.isSignal ? "signal \(ended.status)" : "status \(ended.status)"
    }

    /// - Parameter pause: Time until the next start.
    func kill(startingAgainAfter pause: Duration) {
        let pid = state.withLock { state -> Int32? in
            guard let process = state.process, process.isRunning else { return nil }
            state.expectedEnd = "SIGKILL"
            state.startsAt = .now + pause
            return process.processIdentifier
        }
        if let pid { Glibc.kill(pid, SIGKILL) }
    }

    /// Stops the process in order; the next one starts when it has ended.
    func terminate() {
        let pid = state.withLock { state -> Int32? in
            guard let process = state.process, process.isRunning, state.expectedEnd == nil else { return nil }
            state.expectedEnd = "SIGTERM"
            return process.processIdentifier
        }
        if let pid { Glibc.kill(pid, SIGTERM) }
    }

    func freeze() {
        signal(SIGSTOP, isFrozen: true)
    }

    func thaw() {
        signal(SIGCONT, isFrozen: false)
    }

    private func signal(_ number: Int32, isFrozen: Bool) {
        let pid = state.withLock { state -> Int32? in
            guard let process = state.process, process.isRunning else { return nil }
            state.isFrozen = isFrozen
            return process.processIdentifier
        }
        if let pid { Glibc.kill(pid, number) }
    }

    /// Stops restarting the process.
    func retire() {
        state.withLock { $0.isWanted = false }
        thaw()
        terminate()
    }

    func healNetwork() {
        postgres.heal()
        for broker in brokers { broker.heal() }
    }

    func close() {
        state.withLock { $0.isWanted = false }
        kill(startingAgainAfter: .zero)
        postgres.stop()
        for broker in brokers { broker.stop() }
    }
}
