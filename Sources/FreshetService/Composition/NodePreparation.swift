import KafkaClient
package import Logging
package import PostgresClient
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

    /// Waits for PostgreSQL as long as it takes, saying so; then checks, or applies, the migrations.
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

    /// Waits for Kafka as long as it takes, saying so; then checks that the positions are of this cluster.
    ///
    /// - Returns: the cluster's id; nil if the brokers tell none.
    /// - Throws: ``CommandFailure`` when they are of another.
    func require(_ cluster: ClusterCheck) async throws -> String? {
        let answer: () async throws -> String? = {
            try await answerOrCancellation { () -> Result<String?, KafkaError> in
                do throws(KafkaError) { return .success(try await cluster.id()) } catch { return .failure(error) }
            }.get()
        }
        let id = try await waiting(for: "Kafka", while: { $0 is KafkaError }, answer)
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
        let pending = try await PostgresMigrator(migrations: StoreMigrations.all).check(on: pool).pending
        guard pending.isEmpty else { throw CommandFailure(.configuration, message(pending: pending)) }
    }

    package static func message(pending: [PostgresMigration]) -> String {
        let names = pending.map { "\($0.version) \($0.name)" }.joined(separator: ", ")
        return "the database lacks migrations (\(names)): run `freshet migrate`"
    }
}
