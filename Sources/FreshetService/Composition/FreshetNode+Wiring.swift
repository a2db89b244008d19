import JSON
import KafkaClient
import Logging
import PostgresClient
import ReloadIngest
import ReloadWorkers
import ServiceLifecycle
import WidgetAPI
import WidgetDelivery
import WidgetEvents
import WidgetModel
import WidgetStore

struct IngestParts: Sendable {
    let service: IngestService
    let services: [any Service]
    /// Signalled when partitions have been assigned.
    let assignment: WorkSignal
}

extension FreshetNode {
    /// Composes the parts. Shared dependencies are made once.
    struct Wiring: Sendable {
        let settings: Settings
        let kafka: KafkaConfiguration
        let pool: PostgresPool
        let logger: Logger
        let directory: DirectoryCache
        /// All roles take tokens.
        let history: DatabaseHistory
        /// Wakes this process's workers: by its own ingest, and by the notifications of others.
        let work = WorkSignal()
        /// Hands timelines over from ingest to the workers of the same process.
        let handOver = LocalHandOver()
        let configuration: WorkerConfiguration
        let providers: NodeProviders
        let egress: EgressGuard
        private let limits: ConnectionLimits
        /// Requests options and defaults.
        let configurations: ConfigurationClient
        /// Producer of the node's own messages; nil if it sends none.
        let producer: KafkaProducer?
        /// Publisher of decisions, if it is enabled.
        let decisions: DecisionLog?
        let metrics: MetricRegistry
        let condition = WorkerCondition()
        let heartbeat = Heartbeat()
        let deliveryPulse = DeliveryPulse()

        /// - Throws: ``CommandFailure`` when the settings of providers cannot be used; `KafkaError`.
        init(
            settings: Settings, kafka: KafkaConfiguration, pool: PostgresPool, metrics: MetricRegistry, logger: Logger
        ) throws {
            self.settings = settings
            self.metrics = metrics
            self.kafka = kafka
            self.pool = pool
            self.logger = logger
            directory = DirectoryCache(pool: pool)
            history = DatabaseHistory(of: pool)
            configuration = settings.workerConfiguration()
            egress = EgressGuard(try settings.egressPolicy())
            limits = try settings.connectionLimits()
            providers = NodeProviders(egress: egress, connectionsPerHost: configuration.concurrency, limits: limits)
            configurations = ConfigurationClient(
                fetcher: providers, directory: directory, configuration: configuration, metrics: metrics,
                logger: logger)
            let decides = settings.role.runsIngest || settings.role.runsWorkers
            // The API publishes the requested changes.
            producer =
                decides || (settings.role.runsAPI && settings.api.keys != nil)
                ? try KafkaProducer(
                    configuration: kafka, deliveryTimeout: settings.kafka.deliveryTimeout, logger: logger) : nil
            decisions =
                if decides, settings.workers.publishDecisions, let producer {
                    DecisionLog(
                        publisher: KafkaTimelinePublisher(
                            producer: producer, deliveryTimeout: settings.kafka.deliveryTimeout),
                        topic: settings.topics.decisions, inputs: settings.topics.inputs, logger: logger)
                } else {
                    nil
                }
        }

