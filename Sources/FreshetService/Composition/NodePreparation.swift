import KafkaClient
package import Logging
package import PostgresClient
import ServiceLifecycle
import Synchronization
import WidgetModel
import WidgetStore

/// Preconditions of a node's services.
package struct NodePreparation: Sendable {
    private let pool: PostgresPool
    private let logger: Logger
    private let backoff = Backoff(base: .milliseconds(200), cap: .seconds(10))

    package init(pool: PostgresPool, logger: Logger) {
        self.pool = pool
        self.logger = logger
    }

    /// Waits for PostgreSQL without limit and logs it, then checks or applies the migrations.
    ///
    /// - Throws: ``CommandFailure`` when migrations are missing and are not to be applied; `PostgresError` when waiting
    ///   cannot help.
    package func prepareDatabase(migrate: Bool) async throws {
        let migrator = PostgresMigrator(migrations: StoreMigrations.all)
        let status = try await waitingForDatabase { try await migrator.check(on: pool) }
        if let newest = status.newer.last {
            logger.notice(
                "the database was migrated for a newer binary, beside which this one runs",
                metadata: ["migration": "\(newest.version) \(newest.name)"])
        }
        guard !status.pending.isEmpty else { return }
        guard migrate else { throw CommandFailure(.configuration, SchemaCheck.message(pending: status.pending)) }
        let applied = try await waitingForDatabase { try await migrator.apply(on: pool) }
        logger.notice(
            "migrations applied", metadata: ["migrations": .array(applied.map { "\($0.version) \($0.name)" })])
    }

    /// Waits for Kafka without limit and logs it and missing topics, then checks that the stored positions belong to
    /// this cluster.
    ///
    /// - Returns: the cluster's id; nil if the brokers report none.
    /// - Throws: ``CommandFailure`` when they are of another.
    func require(_ cluster: ClusterCheck, topics: TopicSettings) async throws -> String? {
        let id = try await waiting(for: "Kafka", while: { $0 is KafkaError }, cluster.id)
        for topic in topics.missing(from: (try? await cluster.admin.describe()) ?? []) {
            logger.warning(
                "a topic is missing: `freshet topics apply` creates it, or let these credentials see it",
                metadata: ["topic": "\(topic)"])
        }
        try await waitingForDatabase { try await cluster.require(id) }
        return id
    }

    private func waitingForDatabase<Value: Sendable>(_ body: () async throws -> Value) async throws -> Value {
        try await waiting(for: "PostgreSQL", while: { ($0 as? PostgresError)?.isRetriable == true }, body)
    }

    private func waiting<Value: Sendable>(
        for server: String, while isAway: (any Error) -> Bool, _ body: () async throws -> Value
    ) async throws -> Value {
        var attempt = 0
        while true {
            do {
                return try await body()
            } catch  where isAway(error) {
                attempt += 1
                logger.warning("waiting for \(server)", metadata: ["attempt": "\(attempt)", "error": "\(error)"])
                var generator = SystemRandomNumberGenerator()
                try await Task.sleep(for: backoff.delay(attempt: attempt, using: &generator))
            }
        }
    }
}

/// Check that the database is at this binary's migrations.
package enum SchemaCheck {
    package static func require(on pool: PostgresPool) async throws {
        if let problem = try await problem(on: pool) { throw CommandFailure(.configuration, problem) }
    }

    /// Description of the missing migrations; nil if none is missing.
    package static func problem(on pool: PostgresPool) async throws(PostgresError) -> String? {
        let pending = try await PostgresMigrator(migrations: StoreMigrations.all).check(on: pool).pending
        return pending.isEmpty ? nil : message(pending: pending)
    }

    package static func message(pending: [PostgresMigration]) -> String {
        let names = pending.map { "\($0.version) \($0.name)" }.joined(separator: ", ")
        return "the database lacks migrations (\(names)): run `freshet migrate`"
    }
}

/// Phase of a node, for readiness.
final class NodePhase: Sendable {
    enum Phase: Sendable {
        /// The database and Kafka are waited for. → `running`, `stopping`
        case starting
        /// → `stopping`
        case running
        case stopping
    }

    private let phase = Mutex(Phase.starting)

    func set(_ next: Phase) {
        phase.withLock { current in
            if case .stopping = current { return }
            current = next
        }
    }

    /// Reason why the node does not work; nil if it does.
    var missing: String? {
        switch phase.withLock({ $0 }) {
        case .starting: "the process is starting: it waits for PostgreSQL, its migrations and Kafka"
        case .running: nil
        case .stopping: "the process is stopping"
        }
    }
}

/// Services that need the database, started once it is ready.
struct PreparedService: Service, CustomStringConvertible {
    let description = "prepared"
    let phase: NodePhase
    /// Waits for the database as long as it takes.
    let prepare: @Sendable () async throws -> Void
    let parts: [any Service]
    let logger: Logger

    func run() async throws {
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

extension TopicSettings {
    /// Required topics that the cluster does not show.
    func missing(from found: [KafkaTopicDescription]) -> [String] {
        let names = Set(found.map(\.name))
        return all.filter { !names.contains($0) }
    }
}
