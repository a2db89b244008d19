import Logging
import ServiceLifecycle
import Synchronization

/// How far a node has come, for readiness.
final class NodePhase: Sendable {
    enum Phase: Sendable {
        /// The database and Kafka are waited for. → `running`, `stopping`
        case starting
        /// → `stopping`
        case running
        case stopping
    }

    private let phase = Mutex(Phase.running)

    func set(_ next: Phase) {
        phase.withLock { current in
            if case .stopping = current { return }
            current = next
        }
    }

    /// Why the node does not do its work; nil when it does.
    var missing: String? {
        switch phase.withLock({ $0 }) {
        case .starting: "the process is starting: it waits for PostgreSQL, its migrations and Kafka"
        case .running: nil
        case .stopping: "the process is stopping"
        }
    }
}

/// The services that need a database: started once it is there.
struct PreparedService: Service, CustomStringConvertible {
    let description = "prepared"
    let phase: NodePhase
    /// Waits for the database as long as it takes.
    let prepare: @Sendable () async throws -> Void
    let parts: [any Service]
    let logger: Logger

    func run() async throws {
        phase.set(.starting)
        try await withGracefulShutdownHandler {
            do {
                try await cancelWhenGracefulShutdown { try await prepare() }
            } catch  where Task.isShuttingDownGracefully || Task.isCancelled {
                return
            }
            guard !Task.isShuttingDownGracefully else { return }
            phase.set(.running)
            if parts.isEmpty {
                try await gracefulShutdown()
            } else {
                try await ServiceGroup(configuration: .ofFreshet(parts, logger: logger)).run()
            }
        } onGracefulShutdown: {
            phase.set(.stopping)
        }
    }
}
