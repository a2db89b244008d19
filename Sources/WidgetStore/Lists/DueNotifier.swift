// SPDX-License-Identifier: Apache-2.0

package import Logging
package import PostgresClient
import Synchronization
package import Waiting
import WidgetModel

/// Wakes the loops of this process that look for work in the database.
package struct WorkSignals: Sendable {
    /// Timelines have become due, or there is room to work on them.
    package let timelines = Signal()
    /// Generations are ahead, a sweep was recorded, or the bulk backlog has shrunk.
    package let sweeps = Signal()

    package init() {}

    /// Signals all work, for a hint that does not tell which.
    package func signalAll() {
        timelines.signal()
        sweeps.signal()
    }
}

extension PostgresStatement where Self == Statements {
    /// Wakes the workers of other processes. Never inside a transaction that writes, since NOTIFY serialises commits.
    package static func notifyDue() -> PostgresQuery<Void> {
        PostgresQuery("SELECT pg_notify('freshet_due', '')")
    }
}

/// Notifies the workers of other processes of ready lists. While no other worker is registered, ``signal()`` does
/// nothing.
package final class DueNotifier: Sendable {
    package static let channel = "freshet_due"

    private let pool: PostgresPool
    private let worker: UInt128?
    private let interval: Duration
    private let logger: Logger
    private let requests = Signal()
    /// True until the first check.
    private let othersAreRegistered = Atomic(true)

    /// - Parameters:
    ///   - worker: this process's own worker, which is woken within the process; nil without one.
    ///   - interval: interval of the checks for other workers.
    package init(pool: PostgresPool, worker: UInt128?, interval: Duration = .seconds(3), logger: Logger) {
        self.pool = pool
        self.worker = worker
        self.interval = interval
        self.logger = logger
    }

    /// Signals that lists are ready for any worker.
    package func signal() {
        if othersAreRegistered.load(ordering: .relaxed) { requests.signal() }
    }

    /// Runs until the task is cancelled. A notification that fails is dropped: it is only a hint.
    package func run() async {
        await withTaskGroup(of: Void.self) { group in
            group.addTask { await self.look() }
            group.addTask { await self.notify() }
        }
    }

    /// Sends one notification at a time, for all signals since the last one.
    private func notify() async {
        var version = requests.version
        while !Task.isCancelled {
            do {
                try await requests.wait(past: version)
                version = requests.version
                _ = try await pool.query(.notifyDue())
            } catch is CancellationError {
                return
            } catch {
                logger.debug("cannot notify workers", metadata: ["error": "\(error)"])
                try? await Task.sleep(for: .milliseconds(500))
            }
        }
    }

    private func look() async {
        while !Task.isCancelled {
            do {
                let others = try await pool.query(.otherWorkers(than: worker)).first ?? true
                othersAreRegistered.store(others, ordering: .relaxed)
            } catch {
                logger.debug("cannot look for other workers", metadata: ["error": "\(error)"])
            }
            try? await Task.sleep(for: interval)
        }
    }
}
