// SPDX-License-Identifier: Apache-2.0

import JSON
package import KafkaClient
package import Logging
package import PostgresClient
import Waiting
package import WidgetEvents
package import WidgetModel
package import WidgetStore

// Preconditions of a node's services.

extension PostgresPool {
    /// Waits for PostgreSQL without limit and logs it, then checks or applies the migrations.
    ///
    /// - Throws: ``CommandFailure`` when migrations are missing and are not to be applied; `PostgresError` when waiting
    ///   cannot help.
    package func prepare(migrate: Bool, logger: Logger) async throws {
        let migrator = PostgresMigrator(migrations: PostgresMigration.all)
        let status = try await waitingForDatabase(logger) { try await migrator.check(on: self) }
        if let newest = status.newer.last {
            logger.notice(
                "the database was migrated for a newer binary, beside which this one runs",
                metadata: ["migration": "\(newest.version) \(newest.name)"])
        }
        guard !status.pending.isEmpty else { return }
        guard migrate else { throw CommandFailure(pending: status.pending) }
        let applied = try await waitingForDatabase(logger) { try await migrator.apply(on: self) }
        logger.notice(
            "migrations applied", metadata: ["migrations": .array(applied.map { "\($0.version) \($0.name)" })])
    }

    /// - Throws: ``CommandFailure`` when migrations are missing.
    package func requireMigrations() async throws {
        if let problem = try await missingMigrations() { throw CommandFailure(.configuration, problem) }
    }

    /// Description of the missing migrations; nil if none is missing.
    package func missingMigrations() async throws(PostgresError) -> String? {
        let pending = try await PostgresMigrator(migrations: PostgresMigration.all).check(on: self).pending
        return pending.isEmpty ? nil : CommandFailure(pending: pending).message
    }
}

extension CommandFailure {
    /// Failure for a database without this binary's migrations.
    package init(pending: [PostgresMigration]) {
        let names = pending.map { "\($0.version) \($0.name)" }.joined(separator: ", ")
        self.init(.configuration, "the database lacks migrations (\(names)): run `freshet migrate`")
    }
}

private func waitingForDatabase<Value: Sendable>(
    _ logger: Logger, _ body: () async throws -> Value
) async throws -> Value {
    try await waiting(for: "PostgreSQL", logger, while: { ($0 as? PostgresError)?.isRetriable == true }, body)
}

private func waiting<Value: Sendable>(
    for server: String, _ logger: Logger, while isAway: (any Error) -> Bool, _ body: () async throws -> Value
) async throws -> Value {
    let backoff = Backoff(base: .milliseconds(200), cap: .seconds(10))
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

/// Checks that Kafka is the cluster that the stored positions belong to, since offsets mean nothing in another cluster.
///
/// An embedded cluster ends with its process, so the next cluster forgets its positions.
package struct ClusterCheck: Sendable {
    private let pool: PostgresPool
    private let kafka: KafkaConfiguration
    private let isNew: Bool
    private let logger: Logger

    /// Command that accepts another cluster.
    package static let command = "freshet positions accept-cluster"

    /// - Parameter isNew: whether the cluster was started with this process.
    package init(pool: PostgresPool, kafka: KafkaConfiguration, isNew: Bool = false, logger: Logger) {
        self.pool = pool
        self.kafka = kafka
        self.isNew = isNew
        self.logger = logger
    }

    private var admin: KafkaAdmin { KafkaAdmin(configuration: kafka, timeout: .seconds(5), logger: logger) }

    /// Waits for Kafka without limit and logs it and missing topics, then checks that the stored positions belong to
    /// this cluster.
    ///
    /// - Returns: the cluster's id; nil if the brokers report none.
    /// - Throws: ``CommandFailure`` when they are of another.
    func prepare(_ topics: TopicSettings) async throws -> String? {
        let id = try await waiting(for: "Kafka", logger, while: { $0 is KafkaError }, id)
        for topic in topics.missing(from: (try? await admin.describe()) ?? []) {
            logger.warning(
                "a topic is missing: `freshet topics apply` creates it, or let these credentials see it",
                metadata: ["topic": "\(topic)"])
        }
        try await waitingForDatabase(logger) { try await require(id) }
        return id
    }

    /// The cluster's id; nil if the brokers report none.
    private func id() async throws(KafkaError) -> String? { try await admin.clusterID() }

    /// Records the first cluster's id.
    ///
    /// - Throws: ``CommandFailure`` if the cluster differs from the recorded one.
    private func require(_ id: String?) async throws {
        guard let id else {
            logger.warning("the brokers report no cluster id: the positions may be of another cluster")
            return
        }
        // A standby, from which the API may read, takes no writes.
        if !isNew, try await pool.query(Statements.readCluster()).first == id { return }
        try await pool.withTransaction { connection in
            let recorded = try await connection.query(Statements.recordCluster(id)).first ?? id
            if recorded == id, !isNew { return }
            guard EmbeddedKafka.isID(recorded) else {
                throw CommandFailure(.configuration, Self.message(recorded: recorded, found: id))
            }
            try await Self.replace(by: id, keepingPositions: false, on: connection)
        }
    }

    package func accept(keepingPositions: Bool) async throws {
        guard let id = try await id() else {
            throw CommandFailure(.failure, "the brokers report no cluster id: there is nothing to accept")
        }
        try await pool.withTransaction { connection in
            guard try await connection.query(Statements.recordCluster(id)).first != id else { return }
            try await Self.replace(by: id, keepingPositions: keepingPositions, on: connection)
        }
    }

    private static func replace(by id: String, keepingPositions: Bool, on connection: PostgresConnection) async throws {
        _ = try await connection.execute(.replaceCluster(id))
        if !keepingPositions { _ = try await connection.execute(.forgetPositions()) }
    }

    package static func message(recorded: String, found: String) -> String {
        "the positions in the database are of the Kafka cluster \(Text.quoted(recorded)), and kafka.bootstrapServers "
            + "leads to \(Text.quoted(found)): correct it, or accept the cluster with `\(command)`"
    }
}

extension TopicSettings {
    /// Required topics that the cluster does not show.
    func missing(from found: [KafkaTopicDescription]) -> [String] {
        let names = Set(found.map(\.name))
        return all.filter { !names.contains($0) }
    }
}

/// Steps of runs that need a database of their own: the demo and the load tests.
extension WidgetStore {
    /// - Throws: ``CommandFailure`` if the database holds timelines, because the run would count them as its own.
    package func requireEmpty() async throws {
        guard try await pool.query(Statements.overview()).first?.timelines == 0 else {
            throw CommandFailure(.failure, "the database holds timelines already; expected an empty one")
        }
    }

    /// Registers apps, each with a new secret.
    package func register(_ apps: [AppDefinition]) async throws {
        _ = try await apply(apps, secrets: [:]) { (0..<32).map { _ in UInt8.random(in: 0...255) } }
    }

    /// Number of applied events, for an ingest that has read the topics from their beginning: the sum of the consumer
    /// positions.
    package func appliedEvents() async throws -> Int {
        Int(try await pool.query(.listPositions()).compactMap(\.nextOffset).reduce(0, +))
    }
}

extension EventPosition {
    /// Position of a stored event; nil if Kafka does not report it.
    package init?(_ delivery: KafkaDelivery, of event: FreshetEvent) {
        guard let offset = delivery.offset, let topic = EventTopic.allCases.firstIndex(of: event.type.topic) else {
            return nil
        }
        self.init(topic: Int16(topic), partition: delivery.partition, offset: offset)
    }
}
