import AsyncHTTPClient
import Foundation
import KafkaClient
import Logging
import NIOCore
import PostgresClient
import Synchronization
import WidgetModel
import WidgetStore

/// The parts that a load scenario needs, each a process of its own, so that what each one costs can be told: the broker,
/// the provider, the service. Those that the user did not give are processes of this very program, and end with the
/// scenario.
final class Farm: Sendable {
    /// What a scenario wants.
    struct Plan: Sendable {
        /// Partitions of the input topics, and of the topic of timelines: the embedded broker keeps the last 5 MiB of
        /// each.
        var inputPartitions = 16
        var outputPartitions = 16
        var seed: UInt64 = 1
        /// How long an event waits for others that share its way to Kafka (`linger.ms`): what is measured begins before.
        var publisherLinger = Duration.zero
        /// How long the reader of the output lets messages gather.
        var readerWait: Duration?
        /// Settings of the service; what the user sets goes before them.
        var serviceSettings: [(key: String, value: String)] = []
        /// The service runs already, on the topics and in the group that the settings name: nothing is started or made.
        var usesRunningService = false
    }

    let settings: Settings
    let kafka: KafkaConfiguration
    /// Without a path.
    let providerURL: String
    let pool: PostgresPool
    let store: WidgetStore
    let logger: Logger
    let sampler: UsageSampler

    private let parts: Parts
    let plan: Plan
    private let options: FarmOptions
    private let settingsOptions: SettingsOptions

    /// What runs now.
    private final class Parts: Sendable {
        struct State {
            var broker: ChildProcess?
            var provider: ChildProcess?
            var services: [ChildProcess] = []
            /// Of the services, also of those that are not ready yet.
            var serviceIDs: [Int32] = []
            var database: PostgresProcesses?
        }
        let state = Mutex(State())

        /// Read under no lock: the processes are asked one by one.
        func measure() -> (sample: UsageSampler.Sample, peakResidentBytes: Int?) {
            let state = state.withLock { $0 }
            let services = state.serviceIDs.compactMap { ProcessUsage(of: $0)?.cpuSeconds }
            let sample = UsageSampler.Sample(
                time: .now, service: services.isEmpty ? nil : services.reduce(0, +),
                database: state.database?.cpuSeconds, broker: state.broker?.usage?.cpuSeconds,
                provider: state.provider?.usage?.cpuSeconds,
                tool: ProcessUsage(of: ProcessInfo.processInfo.processIdentifier)?.cpuSeconds)
            return (sample, state.serviceIDs.compactMap(ProcessUsage.peakResidentBytes(of:)).max())
        }
    }

    private init(
        settings: Settings, kafka: KafkaConfiguration, providerURL: String, pool: PostgresPool, parts: Parts,
        plan: Plan, options: FarmOptions, settingsOptions: SettingsOptions, logger: Logger
    ) {
        self.settings = settings
        self.kafka = kafka
        self.providerURL = providerURL
        self.pool = pool
        store = WidgetStore(pool: pool)
        self.parts = parts
        self.plan = plan
        self.options = options
        self.settingsOptions = settingsOptions
        self.logger = logger
        sampler = UsageSampler { parts.measure() }
    }

    /// Lends a farm with an empty database at the newest migrations; what it has started ends when `body` does.
    static func with<Value: Sendable>(
        _ plan: Plan, options: FarmOptions, settings given: Settings, settingsOptions: SettingsOptions, logger: Logger,
        _ body: @Sendable (Farm) async throws -> Value
    ) async throws -> Value {
        let parts = Parts()
        var configuration = try given.postgresConfiguration()
        configuration.maximumConnections = 2
        // A checkpoint of a large database, and tidying it, take longer than any request of the service may.
        configuration.statementTimeout = .seconds(3_600)
        let pool = PostgresPool(configuration: configuration, logger: logger)
        let outcome: Result<Value, any Error>
        do {
            let farm = try await make(plan, options, given, settingsOptions, pool, parts, logger)
            let value = try await withThrowingTaskGroup(of: Void.self) { group in
                group.addTask { await farm.sampler.run() }
                let value = try await body(farm)
                group.cancelAll()
                return value
            }
            outcome = .success(value)
        } catch {
            outcome = .failure(error)
        }
        // A task of its own, since this one may be cancelled.
        await Task {
            let running = parts.state.withLock { state in
                state.services + [state.provider, state.broker].compactMap { $0 }
            }
            for process in running { await process.stop() }
            await pool.shutdown()
        }.value
        return try outcome.get()
    }

