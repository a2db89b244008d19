// SPDX-License-Identifier: Apache-2.0

import AsyncHTTPClient
package import JSON
package import KafkaClient
package import Logging
import Metrics
package import PostgresClient
import ReloadIngest
import ReloadWorkers
package import ServiceLifecycle
import Synchronization
import Waiting
import WidgetAPI
import WidgetDelivery
import WidgetEvents
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
    let settings: Settings
    let logger: Logger
    private let embedded: EmbeddedKafka?
    private let cluster: ClusterCheck
    private let apiPort: ListeningPort?
    private let healthPort: ListeningPort?
    /// The process among those that report their readiness.
    private let process = UInt128.random(in: 0 ... .max)
    private let phase = Mutex(NodePhase.starting)
    /// Signalled when the preparation is done: PostgreSQL, the migrations and the Kafka cluster are as required.
    private let prepared = Signal()
    /// Versions before the preparation and before ingest's assignment, which ``ready()`` waits to pass.
    private let unprepared: UInt64
    private let unassigned: UInt64?
    private let onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?
    private let findings: @Sendable (_ app: String) async -> [JSONValue]
    let directory: DirectoryCache
    /// All roles take tokens.
    private let history: DatabaseHistory
    /// Wakes this process's workers: by its own ingest, and by the notifications of others.
    private let work = WorkSignals()
    /// Hands timelines over from ingest to the workers of the same process.
    private let handOver = LocalHandOver()
    /// Signalled when partitions have been assigned to ingest.
    private let assignment = Signal()
    private let configuration: WorkerConfiguration
    private let egress: EgressGuard
    /// Configuration of the delivery, with its clients; nil without that role.
    private let delivering: (configuration: DeliveryConfiguration, apns: APNsAccounts, webhooks: HTTPClient)?
    /// Client of all requests to providers.
    private let http: HTTPClient
    private let providers: ProviderClient
    /// Requests options and defaults.
    private let configurations: ConfigurationClient
    /// Producer of the node's own messages; nil if it sends none.
    private let producer: KafkaProducer?
    /// Publisher of decisions, if it is enabled.
    private let decisions: DecisionLog?
    private let condition = WorkerCondition()
    private let heartbeat = Heartbeat()
    private let deliveryPulse = DeliveryPulse()

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
        self.settings = settings
        self.logger = logger
        self.metrics = metrics
        (self.onStored, self.findings) = (onStored, findings)
        let pool = PostgresPool(configuration: try settings.postgresConfiguration(), logger: logger)
        self.pool = pool
        store = WidgetStore(pool: pool)
        let (kafka, embedded) = try Self.kafka(settings, logger)
        self.kafka = kafka
        self.embedded = embedded
        cluster = ClusterCheck(pool: pool, kafka: kafka, isNew: embedded != nil, logger: logger)
        apiPort = settings.role.runsAPI ? ListeningPort() : nil
        healthPort = settings.healthPort.map { _ in ListeningPort() }
        unprepared = prepared.version
        unassigned = settings.role.runsIngest ? assignment.version : nil
        directory = DirectoryCache(pool: pool)
        history = DatabaseHistory(of: pool)
        configuration = settings.workerConfiguration()
        egress = EgressGuard(try settings.egressPolicy())
        var limits = try settings.connectionLimits()
        let delivery =
            settings.role.runsDelivery ? (try settings.deliveryConfiguration(), try settings.apnsLimits()) : nil
        let outgoing = try Self.outgoing(settings, kafka, logger)
        (producer, decisions) = (outgoing?.producer, outgoing?.decisions)
        // Clients must be shut down, so they are made where nothing fails any more.
        let (egress, connections) = (egress, configuration.concurrency)
        func client(_ limits: ConnectionLimits) -> HTTPClient {
            HTTPClient(
                eventLoopGroupProvider: .singleton,
                configuration: ProviderClient.configuration(
                    egress: egress, connectionsPerHost: connections, limits: limits))
        }
        http = client(limits)
        providers = ProviderClient(http: http, egress: egress)
        configurations = ConfigurationClient(
            fetcher: providers, directory: directory, configuration: configuration, metrics: metrics,
            logger: logger)
        limits.readTimeout = settings.delivery.service.timeout
        delivering = delivery.map { delivery, trusted in
            let apns = APNsAccounts(
                keys: delivery.apnsKeys, configuration: APNsAccounts.configuration(trusting: trusted))
            return (delivery, apns, client(limits))
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

    /// Producer of the node's own messages, and publisher of decisions, if it is enabled; nil if it sends none.
    private static func outgoing(
        _ settings: Settings, _ kafka: KafkaConfiguration, _ logger: Logger
    ) throws -> (producer: KafkaProducer, decisions: DecisionLog?)? {
        let decides = settings.role.runsIngest || settings.role.runsWorkers
        // The API publishes the requested changes.
        guard decides || (settings.role.runsAPI && settings.api.keys != nil) else { return nil }
        let producer = try KafkaProducer(
            configuration: kafka, deliveryTimeout: settings.kafka.deliveryTimeout, logger: logger)
        guard decides, settings.workers.publishDecisions else { return (producer, nil) }
        let decisions = DecisionLog(
            topic: settings.topics.decisions, inputs: settings.topics.inputs, logger: logger
        ) { await producer.send($0) }
        return (producer, decisions)
    }

    // MARK: Services

    /// Returns the node's services, the preparation among them: health and the API are served from the start, and a
    /// signal to the process also ends the wait for the database. They release the node's resources when they end.
    package func services(migrate: Bool) -> [any Service] {
        let (ingest, workers) = (ingest(), workers())
        let (readiness, liveness) = (readiness(ingest?.service), liveness(ingest?.service))
        metrics.buildInfo(Self.version, settings.role.rawValue).set(1)
        var front: [any Service] = []
        if let healthPort { front.append(health(healthPort, readiness, liveness, ingest?.service)) }
        if let apiPort {
            let console = console(workers)
            front += api(port: apiPort, console: console, readiness: readiness, liveness: liveness)
            if let console { front.append(console.history.recorder(of: metrics, every: settings.metricsInterval)) }
        }
        front.append(
            ReadinessReporter(
                process: process, role: settings.role, readiness: readiness, failures: { workers?.failures ?? [] },
                pool: pool))
        // Services stop in reverse order: the decisions after the workers, which record them.
        var back: [any Service] = decisions.map { [$0] } ?? []
        if let workers { back += [listener(), workers.kindRecorder, workers] }
        back += delivery() + (ingest?.services ?? [])
        // Without a reader, the database is not asked.
        if healthPort != nil || settings.console.enabled { back.append(sampler(ingest?.service)) }
        front.append(
            BackgroundService(stoppingItself: "prepared") { [self, back] in
                try await withGracefulShutdownHandler {
                    try await run(back, migrate: migrate, ingest?.service)
                } onGracefulShutdown: { [self] in
                    phase.withLock { $0 = .stopping }
                }
            })
        let node = BackgroundService(stoppingItself: "node") { [self, front] in
            let outcome: Result<Void, any Error>
            do {
                try await ServiceGroup(configuration: .ofFreshet(front, logger: logger)).run()
                outcome = .success(())
            } catch {
                outcome = .failure(error)
            }
            // A task of its own, since this one may be cancelled.
            await Task { await shutdown() }.value
            try outcome.get()
        }
        return [node]
    }

    /// Releases the node's resources. The services do it when all have ended, so that a cancelled one can still return
    /// its work; a node whose services never run has to be shut down.
    package func shutdown() async {
        // A client that is shut down already throws.
        try? await http.shutdown()
        await delivering?.apns.shutdown()
        try? await delivering?.webhooks.shutdown()
        await producer?.shutdown()
        await pool.shutdown()
        embedded?.close()
    }

    /// Prepares the node as long as it takes, and runs the services that need it.
    private func run(_ services: [any Service], migrate: Bool, _ ingest: IngestService?) async throws {
        do {
            try await cancelWhenGracefulShutdown { [self] in try await prepare(migrate: migrate, ingest) }
        } catch  where Task.isShuttingDownGracefully || Task.isCancelled {
            return
        }
        guard !Task.isShuttingDownGracefully else { return }
        phase.withLock { if $0 == .starting { $0 = .running } }
        if services.isEmpty {
            try await gracefulShutdown()
        } else {
            try await ServiceGroup(configuration: .ofFreshet(services, logger: logger)).run()
        }
    }

    /// Waits for PostgreSQL and Kafka, checks or applies the migrations, and checks that the Kafka cluster is the
    /// recorded one.
    private func prepare(migrate: Bool, _ ingest: IngestService?) async throws {
        try await pool.prepare(migrate: migrate, logger: logger)
        let id = try await cluster.prepare(settings.topics)
        ingest?.require(cluster: id)
        prepared.signal()
    }

    /// Addresses of a ready node.
    ///
    /// The API's port is nil without the API, the other one without `health.port`.
    package typealias Endpoint = (bootstrapServers: String, apiPort: Int?, healthPort: Int?)

    /// Waits until every role of the node works: the API listens, and ingest has been given its partitions.
    ///
    /// - Throws: `CancellationError`; also if a server ended before it listened.
    package func ready() async throws -> Endpoint {
        try await prepared.wait(past: unprepared)
        let port = try await apiPort?.wait()
        let healthPort = try await healthPort?.wait()
        if let unassigned { try await assignment.wait(past: unassigned) }
        return (kafka.bootstrapServers, port, healthPort)
    }

    // MARK: Roles

    private var onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)? {
        guard let decisions else { return nil }
        return { decisions.record($0) }
    }

    private func ingest() -> (service: IngestService, services: [any Service])? {
        guard settings.role.runsIngest, let producer else { return nil }
        let notifier = DueNotifier(
            pool: pool, worker: settings.role.runsWorkers ? configuration.worker : nil, logger: logger)
        let deadLetters = Signal()
        let consumer = settings.consumerConfiguration(kafka)
        let onLists: @Sendable () -> Void = { [work] in
            work.timelines.signal()
            notifier.signal()
        }
        let defaults = PlacementDefaults(
            provider: configurations, pool: pool, directory: directory,
            audienceLimit: settings.ingestConfiguration.audienceLimit, logger: logger, onLists: onLists)
        let service = IngestService(
            configuration: settings.ingestConfiguration, pool: pool, directory: directory, logger: logger,
            onLists: onLists,
            onSweeps: { [work] in
                work.sweeps.signal()
                notifier.signal()
            },
            onDeadLetters: { deadLetters.signal() },
            onAssigned: { [assignment] in assignment.signal() },
            onDecisions: onDecisions, workers: settings.role.runsWorkers ? handOver : nil,
            defaults: defaults, metrics: metrics,
            makeConsumer: { [logger] in try KafkaConsumer(configuration: consumer, logger: logger) })
        let forwarder = DeadLetterForwarder(
            pool: pool, producer: producer, topic: settings.topics.deadLetters, signal: deadLetters,
            deliveryTimeout: settings.kafka.deliveryTimeout, logger: logger)
        let retention = RowRetention(
            of: RowRetention.Rows.ofIngest(
                deadLetters: settings.ingest.retention, topics: settings.topics.retention),
            pool: pool, logger: logger)
        let notifying = BackgroundService("notifier") { await notifier.run() }
        return (service, [notifying, forwarder, retention, defaults, service])
    }

    private func workers() -> WorkerService? {
        guard settings.role.runsWorkers, let producer else { return nil }
        return WorkerService(
            configuration: configuration, pool: pool, directory: directory, fetcher: providers,
            deliveryTimeout: settings.kafka.deliveryTimeout, signals: work, metrics: metrics, condition: condition,
            onStored: onStored, onDecisions: onDecisions, handOver: handOver, history: history, heartbeat: heartbeat,
            logger: logger
        ) { await producer.send($0) }
    }

    private func delivery() -> [any Service] {
        guard let (delivery, apns, webhooks) = delivering else { return [] }
        return [
            DeliveryService(
                configuration: delivery, store: WidgetStore(pool: pool), directory: directory, apns: apns,
                webhooks: webhooks, egress: egress, metrics: metrics, pulse: deliveryPulse, logger: logger)
        ]
    }

    /// Settings of the console; nil: it is off.
    private func console(_ workers: WorkerService?) -> ConsoleConfiguration? {
        guard settings.console.enabled, let key = settings.console.key.flatMap(ConsoleKey.init(base64:)) else {
            return nil
        }
        var console = ConsoleConfiguration(key: key)
        console.process = process
        console.sessionTime = settings.console.sessionTime
        console.port = settings.console.port
        console.runbook = settings.console.runbook
        (console.findings, console.links) = (findings, settings.console.links)
        console.readManifest = { try Manifest.definitions(of: $0) }
        console.providerHealth = { app in workers?.health(ofProvidersOf: app) }
        console.onListening = { [logger] port in
            logger.notice("the console listens on a port of its own", metadata: ["port": "\(port)"])
        }
        return console
    }

    private func api(
        port: ListeningPort, console: ConsoleConfiguration?, readiness: Readiness, liveness: [LivenessProbe]
    ) -> [any Service] {
        let changes = TimelineChanges(limits: settings.api.waits, metrics: metrics)
        let resources = resources(changes)
        let service = APIService(
            configuration: settings.api, store: WidgetStore(pool: pool), resources: resources, console: console,
            readiness: readiness, liveness: liveness,
            logger: logger, onListening: { port.listens(on: $0) })
        let listening = port.service(
            "api", at: "the HTTP API on \(settings.api.host):\(settings.api.port) (api.host, api.port)",
            BackgroundService(stoppingItself: "api") {
                try await resources.keys?.load(from: "api.keys")
                try await service.run()
            })
        // Without keys, nothing under /v1 is served.
        guard settings.api.keys != nil else { return [listening] }
        let tail = TimelineTail(
            kafka: kafka, topics: [settings.topics.timelines, settings.topics.suggestions],
            group: settings.kafka.group, changes: changes, logger: logger)
        return [listening, tail]
    }

    private func resources(_ changes: TimelineChanges) -> APIResources {
        var resources = APIResources()
        resources.rotation = settings.stacks
        resources.keys = settings.api.keys.map { path in
            TokenKeyStore(logger: logger) { try await TokenKeys.read(path) }
        }
        resources.events = producer.map { producer in
            EventOutlet(topics: settings.topicNames, send: { await producer.send($0) })
        }
        resources.lookup = EventLookup(
            reader: KafkaReader(configuration: kafka, logger: logger), topics: settings.topics.inputs,
            sorts: settings.topics.inputSorts)
        (resources.changes, resources.metrics) = (changes, metrics)
        let resolver = HostResolver()
        resources.providerProblem = { [providers = settings.providers] in
            await providers.problem(of: $0, resolver: resolver)
        }
        resources.askProvider = { [settings] url, secrets in
            await settings.probe(url, secrets: secrets)
        }
        resources.configurations = configurations
        resources.ingest = settings.ingestConfiguration
        resources.objective = settings.delivery.objective
        resources.fetches = FetchRecorder(
            store: WidgetStore(pool: pool), directory: directory, objective: settings.delivery.objective,
            logger: logger)
        return resources
    }

    private func health(
        _ port: ListeningPort, _ readiness: Readiness, _ liveness: [LivenessProbe], _ ingest: IngestService?
    ) -> any Service {
        let (host, number) = (settings.healthHost, settings.healthPort ?? 0)
        let service = HealthService(
            host: host, port: number, readiness: readiness, liveness: liveness,
            metrics: { [self] in
                readMemory(ingest)
                return metrics.page
            }, logger: logger, onListening: { port.listens(on: $0) })
        return port.service(
            "health", at: "the health endpoint on \(host):\(number) (health.host, health.port)", service)
    }

    /// Wakes the workers when the ingest of another process has made timelines due.
    private func listener() -> BackgroundService {
        BackgroundService("listener") { [pool, work, logger] in
            do {
                try await pool.configuration.listen(to: [DueNotifier.channel], logger: logger) { _ in work.signalAll() }
            } catch {
                // The workers look for due timelines by themselves too, only later.
                logger.error("cannot listen for due timelines", metadata: ["error": "\(error)"])
            }
            try await gracefulShutdown()
        }
    }
}

