package import KafkaClient
package import Logging
package import PostgresClient
package import ReloadIngest
package import ReloadWorkers
package import ServiceLifecycle
package import WidgetAPI
import WidgetDelivery
package import WidgetModel
package import WidgetStore

/// A process of Freshet, composed from its settings.
///
/// ```swift
/// let node = try FreshetNode(settings: settings, roles: .all, logger: logger)
/// try await node.prepare(migrate: true)
/// let group = ServiceGroup(services: node.services, logger: logger)
/// ```
package final class FreshetNode: Sendable {
    package static let version = "0.1.0"

    package let settings: Settings
    package let roles: ProcessRole
    package let pool: PostgresPool
    package let store: WidgetStore
    /// Connection to the brokers of the settings, or to the embedded ones.
    package let kafka: KafkaConfiguration
    /// Runs in the process with `kafka.embedded`.
    let embeddedKafka: EmbeddedKafka?
    /// Producer of the node's own messages; nil if it sends none.
    package let producer: KafkaProducer?
    package let ingest: IngestService?
    /// Counts of the workers; nil when the node runs none.
    let workerStatistics: WorkerStatistics?
    /// Counts of the delivery; nil when the node runs none.
    let deliveryStatistics: DeliveryStatistics?
    private let preparation: NodePreparation
    private let cluster: ClusterCheck
    private let apiPort: ListeningPort?
    private let healthPort: ListeningPort?
    private let phase: NodePhase
    /// Signalled when the database is there.
    private let prepared = WorkSignal()
    private let unprepared: WorkSignal.Mark
    private let front: [any Service]
    private let back: [any Service]
    private let release: @Sendable () async -> Void
    private let logger: Logger
    /// Signalled when ingest has been given partitions; nil without ingest.
    private let assignment: WorkSignal?
    private let unassigned: WorkSignal.Mark?

    /// Opens no connection, and starts nothing but an embedded cluster.
    ///
    /// - Parameters:
    ///   - observer: keeps what this process's parts tell swift-metrics, and is read at `/metrics`; nil: nobody asks.
    ///   - onStored: told of every timeline whose stored content has changed, with the event that caused it,
    ///     on a worker's task: it must be quick.
    /// - Throws: ``CommandFailure`` or `KafkaError` for settings that cannot be used.
    package init(
        settings: Settings, roles: ProcessRole, logger: Logger, observer: PrometheusRegistry? = nil,
        onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil
    ) throws {
        self.settings = settings
        self.roles = roles
        let postgres = try settings.postgresConfiguration()
        let pool = PostgresPool(configuration: postgres, logger: logger)
        self.pool = pool
        store = WidgetStore(pool: pool)
        (kafka, embeddedKafka) = try Self.kafka(settings, logger)
        preparation = NodePreparation(pool: pool, logger: logger)
        cluster = ClusterCheck(pool: pool, kafka: kafka, isNew: embeddedKafka != nil, logger: logger)
        self.logger = logger
        unprepared = prepared.mark(.timelines)

        let wiring = try Wiring(settings: settings, kafka: kafka, pool: pool, logger: logger)
        // The API publishes the requested changes.
        let decides = roles.runsIngest || roles.runsWorkers
        let producer = decides || (roles.runsAPI && settings.api.keys != nil) ? try wiring.producer() : nil
        let decisions = decides ? producer.flatMap { wiring.decisions(publishingTo: $0) } : nil
        let ingest = producer.flatMap {
            roles.runsIngest
                ? wiring.ingest(deadLettersTo: $0, decisions: decisions, besideWorkers: roles.runsWorkers) : nil
        }
        let statistics = WorkerStatistics()
        let (output, heartbeat) = (OutputCondition(), Heartbeat())
        let workers = producer.flatMap {
            roles.runsWorkers
                ? wiring.workers(
                    publishingTo: $0, countingIn: statistics, onStored: onStored, decisions: decisions,
                    output: output, heartbeat: heartbeat) : nil
        }
        let deliveryStatistics = roles.runsDelivery ? DeliveryStatistics() : nil
        self.deliveryStatistics = deliveryStatistics
        let delivery = try deliveryStatistics.map { counts throws(CommandFailure) in
            try wiring.delivery(countingIn: counts)
        }
        let port = roles.runsAPI ? ListeningPort() : nil
        let healthPort = settings.health.port.map { _ in ListeningPort() }
        let phase = NodePhase()
        let readiness = Readiness(
            checks: NodeReadiness(
                pool: pool, kafka: kafka, topics: settings.topics, phase: phase, ingest: ingest?.service,
                output: roles.runsWorkers ? output : nil, workers: roles.runsWorkers ? statistics : nil, logger: logger
            ).checks)
        let liveness = Liveness(
            probes: NodeLiveness.probes(
                settings: settings, ingest: ingest?.service, workers: roles.runsWorkers ? heartbeat : nil))
        self.producer = producer
        self.ingest = ingest?.service
        workerStatistics = roles.runsWorkers ? statistics : nil
        apiPort = port
        self.healthPort = healthPort
        self.phase = phase
        assignment = ingest?.assignment
        unassigned = ingest?.assignment.mark(.timelines)

        let observed = observer.map {
            NodeMetrics(
                registry: $0, settings: settings.metrics, roles: roles, pool: pool, directory: wiring.directory,
                ingest: ingest?.service, workers: roles.runsWorkers ? statistics : nil, delivery: deliveryStatistics,
                logger: logger)
        }

        var front: [any Service] = []
        if let healthPort, let number = settings.health.port {
            front.append(
                wiring.health(
                    on: number, port: healthPort, readiness: readiness, liveness: liveness,
                    metrics: { [observed] in observed?.page ?? "" }))
        }
        if let port {
            front += wiring.api(publishingTo: producer, port: port, readiness: readiness, liveness: liveness)
        }
        var back: [any Service] = []
        // The embedded cluster's topics were made with it.
        if embeddedKafka == nil {
            back.append(TopicWatch(kafka: kafka, topics: settings.topics, logger: logger))
        }
        if let decisions { back.append(decisions) }
        if let workers { back += [wiring.listener(postgres), wiring.flusher(of: statistics), workers] }
        if let delivery { back.append(delivery) }
        back += ingest?.services ?? []
        if let observed { back.append(observed.sampler) }
        self.front = front
        self.back = back
        release = { [embeddedKafka, providers = wiring.providers] in
            await providers.shutdown()
            await producer?.shutdown()
            await pool.shutdown()
            embeddedKafka?.close()
        }
    }

    /// Services to run once the node is prepared. They release the node's resources when they end.
    package var services: [any Service] {
        [NodeService(parts: front + back, release: release, logger: logger)]
    }

    /// The services with the preparation among them: health and the API are served from the start, and a signal also
    /// ends the wait for the database.
    package func startingServices(migrate: Bool) -> [any Service] {
        let prepared = PreparedService(
            phase: phase, prepare: { try await self.prepare(migrate: migrate) }, parts: back, logger: logger)
        return [NodeService(parts: front + [prepared], release: release, logger: logger)]
    }

    private static func kafka(_ settings: Settings, _ logger: Logger) throws -> (KafkaConfiguration, EmbeddedKafka?) {
        guard settings.kafka.embedded else { return (try settings.requiredKafka(), nil) }
        let embedded = try EmbeddedCluster.start(
            topics: settings.topics.embedded, partitions: settings.kafka.embeddedPartitions, logger: logger)
        var configuration = embedded.configuration
        configuration.properties.merge(settings.kafka.properties) { $1 }
        return (configuration, embedded)
    }

    /// Waits for PostgreSQL and Kafka, checks or applies the migrations, and checks that the Kafka cluster is the
    /// recorded one.
    package func prepare(migrate: Bool) async throws {
        try await preparation.prepareDatabase(migrate: migrate)
        let id = try await preparation.require(cluster)
        ingest?.require(cluster: id)
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

    /// Returns once every role of the node works: the API listens, and ingest has been given its partitions.
    ///
    /// - Throws: `CancellationError`; `ListeningPort.NeverListened` when the API ended before it listened.
    package func ready() async throws -> Endpoint {
        try await prepared.wait(past: unprepared)
        let port = try await apiPort?.wait()
        let healthPort = try await healthPort?.wait()
        if let assignment, let unassigned { try await assignment.wait(past: unassigned) }
        return Endpoint(bootstrapServers: kafka.bootstrapServers, apiPort: port, healthPort: healthPort)
    }

    package struct Statistics: Sendable {
        /// Nil when the node does not run ingest.
        package var ingest: IngestStatistics.Snapshot?
        /// Nil when the node runs no workers.
        package var workers: WorkerStatistics.Snapshot?
    }

    package func statistics() -> Statistics {
        Statistics(ingest: ingest?.statistics.snapshot, workers: workerStatistics?.snapshot)
    }
}

/// The embedded cluster with Freshet's topics.
enum EmbeddedCluster {
    static func start(topics: [String], partitions: Int, logger: Logger) throws(KafkaError) -> EmbeddedKafka {
        let embedded = try EmbeddedKafka(logger: logger)
        for topic in topics { try embedded.createTopic(topic, partitions: partitions) }
        logger.notice(
            "kafka.embedded: a Kafka cluster runs in this process and keeps nothing",
            metadata: ["bootstrapServers": "\(embedded.bootstrapServers)", "partitions": "\(partitions)"])
        return embedded
    }
}
