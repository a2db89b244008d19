import JSON
package import KafkaClient
package import Logging
package import PostgresClient
import WidgetModel
import WidgetStore

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

    var admin: KafkaAdmin { KafkaAdmin(configuration: kafka, timeout: .seconds(5), logger: logger) }

    /// The cluster's id; nil if the brokers report none.
    func id() async throws(KafkaError) -> String? { try await admin.clusterID() }

    /// Records the first cluster's id.
    ///
    /// - Throws: ``CommandFailure`` if the cluster differs from the recorded one.
    func require(_ id: String?) async throws {
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
