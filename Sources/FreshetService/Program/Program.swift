// SPDX-License-Identifier: Apache-2.0

package import ArgumentParser
import Foundation
import JSON
import KafkaClient
package import Logging
import PostgresClient
package import ServiceLifecycle
import UnixSignals
import WidgetModel
import WidgetStore

/// The main function of `freshet` and `freshet-load`, and the only place where errors become messages and exit
/// statuses.
package enum Program {
    /// Runs the command that the arguments name, and ends the process.
    package static func main(_ root: any AsyncParsableCommand.Type) async -> Never {
        let process = ProcessInfo.processInfo
        limitHeapArenas(processors: process.activeProcessorCount, environment: process.environment)
        var failing: any ParsableCommand.Type = root
        do {
            try requireSubcommands(Array(process.arguments.dropFirst()), of: root)
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

    /// Checks the names of subcommands, for which the parser has no suggestions: it complains about an option of a
    /// mistyped subcommand instead.
    ///
    /// - Throws: ``CommandFailure`` if a command with subcommands has none with this name.
    static func requireSubcommands(
        _ arguments: [String], of root: any ParsableCommand.Type
    ) throws(CommandFailure) {
        var command = root
        var path = root._commandName
        for name in arguments {
            let subcommands = command.configuration.subcommands
            guard !subcommands.isEmpty, !name.hasPrefix("-") else { return }
            // The parser adds this one: `freshet help explain`.
            if name == "help" { continue }
            guard let next = subcommands.first(where: { $0._commandName == name }) else {
                let hint = name.hint(among: subcommands.map { $0._commandName })
                let advice = hint.isEmpty ? "; `\(path) --help` lists all" : hint
                throw CommandFailure(.usage, "\(path) has no command \(Text.quoted(name))\(advice)")
            }
            command = next
            path += " \(name)"
        }
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
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        let group = ServiceGroup(configuration: .ofFreshet(services, logger: logger))
        try await withThrowingTaskGroup(of: Void.self) { tasks in
            tasks.addTask { try await group.run() }
            tasks.addTask {
                var isStopping = false
                for await signal in signals {
                    guard !isStopping else {
                        logger.warning("stopping at once", metadata: ["signal": "\(signal)"])
                        throw CommandFailure(.failure, "stopped before everything was done")
                    }
                    isStopping = true
                    logger.notice("stopping: another signal stops at once", metadata: ["signal": "\(signal)"])
                    await group.triggerGracefulShutdown()
                }
            }
            // The watch for signals ends with the services, and the services with its error.
            for try await _ in tasks { tasks.cancelAll() }
        }
    }
}

extension CommandFailure {
    /// The failure for an error; nil for errors that the argument parser reports.
    init?(explaining error: any Error) {
        switch error {
        case let failure as CommandFailure: self = failure
        case let error as ManifestError:
            self.init(.failure, "the manifest cannot be used:\n\(error)", problems: error.problems.map(\.json))
        case let error as KindConflict: self.init(.failure, "\(error)")
        case let error as RotationConflict:
            self.init(.failure, "\(error): end it first (`freshet apps end-rotation --app \(error.app)`)")
        case let error as PostgresError: self.init(error)
        case let error as KafkaError: self.init(error)
        case is CancellationError: self.init(.failure, "interrupted")
        case is ExitCode, is ValidationError, is CleanExit: return nil
        default:
            // The parser's own errors are not public.
            guard SettingsOptions.exitCode(for: error) == .failure else { return nil }
            self.init(.failure, "\(error)")
        }
    }

    private init(_ error: PostgresError) {
        let advice = error.hint.map { "; \($0)" } ?? ""
        switch error.kind {
        case .configuration: self.init(.configuration, "postgres.url: \(error.message)\(advice)")
        case .connection, .poolTimeout:
            self.init(.unavailable, "PostgreSQL cannot be reached (postgres.url): \(error.message)")
        case .migration: self.init(.configuration, error.message + advice)
        case .server where error.isRetriable && error.sqlState?.hasPrefix("57P") == true:
            self.init(.unavailable, "PostgreSQL does not take connections: \(error.message)")
        default: self.init(.failure, "\(error)")
        }
    }

    private init(_ error: KafkaError) {
        switch error.code {
        case .invalidConfiguration: self.init(.configuration, "kafka.properties: \(error.message)")
        case .messageTimedOut, .timedOut:
            self.init(.unavailable, "Kafka cannot be reached (kafka.bootstrapServers): \(error)")
        default: self.init(error.isRetriable ? .unavailable : .failure, "\(error)")
        }
    }
}
