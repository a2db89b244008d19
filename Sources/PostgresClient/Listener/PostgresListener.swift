package import Logging

/// A notification, or the sign that some may have been missed.
package enum PostgresNotification: Sendable, Hashable {
    case received(channel: String, payload: String)
    /// Notifications may have been missed: the connection was made (also the first time), or too many came at once.
    case reconnected
}

/// LISTENs on a connection of its own, and connects again, with back-off, whenever that is lost.
///
/// A notification that equals one still unread is dropped, and if more than ``capacity`` different ones are unread they
/// are replaced with one `.reconnected`: a reader that is late learns that something happened, in bounded memory.
package final class PostgresListener: Sendable {
    /// Notifications that may be unread.
    package static let capacity = 256

    private let configuration: PostgresConfiguration
    private let channels: [String]
    private let logger: Logger
    private let buffer = NotificationBuffer(capacity: PostgresListener.capacity)

    package init(configuration: PostgresConfiguration, channels: [String], logger: Logger) {
        self.configuration = configuration
        self.channels = channels
        self.logger = logger
    }

    /// Notifications from the start of ``run()`` to its end. For one reader at a time.
    package var notifications: Notifications { Notifications(buffer: buffer) }

    package struct Notifications: AsyncSequence, Sendable {
        package typealias Element = PostgresNotification
        package typealias Failure = Never

        let buffer: NotificationBuffer

        package struct AsyncIterator: AsyncIteratorProtocol {
            let buffer: NotificationBuffer

            /// The next notification; nil when the listener or the task has ended.
            package mutating func next() async -> PostgresNotification? { await buffer.next() }

            package mutating func next(
                isolation actor: isolated (any Actor)?
            ) async -> PostgresNotification? { await buffer.next() }
        }

        package func makeAsyncIterator() -> AsyncIterator { AsyncIterator(buffer: buffer) }
    }

    /// Listens until the task is cancelled, then returns.
    /// - Throws: A ``PostgresError`` that no attempt can cure, such as a wrong password.
    package func run() async throws {
        defer { buffer.finish() }
        var failures = 0
        while !Task.isCancelled {
            do throws(PostgresError) {
                try await listen { failures = 0 }
            } catch {
                if Task.isCancelled { return }
                if !error.isRetriable { throw error }
                logger.warning("the listener's connection failed or was lost", metadata: ["error": "\(error)"])
            }
            failures += 1
            let delay = configuration.backoff.delay(afterFailures: failures, random: .random(in: 0..<1))
            do { try await Task.sleep(for: delay) } catch { return }
        }
    }

    /// One connection, from its beginning to its loss.
    private func listen(_ connected: () -> Void) async throws(PostgresError) {
        let thread = try ConnectionThread()
        let ending = OneShot()
        let buffer = buffer
        thread.start(
            configuration: configuration, logger: logger,
            events: ConnectionThread.Events(
                notified: { channel, payload in buffer.append(.received(channel: channel, payload: payload)) },
                closed: { error in ending.fire(error) }))
        defer { thread.stop() }
        let listen = channels.map {
            "LISTEN \"\($0.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
        }
        .joined(separator: "; ")
        try await thread.perform { driver throws(PostgresError) in
            try driver.simple(listen, in: nil)
        }
        connected()
        buffer.append(.reconnected)
        let error = await withTaskCancellationHandler {
            await ending.value
        } onCancel: {
            thread.stop()
        }
        if let error { throw error }
    }
}

/// An event that happens once, and one task that waits for it.
private final class OneShot: Sendable {
    private enum State {
        case waiting(CheckedContinuation<PostgresError?, Never>?)
        case fired(PostgresError?)
    }

    private let state = Locked(State.waiting(nil))

    func fire(_ error: PostgresError?) {
        let continuation = state.withLock { state -> CheckedContinuation<PostgresError?, Never>? in
            guard case .waiting(let continuation) = state else { return nil }
            state = .fired(error)
            return continuation
        }
        continuation?.resume(returning: error)
    }

    var value: PostgresError? {
        get async {
            await withCheckedContinuation { continuation in
                let fired = state.withLock { state -> PostgresError?? in
                    if case .fired(let error) = state { return .some(error) }
                    state = .waiting(continuation)
                    return .none
                }
                if let fired { continuation.resume(returning: fired) }
            }
        }
    }
}
