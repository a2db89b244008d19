package import JSON
package import KafkaClient
package import Logging
package import PostgresClient
import ReloadIngest
import ReloadWorkers
package import ServiceLifecycle
import WidgetAPI
import WidgetDelivery
package import WidgetModel
package import WidgetStore

/// A process of Freshet, composed from its settings.
///
/// ```swift
/// let node = try FreshetNode(settings: settings, logger: logger)
/// try await Program.run(node.services(migrate: true), logger: logger)
/// ```
package final class FreshetNode: Sendable {
    package static let version = "0.1.0"

    package let pool: PostgresPool
    package let store: WidgetStore
    /// Configuration for the brokers of the settings, or for the embedded cluster.
    package let kafka: KafkaConfiguration
    package let metrics: MetricRegistry
    private let wiring: Wiring
    private let ingest: IngestParts?
    private let preparation: NodePreparation
    private let cluster: ClusterCheck
    private let apiPort: ListeningPort?
    private let healthPort: ListeningPort?
    private let phase = NodePhase()
    /// Signalled when the preparation is done: PostgreSQL, the migrations and the Kafka cluster are as required.
    private let prepared = WorkSignal()
    /// Marks before the preparation and before ingest's assignment, which ``ready()`` waits to pass.
    private let unprepared: WorkSignal.Mark
    private let unassigned: WorkSignal.Mark?
    /// Services that run from the start.
    private let front: [any Service]
    /// Services that wait for the preparation.
    private let back: [any Service]
    private let release: @Sendable () async -> Void
    private let logger: Logger

    /// Composes the node from its settings. Opens no connection, and starts nothing but an embedded cluster.
    ///
    /// - Parameters:
    ///   - metrics: registry of the process's metrics, which `/metrics` and the console show.
    ///   - onStored: called on a worker's task with every timeline whose stored content has changed, and the event that
    ///     caused it; must return quickly.
    ///   - findings: findings of the doctor that concern an app, for the console.
    /// - Throws: ``CommandFailure`` or `KafkaError` for settings that cannot be used.
    package init(
        settings: Settings, logger: Logger, metrics: MetricRegistry = MetricRegistry(),
        onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil,
        findings: @escaping @Sendable (_ app: String) async -> [JSONValue] = { _ in [] }
    ) throws {
        self.logger = logger
        self.metrics = metrics
        let postgres = try settings.postgresConfiguration()
        let pool = PostgresPool(configuration: postgres, logger: logger)
        self.pool = pool
        store = WidgetStore(pool: pool)
        let (kafka, embedded) = try Self.kafka(settings, logger)
        self.kafka = kafka
        preparation = NodePreparation(pool: pool, logger: logger)
        cluster = ClusterCheck(pool: pool, kafka: kafka, isNew: embedded != nil, logger: logger)
        unprepared = prepared.mark(.timelines)

        let wiring = try Wiring(settings: settings, kafka: kafka, pool: pool, metrics: metrics, logger: logger)
        self.wiring = wiring
        let ingest = wiring.ingest()
        self.ingest = ingest
        unassigned = ingest?.assignment.mark(.timelines)
        apiPort = settings.role.runsAPI ? ListeningPort() : nil
        healthPort = settings.health.port.map { _ in ListeningPort() }
        let workers = wiring.workers(onStored: onStored)
        let sampler = MetricSampler(wiring: wiring, ingest: ingest?.service)
        let readiness = wiring.readiness(phase: phase, ingest: ingest?.service)
        let liveness = wiring.liveness(ingest: ingest?.service)
        var front: [any Service] = []
        if let healthPort {
            front.append(
                wiring.health(
                    port: healthPort, readiness: readiness, liveness: liveness,
                    metrics: {
                        sampler.readMemory()
                        return metrics.page
                    }))
        }
        if let apiPort {
            let console = wiring.console(workers: workers, findings: findings)
            front += wiring.api(port: apiPort, console: console, readiness: readiness, liveness: liveness)
            if let console { front.append(console.history.recorder(of: metrics, every: settings.metrics.interval)) }
        }
        self.front = front
        var back: [any Service] = []
        if let workers { back = [wiring.listener(postgres), workers.kindRecorder, workers] }
        // Services stop in reverse order: this one stops after the workers, which record decisions.
        if let decisions = wiring.decisions { back.insert(decisions, at: 0) }
        back += try wiring.delivery()
        back += ingest?.services ?? []
        // Without a reader, the database is not asked.
        if healthPort != nil || settings.console.enabled { back.append(sampler.service) }
        self.back = back
        release = {
            await wiring.providers.shutdown()
            await wiring.producer?.shutdown()
            await pool.shutdown()
            embedded?.close()
        }
    }

    private static func kafka(_ settings: Settings, _ logger: Logger) throws -> (KafkaConfiguration, EmbeddedKafka?) {
        guard settings.kafka.embedded else { return (try settings.requiredKafka(), nil) }
        let (embedded, partitions) = (try EmbeddedKafka(logger: logger), settings.kafka.embeddedPartitions)
        for topic in settings.topics.embedded { try embedded.createTopic(topic, partitions: partitions) }
        logger.notice(
            "kafka.embedded: a Kafka cluster runs in this process and keeps nothing",
            metadata: ["bootstrapServers": "\(embedded.bootstrapServers)", "partitions": "\(partitions)"])
        var configuration = embedded.configuration
        configuration.properties.merge(settings.kafka.properties) { $1 }
        return (configuration, embedded)
    }

    /// Returns the node's services, the preparation among them: health and the API are served from the start, and a
    /// signal to the process also ends the wait for the database. They release the node's resources when they end.
    package func services(migrate: Bool) -> [any Service] {
        let prepared = PreparedService(
            phase: phase, prepare: { try await self.prepare(migrate: migrate) }, parts: back, logger: logger)
        return [NodeService(parts: front + [prepared], release: release, logger: logger)]
    }

    /// Waits for PostgreSQL and Kafka, checks or applies the migrations, and checks that the Kafka cluster is the
    /// recorded one.
    private func prepare(migrate: Bool) async throws {
        try await preparation.prepareDatabase(migrate: migrate)
        let id = try await preparation.require(cluster, topics: wiring.settings.topics)
        ingest?.service.require(cluster: id)
        prepared.signal(.timelines)
    }

    /// Addresses of a ready node.
    package struct Endpoint: Sendable, Equatable {
        package var bootstrapServers: String
        /// Nil without the API.
        package var apiPort: Int?
        /// Nil without `health.port`.
        package var healthPort: Int?
    }

    /// Waits until every role of the node works: the API listens, and ingest has been given its partitions.
    ///
    /// - Throws: `CancellationError`; `ListeningPort.NeverListened` if a server ended before it listened.
    package func ready() async throws -> Endpoint {
        try await prepared.wait(past: unprepared)
        let port = try await apiPort?.wait()
        let healthPort = try await healthPort?.wait()
        if let ingest, let unassigned { try await ingest.assignment.wait(past: unassigned) }
        return Endpoint(bootstrapServers: kafka.bootstrapServers, apiPort: port, healthPort: healthPort)
    }
}