// MARK: Health

extension FreshetNode {
    /// Checks of `/health/ready`. Reasons why ingest stands still come from ``IngestStatus``.
    func readiness(_ ingest: IngestService?) -> Readiness {
        var checks = [
            ReadinessCheck(name: "process") { [self] in phase.withLock { $0 }.missing },
            database(isWritten: ingest != nil || settings.role.runsWorkers),
            migrations, kafkaCheck,
        ]
        if let ingest {
            checks.append(
                ReadinessCheck(name: "ingest") {
                    let obstacles = ingest.obstacles
                    guard obstacles.isEmpty else { return obstacles.joined(separator: "; ") }
                    return ingest.status.blockedBy.map { "the database does not take a batch: \($0)" }
                })
        }
        if settings.role.runsWorkers {
            checks += [
                ReadinessCheck(name: "workers") { [condition] in
                    condition.claimProblem.map { "the database does not let timelines be claimed: \($0)" }
                }, ReadinessCheck(name: "output") { [condition] in condition.outputProblem },
            ]
        }
        return Readiness(checks: checks)
    }

    /// Time of a statement without work, from the wait for a connection on, at which operators are told: every step of
    /// a reload takes several.
    private static let slowDatabase = Duration.milliseconds(250)

    /// - Parameter isWritten: false for a process that only reads, which may use a standby.
    private func database(isWritten: Bool) -> ReadinessCheck {
        ReadinessCheck(name: "postgres", slowAfter: Self.slowDatabase) { [pool] in
            do {
                let takesWrites = try await pool.query(.takesWrites()) == [true]
                return isWritten && !takesWrites ? "the server takes no writes" : nil
            } catch {
                return (error as? PostgresError)?.message ?? "\(error)"
            }
        }
    }

