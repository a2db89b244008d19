import Foundation
package import Logging
package import ServiceLifecycle
import Synchronization
import UnixSignals

/// Handling of SIGTERM and SIGINT: the first signal stops the services gracefully, the second cancels them.
package final class SignalScope: Sendable {
    private enum State {
        /// No services run yet. → `running`, `stopped`
        case preparing
        case running(ServiceGroup)
        case stopped
    }

    private let state = Mutex(State.preparing)
    private let logger: Logger

    private init(logger: Logger) {
        self.logger = logger
    }

    /// Runs `body` with the signals trapped.
    ///
    /// - Throws: errors of `body`; ``CommandFailure`` after a second signal.
    package static func run(
        logger: Logger, _ body: @escaping @Sendable (SignalScope) async throws -> Void
    ) async throws {
        // A closed output pipe must not end the process.
        signal(SIGPIPE, SIG_IGN)
        let scope = SignalScope(logger: logger)
        let signals = await UnixSignalsSequence(trapping: .sigterm, .sigint)
        try await withThrowingTaskGroup(of: End.self) { group in
            group.addTask {
                try await body(scope)
                return .finished
            }
            group.addTask { await scope.wait(for: signals) }
            let first = try await group.next()
            group.cancelAll()
            guard first != .finished else { return }
            // Errors are consequences of the cancellation.
            do { while try await group.next() != nil {} } catch {}
            if first == .forced { throw CommandFailure(.failure, "stopped before everything was done") }
        }
    }

    private enum End {
        case finished
        /// Stopped before anything ran.
        case early
        case forced
    }

    private func wait(for signals: UnixSignalsSequence) async -> End {
        var isStopping = false
        for await signal in signals {
            let group = state.withLock { state -> ServiceGroup? in
                defer { state = .stopped }
                if case .running(let group) = state { return group }
                return nil
            }
            if isStopping {
                logger.warning("stopping at once", metadata: ["signal": "\(signal)"])
                return .forced
            }
            isStopping = true
            guard let group else { return .early }
            logger.notice("stopping: another signal stops at once", metadata: ["signal": "\(signal)"])
            await group.triggerGracefulShutdown()
        }
        return .finished
    }

    /// Runs services until they end or a signal stops them.
    package func run(_ services: [any Service]) async throws {
        let group = ServiceGroup(configuration: .ofFreshet(services, logger: logger))
        let isStopped = state.withLock { state in
            guard case .preparing = state else { return true }
            state = .running(group)
            return false
        }
        guard !isStopped else { throw CancellationError() }
        try await group.run()
    }
}