    private static func make(
        _ plan: Plan, _ options: FarmOptions, _ given: Settings, _ settingsOptions: SettingsOptions,
        _ pool: PostgresPool, _ parts: Parts, _ logger: Logger
    ) async throws -> Farm {
        var settings = given
        try await NodePreparation(pool: pool, logger: logger).prepareDatabase(migrate: true)
        guard try await pool.query(Overview()).first?.timelines == 0 else {
            throw CommandFailure(.failure, "the database holds timelines already; expected an empty one")
        }
        // A group and, on brokers of others, topics of its own, so that what is counted is the scenario's.
        let run = String(UInt32.random(in: 0...UInt32.max), radix: 36)
        settings.kafka.group = "freshet-load-\(run)"
        let kafka: KafkaConfiguration
        if plan.usesRunningService {
            guard let servers = options.bootstrapServers ?? given.kafka.bootstrapServers else {
                throw CommandFailure(.configuration, "a service that runs already has brokers: --bootstrap-servers")
            }
            kafka = KafkaConfiguration(bootstrapServers: servers, properties: given.kafka.properties)
        } else if let servers = options.bootstrapServers {
            kafka = KafkaConfiguration(bootstrapServers: servers, properties: given.kafka.properties)
            settings.topics = TopicSettings(load: run)
            try await create(settings.topics, plan, on: kafka, logger)
        } else {
            let topics = settings.topics.partitions(plan).flatMap { ["--topic", "\($0.name)=\($0.count)"] }
            let broker = try await ChildProcess.start("embedded Kafka", ["kafka", "--set", "log.level=error"] + topics)
            parts.state.withLock { $0.broker = broker }
            kafka = KafkaConfiguration(
                bootstrapServers: broker.greeting["bootstrapServers"]?.stringValue ?? "",
                properties: EmbeddedKafka.clientProperties.merging(given.kafka.properties) { $1 })
        }
        settings.kafka.bootstrapServers = kafka.bootstrapServers
        settings.kafka.properties = kafka.properties
        var providerURL = options.provider ?? ""
        if options.provider == nil {
            let provider = try await ChildProcess.start(
                "provider", ["provider", "--set", "log.level=error", "--port", "0", "--seed", "\(plan.seed)"])
            parts.state.withLock { $0.provider = provider }
            let port = provider.greeting["port"]?.numberValue?.int64 ?? 0
            providerURL = "http://127.0.0.1:\(port)"
        }
        let farm = Farm(
            settings: settings, kafka: kafka, providerURL: providerURL, pool: pool, parts: parts, plan: plan,
            options: options, settingsOptions: settingsOptions, logger: logger)
        try await farm.findDatabase()
        return farm
    }

    private static func create(
        _ topics: TopicSettings, _ plan: Plan, on kafka: KafkaConfiguration, _ logger: Logger
    ) async throws {
        let outcomes = try await KafkaAdmin(configuration: kafka, logger: logger).createTopics(
            topics.partitions(plan).map { topic in
                KafkaTopicSpecification(
                    name: topic.name, partitions: topic.count,
                    configuration: Text.equal(topic.name, topics.timelines) ? KafkaTopicSpecification.compacted : [:])
            })
        for case .failed(let error) in outcomes.values { throw error }
    }

    /// The server's processes, if it runs here; all of this farm's own connections are made for it.
    private func findDatabase() async throws {
        let pool = pool
        let backends = try await withThrowingTaskGroup(of: DatabaseVitals.Row?.self) { group in
            for _ in 0..<pool.configuration.maximumConnections {
                group.addTask {
                    try await pool.withConnection { connection in
                        // Long enough that the other connection is made meanwhile.
                        try await connection.simple("SELECT pg_sleep(0.05)")
                        return try await connection.query(DatabaseVitals()).first
                    }
                }
            }
            return try await group.reduce(into: [DatabaseVitals.Row]()) { rows, row in if let row { rows.append(row) } }
        }
        guard backends.allSatisfy(\.isLocal) else { return }
        let processes = PostgresProcesses(backends: Set(backends.map(\.backend)))
        parts.state.withLock { $0.database = processes }
    }

    // MARK: Services

