package import Logging
package import PostgresClient

/// Wakes the workers of other processes. Never inside a transaction that writes, since NOTIFY serialises commits, and at
/// most once in 10 ms: the workers poll behind it anyway.
package struct NotifyDue: PostgresStatement {
    package static let channel = "freshet_due"

    package static let sql = "SELECT pg_notify('freshet_due', '')"

    package init() {}

    package func bind(_ parameters: inout PostgresParameters) {}
}

/// Passes a process's own signals on to the workers of the others.
package struct DueNotifier: Sendable {
    private let pool: PostgresPool
    private let signal: WorkSignal
    private let interval: Duration
    private let logger: Logger

    package init(
        pool: PostgresPool, signal: WorkSignal, interval: Duration = .milliseconds(10), logger: Logger
    ) {
        self.pool = pool
        self.signal = signal
        self.interval = interval
        self.logger = logger
    }

    /// Runs until the task is cancelled. A notification that fails is dropped: it is only a hint.
    package func run() async {
        while !Task.isCancelled {
            do {
                try await signal.wait(timeout: .seconds(3600))
                _ = try await pool.query(NotifyDue())
                try await Task.sleep(for: interval)
            } catch is CancellationError {
                return
            } catch {
                logger.debug("cannot notify workers", metadata: ["error": "\(error)"])
                try? await Task.sleep(for: .milliseconds(500))
            }
        }
    }
}