        func ingest() -> IngestParts? {
            guard settings.role.runsIngest, let producer else { return nil }
            let notifier = DueNotifier(
                pool: pool, worker: settings.role.runsWorkers ? configuration.worker : nil, logger: logger)
            let deadLetters = WorkSignal()
            let assignment = WorkSignal()
            let consumer = settings.consumerConfiguration(kafka)
            var onDecisions: (@Sendable ([TimelineDecidedEvent]) -> Void)?
            if let decisions { onDecisions = { decisions.record($0) } }
            let onWork: @Sendable (WorkSignal.Work) -> Void = { [work] sort in
                work.signal(sort)
                notifier.signal()
            }
            let defaults = PlacementDefaults(
                provider: configurations, pool: pool, directory: directory,
                audienceLimit: settings.ingestConfiguration.audienceLimit, logger: logger, onWork: onWork)
            let service = IngestService(
                configuration: settings.ingestConfiguration, pool: pool, directory: directory, logger: logger,
                onWork: onWork,
                onDeadLetters: { deadLetters.signal() },
                onAssigned: { assignment.signal() },
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
            return IngestParts(
                service: service,
                services: [
                    BackgroundService("notifier") { await notifier.run() }, forwarder, retention, defaults, service,
                ],
                assignment: assignment)
        }

        func workers(onStored: (@Sendable (TimelineID, EventPosition?) -> Void)?) -> WorkerService? {
            guard settings.role.runsWorkers, let producer else { return nil }
            return WorkerService(
                configuration: configuration, pool: pool, directory: directory, fetcher: providers,
                publisher: KafkaTimelinePublisher(
                    producer: producer, deliveryTimeout: settings.kafka.deliveryTimeout, condition: condition),
                signal: work, metrics: metrics, condition: condition, onStored: onStored, decisions: decisions,
                handOver: handOver, history: history, heartbeat: heartbeat, logger: logger)
        }

        /// - Throws: ``CommandFailure`` when the keys or authorities of the settings cannot be read.
        func delivery() throws(CommandFailure) -> [any Service] {
            guard settings.role.runsDelivery else { return [] }
            var webhookLimits = limits
            webhookLimits.readTimeout = settings.delivery.service.timeout
            return [
                DeliveryRole(
                    wiring: self, configuration: try settings.deliveryConfiguration(),
                    apns: APNsAccounts.configuration(trusting: try settings.apnsLimits()),
                    webhooks: ProviderClient.configuration(
                        egress: egress, connectionsPerHost: configuration.concurrency, limits: webhookLimits))
            ]
        }

        /// Settings of the console; nil: it is off.
        func console(
            workers: WorkerService?, findings: @escaping @Sendable (_ app: String) async -> [JSONValue]
        ) -> ConsoleConfiguration? {
            guard settings.console.enabled, let key = settings.console.key.flatMap(ConsoleKey.init(base64:)) else {
                return nil
            }
            var console = ConsoleConfiguration(key: key)
            console.sessionTime = settings.console.sessionTime
            console.port = settings.console.port
            console.runbook = settings.console.runbook
            console.findings = findings
            console.readManifest = { Manifest.definitions(of: $0) }
            console.providerHealth = { app in workers?.health(ofProvidersOf: app) }
            console.onListening = { [logger] port in
                logger.notice("the console listens on a port of its own", metadata: ["port": "\(port)"])
            }
            return console
        }

        func api(port: ListeningPort, console: ConsoleConfiguration?, readiness: Readiness, liveness: Liveness)
            -> [any Service]
        {
            let changes = TimelineChanges(limits: settings.api.waits, metrics: metrics)
            let service = APIService(
                configuration: settings.api, store: WidgetStore(pool: pool),
                resources: resources(changes), console: console, readiness: readiness, liveness: liveness,
                logger: logger, onListening: { port.listens(on: $0) })
            let listening = ListeningService(
                description: "api", service: service, port: port,
                place: "the HTTP API on \(settings.api.host):\(settings.api.port) (api.host, api.port)")
            // Without keys, nothing under /v1 is served.
            guard settings.api.keys != nil else { return [listening] }
            let tail = TimelineTail(
                kafka: kafka, topics: [settings.topics.timelines, settings.topics.suggestions],
                group: settings.kafka.group, changes: changes, logger: logger)
            return [listening, tail]
        }

        private func resources(_ changes: TimelineChanges) -> APIResources {
            let probe = ProviderProbe(settings)
            var resources = APIResources()
            resources.rotation = settings.stacks
            resources.keys = settings.api.keys.map { path in
                TokenKeyStore(logger: logger) { try await BoundedFile.keys(path: path) }
            }
            resources.events = producer.map { producer in
                EventOutlet(topics: settings.topicNames, send: { await producer.send($0) })
            }
            resources.lookup = EventLookup(
                reader: KafkaReader(configuration: kafka, logger: logger), topics: settings.topics.inputs,
                sorts: settings.topics.inputSorts)
            (resources.changes, resources.metrics) = (changes, metrics)
            resources.providerProblem = ProviderCheck(settings.providers).problem
            resources.askProvider = { url, secrets in await probe.trial(url, secrets: secrets) }
            resources.configurations = configurations
            resources.ingest = settings.ingestConfiguration
            resources.objective = settings.delivery.objective
            resources.fetches = FetchRecorder(
                store: WidgetStore(pool: pool), directory: directory, objective: settings.delivery.objective,
                logger: logger)
            return resources
        }

        func health(
            port: ListeningPort, readiness: Readiness, liveness: Liveness, metrics: @escaping @Sendable () -> String
        ) -> any Service {
            let (host, number) = (settings.health.host, settings.health.port ?? 0)
            let service = HealthService(
                host: host, port: number, readiness: readiness, liveness: liveness, metrics: metrics, logger: logger,
                onListening: { port.listens(on: $0) })
            return ListeningService(
                description: "health", service: service, port: port,
                place: "the health endpoint on \(host):\(number) (health.host, health.port)")
        }

        /// Wakes the workers when the ingest of another process has made timelines due.
        func listener(_ postgres: PostgresConfiguration) -> BackgroundService {
            let listener = PostgresListener(
                configuration: postgres, channels: [DueNotifier.channel], logger: logger
            ) { [work] _ in work.signal() }
            return BackgroundService("listener") { [logger] in
                do {
                    try await listener.run()
                } catch {
                    // The workers look for due timelines by themselves too, only later.
                    logger.error("cannot listen for due timelines", metadata: ["error": "\(error)"])
                }
                try await gracefulShutdown()
            }
        }
    }
}
