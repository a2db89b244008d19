package import ArgumentParser
import Foundation
import JSON
import KafkaClient
package import Logging
package import ServiceLifecycle
import Synchronization
import UnixSignals
import WidgetModel

/// The main function of `freshet` and `freshet-load`, and the only place where errors become messages and exit
/// statuses.
package enum Program {
    /// Runs the command that the arguments name, and ends the process.
    package static func main(_ root: any AsyncParsableCommand.Type) async -> Never {
        let process = ProcessInfo.processInfo
        HeapArenas.limit(processors: process.activeProcessorCount, environment: process.environment)
        var failing: any ParsableCommand.Type = root
        do {
            var command = try await root.asyncParseAsRoot()
            failing = type(of: command)
            if var asynchronous = command as? any AsyncParsableCommand {
                try await asynchronous.run()
            } else {
                try command.run()
            }
        } catch {
            let wantsJSON = process.arguments.dropFirst().prefix { $0 != "--" }.contains("--json")
            var failure = CommandFailure(explaining: error)
            // The parser's own errors, except a request for help. A bare exit code has had its reasons printed already.
            if failure == nil, wantsJSON, !(error is ExitCode),
                let status = CommandStatus(rawValue: failing.exitCode(for: error).rawValue)
            {
                failure = CommandFailure(status, failing.message(for: error))
            }
            guard let failure else { failing.exit(withError: error) }
            Terminal.complain(
                wantsJSON
                    ? String(decoding: failure.json.encoded, as: UTF8.self)
                    : "\(root.configuration.commandName ?? "freshet"): \(failure.message)")
            end(failure.status.rawValue)
        }
        end(0)
    }

    /// Ends the process without exit handlers. Threads of C libraries may still run, such as one that connects to
    /// PostgreSQL, and would abort when exit handlers destroy their locks (libpq's Kerberos).
    private static func end(_ status: Int32) -> Never {
        fflush(nil)
        _exit(status)
    }

    /// Runs services until they end or a signal stops them. The first SIGTERM or SIGINT stops them gracefully, a second
    /// one at once.
    ///
    /// - Throws: errors of the services; ``CommandFailure`` after a second signal.
    package static func run(_ services: [any Service], logger: Logger) async throws {
        // A closed output pipe must not end the process.
        signal(SIGPIPE, SIG_IGN)
        let signals = SignalService(logger: logger)
        var configuration = ServiceGroupConfiguration.ofFreshet(services, logger: logger)
        // First in the group, and therefore the last to stop.
        configuration.services.insert(.init(service: signals, failureTerminationBehavior: .cancelGroup), at: 0)
        let group = ServiceGroup(configuration: configuration)
        signals.group.withLock { $0 = group }
        try await group.run()
    }
}

private final class SignalService: Service {
    let group = Mutex<ServiceGroup?>(nil)
    private let logger: Logger

    init(logger: Logger) {
        self.logger = logger
    }

    func run() async throws {
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        try await cancelWhenGracefulShutdown { [self] in
            var isStopping = false
            for await signal in signals {
                guard !isStopping else {
                    logger.warning("stopping at once", metadata: ["signal": "\(signal)"])
                    throw CommandFailure(.failure, "stopped before everything was done")
                }
                isStopping = true
                logger.notice("stopping: another signal stops at once", metadata: ["signal": "\(signal)"])
                await group.withLock { $0 }?.triggerGracefulShutdown()
            }
        }
    }
}

/// Outcome of a run that checks itself.
package final class RunOutcome: Sendable {
    private let state = Mutex<Int?>(nil)

    package init() {}

    /// Number of failed checks; nil until the run is complete.
    package var lost: Int? { state.withLock { $0 } }

    package func end(lost: Int) {
        state.withLock { $0 = lost }
    }
}
