// SPDX-License-Identifier: Apache-2.0

import Foundation
import Logging
import PostgresClient
import Synchronization

/// The run's PostgreSQL server. It writes durably, so it recovers committed rows after a crash. A standby may take its
/// place, to which the proxies of all processes then lead.
final class ChaosPostgres: Sendable {
    private struct State {
        var directory: URL
        var url: String
        /// Number of standbys so far.
        var standbys = 0
        /// Proxies that lead to the server.
        var followers: [FaultProxy] = []
    }

    private let run: RunDirectory
    private let script = Repository.file("deploy/local/postgres")
    private let log: URL
    private let state: Mutex<State>
    /// Leads to the server past all faults.
    private let entry: FaultProxy
    /// Connection for the checker, past all faults.
    let directURL: String

    init(in run: RunDirectory) async throws {
        self.run = run
        let directory = run.url.appendingPathComponent("postgres")
        log = run.log("postgres-commands")
        let url = try await Command.run(script, ["start", directory.path], log: log)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        entry = try FaultProxy(to: try Self.port(of: url))
        directURL = Self.url(url, through: entry.port)
        state = Mutex(State(directory: directory, url: url, followers: [entry]))
    }

    func close() { entry.stop() }

    /// A proxy that leads to the server.
    func proxy(rewrites: [TextRewrite]) throws -> FaultProxy {
        let proxy = try FaultProxy(to: Self.port(of: state.withLock { $0.url }), rewrites: rewrites)
        state.withLock { $0.followers.append(proxy) }
        return proxy
    }

    /// Connection string for processes, through a proxy.
    func url(through port: UInt16) -> String { Self.url(directURL, through: port) }

    private static func url(_ url: String, through port: UInt16) -> String {
        guard var components = URLComponents(string: url) else { return url }
        components.port = Int(port)
        return components.string ?? url
    }

    private static func port(of url: String) throws -> UInt16 {
        guard let port = URLComponents(string: url)?.port else {
            throw RunDirectory.Failure(description: "no port in the output of deploy/local/postgres")
        }
        return UInt16(port)
    }

    /// Stops the server like a crash: every connection is cut, and the next start recovers from the log.
    func crash() async throws {
        try await Command.run(script, ["stop", "--immediate", state.withLock { $0.directory.path }], log: log)
    }

    /// Starts the server again on the same port.
    func start() async throws {
        let (directory, expected) = state.withLock { ($0.directory, $0.url) }
        var attempt = 0
        while true {
            do {
                let url = try await Command.run(script, ["start", directory.path], log: log)
                guard url.trimmingCharacters(in: .whitespacesAndNewlines) == expected else {
                    throw RunDirectory.Failure(description: "PostgreSQL came back on another port")
                }
                return
            } catch {
                attempt += 1
                guard attempt < 5 else { throw error }
                try await Task.sleep(for: .milliseconds(500))
            }
        }
    }

    /// Makes an asynchronous standby of the server, has it miss what is committed within some time, and replaces the
    /// server by it.
    ///
    /// - Parameter isLosing: Called when commits begin to be lost.
    func failOver(losing length: Duration, isLosing: () -> Void) async throws {
        let (old, copy, oldURL) = state.withLock { state in
            state.standbys += 1
            return (state.directory, run.url.appendingPathComponent("postgres-\(state.standbys)"), state.url)
        }
        let link = try FaultProxy(to: try Self.port(of: oldURL))
        defer { link.stop() }
        let url = try await Command.run(
            script, ["standby", "--through", "\(link.port)", old.path, copy.path], log: log
        )
        .trimmingCharacters(in: .whitespacesAndNewlines)
        try await awaitStreaming()
        isLosing()
        link.set(.swallowed)
        try await Task.sleep(for: length)
        try await crash()
        link.cut()
        try await Command.run(script, ["promote", copy.path], log: log)
        let port = try Self.port(of: url)
        let followers = state.withLock { state in
            (state.directory, state.url) = (copy, url)
            return state.followers
        }
        for proxy in followers { proxy.set(target: port) }
    }

    /// Waits until the standby has received and replayed what was committed before.
    private func awaitStreaming() async throws {
        let pool = pool("chaos-standby", maximumConnections: 1)
        let deadline = ContinuousClock.now + .seconds(60)
        do {
            while try await pool.query(IsStandbyCurrent()).first != true {
                guard ContinuousClock.now < deadline else {
                    throw RunDirectory.Failure(description: "the standby does not follow the server")
                }
                try await Task.sleep(for: .milliseconds(50))
            }
        } catch {
            await pool.shutdown()
            throw error
        }
        await pool.shutdown()
    }

    /// Connections of the checker and of the faults, past all proxies with faults.
    func pool(_ name: String, maximumConnections: Int = 2) -> PostgresPool {
        var configuration = PostgresConfiguration(connectionString: directURL)
        configuration.maximumConnections = maximumConnections
        configuration.acquireTimeout = .seconds(30)
        configuration.statementTimeout = .seconds(60)
        configuration.idleInTransactionTimeout = .seconds(120)
        configuration.applicationName = name
        return PostgresPool(
            configuration: configuration, logger: Logger(label: name) { _ in SwiftLogNoOpLogHandler() })
    }
}

/// Whether a standby streams, at most a megabyte of the log behind.
private struct IsStandbyCurrent: PostgresStatement {
    let sql = """
        SELECT EXISTS (SELECT FROM pg_stat_replication
                       WHERE state = 'streaming' AND pg_current_wal_lsn() - replay_lsn < 1000000) AS is_current
        """

    func decode(_ row: borrowing PostgresRow) throws(PostgresError) -> Bool { try row.value("is_current") }
}
