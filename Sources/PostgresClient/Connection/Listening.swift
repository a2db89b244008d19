// SPDX-License-Identifier: Apache-2.0

package import Logging
import Waiting

extension PostgresConfiguration {
    /// LISTENs on a connection of its own until the task is cancelled, and reconnects with back-off.
    ///
    /// - Parameter notified: called on the connection's thread, which it must not block. Nil after a connection was
    ///   made, the first one included: earlier notifications may be missing.
    /// - Throws: A ``PostgresError`` that is not transient, such as a wrong password.
    package func listen(
        to channels: [String], logger: Logger,
        notified: @escaping @Sendable ((channel: String, payload: String)?) -> Void
    ) async throws {
        var failures = 0
        while !Task.isCancelled {
            do throws(PostgresError) {
                try await listenOnce(to: channels, logger: logger, connected: { failures = 0 }, notified: notified)
            } catch {
                if Task.isCancelled { return }
                if !error.isRetriable { throw error }
                logger.warning("the listener's connection failed or was lost", metadata: ["error": "\(error)"])
            }
            failures += 1
            let delay = connectBackoff.delay(attempt: failures, jitter: .random(in: 0..<1))
            do { try await Task.sleep(for: delay) } catch { return }
        }
    }

    /// Makes one connection and listens until its loss.
    private func listenOnce(
        to channels: [String], logger: Logger, connected: () -> Void,
        notified: @escaping @Sendable ((channel: String, payload: String)?) -> Void
    ) async throws(PostgresError) {
        let thread = try ConnectionThread()
        let (endings, ending) = AsyncStream.makeStream(of: PostgresError?.self)
        try thread.start(
            configuration: self, logger: logger, notified: { notified((channel: $0, payload: $1)) },
            closed: { error, _ in ending.yield(error) })
        defer { thread.stop() }
        let listen = channels.map {
            "LISTEN \"\($0.split(separator: "\"", omittingEmptySubsequences: false).joined(separator: "\"\""))\""
        }
        .joined(separator: "; ")
        try await thread.perform { driver throws(PostgresError) in
            try driver.simple(listen, in: nil)
        }
        connected()
        notified(nil)
        if let error = await endings.first(where: { _ in true }) ?? nil { throw error }
    }
}