    private var migrations: ReadinessCheck {
        ReadinessCheck(name: "migrations") { [pool] in
            do throws(PostgresError) {
                return try await pool.missingMigrations()
            } catch {
                return error.message
            }
        }
    }

    private var kafkaCheck: ReadinessCheck {
        ReadinessCheck(name: "kafka") { [kafka, topics = settings.topics, logger] in
            let admin = KafkaAdmin(configuration: kafka, timeout: .milliseconds(2_500), logger: logger)
            do throws(KafkaError) {
                let missing = topics.missing(from: try await admin.describe())
                return missing.isEmpty ? nil : "missing topics: \(missing.joined(separator: ", "))"
            } catch {
                return error.description
            }
        }
    }

    /// Checks of `/health/live`: the process's own loops make progress.
    func liveness(_ ingest: IngestService?) -> [LivenessProbe] {
        // Every step of these loops is bounded by the time limits of the database; what takes several times as long is
        // not the database's doing.
        let step =
            settings.postgres.acquireTimeout + settings.postgres.connectTimeout + settings.postgres.statementLimit
        let limit = max(.seconds(300), step * 4 + settings.workers.pollInterval * 2)
        var probes: [LivenessProbe] = []
        if let ingest {
            probes.append(LivenessProbe(name: "ingest", limit: limit) { ingest.heartbeat.silence })
            // Its longest wait is that for a revocation: 10 s.
            probes.append(LivenessProbe(name: "consumer", limit: .seconds(120)) { ingest.consumerSilence })
        }
        if settings.role.runsWorkers {
            probes.append(LivenessProbe(name: "workers", limit: limit) { [heartbeat] in heartbeat.silence })
        }
        if settings.role.runsDelivery {
            probes.append(LivenessProbe(name: "delivery", limit: limit) { [deliveryPulse] in deliveryPulse.silence })
        }
        return probes
    }
}

