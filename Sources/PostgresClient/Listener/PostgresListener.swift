package import Logging

/// A notification, or a sign of missed ones.
package enum PostgresNotification: Sendable, Hashable {
    case received(channel: String, payload: String)
    /// A connection was made, the first one included: earlier notifications may be missing.
    case reconnected
}

/// LISTENs on a connection of its own, and reconnects with back-off.
package struct PostgresListener: Sendable {
    private let configuration: PostgresConfiguration
    private let channels: [String]
    private let logger: Logger
    private let notified: @Sendable (PostgresNotification) -> Void

    /// - Parameter notified: called on the connection's thread, which it must not block.
    package init(
        configuration: PostgresConfiguration, channels: [String], logger: Logger,
        notified: @escaping @Sendable (PostgresNotification) -> Void
    ) {
        (self.configuration, self.channels, self.logger, self.notified) = (configuration, channels, logger, notified)
    }

    /// Listens until the task is cancelled.
    /// - Throws: A ``PostgresError`` that is not transient, such as a wrong password.
    package func run() async throws {
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

    /// Makes one connection and listens until its loss.
    private func listen(_ connected: () -> Void) async throws(PostgresError) {
        let thread = try ConnectionThread()
        let (endings, ending) = AsyncStream.makeStream(of: PostgresError?.self)
        thread.start(
            configuration: configuration, logger: logger,
            events: ConnectionThread.Events(
                notified: { [notified] in notified(.received(channel: $0, payload: $1)) },
                closed: { error, _ in ending.yield(error) }))
        defer { thread.stop() }
        let listen = channels.map {
            "LISTEN \"\($0.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
        }
        .joined(separator: "; ")
        try await thread.perform { driver throws(PostgresError) in
            try driver.simple(listen, in: nil)
        }
        connected()
        notified(.reconnected)
        if let error = await endings.first(where: { _ in true }) ?? nil { throw error }
    }
}
