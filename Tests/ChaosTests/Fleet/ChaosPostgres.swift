import Foundation
import Logging
import PostgresClient

/// The run's PostgreSQL server. It writes durably, so it recovers committed rows after a crash.
final class ChaosPostgres: Sendable {
    private let directory: URL
    private let script = Repository.file("deploy/local/postgres")
    private let log: URL
    /// Direct connection for the checker.
    let directURL: String
    let port: UInt16

    init(in run: RunDirectory) async throws {
        directory = run.url.appendingPathComponent("postgres")
        log = run.log("postgres-commands")
        directURL = try await Command.run(script, ["start", directory.path], log: log)
            .trimmingCharacters(in: .whitespacesAndNewlines)
        guard let port = URLComponents(string: directURL)?.port else {
            throw RunDirectory.Failure(description: "no port in the output of deploy/local/postgres")
        }
        self.port = UInt16(port)
    }

    /// Connection string for processes, through a proxy.
    func url(through port: UInt16) -> String {
        guard var components = URLComponents(string: directURL) else { return directURL }
        components.port = Int(port)
        return components.string ?? directURL
    }

    /// Stops the server like a crash: every connection is cut, and the next start recovers from the log.
    func crash() async throws {
        try await Command.run(script, ["stop", "--immediate", directory.path], log: log)
    }

    /// Starts the server again on the same port.
    func start() async throws {
        var attempt = 0
        while true {
            do {
                let url = try await Command.run(script, ["start", directory.path], log: log)
                guard url.trimmingCharacters(in: .whitespacesAndNewlines) == directURL else {
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

    /// Connections of the checker and of the faults, past all proxies.
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