    /// Starts the service in a process of its own; returns when all its roles work.
    func startService(_ role: ProcessRole = .all) async throws -> ChildProcess {
        let set = settings
        var values: [(key: String, value: String)] = [
            ("kafka.group", set.kafka.group), ("api.port", "0"), ("log.level", "warning"),
            ("providers.allowPrivateNetworks", "127.0.0.0/8"), ("topics.pushes", set.topics.pushes),
            ("topics.appChanges", set.topics.appChanges), ("topics.widgets", set.topics.widgets),
            ("topics.timelines", set.topics.timelines), ("topics.deadLetters", set.topics.deadLetters),
            ("topics.decisions", set.topics.decisions),
        ]
        values += plan.serviceSettings
        var arguments = ["run", "--print-ready", "--role", role.rawValue]
        if let config = settingsOptions.config { arguments += ["--config", config] }
        // Of a key that comes twice the last counts.
        for assignment in values.map({ "\($0.key)=\($0.value)" }) + settingsOptions.assignments {
            arguments += ["--set", assignment]
        }
        let properties = kafka.properties.sorted { $0.key < $1.key }.map { "\($0.key)=\($0.value)" }
        // What may hold a secret is not for the list of processes.
        let service = try await ChildProcess.start(
            role == .all ? "service" : "\(role.rawValue) service", arguments,
            environment: [
                "FRESHET_POSTGRES_URL": settings.postgres.url ?? "",
                "FRESHET_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrapServers,
                "FRESHET_KAFKA_PROPERTIES": properties.joined(separator: ","),
            ],
            onStart: { [parts] id in parts.state.withLock { $0.serviceIDs.append(id) } })
        parts.state.withLock { $0.services.append(service) }
        return service
    }

    /// The service, started if it does not run already; nil when it is not this farm's.
    func service() async throws -> ChildProcess? {
        plan.usesRunningService ? nil : try await startService()
    }

    func stop(_ service: ChildProcess) async {
        await service.stop()
        parts.state.withLock { state in
            state.services.removeAll { $0 === service }
            state.serviceIDs.removeAll { $0 == service.pid }
        }
    }

    /// - Throws: ``CommandFailure`` when a service has ended by itself.
    func requireServices() throws {
        for service in parts.state.withLock({ $0.services }) where !service.isRunning {
            throw CommandFailure(.failure, "the \(service.name) has ended by itself")
        }
    }

    // MARK: What the others say

    /// What the provider has counted so far; nil when it is not the sample provider and does not tell.
    func providerCounts() async -> (requests: Int, timelines: Int)? {
        let request = HTTPClientRequest(url: providerURL + "/stats")
        guard let response = try? await HTTPClient.shared.execute(request, timeout: .seconds(5)),
            let body = try? await response.body.collect(upTo: 1 << 20),
            let json = try? JSONValue.parse(String(buffer: body)),
            let requests = json["requests"]?.numberValue?.int64, let timelines = json["timelines"]?.numberValue?.int64
        else { return nil }
        return (Int(requests), Int(timelines))
    }

    /// Whether the broker is one of this program's.
    var isBrokerEmbedded: Bool { parts.state.withLock { $0.broker != nil } }

    func vitals() async throws -> DatabaseVitals.Row {
        guard let row = try await pool.query(DatabaseVitals()).first else {
            throw CommandFailure(.failure, "PostgreSQL did not say where its log is")
        }
        return row
    }

    /// Answers false where that is not allowed.
    func checkpoint() async -> Bool {
        do {
            return try await pool.withConnection { connection in
                _ = try await connection.execute(TidyTimelines())
                _ = try await connection.execute(WriteCheckpoint())
                return true
            }
        } catch {
            return false
        }
    }

    /// Sum of the consumer positions: events applied, when all were read from the topics' starts.
    func appliedEvents() async throws -> Int {
        Int(try await pool.query(ListPositions()).compactMap(\.nextOffset).reduce(0, +))
    }
}

extension TopicSettings {
    /// Topics of one run.
    fileprivate init(load run: String) {
        self.init()
        func name(_ topic: String) -> String { topic.replacing("freshet.", with: "freshet-load-\(run).") }
        pushes = name(pushes)
        appChanges = name(appChanges)
        widgets = name(widgets)
        timelines = name(timelines)
        deadLetters = name(deadLetters)
        decisions = name(decisions)
    }

    fileprivate func partitions(_ plan: Farm.Plan) -> [(name: String, count: Int)] {
        [
            (pushes, plan.inputPartitions), (appChanges, 1), (widgets, 1), (timelines, plan.outputPartitions),
            (deadLetters, 1), (decisions, plan.outputPartitions),
        ]
    }
}