extension WorkerService {
    /// Returns the health of an app's providers in this process, by URL, for the console.
    func health(ofProvidersOf app: String) -> [String: JSONValue] {
        providers(of: app).mapValues { record in
            [
                "limit": .count(record.limit), "milliseconds": .count(record.latency?.wholeMilliseconds),
                "answeredAt": .time(record.answeredAt), "failedAt": .time(record.failedAt),
                "failure": .text(record.failure), "itemFailedAt": .time(record.itemFailedAt),
                "itemFailure": .text(record.itemFailure),
            ]
        }
    }
}

extension MetricHistory {
    /// Returns a service that records samples of the metrics for the console's charts.
    func recorder(of metrics: MetricRegistry, every interval: Duration) -> BackgroundService {
        BackgroundService("console history") { [self] in
            while true {
                record(metrics)
                try await Task.sleep(for: interval)
            }
        }
    }
}

/// Phase of a node, for readiness.
private enum NodePhase {
    /// The database and Kafka are waited for. → `running`, `stopping`
    case starting
    /// → `stopping`
    case running
    case stopping

    /// Reason why the node does not work; nil if it does.
    var missing: String? {
        switch self {
        case .starting: "the process is starting: it waits for PostgreSQL, its migrations and Kafka"
        case .running: nil
        case .stopping: "the process is stopping"
        }
    }
}
