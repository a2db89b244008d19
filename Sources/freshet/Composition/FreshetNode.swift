import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import ReloadWorkers
import ServiceLifecycle
import WidgetAPI
import WidgetModel
import WidgetStore

/// One process's share of Freshet, put together from its settings: the composition root.
///
/// ```swift
/// let node = try FreshetNode(settings: settings, roles: .all, logger: logger)
/// try await node.prepare(migrate: true)
/// let group = ServiceGroup(services: node.services, logger: logger)
/// ```
final class FreshetNode: Sendable {
    let settings: Settings
    let roles: ProcessRole
    let pool: PostgresPool
    let store: WidgetStore
    /// How Kafka is reached: the brokers of the settings, or the embedded ones.
    let kafka: KafkaConfiguration
    /// Runs in the process when the settings name no brokers.
    let embeddedKafka: EmbeddedKafka?
    /// For what the node itself sends; nil when it sends nothing.
    let producer: KafkaProducer?
    let ingest: IngestService?
    /// Counts of the workers; nil when the node runs none.
    let workerStatistics: WorkerStatistics?
    /// What a service group is to run; it releases what the node holds when it ends.
    let services: [any Service]

    private let preparation: NodePreparation
    private let apiPort: ListeningPort?
    /// Signalled when ingest has been given partitions; nil without ingest.
    private let assignment: WorkSignal?
    private let unassigned: WorkSignal.Mark?

    /// Opens no connection and starts nothing but the embedded cluster, if there is to be one.
    ///
    /// - Parameter onStored: told of every timeline whose stored content has changed, with the event that caused it,
    ///   on a worker's task: it must be quick.
    /// - Throws: ``CommandFailure`` or `KafkaError` for settings that cannot be used.
    init(
        settings: Settings, roles: ProcessRole, logger: Logger,
        onStored: (@Sendable (TimelineID, EventPosition?) -> Void)? = nil
    ) throws {
        self.settings = settings
        self.roles = roles
        let postgres = try settings.postgresConfiguration()
        let pool = PostgresPool(configuration: postgres, logger: logger)
        self.pool = pool
        store = WidgetStore(pool: pool)
        (kafka, embeddedKafka) = try Self.kafka(settings, logger)
        preparation = NodePreparation(pool: pool, kafka: kafka, topics: settings.topics, logger: logger)

        let wiring = Wiring(settings: settings, kafka: kafka, pool: pool, logger: logger)
        let producer = roles.runsIngest || roles.runsWorkers ? try wiring.producer() : nil
        let decisions = producer.flatMap { wiring.decisions(publishingTo: $0) }
        let ingest = producer.flatMap {
            roles.runsIngest ? wiring.ingest(deadLettersTo: $0, decisions: decisions) : nil
        }
        let statistics = WorkerStatistics()
        let workers = try producer.flatMap {
            roles.runsWorkers
                ? try wiring.workers(
                    publishingTo: $0, countingIn: statistics, onStored: onStored, decisions: decisions) : nil
        }
        let port = roles.runsAPI ? ListeningPort() : nil
        self.producer = producer
        self.ingest = ingest?.service
        workerStatistics = roles.runsWorkers ? statistics : nil
        apiPort = port
        assignment = ingest?.assignment
        unassigned = ingest?.assignment.mark(.timelines)

        var parts: [any Service] = []
        if let port { parts.append(try wiring.api(port: port, ingest: ingest?.service, workers: workerStatistics)) }
        if let decisions { parts.append(decisions) }
        if let workers { parts += [wiring.listener(postgres), wiring.flusher(of: statistics), workers] }
        parts += ingest?.services ?? []
        services = [
            NodeService(
                parts: parts,
                release: { [embeddedKafka] in
                    await producer?.shutdown()
                    await pool.shutdown()
                    embeddedKafka?.close()
                },
                logger: logger)
        ]
    }

    private static func kafka(
        _ settings: Settings, _ logger: Logger
    ) throws(KafkaError) -> (KafkaConfiguration, EmbeddedKafka?) {
        if let named = settings.namedKafka { return (named, nil) }
        let embedded = try EmbeddedCluster.start(
            topics: settings.topics.embedded, partitions: settings.kafka.embeddedPartitions, logger: logger)
        var configuration = embedded.configuration
        configuration.properties.merge(settings.kafka.properties) { $1 }
        return (configuration, embedded)
    }

    /// Waits for PostgreSQL, checks or applies its migrations, and looks for the topics.
    func prepare(migrate: Bool) async throws {
        try await preparation.prepareDatabase(migrate: migrate)
        // The embedded cluster's were made with it.
        if embeddedKafka == nil { await preparation.checkTopics() }
    }

    /// Where a node that is ready can be reached.
    struct Endpoint: Sendable, Equatable {
        var bootstrapServers: String
        /// Nil without the API.
        var apiPort: Int?
    }

    /// Returns once every role of the node works: the API listens, and ingest has been given its partitions.
    ///
    /// - Throws: `CancellationError`; `ListeningPort.NeverListened` when the API ended before it listened.
    func ready() async throws -> Endpoint {
        let port = try await apiPort?.wait()
        if let assignment, let unassigned { try await assignment.wait(past: unassigned) }
        return Endpoint(bootstrapServers: kafka.bootstrapServers, apiPort: port)
    }

    /// What the node has done so far.
    struct Statistics: Sendable {
        /// Nil when the node does not run ingest.
        var ingest: IngestStatistics.Snapshot?
        /// Nil when the node runs no workers.
        var workers: WorkerStatistics.Snapshot?
    }

    func statistics() -> Statistics {
        Statistics(ingest: ingest?.statistics.snapshot, workers: workerStatistics?.snapshot)
    }
}

/// The embedded cluster with Freshet's topics.
enum EmbeddedCluster {
    static func start(topics: [String], partitions: Int, logger: Logger) throws(KafkaError) -> EmbeddedKafka {
        let embedded = try EmbeddedKafka(logger: logger)
        for topic in topics { try embedded.createTopic(topic, partitions: partitions) }
        logger.notice(
            "kafka.bootstrapServers is not set: an embedded cluster runs in this process and keeps nothing",
            metadata: ["bootstrapServers": "\(embedded.bootstrapServers)", "partitions": "\(partitions)"])
        return embedded
    }
}
